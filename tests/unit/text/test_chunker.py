"""Chunks of real-looking text, with the model's tokenizer where it matters."""

import time

import pytest

from ragstream_core.errors import UnknownSetting, UsageError
from ragstream_core.text import cuts, tokenizer
from ragstream_core.text.chunk_profiles import PROFILES, ChunkProfile, chunk_profile
from ragstream_core.text.chunker import split
from ragstream_core.text.cuts import Cut, choose_cuts
from ragstream_core.text.sentences import sentence_spans
from ragstream_core.text.tokenizer import ModelTokenizer, even_windows, word_offsets

SENTENCE = "The turbine blade was inspected twice before the report was written."
PAGE = "\n\n".join(
    ["# Handbook", SENTENCE]
    + [f"## Part {n}\n\n" + " ".join([SENTENCE] * 9) + "\n\n- one\n- two\n" for n in range(8)]
)


def test_headings_start_chunks_and_never_end_them():
    spans = split(PAGE, profile=chunk_profile("default"), file_type="md")
    chunks = [PAGE[a:b] for a, b in spans]
    assert len(chunks) > 3
    assert all(not chunk.splitlines()[-1].startswith("#") for chunk in chunks)
    assert all(chunk.startswith("#") for chunk in chunks)


def test_no_sentence_is_cut_that_would_fit():
    text = " ".join(f"Sentence number {n} has some more words in it." for n in range(300))
    sentences = sentence_spans(text)
    starts, ends = {s for s, _ in sentences}, {e for _, e in sentences}
    for name in ("default", "sentence_400"):
        for start, end in split(text, profile=PROFILES[name]):
            assert start in starts
            assert end in ends


def test_tiny_fragments_are_joined():
    text = "\n\n".join(f"## H{n}\n\nOne line." for n in range(30))
    spans = split(text, profile=chunk_profile("default"), file_type="md")
    assert min(end - start for start, end in spans) > 100


def test_neighbours_overlap_where_the_profile_says_so():
    text = " ".join(f"Short sentence {n}." for n in range(2000))
    for name in ("recursive_1024", "sentence_400"):
        spans = split(text, profile=PROFILES[name])
        assert len(spans) > 2
        assert all(b.start < a.end for a, b in zip(spans, spans[1:], strict=False))


def test_characters_as_unit():
    profile = ChunkProfile("chars", 100, 20, unit="characters")
    spans = split(PAGE, profile=profile, file_type="md")
    assert max(end - start for start, end in spans) <= 100


@pytest.mark.parametrize(("limit", "overlap"), [(0, 0), (10, 10), (10, -1)])
def test_impossible_profiles_are_refused(limit, overlap):
    with pytest.raises(UsageError):
        ChunkProfile("bad", limit, overlap)


def test_unknown_profile_names_the_known_ones():
    with pytest.raises(UnknownSetting, match="recursive_1024"):
        chunk_profile("none")


def test_versions_tell_profiles_and_the_splitter_apart():
    assert len({p.version for p in PROFILES.values()}) == len(PROFILES)
    assert "semantic-text-splitter-0." in PROFILES["default"].version


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_limits_hold_by_the_models_own_tokenizer(onnx_embedder, name):
    text = PAGE + "\n\nabc" * 50 + "\n\n" + "0123456789abcdef" * 200 + "漢字かな交じり文" * 300
    spans = split(
        text, profile=PROFILES[name], file_type="md", token_offsets=onnx_embedder.token_offsets
    )
    sizes = [onnx_embedder.count(text[a:b]) for a, b in spans]
    assert max(sizes) <= PROFILES[name].max_tokens


def test_a_tokenizer_that_truncates_does_not_swallow_the_text(onnx_embedder):
    """Engines switch truncation on in the tokenizer they share; ours is a copy."""
    shared = onnx_embedder._tokenizer._tokenizer
    copy_of_shared = type(shared).from_str(shared.to_str())
    copy_of_shared.enable_truncation(16)
    copy_of_shared.enable_padding(length=16)
    ours = ModelTokenizer(copy_of_shared)
    copy_of_shared.enable_truncation(8)
    text = " ".join([SENTENCE] * 100)
    assert ours.count(text) == onnx_embedder.count(text) > 1000
    spans = split(text, profile=chunk_profile("default"), token_offsets=ours.offsets)
    assert max(ours.count(text[a:b]) for a, b in spans) <= 250


def test_windows_are_even_and_complete():
    for count in (0, 1, 254, 255, 701):
        windows = even_windows(list(range(count)), 254)
        assert [i for w in windows for i in w] == list(range(count))
        assert max(map(len, windows)) <= 254
        assert max(map(len, windows)) - min(map(len, windows)) <= 1


@pytest.mark.parametrize(
    "unit", [" ", "a", '."', "\n", "#", "`", "=\n", "# \n", "a \n", "*", "- ", "。", "[", "."]
)
def test_time_grows_with_the_length_and_not_with_its_square(unit):
    def seconds(length):
        begin = time.process_time()
        split(unit * (length // len(unit)), profile=PROFILES["default"], file_type="md")
        return time.process_time() - begin

    seconds(1000)
    # a busy machine may slow one of the two down; a square shows itself each time
    assert any(seconds(40_000) < 0.25 + 10 * seconds(10_000) for _ in range(3))


def test_sentences_without_a_token_are_not_all_compared_with_each_other():
    class Counted(list):
        reads = 0

        def __getitem__(self, at):
            Counted.reads += 1
            return super().__getitem__(at)

    count, limit = 2_000, 50
    found = [Cut(at, 0.8) for at in range(count)]
    before = Counted([0] * (count + 1))  # zero-width spaces, signs of a font of its own
    none = [0] * count
    chosen = choose_cuts(found, before=before, overlaps=none, contexts=none, limit=limit)
    assert chosen[0] == 0 and sorted(set(chosen)) == chosen
    assert Counted.reads < 4 * count * limit


def test_a_run_of_white_space_is_read_once_however_many_places_lie_in_it(monkeypatch):
    real, asked = cuts._skip_space, []
    monkeypatch.setattr(cuts, "_skip_space", lambda text, at: asked.append(at) or real(text, at))
    text = "a" + " " * 5_000 + "b" + "\n" * 5_000
    starts = range(0, len(text), 100)
    assert cuts.starts_behind_space(text, starts) == {real(text, at) for at in starts}
    assert len(asked) == 3


def test_a_long_line_without_spaces_goes_through_the_tokenizer_in_parts(monkeypatch):
    text = ",".join(f'{{"id":{n},"name":"valve"}}' for n in range(20_000))
    passes = []

    def offsets(part):
        passes.append(len(part))
        return word_offsets(part)

    given = {"profile": chunk_profile("default"), "file_type": "json", "token_offsets": offsets}
    spans = split(text, **given)
    assert max(passes) <= tokenizer._LONG_PASS < len(text) / 2
    monkeypatch.setattr(tokenizer, "_LONG_PASS", 10**9)
    assert split(text, **given) == spans
    assert max(passes) == len(text)


def test_a_very_long_word_is_searched_once_for_places_to_divide_it(monkeypatch):
    real, searched = tokenizer._APART, []

    class Counting:
        def search(self, text, begin, end):
            searched.append(max(0, end - begin))
            return real.search(text, begin, end)

    monkeypatch.setattr(tokenizer, "_APART", Counting())
    text = "a" * 400_000 + "," + "b" * 400_000
    places = range(500, len(text), 500)
    found = list(tokenizer._passes(text, places))
    assert found == [(0, 400_000), (400_000, len(text))]
    assert len(searched) > 400 and sum(searched) < 2 * len(text)
