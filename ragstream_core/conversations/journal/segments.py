r"""The files of the journal, one framed and chained line a record, read from the front or the end.

``conversation.log`` is written, ``conversation-<first seq>.log`` are closed. Reading needs no lock:
a line counts if it verifies, and a number that was given twice (its first line was never
acknowledged) counts where it stands last.

``{"v":1,"seq":n,"len":…,"crc":"…","prev":"…","rec":{…}}\n``: ``len`` counts the bytes of ``rec``,
``crc`` is the first 16 hex digits of the sha256 of the raw line without these digits, ``prev`` the
chain hash of the line before: the first 32 of the sha256 of that whole line, newline included.
Bytes are judged as they lie there; nothing is parsed and written again before it is compared.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from ragstream_core.conversations.journal.records import Entry, Position, record_from
from ragstream_core.errors import IntegrityError

VERSION = 1

# What the first line of all follows.
NO_CHAIN = "0" * 32
_MARK = b'{"v":'
_HEAD = re.compile(
    rb'\{"v":([1-9][0-9]{0,3}),"seq":([1-9][0-9]{0,17}),"len":([1-9][0-9]{0,9}),'
    rb'"crc":"([0-9a-f]{16})","prev":"([0-9a-f]{32})","rec":'
)
_RESYNC_TRIES = 16
LineFilter = Callable[[bytes], bool]


class Parsed(NamedTuple):
    """A verified line."""

    seq: int  # its number
    prev: str  # chain hash it names as the one before
    line: bytes  # all of it, newline included
    rec: bytes  # the record's bytes, JSON

    @property
    def chain(self) -> str:
        """Its own chain hash."""
        return chain_of(self.line)


class Piece(NamedTuple):
    """A run of bytes of a segment: one verified line, or damage."""

    offset: int  # first byte
    size: int  # bytes, ≥ 1
    parsed: Parsed | None  # the line, or None if nothing verifies
    raw: bytes  # the bytes


def frame_line(seq: int, prev: str, rec_bytes: bytes) -> bytes:
    """Return the line that keeps a record."""
    head = b'{"v":%d,"seq":%d,"len":%d,"crc":"' % (VERSION, seq, len(rec_bytes))
    tail = b'","prev":"%s","rec":%s}\n' % (prev.encode("ascii"), rec_bytes)
    return head + hashlib.sha256(head + tail).hexdigest()[:16].encode("ascii") + tail


def parse_line(line: bytes) -> Parsed | None:
    """Return a line if it is exactly what was written, else None."""
    head = _HEAD.match(line)
    if head is None or len(line) != head.end() + int(head[3]) + 2 or not line.endswith(b"}\n"):
        return None
    body = line[: head.start(4)] + line[head.end(4) :]
    if hashlib.sha256(body).hexdigest()[:16].encode("ascii") != head[4]:
        return None
    if int(head[1]) != VERSION:
        raise IntegrityError(
            f"the conversation journal has version {int(head[1])}, this program knows {VERSION}",
            hint="use the newer version of RAGstream; nothing was changed",
        )
    return Parsed(int(head[2]), head[5].decode("ascii"), line, line[head.end() : -2])


def chain_of(line: bytes) -> str:
    """Return the chain hash of a line, 32 hex digits."""
    return hashlib.sha256(line).hexdigest()[:32]


def pieces(raw: bytes, offset: int) -> list[Piece]:
    """Split the bytes up to a newline into damage and what verifies behind it.

    A lost newline joins two lines: the second one is found again by its first bytes, which cannot
    stand inside a record, where every quotation mark of a text is escaped.
    """
    parsed = parse_line(raw)
    at = len(raw)
    for _ in range(_RESYNC_TRIES if parsed is None else 0):
        at = raw.rfind(_MARK, 1, at)
        if at < 0:
            break
        found = parse_line(raw[at:])
        if found is not None:
            return [
                Piece(offset, at, None, raw[:at]),
                Piece(offset + at, len(raw) - at, found, raw[at:]),
            ]
    return [Piece(offset, len(raw), parsed, raw)]


def split_lines(data: bytes, offset: int, wanted: LineFilter | None = None) -> Iterator[Piece]:
    """Yield the pieces of whole lines, last first; a last one may lack its newline."""
    end = len(data)
    while end:
        begin = data.rfind(b"\n", 0, end - 1) + 1
        raw = data[begin:end]
        if wanted is None or wanted(raw):
            yield from reversed(pieces(raw, offset + begin))
        end = begin


def claimed_seq(raw: bytes) -> int:
    """Return the number in the head of a damaged line that has its full length, else 0."""
    head = _HEAD.match(raw)
    whole = head is not None and len(raw) == head.end() + int(head[3]) + 2
    return int(head[2]) if head is not None and whole else 0


def count_possibly_acknowledged(damage: Iterable[bytes]) -> int:
    """Count the lines of damaged bytes that were complete once, so may have been acknowledged.

    What a crash leaves of a write is shorter than it says and lacks the newline; such a line was
    never acknowledged and does not count.
    """
    count = 0
    for raw in damage:
        head = _HEAD.match(raw)
        whole = head is not None and len(raw) >= head.end() + int(head[3]) + 2
        count += raw.endswith(b"\n") or whole
    return count


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
    """Return the closed segments, oldest first; none if there is no folder."""
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
    fd: int, end: int | None = None, *, begin: int = 0, wanted: LineFilter | None = None
) -> Iterator[Piece]:
    """Yield the pieces of an open segment, last first, reading blocks from its end."""
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
    folder: Path, *, wanted: LineFilter | None = None, max_bytes: int | None = None
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
    """Return the entry of a verified line, or None if it is no record that we know."""
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
