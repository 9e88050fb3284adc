"""`Chunker`: a text as numbered chunks with exact spans, heading paths and contexts (R-059).

Laws: ``text[start:end]`` is the chunk; no chunk is above the profile's limit as the tokenizer
counts it alone; every character that is not white space lies in a chunk; starts and ends ascend;
the same input gives the same spans. A heading starts a chunk and does not end one, a sentence is
cut only if it is longer than a chunk.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from ragstream_core.text.blocks import MARKUP_VERSION, Markup
from ragstream_core.text.chunk_profiles import ChunkProfile
from ragstream_core.text.code import DATA, code_cuts, is_code, joints_of, line_starts
from ragstream_core.text.contexts import Contexts
from ragstream_core.text.cuts import Cut, choose_cuts, find_cuts, structure_of
from ragstream_core.text.headings import MARKDOWN_TYPES, HeadingIndex, normal_type
from ragstream_core.text.tokenizer import Sizes, TokenOffsets, word_offsets

_MEASURED_AGAIN = 8  # spans this close to the limit are measured alone
_CONTEXT_SHARE = 3  # a context takes a third of a chunk at most

# Offset at which a chunk starts → what stands in front of it where it is read.
ContextAt = Callable[[int], str]


def _no_context(_: int) -> str:
    return ""


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
    context_at: ContextAt = _no_context,
) -> list[TextSpan]:
    """Divide a text into chunks.

    Args:
        text: The whole text of a source.
        profile: Limits and overlap.
        file_type: File extension: Markdown and reStructuredText have headings.
        token_offsets: (start, end) of each token of a text, never truncated; without a model's
            tokenizer, words and signs are counted.
        context_at: What stands in front of a chunk has its place within the limit.

    Returns:
        Spans in order, without white space at their ends; none for a text of white space.
    """
    counted = token_offsets if profile.unit == "tokens" else None
    limit = profile.max_tokens
    if is_code(file_type):
        sizes = Sizes(text, token_offsets=counted, structure=line_starts(text))
        joints = joints_of(text, file_type=file_type)
        defines = normal_type(file_type) not in DATA
        cuts = code_cuts(text, joints=joints, sizes=sizes, limit=limit, defines=defines)
    else:
        structure = structure_of(text, file_type=file_type)
        sizes = Sizes(text, token_offsets=counted, structure=structure)
        cuts = find_cuts(text, file_type=file_type, structure=structure, sizes=sizes, limit=limit)
    if not cuts:
        return []
    starts = _overlap_starts(cuts, sizes=sizes, profile=profile)
    before = [sizes.before(cut.at) for cut in cuts] + [sizes.before(len(text))]
    overlaps = [b - sizes.before(s) for b, s in zip(before, starts, strict=False)]
    room = _Room(context_at, profile, token_offsets)
    chosen = choose_cuts(
        cuts, before=before, overlaps=overlaps, contexts=[room.taken(s) for s in starts],
        limit=limit,
    )  # fmt: skip
    return _spans(text, [(starts[i], cuts[i].at) for i in chosen], sizes=sizes, room=room)


def _size(text: str, profile: ChunkProfile, token_offsets: TokenOffsets) -> int:
    return len(token_offsets(text)) if profile.unit == "tokens" else len(text)


class _Room:
    """How much of a chunk its context leaves for its text."""

    def __init__(
        self, context_at: ContextAt, profile: ChunkProfile, token_offsets: TokenOffsets
    ) -> None:
        self._context_at, self._profile, self._offsets = context_at, profile, token_offsets
        self._sizes = {"": 0}

    def taken(self, start: int) -> int:
        """Return the size of the context of a chunk that starts at an offset."""
        context = self._context_at(start)
        if context not in self._sizes:
            self._sizes[context] = _size(context, self._profile, self._offsets)
        return self._sizes[context]

    def left(self, start: int) -> int:
        """Return the largest size of a chunk that starts at an offset, ≥ 1."""
        return max(1, self._profile.max_tokens - self.taken(start))


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


def _spans(
    text: str, chunks: list[tuple[int, int]], *, sizes: Sizes, room: _Room
) -> list[TextSpan]:
    spans: list[TextSpan] = []
    previous_core = -1
    ends = [core for _, core in chunks[1:]] + [len(text)]
    for (start, core), end in zip(chunks, ends, strict=True):
        stop = len(text[core:end].rstrip()) + core
        # An overlap never reaches back to where the chunk before began: starts ascend.
        begin = start if start > previous_core else core
        if _fits(text, begin, stop, sizes, room.left(begin)):
            spans.append(TextSpan(begin, stop))
        else:
            spans.extend(_divided(text, core, stop, sizes, room))
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


def _divided(text: str, start: int, end: int, sizes: Sizes, room: _Room) -> list[TextSpan]:
    if end - start <= 1 or _fits(text, start, end, sizes, room.left(start)):
        return [TextSpan(start, end)]
    places = [start, *sizes.grid(start, end, limit=max(1, sizes.between(start, end) * 4)), end]
    if len(places) == 2:
        places.insert(1, (start + end) // 2)
    pairs = (_trimmed(text, a, b) for a, b in pairwise(places))
    return [span for a, b in pairs if b > a for span in _divided(text, a, b, sizes, room)]


class ChunkPiece(NamedTuple):
    """One chunk of one text.

    Attributes:
        chunk_idx: 0…N-1.
        chunk_text: Equals ``text[start:end]``, without markup if that is left out.
        start: Character offset.
        end: Character offset, exclusive.
        heading: Heading path at its start, or "".
        context: What it stands in, to be read in front of it (`Contexts`), or "".
    """

    chunk_idx: int
    chunk_text: str
    start: int
    end: int
    heading: str
    context: str = ""


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
        contexts = self._contexts(text, file_type)
        spans = split(
            text, profile=self._profile, file_type=file_type, token_offsets=self._token_offsets,
            context_at=contexts,
        )  # fmt: skip
        headings = HeadingIndex(text, file_type=file_type)
        if self._strip and normal_type(file_type) in MARKDOWN_TYPES:
            markup = Markup(text)
            words = [(span, markup.without(*span)) for span in spans]
        else:
            words = [(span, text[span.start : span.end]) for span in spans]
        kept = [(span, said) for span, said in words if said]  # a rule alone says nothing
        return [
            ChunkPiece(i, said, *span, headings.path_at(span.start), contexts(span.start))
            for i, (span, said) in enumerate(kept)
        ]

    def _contexts(self, text: str, file_type: str) -> ContextAt:
        contexts = Contexts(text, file_type=file_type)
        if contexts.is_empty:
            return _no_context

        @functools.cache
        def context_at(start: int) -> str:
            most = self._profile.max_tokens // _CONTEXT_SHARE
            return contexts.at(start, measure=self._measure, most=most)

        return context_at

    def _measure(self, text: str) -> int:
        return _size(text, self._profile, self._token_offsets)
