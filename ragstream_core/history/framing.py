r"""One line of the journal: framed, checksummed, chained; and finding lines again behind damage.

``{"v":1,"seq":n,"len":…,"crc":"…","prev":"…","rec":{…}}\n``: ``len`` counts the bytes of ``rec``,
``crc`` is the first 16 hex digits of the sha256 of the raw line without these digits, ``prev`` the
chain hash of the line before: the first 32 of the sha256 of that whole line, newline included.
Bytes are judged as they lie there; nothing is parsed and written again before it is compared.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ragstream_core.errors import IntegrityError

VERSION = 1
NO_CHAIN = "0" * 32
"""What the first line of all follows."""
_MARK = b'{"v":'
_HEAD = re.compile(
    rb'\{"v":([1-9][0-9]{0,3}),"seq":([1-9][0-9]{0,17}),"len":([1-9][0-9]{0,9}),'
    rb'"crc":"([0-9a-f]{16})","prev":"([0-9a-f]{32})","rec":'
)
_RESYNC_TRIES = 16
Wanted = Callable[[bytes], bool]


class Parsed(NamedTuple):
    """A verified line.

    Attributes:
        seq: Its number.
        prev: Chain hash it names as the one before.
        chain: Its own chain hash.
        rec: The record's bytes, JSON.
    """

    seq: int
    prev: str
    chain: str
    rec: bytes


class Piece(NamedTuple):
    """A run of bytes of a segment: one verified line, or damage.

    Attributes:
        offset: First byte.
        size: Bytes, ≥ 1.
        parsed: The line, or None where nothing verifies.
        raw: The bytes.
    """

    offset: int
    size: int
    parsed: Parsed | None
    raw: bytes


def frame_line(seq: int, prev: str, rec_bytes: bytes) -> bytes:
    """Return the line that keeps a record.

    Args:
        seq: Its number, ≥ 1.
        prev: Chain hash of the line before, 32 hex digits.
        rec_bytes: The record as JSON without a newline.
    """
    head = b'{"v":%d,"seq":%d,"len":%d,"crc":"' % (VERSION, seq, len(rec_bytes))
    tail = b'","prev":"%s","rec":%s}\n' % (prev.encode("ascii"), rec_bytes)
    return head + hashlib.sha256(head + tail).hexdigest()[:16].encode("ascii") + tail


def parse_line(line: bytes) -> Parsed | None:
    """Return a line if it is exactly what was written, else None.

    Args:
        line: Raw bytes, newline included.

    Raises:
        IntegrityError: It verifies and a newer version wrote it: never repair that.
    """
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
    return Parsed(int(head[2]), head[5].decode("ascii"), chain_of(line), line[head.end() : -2])


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


def split_lines(data: bytes, offset: int, wanted: Wanted | None = None) -> Iterator[Piece]:
    """Yield the pieces of whole lines, last first; a last one may lack its newline.

    Args:
        data: Bytes that begin with a line.
        offset: Where they lie in the file.
        wanted: Asked with every raw line; the others are passed over unverified.
    """
    end = len(data)
    while end:
        begin = data.rfind(b"\n", 0, end - 1) + 1
        raw = data[begin:end]
        if wanted is None or wanted(raw):
            yield from reversed(pieces(raw, offset + begin))
        end = begin


def told_number(raw: bytes) -> int:
    """Return the number in the head of a damaged line that has its full length, else 0."""
    head = _HEAD.match(raw)
    whole = head is not None and len(raw) == head.end() + int(head[3]) + 2
    return int(head[2]) if head is not None and whole else 0


def may_have_been_kept(damage: Iterable[bytes]) -> int:
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
