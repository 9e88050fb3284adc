"""The cheapest division of a text into chunks: where it may be cut, and what each cut costs.

semantic-text-splitter finds the structure (sections, paragraphs, lists, tables, code) with exact
spans; sentences and headings are laid over it, so that no sentence is cut that would fit. Dynamic
programming chooses among the cuts: a chunk costs 1, plus what its end cut costs, plus what makes it
a poor chunk, such as being small, running over headings or ending in a bare heading. Ties go to the
longer chunk.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from ragstream_core.text.blocks import LineKind, lines_of
from ragstream_core.text.headings import MARKDOWN_TYPES, HeadingIndex, normal_type
from ragstream_core.text.sentences import sentence_spans
from ragstream_core.text.tokenizer import Sizes

# A structural unit up to this length is kept together as long as there is a choice.
BLOCK_CHARACTERS = 800

_FILLED_CHARACTERS = 200  # units below this are not worth telling apart
_SEGMENT_CHARACTERS = 20_000
_NOT_SPACE = re.compile(r"\S")

SECTION, PARAGRAPH, LINE, SENTENCE, INSIDE = 0.0, 0.4, 0.8, 0.8, 3.0
CODE_GAP, CODE = 0.9, 1.2
_DEEP_SECTION = 0.05  # a cut at a deeper heading hurts a little more
_STRUCTURE_BONUS = 0.15  # the structure ends here too: not inside a table, list or code block
_LOOK_BACK = 200
_COLON = 0.35  # "as follows:" wants to stay with what follows


@dataclass(frozen=True, slots=True)
class Cut:
    """A place where a chunk may start.

    Attributes:
        at: Offset of a character that is not white space.
        cost: How much it hurts to cut here, 0 (at a heading) to 3 (inside a sentence).
        heading: Level of the heading that starts here, 0 for none.
        bare: Nothing but a heading lies between the cut before and this one.
        sentence: A sentence starts here.
    """

    at: int
    cost: float
    heading: int = 0
    bare: bool = False
    sentence: bool = True


def structure_of(text: str, *, file_type: str) -> list[int]:
    """Return the offsets at which structural units of at most `BLOCK_CHARACTERS` start."""
    from semantic_text_splitter import MarkdownSplitter, TextSplitter

    markdown = normal_type(file_type) in MARKDOWN_TYPES
    splitter_type = MarkdownSplitter if markdown else TextSplitter
    splitter = splitter_type((_FILLED_CHARACTERS, BLOCK_CHARACTERS), trim=False)
    return [
        begin + start
        for begin, end in _segments(text)
        for start, _ in splitter.chunk_indices(text[begin:end])
    ]


def _segments(text: str) -> Iterator[tuple[int, int]]:
    """Divide a long text beside its fenced blocks: the splitter's time grows with the square."""
    begin = 0
    for line in lines_of(text):
        if line.kind is not LineKind.CODE and line.start - begin >= _SEGMENT_CHARACTERS:
            yield begin, line.start
            begin = line.start
        while line.end - begin > 2 * _SEGMENT_CHARACTERS:
            yield begin, begin + _SEGMENT_CHARACTERS
            begin += _SEGMENT_CHARACTERS
    if begin < len(text):
        yield begin, len(text)


def find_cuts(
    text: str, *, file_type: str, structure: Sequence[int], sizes: Sizes, limit: int
) -> list[Cut]:
    """Return all places where a chunk may start, in order; the first is the first character.

    Args:
        text: The whole text.
        file_type: File extension.
        structure: From `structure_of`.
        sizes: Measures spans of the text.
        limit: Largest size of a chunk: a sentence above it is cut inside.
    """
    headings = HeadingIndex(text, file_type=file_type).headings
    levels = {_skip_space(text, h.start): h.level for h in headings}
    ends = {_skip_space(text, h.start): h.end for h in headings}
    structural = starts_behind_space(text, structure)
    code = {_skip_space(text, line.start) for line in lines_of(text) if line.kind is LineKind.CODE}
    cuts: list[Cut] = []
    underline_to = 0
    for start, end in sentence_spans(text):
        if start < underline_to:
            continue  # the underline of a heading is part of it
        level = levels.get(start, 0)
        cost = _cost(text, start, level=level, code=start in code)
        bonus = 0.0 if level or start not in structural else _STRUCTURE_BONUS
        cuts.append(Cut(start, cost - bonus, heading=level))
        underline_to = ends.get(start, 0)
        if sizes.between(start, end) > limit:
            inside = {_skip_space(text, at) for at in sizes.grid(start, end, limit=limit)}
            cuts.extend(Cut(at, INSIDE, sentence=False) for at in sorted(inside) if at < end)
    return _mark_bare(text, cuts, ends)


