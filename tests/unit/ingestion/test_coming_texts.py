"""The texts that the next ingest will embed: the same ones, each once, and nothing is written."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragstream_core.errors import IntegrityError, ModelMismatch
from ragstream_core.ingestion.ingestion_config import IngestionConfig
from ragstream_core.records.identity import sha256_hex
from tests.conftest import CountingEmbedder


def coming(bench, *, batch_texts=3, **settings):
    batches = []
    bench.manager().coming_texts(
        bench.project, IngestionConfig(**settings), batches.append, batch_texts=batch_texts
    )
    assert all(len(batch) == batch_texts for batch in batches[:-1])
    assert all(sha256_hex(text) == h for batch in batches for h, text in batch.items())
    return [text for batch in batches for text in batch.values()]


def test_they_are_what_the_ingest_embeds(bench):
    for n in range(7):
        bench.write(f"{n}.md", f"# Title {n}\n\nsome words of file {n % 5}\n\n" + "word " * 400)
    found = coming(bench)
    assert not bench.index.exists() and bench.embedder.seen == []
    bench.run()
    assert sorted(found) == sorted(bench.embedder.seen)
    assert coming(bench) == []

    bench.write("3.md", "other words")
    bench.write("9.md", "new words")
    before = {p: p.read_bytes() for p in bench.index.rglob("*") if p.is_file()}
    assert sorted(coming(bench)) == ["new words", "other words"]
    assert before == {p: p.read_bytes() for p in bench.index.rglob("*") if p.is_file()}


FILES = st.dictionaries(
    st.sampled_from(["a.md", "b.txt", "c/d.md"]),
    st.lists(st.sampled_from(["one", "two", "three", "# four"]), max_size=5).map("\n\n".join),
)


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(FILES, min_size=1, max_size=3), st.integers(1, 4))
def test_no_text_comes_twice_or_is_forgotten(make_bench, states, batch_texts):
    bench = make_bench()
    for state in states:
        for path, text in state.items():
            bench.write(path, text)
        found = coming(bench, batch_texts=batch_texts)
        bench.embedder.seen.clear()
        bench.run()
        assert sorted(found) == sorted(bench.embedder.seen)


def test_another_model_is_refused_before_anything_is_handed_over(bench):
    bench.write("a.md", "words")
    bench.run()
    bench.embedder = CountingEmbedder(fingerprint="f" * 64)
    with pytest.raises(ModelMismatch):
        coming(bench)
    assert coming(bench, rebuild=True) == ["words"]


def test_a_rebuild_hands_over_what_a_damaged_or_empty_catalog_would_have_named(bench):
    bench.write("a.md", "words")
    bench.run()
    (bench.index / "catalog.sqlite").write_bytes(b"no catalog")
    with pytest.raises(IntegrityError):
        coming(bench)
    assert coming(bench, rebuild=True) == ["words"]
    for path in bench.index.glob("vectors-*"):
        path.unlink()
    (bench.index / "catalog.sqlite").write_bytes(b"")  # a first ingest that was killed
    assert coming(bench) == ["words"]
