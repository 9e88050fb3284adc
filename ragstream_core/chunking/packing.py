"""Which cuts to make: the cheapest division of a text into chunks within the limit.

Dynamic programming over the possible cuts. A chunk costs 1, plus what its end cut costs, plus what
makes it a poor chunk: being small, running over headings, ending in a bare heading. All of it is
deterministic; ties go to the longer chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from ragstream_core.chunking.cuts import Cut

TINY_TOKENS = 20
_TINY = 2.0
_SMALL = 1.0  # times the missing share of half a chunk
_OVER_SECTION, _OVER_SUBSECTION = 0.3, 0.15
_BARE_HEADING_AT_END = 5.0
_OVERLAP_LOST = 2.0


def choose_cuts(
    cuts: Sequence[Cut], *, before: Sequence[int], overlaps: Sequence[int], limit: int
) -> list[int]:
    """Return the indices of the cuts at which chunks start; the first is 0.

    Args:
        cuts: All possible cuts, n of them, n ≥ 1.
        before: Size of the text before each cut, and of the whole text: n + 1 values.
        overlaps: Size of what a chunk starting at each cut repeats: n values.
        limit: Largest size of a chunk, its overlap included where it fits.
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
        while before[j] - before[first] > limit and first < j - 1:
            first += 1
        for i in range(first, j):
            size = before[j] - before[i]
            cost = best[i] + 1.0 + ends[j] + sections[j] - sections[i + 1]
            if size < half:
                cost += _SMALL * (1.0 - size / half) + (_TINY if size < tiny else 0.0)
            if size + overlaps[i] > limit:
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