def _cost(text: str, start: int, *, level: int, code: bool) -> float:
    if level:
        return SECTION + _DEEP_SECTION * max(0, level - 2)
    window = text[max(0, start - _LOOK_BACK) : start]
    gap = window[len(window.rstrip()) :]
    breaks = min(gap.count("\n"), 2)
    if code:
        return CODE_GAP if breaks == 2 else CODE
    colon = _COLON if window.rstrip().endswith(":") else 0.0
    return (SENTENCE, LINE, PARAGRAPH)[breaks] + colon


def _mark_bare(text: str, cuts: list[Cut], ends: dict[int, int]) -> list[Cut]:
    marked = cuts[:1]
    for before, cut in pairwise(cuts):
        end = ends.get(before.at)
        bare = end is not None and not text[end : cut.at].strip()
        marked.append(Cut(cut.at, cut.cost, cut.heading, bare, cut.sentence))
    return marked


def starts_behind_space(text: str, starts: Iterable[int]) -> set[int]:
    """Return where the first character that is no white space stands at or behind each place.

    Args:
        text: The whole text.
        starts: Offsets, ascending: a run of white space that holds several is read once.
    """
    found, at = set[int](), -1
    for start in starts:
        at = _skip_space(text, start) if start > at else at
        found.add(at)
    return found


def _skip_space(text: str, start: int) -> int:
    match = _NOT_SPACE.search(text, start)
    return match.start() if match else len(text)


TINY_TOKENS = 20
_TINY = 2.0
_SMALL = 1.0  # times the missing share of half a chunk
_OVER_SECTION, _OVER_SUBSECTION = 0.3, 0.15
_BARE_HEADING_AT_END = 5.0
_OVERLAP_LOST = 2.0


def choose_cuts(
    cuts: Sequence[Cut],
    *,
    before: Sequence[int],
    overlaps: Sequence[int],
    contexts: Sequence[int],
    limit: int,
) -> list[int]:
    """Return the indices of the cuts at which chunks start; the first is 0.

    Args:
        cuts: All possible cuts, n of them, n ≥ 1.
        before: Size of the text before each cut, and of the whole text: n + 1 values.
        overlaps: Size of what a chunk starting at each cut repeats: n values.
        contexts: Size of what stands in front of such a chunk where it is read: n values.
        limit: Largest size of a chunk, its overlap included if it fits.
    """
    count = len(cuts)
    sections = list(accumulate((_over(cut) for cut in cuts), initial=0.0))
    ends = [_end_cost(cut) for cut in cuts] + [0.0]
    half = max(1, limit // 2)
    tiny = min(TINY_TOKENS, half)
    best: list[float] = [0.0] + [float("inf")] * count
    back = [0] * (count + 1)
    first = 0
    for j in range(1, count + 1):
        # sentences without a token, such as zero-width spaces, are counted as if they had one
        while max(before[j] - before[first], j - first) > limit and first < j - 1:
            first += 1
        for i in range(first, j):
            size = before[j] - before[i]
            if size + contexts[i] > limit and i < j - 1:
                continue
            cost = best[i] + 1.0 + ends[j] + sections[j] - sections[i + 1]
            if size < half:
                cost += _SMALL * (1.0 - size / half) + (_TINY if size < tiny else 0.0)
            if size + overlaps[i] + contexts[i] > limit:
                cost += _OVERLAP_LOST
            if cost < best[j] - 1e-9:
                best[j], back[j] = cost, i
    return _walk(back, count)


def _over(cut: Cut) -> float:
    if not cut.heading:
        return 0.0
    return _OVER_SECTION if cut.heading <= 2 else _OVER_SUBSECTION


def _end_cost(cut: Cut) -> float:
    return cut.cost + (_BARE_HEADING_AT_END if cut.bare else 0.0)


def _walk(back: Sequence[int], count: int) -> list[int]:
    chosen = []
    at = count
    while at > 0:
        at = back[at]
        chosen.append(at)
    return chosen[::-1]
