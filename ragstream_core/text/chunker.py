"""`Chunker`: a text as numbered chunks with exact spans and heading paths (R-059).

Laws: ``text[start:end]`` is the chunk; no chunk is above the profile's limit as the tokenizer
counts it alone; every character that is not white space lies in a chunk; starts and ends ascend;
the same input gives the same spans. A heading starts a chunk and does not end one, a sentence is
cut only if it is longer than a chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from ragstream_core.text.blocks import MARKUP_VERSION, Markup
from ragstream_core.text.chunk_profiles import ChunkProfile
from ragstream_core.text.code import code_cuts, is_code, joints_of, line_starts
from ragstream_core.text.cuts import Cut, choose_cuts, find_cuts, structure_of
from ragstream_core.text.headings import MARKDOWN_TYPES, HeadingIndex, normal_type
from ragstream_core.text.tokenizer import Sizes, TokenOffsets, word_offsets

_MEASURED_AGAIN = 8  # spans this close to the limit are measured alone


class TextSpan(NamedTuple):
    """A chunk's place: character offsets, end exclusive."""

    start: int
    end: int


def split(
    text: str,
    *,
    profile: ChunkProfile,
    file_type: str = "",
    token_offsets: TokenOffsets = word_offsets,
) -> list[TextSpan]:
    """Divide a text into chunks.

    Args:
        text: The whole text of a source.
        profile: Limits and overlap.
        file_type: File extension: Markdown and reStructuredText have headings.
        token_offsets: (start, end) of each token of a text, never truncated; without a model's
            tokenizer, words and signs are counted.

    Returns:
        Spans in order, without white space at their ends; none for a text of white space.
    """
    counted = token_offsets if profile.unit == "tokens" else None
    limit = profile.max_tokens
    if is_code(file_type):
        sizes = Sizes(text, token_offsets=counted, structure=line_starts(text))
        joints = joints_of(text, file_type=file_type)
        cuts = code_cuts(text, joints=joints, sizes=sizes, limit=limit)
    else:
        structure = structure_of(text, file_type=file_type)
        sizes = Sizes(text, token_offsets=counted, structure=structure)
        cuts = find_cuts(text, file_type=file_type, structure=structure, sizes=sizes, limit=limit)
    if not cuts:
        return []
    starts = _overlap_starts(cuts, sizes=sizes, profile=profile)
    before = [sizes.before(cut.at) for cut in cuts] + [sizes.before(len(text))]
    overlaps = [b - sizes.before(s) for b, s in zip(before, starts, strict=False)]
    chosen = choose_cuts(cuts, before=before, overlaps=overlaps, limit=limit)
    return _spans(text, [(starts[i], cuts[i].at) for i in chosen], sizes=sizes, limit=limit)


def _overlap_starts(cuts: Sequence[Cut], *, sizes: Sizes, profile: ChunkProfile) -> list[int]:
    """Return where the overlap of a chunk that starts at each cut begins."""
    starts = []
    first = 0
    for at, cut in enumerate(cuts):
        if profile.overlap == "section" and cut.heading:
            first = at  # nothing after this heading repeats what is before it
        while first < at and sizes.between(cuts[first].at, cut.at) > profile.overlap_tokens:
            first += 1
        begin = first
        while begin < at and not cuts[begin].sentence:
            begin += 1
        start = cuts[begin].at
        if profile.overlap == "word" and at > 0:
            start = _word_start(cuts[first - 1 if first else 0].at, start, cut.at, sizes, profile)
        starts.append(start)
    return starts


def _word_start(low: int, high: int, at: int, sizes: Sizes, profile: ChunkProfile) -> int:
    for start in sizes.word_starts(low, high):
        if sizes.between(start, at) <= profile.overlap_tokens:
            return start
    return high


def _spans(text: str, chunks: list[tuple[int, int]], *, sizes: Sizes, limit: int) -> list[TextSpan]:
    spans: list[TextSpan] = []
    previous_core = -1
    ends = [core for _, core in chunks[1:]] + [len(text)]
    for (start, core), end in zip(chunks, ends, strict=True):
        stop = len(text[core:end].rstrip()) + core
        # An overlap never reaches back to where the chunk before began: starts ascend.
        begin = start if start > previous_core else core
        if _fits(text, begin, stop, sizes, limit):
            spans.append(TextSpan(begin, stop))
        else:
            spans.extend(_divided(text, core, stop, sizes, limit))
        previous_core = core
    return spans


def _fits(text: str, start: int, end: int, sizes: Sizes, limit: int) -> bool:
    size = sizes.between(start, end)
    between_words = (start == 0 or text[start - 1].isspace()) and (
        end == len(text) or text[end].isspace()
    )
    if between_words and size <= limit - _MEASURED_AGAIN:
        return True
    return size <= 2 * limit and sizes.alone(start, end) <= limit


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a span without white space at its ends; empty if it holds nothing else."""
    part = text[start:end]
    return start + len(part) - len(part.lstrip()), start + len(part.rstrip())


def _divided(text: str, start: int, end: int, sizes: Sizes, limit: int) -> list[TextSpan]:
    if end - start <= 1 or _fits(text, start, end, sizes, limit):
        return [TextSpan(start, end)]
    places = [start, *sizes.grid(start, end, limit=max(1, sizes.between(start, end) * 4)), end]
    if len(places) == 2:
        places.insert(1, (start + end) // 2)
    pairs = (_trimmed(text, a, b) for a, b in pairwise(places))
    return [span for a, b in pairs if b > a for span in _divided(text, a, b, sizes, limit)]


class ChunkPiece(NamedTuple):
    """One chunk of one text.

    Attributes:
        chunk_idx: 0…N-1.
        chunk_text: Equals ``text[start:end]``, without markup if that is left out.
        start: Character offset.
        end: Character offset, exclusive.
        heading: Heading path at its start, or "".
    """

    chunk_idx: int
    chunk_text: str
    start: int
    end: int
    heading: str


class Chunker:
    """Cuts documents by one profile.

    Args:
        profile: Limits, overlap and unit.
        token_offsets: The model's tokenizer; without it words and signs are counted.
        strip_markdown: Leave the markup of Markdown out of the chunks' texts; their spans still
            name the place in the source.
    """

    def __init__(
        self,
        profile: ChunkProfile,
        *,
        token_offsets: TokenOffsets = word_offsets,
        strip_markdown: bool = False,
    ) -> None:
        self._profile = profile
        self._token_offsets = token_offsets
        self._strip = strip_markdown

    @property
    def version(self) -> str:
        """What stands for this chunker in the index fingerprint."""
        stripped = f" markup-{MARKUP_VERSION} stripped" if self._strip else ""
        return self._profile.version + stripped

    def chunk(self, text: str, *, file_type: str) -> list[ChunkPiece]:
        """Return the chunks of a text in order; none for a text of white space.

        Args:
            text: The decoded text of a document.
            file_type: Extension: Markdown and reStructuredText have headings.
        """
        spans = split(
            text, profile=self._profile, file_type=file_type, token_offsets=self._token_offsets
        )
        headings = HeadingIndex(text, file_type=file_type)
        if self._strip and normal_type(file_type) in MARKDOWN_TYPES:
            markup = Markup(text)
            words = [(span, markup.without(*span)) for span in spans]
        else:
            words = [(span, text[span.start : span.end]) for span in spans]
        kept = [(span, said) for span, said in words if said]  # a rule alone says nothing
        return [
            ChunkPiece(i, said, *span, headings.path_at(span.start))
            for i, (span, said) in enumerate(kept)
        ]
