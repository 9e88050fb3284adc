"""The journal's files and how they are read: from the front, and from the end.

``conversation.log`` is written, ``conversation-<first seq>.log`` are closed. Nobody needs the lock
for reading: a line counts when it verifies, and a number that was given twice (its first line was
never acknowledged) counts where it stands last.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ragstream_core.errors import IntegrityError
from ragstream_core.history.framing import Parsed, Piece, Wanted, pieces, split_lines
from ragstream_core.history.records import Entry, Position, record_from

CURRENT = "conversation.log"
_CLOSED = re.compile(r"conversation-([1-9][0-9]{0,17})\.log")
_TORN = re.compile(r"conversation.*\.torn-[0-9]+")
_BLOCK = 16 * 1024
_MAX_BLOCK = 1024 * 1024


class Segment(NamedTuple):
    """A closed segment: the number it begins with (or a lower one), and its file."""

    first: int
    path: Path


def closed_name(first: int) -> str:
    """Return the file name of a closed segment."""
    return f"conversation-{first}.log"


def closed_segments(folder: Path) -> list[Segment]:
    """Return the closed segments, oldest first; none where there is no folder."""
    try:
        names = os.listdir(folder)  # noqa: PTH208  # Path objects for foreign files cost time
    except FileNotFoundError:
        return []
    found = ((_CLOSED.fullmatch(name), name) for name in names)
    return sorted(Segment(int(match[1]), folder / name) for match, name in found if match)


def torn_files(folder: Path) -> list[Path]:
    """Return the files that hold quarantined bytes, sorted by name."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if _TORN.fullmatch(path.name))


def read_forward(fd: int, offset: int = 0) -> Iterator[Piece]:
    """Yield the pieces of an open segment from ``offset`` on."""
    with os.fdopen(os.dup(fd), "rb", buffering=_MAX_BLOCK) as handle:
        handle.seek(offset)
        for raw in handle:
            yield from pieces(raw, offset)
            offset += len(raw)


def read_backward(
    fd: int, end: int | None = None, *, begin: int = 0, wanted: Wanted | None = None
) -> Iterator[Piece]:
    """Yield the pieces of an open segment, last first, reading blocks from its end.

    Args:
        fd: Open for reading.
        end: Byte to begin before; default: the end of the file.
        begin: Byte to stop at; a line that begins before it is not read.
        wanted: Asked with raw bytes, of many lines or of one: may there be anything in them?
    """
    at = os.fstat(fd).st_size if end is None else end
    rest, block = b"", _BLOCK
    while at > begin:
        take = min(block, at - begin)
        at -= take
        data = os.pread(fd, take, at)
        rest = data + rest if len(data) == take else data  # shorter: it was cut meanwhile
        whole = rest.find(b"\n") + 1 if at else 0
        if whole or not at:
            lines = rest[whole:]
            if wanted is None or wanted(lines):
                yield from split_lines(lines, at + whole, wanted)
            rest = rest[:whole]
        block = min(2 * block, _MAX_BLOCK)


def forwards(folder: Path, start: int) -> Iterator[tuple[int, str, int]]:
    """Yield (descriptor, name, number that its lines must stay below; 0: none) in order.

    The current segment is opened first: whatever it is called by the time the others are
    listed, no record of before this call is missed.
    """
    current = _opened(folder / CURRENT)
    try:
        closed = closed_segments(folder)
        limits = [segment.first for segment in closed[1:]]
        limits.append(_first(current))
        for segment, limit in zip(closed, limits, strict=False):
            if limit and limit <= start:
                continue
            fd = _opened(segment.path)
            try:
                if fd >= 0:
                    yield fd, segment.path.name, limit
            finally:
                _close(fd)
        if current >= 0:
            yield current, CURRENT, 0
    finally:
        _close(current)


def backwards(
    folder: Path, *, wanted: Wanted | None = None, max_bytes: int | None = None
) -> Iterator[tuple[str, Piece]]:
    """Yield (segment, piece) newest first; of numbers given twice the last line counts."""
    last, left = 0, max_bytes
    for path in _newest_first(folder):
        fd = _opened(path) if left is None or left > 0 else -1
        if fd < 0:
            continue
        try:
            size = os.fstat(fd).st_size
            begin = 0 if left is None else max(0, size - left)
            for piece in read_backward(fd, size, begin=begin, wanted=wanted):
                seq = piece.parsed.seq if piece.parsed is not None else 0
                if seq and (not last or seq < last):
                    last = seq
                    yield path.name, piece
            left = None if left is None else left - size
        finally:
            _close(fd)


def _newest_first(folder: Path) -> Iterator[Path]:
    yield folder / CURRENT
    for segment in reversed(closed_segments(folder)):
        yield segment.path


def entry_of(piece: Piece, parsed: Parsed, segment: str) -> Entry | None:
    """Return the entry of a verified line, or None where it is no record that we know."""
    try:
        record = record_from(json.loads(parsed.rec))
    except (ValueError, IntegrityError, AttributeError):
        return None
    return Entry(parsed.seq, record, parsed.chain, segment, piece.offset, piece.size)


def offset_behind(fd: int, hint: Position | None) -> int:
    """Return the hint's offset if its line ends there in this file, else 0."""
    if hint is None or not 0 < hint.offset <= os.fstat(fd).st_size:
        return 0
    piece = next(read_backward(fd, hint.offset), None)
    known = piece is not None and piece.parsed is not None and piece.parsed.chain == hint.chain
    return hint.offset if known else 0


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return -1


def _close(fd: int) -> None:
    if fd >= 0:
        os.close(fd)


def _first(fd: int) -> int:
    """Return the first verified number of an open segment, or 0."""
    if fd < 0:
        return 0
    numbers = (p.parsed.seq for p in read_forward(fd) if p.parsed is not None)
    return next(numbers, 0)
