"""The journal's tail: what the next line follows, verified and repaired under the lock.

A torn line (cut short by a crash, never acknowledged) is put aside and cut off. Damage that may
hold acknowledged lines is never touched: the segment is closed as it is, and a new one begun.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from ragstream_core.conversations.journal.segments import (
    CURRENT,
    NO_CHAIN,
    Piece,
    closed_name,
    closed_segments,
    count_possibly_acknowledged,
    read_backward,
    read_forward,
    torn_files,
)
from ragstream_core.platform.files import move_aside, replace_bytes, truncate_durable


@dataclass(frozen=True, slots=True)
class Tail:
    """What the next line follows."""

    seq: int = 0  # the last number given
    chain: str = NO_CHAIN  # hash of the last verified line
    first: int = 0  # first number in the current segment; 0: it holds none
    size: int = 0  # its bytes
    # inode, size and time of change of the file when it was last looked at
    state: tuple[int, int, int] = (0, 0, 0)


def file_state(path: Path) -> tuple[int, int, int]:
    """Return inode, size and time of change (ns) of a file."""
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def sound_tail(folder: Path, known: Tail | None, warnings: list[str]) -> Tail:
    """Return the tail after repairing what is wrong with it; the lock is held."""
    path = folder / CURRENT
    try:
        found = path.stat()
    except FileNotFoundError:
        return closed_tail(folder)
    if not found.st_mode & stat.S_IWUSR:
        return _begin_anew(folder, "the disk failed to keep what was last written to it", warnings)
    state = (found.st_ino, found.st_size, found.st_mtime_ns)
    if known is not None and known.state == state:
        return known
    if known is None or known.state[0] != state[0] or known.size >= state[1]:
        known = None  # another file, or changed in place: only what was added can be taken on trust
    return _examined(folder, known, state, warnings)


def closed_tail(folder: Path) -> Tail:
    """Return the tail of the closed segments: what the first line of a new one follows."""
    for segment in reversed(closed_segments(folder)):
        damage: list[Piece] = []
        fd = os.open(segment.path, os.O_RDONLY)
        try:
            for piece in read_backward(fd):
                if piece.parsed is not None:
                    lost = count_possibly_acknowledged(p.raw for p in damage)
                    return Tail(piece.parsed.seq + lost, piece.parsed.chain)
                damage.append(piece)
        finally:
            os.close(fd)
        lost = count_possibly_acknowledged(p.raw for p in damage)
        if lost:  # nothing of it verifies; its name says what it began with
            return Tail(segment.first - 1 + lost, NO_CHAIN)
    return Tail()


def close_segment(folder: Path, first: int) -> str:
    """Give the current segment its name for good; return that."""
    while (folder / closed_name(first)).exists():
        first += 1
    move_aside(folder / CURRENT, folder / closed_name(first))
    return closed_name(first)


def _examined(
    folder: Path, known: Tail | None, state: tuple[int, int, int], warnings: list[str]
) -> Tail:
    """Verify what was written since ``known``, or all; cut a torn line, isolate damage."""
    tail = known or Tail()
    damage: list[Piece] = []
    inside: Piece | None = None
    fd = os.open(folder / CURRENT, os.O_RDONLY)
    try:
        for piece in read_forward(fd, tail.size):
            parsed = piece.parsed
            if parsed is None:
                damage.append(piece)
                continue
            if damage and inside is None:
                inside = damage[0]
            damage = []
            seq, end = max(tail.seq, parsed.seq), piece.offset + piece.size
            tail = Tail(seq, parsed.chain, tail.first or parsed.seq, end, state)
    finally:
        os.close(fd)
    if inside is None and damage and count_possibly_acknowledged(p.raw for p in damage):
        inside = damage[0]
    if inside is not None:
        return _begin_anew(folder, f"damaged at byte {inside.offset}", warnings)
    if damage:
        _cut(folder, tail.size, b"".join(p.raw for p in damage), warnings)
    if not tail.first:
        before = closed_tail(folder)
        tail = Tail(before.seq, before.chain)
    return Tail(tail.seq, tail.chain, tail.first, tail.size, file_state(folder / CURRENT))


def _begin_anew(folder: Path, why: str, warnings: list[str]) -> Tail:
    """Close the current segment as it is; one that holds nothing is put aside."""
    path = folder / CURRENT
    before = closed_tail(folder)
    fd = os.open(path, os.O_RDONLY)
    try:
        numbers = (p.parsed.seq for p in read_forward(fd) if p.parsed is not None)
        first = next(numbers, 0)
        lost = count_possibly_acknowledged(p.raw for p in read_forward(fd)) if not first else 0
    finally:
        os.close(fd)
    if first or lost:
        name = close_segment(folder, first or before.seq + 1)
    else:
        name = _free_torn(folder)
        move_aside(path, folder / name)
    warnings.append(
        f"{path}: {why}; it is {name} from now on, what verifies in it is still read, "
        "and a new segment was begun"
    )
    return closed_tail(folder)


def _cut(folder: Path, size: int, torn: bytes, warnings: list[str]) -> None:
    path = folder / CURRENT
    same = next((p for p in torn_files(folder) if p.read_bytes() == torn), None)
    kept = same or folder / _free_torn(folder)
    if same is None:
        replace_bytes(kept, torn)
    truncate_durable(path, size)
    warnings.append(
        f"{path}: a line broken off by a crash, {len(torn)} bytes at {size}, was never "
        f"acknowledged; it is in {kept.name}"
    )


def _free_torn(folder: Path) -> str:
    taken = {path.name for path in torn_files(folder)}
    return next(
        name for n in range(1, len(taken) + 2) if (name := f"{CURRENT}.torn-{n}") not in taken
    )
