"""Windows: of a long passage the whole sentences around what is asked, if the evidence is tight.

A passage is cut into sentences, items, tables, blocks of code and headings; none of them is cut any
further. Those that hold 70 % of what the best one of the passage holds of the question's terms, by
weight, and those that are quoted as facts, make the window, with one on either side and all between
them; the headings above it stay. The three best passages, programs, data, and what would lose less
than 30 % are shown whole. The numbers were chosen on the choosing halves of decision 101.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

from ragstream_core.agents.context.data_lines import kind_of_passage
from ragstream_core.records import Chunk
from ragstream_core.records.stage_results import Span
from ragstream_core.text.marked_blocks import blocks
from ragstream_core.text.memo import remembered
from ragstream_core.text.sentences import sentences_in

FROM_RANK = 4
LONG_CHARS = 300
AROUND = 1
NEARLY_BEST = 0.7
MOST = 0.7
CLOSED = re.compile(r"[.!?…。！？:：]\W*$")
_MARKS = re.compile(r"\s*(#{1,6})")

# How much of what is asked a text holds, ≥ 0.
Weigh = Callable[[str], float]


def window_of(chunk: Chunk, weigh: Weigh, quoted: Sequence[Span] = ()) -> tuple[Span, ...]:
    """Return the parts of a passage that are shown; empty: all of it is.

    Args:
        chunk: The passage.
        weigh: How much of what is asked a text holds.
        quoted: What must stand in the window, in characters of the passage.
    """
    text = chunk.snippet
    if len(text) < LONG_CHARS or kind_of_passage(chunk.source, text):
        return ()
    units = units_of(text)
    held = [0.0 if kind == "heading" else weigh(text[a:b]) for a, b, kind in units]
    best = max(held, default=0.0)
    if best <= 0.0:
        return ()
    wanted = [
        at
        for at, (a, b, _) in enumerate(units)
        if held[at] >= NEARLY_BEST * best or any(a < end and start < b for start, end in quoted)
    ]
    first, last = max(0, wanted[0] - AROUND), min(len(units) - 1, wanted[-1] + AROUND)
    while units[last][2] == "heading" and last > wanted[-1]:
        last -= 1  # what it heads is not shown
    spans = [*_headings(text, units[:first]), (units[first][0], units[last][1])]
    spans = _merged(text, spans)
    shown = sum(end - start for start, end in spans)
    return tuple(spans) if shown <= MOST * len(text) else ()


@remembered
def units_of(text: str) -> list[tuple[int, int, str]]:
    """Return start, end and kind of what is never cut: disjoint, in order, all that is no blank.

    Kinds are ``sentence``, ``item``, ``row`` (a whole table), ``code`` and ``heading``.
    """
    found: list[tuple[int, int, str]] = []
    for block in blocks(text):
        start = text.rfind("\n", 0, block.start) + 1 if block.kind == "item" else block.start
        if block.kind == "prose":
            found += [(a, b, "sentence") for a, b in _sentences(text, block.start, block.end)]
            continue
        kind = "code" if block.kind == "markup" else block.kind
        gap = text[found[-1][1] : start] if found else "x"
        if found and kind in ("row", "code") and found[-1][2] == kind and not gap.strip():
            found[-1] = (found[-1][0], block.end, kind)
        else:
            found.append((start, block.end, kind))
    return found


def _sentences(text: str, start: int, end: int) -> list[Span]:
    """Return the sentences of a paragraph; a line's end alone ends none."""
    spans: list[Span] = []
    for a, b in sentences_in(text, start, end):
        open_ = spans and not CLOSED.search(text[slice(*spans[-1])])
        spans[-1:] = [(spans[-1][0], b)] if open_ else [*spans[-1:], (a, b)]
    return spans


def _headings(text: str, above: Sequence[tuple[int, int, str]]) -> list[Span]:
    """Return the headings that a unit stands under, the highest first."""
    kept: list[Span] = []
    level = 7
    for start, end, kind in reversed(above):
        if kind == "heading":
            marks = _MARKS.match(text, start)
            depth = len(marks[1]) if marks else 1
            if depth < level:
                kept.append((start, end))
                level = depth
    return kept[::-1]


def _merged(text: str, spans: Sequence[Span]) -> list[Span]:
    """Join spans with nothing but white space between them, and what touches the borders."""
    joined = [spans[0]]
    for (_, before), (start, end) in pairwise(spans):
        if text[before:start].strip():
            joined.append((start, end))
        else:
            joined[-1] = (joined[-1][0], end)
    if not text[: joined[0][0]].strip():
        joined[0] = (0, joined[0][1])
    if not text[joined[-1][1] :].strip():
        joined[-1] = (joined[-1][0], len(text))
    return joined
