"""Laws of `split`, for any text, profile, file type and counter."""

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ragstream_core.text.chunk_profiles import ChunkProfile
from ragstream_core.text.chunker import split
from ragstream_core.text.sentences import sentence_spans
from ragstream_core.text.tokenizer import word_offsets

PIECES = st.sampled_from(
    ["# Title\n\n", "## Part\n", "A sentence. ", "Is it? ", "e.g. this ", "\n", "\n\n", "- item\n",
     "1. one\n", "```py\nx = 1\n\ny = 2\n```\n", "| a | b |\n|---|---|\n| 1 | 2 |\n", "word " * 9,
     "x" * 60, "漢字。", "\t ", "Title\n=====\n", "\r\n", "\x00", "\u200b", "👩‍👩‍👧 ", "`"]
)  # fmt: skip
TEXTS = st.one_of(st.lists(PIECES, max_size=40).map("".join), st.text(max_size=200))
PROFILES = st.builds(
    lambda limit, share, unit, overlap: ChunkProfile(
        "p", limit, int(limit * share), unit=unit, overlap=overlap
    ),
    st.integers(1, 60),
    st.sampled_from([0.0, 0.2, 0.9]),
    st.sampled_from(["tokens", "characters"]),
    st.sampled_from(["section", "sentence", "word"]),
)
LAWS = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def size(text, profile):
    return len(text) if profile.unit == "characters" else len(word_offsets(text))


@LAWS
@example("0 \r0", ChunkProfile("p", 3, 0, unit="characters"), "md")
@example("0 \r0", ChunkProfile("p", 1, 0, unit="characters"), "md")
@given(TEXTS, PROFILES, st.sampled_from(["md", ".txt", "rst"]))
def test_chunks_keep_the_laws(text, profile, file_type):
    spans = split(text, profile=profile, file_type=file_type)
    covered = [False] * len(text)
    for start, end in spans:
        assert 0 <= start < end <= len(text)
        assert text[start:end] == text[start:end].strip()
        assert size(text[start:end], profile) <= profile.max_tokens
        covered[start:end] = [True] * (end - start)
    assert all(done or char.isspace() for done, char in zip(covered, text, strict=True))
    assert all(a.start < b.start and a.end < b.end for a, b in zip(spans, spans[1:], strict=False))
    assert spans == split(text, profile=profile, file_type=file_type)


@LAWS
@given(TEXTS, PROFILES)
def test_no_chunk_repeats_more_than_the_overlap(text, profile):
    spans = split(text, profile=profile, file_type="md")
    for before, after in zip(spans, spans[1:], strict=False):
        if after.start < before.end:
            assert size(text[after.start : before.end], profile) <= profile.overlap_tokens


@LAWS
@given(TEXTS)
def test_sentences_are_disjoint_and_cover_everything(text):
    spans = sentence_spans(text)
    covered = [0] * len(text)
    for start, end in spans:
        assert start < end
        assert not text[start].isspace() and not text[end - 1].isspace()
        for at in range(start, end):
            covered[at] += 1
    assert spans == sorted(spans)
    assert all(n == 1 or (n == 0 and c.isspace()) for n, c in zip(covered, text, strict=True))
