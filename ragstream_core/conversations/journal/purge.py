"""The only rewrite of the journal: segments without lines that were cleared on command."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ragstream_core.conversations.edits import merged
from ragstream_core.conversations.journal.segments import (
    CURRENT,
    Piece,
    claimed_seq,
    closed_segments,
    read_backward,
    read_forward,
)
from ragstream_core.platform.files import replace_bytes, sync_dir

_END = 1 << 62


def purge_segments(folder: Path, ranges: Sequence[tuple[int, int]]) -> list[str]:
    """Rewrite the segments that hold any of these numbers; see `Journal.purge`."""
    ranges, changed = merged(ranges), []
    for path, bounds in _walk(folder, ranges):
        kept = [piece.raw for piece, low, high in bounds if not _hit(low, high, ranges)]
        if len(kept) == len(bounds):
            continue
        if kept or path.name == CURRENT:
            replace_bytes(path, b"".join(kept))
        else:
            path.unlink()
            sync_dir(folder)
        changed.append(path.name)
    return changed


def damage(folder: Path) -> Iterator[tuple[int, bytes]]:
    """Yield what does not verify: the number it must have, 0 if that is unknown, and the bytes."""
    for _, bounds in _walk(folder, ((0, _END),)):
        for piece, low, high in bounds:
            if piece.parsed is None:
                only = low if low == high else low + 1
                yield (only if high - low in (0, 2) else 0), piece.raw


def _walk(
    folder: Path, ranges: Sequence[tuple[int, int]]
) -> Iterator[tuple[Path, list[tuple[Piece, int, int]]]]:
    """Yield the segments that may hold some numbers, oldest first, with what a piece may hold."""
    before = 0
    for path, limit in _limited(folder):
        if path.name != CURRENT and not _hit(before, limit, ranges):
            before = max(before, _number(path, read_backward, 0))
            continue
        pieces = _pieces(path)
        yield path, list(_bounds(pieces, before, limit))
        before = max([before, *(p.parsed.seq for p in pieces if p.parsed is not None)])


def _limited(folder: Path) -> list[tuple[Path, int]]:
    """Return the segments, oldest first, each with the number that its lines stay below."""
    closed = closed_segments(folder)
    found = [(segment.path, segment.first) for segment in closed]
    if (folder / CURRENT).exists():
        found.append((folder / CURRENT, _number(folder / CURRENT, read_forward, _END)))
    limits = [*(first for _, first in found[1:]), _END]
    return [(path, limit) for (path, _), limit in zip(found, limits, strict=False)]


def _pieces(path: Path) -> list[Piece]:
    fd = os.open(path, os.O_RDONLY)
    try:
        return list(read_forward(fd))
    finally:
        os.close(fd)


def _number(path: Path, read: Callable[[int], Iterator[Piece]], default: int) -> int:
    """Return the number of the first line that a way of reading meets."""
    fd = os.open(path, os.O_RDONLY)
    try:
        return next((p.parsed.seq for p in read(fd) if p.parsed is not None), default)
    finally:
        os.close(fd)


def _bounds(pieces: Sequence[Piece], before: int, after: int) -> Iterator[tuple[Piece, int, int]]:
    """Yield every piece with the lowest and highest number it may hold.

    A damaged line whose head and length are whole has the number it says, if that fits between its
    neighbours. Other damage may hold anything from the verified line before it to the one behind
    it, these included: it may be part of either.
    """
    behind = [0] * len(pieces)
    for index in reversed(range(len(pieces))):
        behind[index] = after
        parsed = pieces[index].parsed
        after = parsed.seq if parsed is not None else after
    for piece, until in zip(pieces, behind, strict=True):
        number = piece.parsed.seq if piece.parsed is not None else claimed_seq(piece.raw)
        known = piece.parsed is not None or before < number < until
        before = number if known else before
        yield piece, before, before if known else until


def _hit(low: int, high: int, ranges: Sequence[tuple[int, int]]) -> bool:
    at = bisect_left(ranges, low, key=lambda one: one[1])
    return at < len(ranges) and ranges[at][0] <= high
