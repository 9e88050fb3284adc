"""Size, overlap and unit of chunks as settings: what changes, what is kept, what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.errors import UnknownSetting
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.search import search
from ragstream_core.text.chunk_profiles import MAX_SIZE, MIN_SIZE, PROFILES, adjusted
from ragstream_core.wiring import ingestion
from ragstream_core.wiring.workspace import open_workspace

LONG = " ".join(f"Sentence number {n} tells of one thing." for n in range(60))
SHORT = "A text that fits into a chunk of any size."


@pytest.fixture
def space(tmp_path):
    """Return a workspace over one folder by its settings."""
    folder = tmp_path / "doc_raw" / "notes"
    folder.mkdir(parents=True)
    (folder / "long.txt").write_text(LONG, encoding="utf-8")
    (folder / "short.txt").write_text(SHORT, encoding="utf-8")

    def opened(**chunking):
        given = {f"chunking.{name}": value for name, value in chunking.items()}
        return open_workspace(tmp_path, explicit={"embeddings.backend": "hashed", **given})

    return opened


def test_each_setting_changes_the_chunks_and_equal_texts_keep_their_vectors(space):
    first = ingest_project(space(), "notes")
    assert ingestion.status(space(), "notes").reason != "settings changed"
    small = space(size=40)
    assert ingestion.status(small, "notes").reason == "settings changed"
    second = ingest_project(small, "notes")
    assert second.chunks["live"] > first.chunks["live"]
    assert second.chunks["reused"] >= 1  # the short one
    assert ingest_project(space(size=40), "notes").committed is False
    seen = {first.digest, second.digest}
    for chunking in ({"size": 40, "overlap": 0}, {"size": 200, "unit": "characters"}):
        seen.add(ingest_project(space(**chunking), "notes").digest)
    assert len(seen) == 4


def test_sizes_are_counted_in_the_unit(space):
    ingest_project(space(size=200, overlap=50, unit="characters"), "notes")
    hits = search(space(size=200, overlap=50, unit="characters"), "sentence", ["notes"], k=10)
    assert max(len(hit.snippet) for hit in hits) <= 200


@given(st.integers(MIN_SIZE, MAX_SIZE), st.sampled_from(sorted(PROFILES)))
def test_a_size_alone_keeps_the_share_of_overlap(size, name):
    profile = PROFILES[name]
    made = adjusted(profile, size=size)
    assert made.max_tokens == size and made.overlap == profile.overlap
    share = profile.overlap_tokens / profile.max_tokens
    assert size * share - 1 < made.overlap_tokens <= size * share
    assert adjusted(profile) == profile


@pytest.mark.parametrize(
    ("chunking", "said"),
    [
        ({"size": 5}, "chunking.size 5 is outside of 16 to 100000"),
        ({"size": 100, "overlap": 100}, "chunking.overlap 100 is not below the size of a chunk"),
        ({"overlap": 250}, "chunking.overlap 250 is not below the size of a chunk, 250"),
        ({"unit": "characters"}, "chunking.size is not set"),
    ],
)
def test_what_does_not_fit_together_is_refused_before_anything_is_read(space, chunking, said):
    for call in (ingest_project, ingestion.status):
        with pytest.raises(UnknownSetting, match=said):
            call(space(**chunking), "notes")


@pytest.mark.parametrize("chunking", [{"size": -1}, {"overlap": -2}, {"unit": "words"}])
def test_values_out_of_range_name_the_setting(space, chunking):
    with pytest.raises(UnknownSetting, match=f"chunking.{next(iter(chunking))}"):
        space(**chunking)
