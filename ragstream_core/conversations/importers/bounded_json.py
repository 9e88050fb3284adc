"""JSON of strangers, read in pieces: what it may cost is bounded before it is taken apart.

A list is cut into its members by its brackets alone, one at a time; only a member that is small
and flat enough is parsed. A larger one is passed over, and those behind it are read.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

# Bytes of one member of a list, or of one line of a log.
MOST_BYTES = 32 << 20
# Brackets in brackets.
MOST_DEPTH = 200
# Values in one member: each takes some hundred bytes of memory, however few it has in the file.
MOST_VALUES = 2_000_000
MANY = f"holds more than {MOST_VALUES:,} values"

# Bytes of members of one file that are passed over; what follows is not read.
MOST_PASSED_OVER = 256 << 20
_CHUNK = 1 << 16

# Up to the next bracket, or to a string that does not end in this piece.
_PLAIN = re.compile(rb'(?:[^"\[\]{}]+|"[^"\\]*(?:\\.[^"\\]*)*")*', re.DOTALL)
_IN_STRING = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
_OPENING, _CLOSING = re.compile(rb"[\[{]+"), re.compile(rb"[\]}]+")
_STRING = re.compile(rb'"[^"]*"')
_BLANK = b" \t\r\n,"
_QUOTE, _SHOWN = ord('"'), 100
_AGAIN = "Download or copy it again; what stands before is read"


class Stream(Protocol):
    """What bytes are read from."""

    def read(self, size: int, /) -> bytes:
        """Return up to so many bytes; none at the end."""


class TooMuch(str):
    """What is too much about a piece of JSON, as "is larger than …"."""


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a list, or what is wrong with it."""

    number: int  # counted from 1; 0: of the whole file
    value: Any = None  # what it says; None if something is wrong
    problem: str = ""  # what is wrong with it; "" if nothing
    size: int = 0  # its bytes


def too_much(data: bytes) -> str:
    """Return which limit JSON exceeds; "" if none."""
    if len(data) > MOST_BYTES:
        return f"is larger than {MOST_BYTES >> 20} MiB"
    if _values(data) > MOST_VALUES:
        plain = data.replace(b"\\\\", b"").replace(b'\\"', b"")
        if _values(_STRING.sub(b"", plain)) > MOST_VALUES:
            return MANY
    return ""


def _values(data: bytes) -> int:
    return data.count(b",") + data.count(b"[") + data.count(b"{")


def members(stream: Stream) -> Iterator[Member]:
    """Yield the members of a list, or the one object that a file is, in their order."""
    return _Cutter().members(stream)


class _Cutter:
    """Cuts a file at its brackets; keeps no more of it than one member."""

    def __init__(self) -> None:
        self._base, self._depth = -1, 0  # brackets around a member: 1 in a list; and by now
        self._at, self._line = 0, 1  # bytes read, and the line that these end in
        self._between = b""  # what stands between two members: of a list, commas
        self._number, self._passed = 0, 0
        self._begin()

    def _begin(self) -> None:
        self._data = bytearray()
        self._size, self._opened, self._refused = 0, 0, ""
        self._where = f"it begins on line {self._line:,}, at byte {self._at:,}"

    def members(self, stream: Stream) -> Iterator[Member]:
        """Yield each member, and at last what is wrong with the file."""
        for piece, change in _pieces(stream):
            if self._base < 0 and piece.strip(_BLANK) and (wrong := self._first(piece)):
                yield Member(0, problem=wrong)
                return
            yield from self._take(piece, change)
            self._at, self._line = self._at + len(piece), self._line + piece.count(b"\n")
            if self._depth < 0:
                return  # the list is closed
            if self._passed > MOST_PASSED_OVER:
                yield Member(0, problem=f"holds more than {MOST_PASSED_OVER >> 20} MiB that are "
                             "too much to read: what follows is not read")  # fmt: skip
                return
        yield from self._end()

    def _first(self, piece: bytes) -> str:
        """Find out what the file is; return what is wrong with it."""
        text = piece.lstrip(_BLANK)
        if text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "is UTF-16: save it as UTF-8"
        if text[:1] not in (b"[", b"{"):
            begins = text[:20].decode("utf-8", "replace")
            if text.startswith(b"PK"):
                return f"is a ZIP that is not whole. {_AGAIN}"
            what = (
                f"it begins with {begins!r}"
                if begins.isprintable() and "\ufffd" not in begins
                else "it is no text"
            )
            return f"is no list of conversations: {what}"
        self._base = int(text[:1] == b"[")
        return ""

    def _take(self, piece: bytes, change: int) -> Iterator[Member]:
        """Take brackets of one kind, or what stands between brackets."""
        if not change:
            if self._depth > self._base:
                self._add(piece)
            else:
                self._between = (self._between + piece.strip(_BLANK))[:_SHOWN]
        elif change > 0:
            if self._depth < self._base:  # the bracket of the list itself
                self._depth, piece = self._depth + 1, piece[1:]
            if piece and self._depth == self._base:
                yield from self._scalars()
                self._begin()
            self._depth += len(piece)
            self._opened += len(piece)
            self._add(piece)
        else:
            inner = self._depth - self._base
            self._add(piece[:inner])
            self._depth -= len(piece)
            if inner and self._depth <= self._base:
                yield self._whole()
            if self._depth < self._base:
                yield from self._scalars()
                self._depth = -1

    def _add(self, piece: bytes) -> None:
        self._size += len(piece)
        if not self._refused:
            self._data += piece
            if self._size > MOST_BYTES:
                self._refused = f"is larger than {MOST_BYTES >> 20} MiB"
            elif self._depth - self._base > MOST_DEPTH:
                self._refused = f"is nested deeper than {MOST_DEPTH} brackets"
            elif self._opened > MOST_VALUES:
                self._refused = MANY
        if self._refused:
            self._data.clear()
            self._passed += len(piece)

    def _whole(self) -> Member:
        """Return the member that has just ended."""
        self._number += 1
        data = bytes(self._data)
        self._data.clear()
        if wrong := self._refused or too_much(data):
            self._passed += 0 if self._refused else len(data)
            return Member(self._number, problem=f"{wrong}: it is left out ({self._where})")
        try:
            return Member(self._number, json.loads(data), size=len(data))
        except json.JSONDecodeError as error:
            at = f"byte {len(error.doc[: error.pos].encode()):,} of it"
            problem = f"is not JSON at {at} ({self._where}): it is left out"
        except UnicodeDecodeError as error:
            problem = f"is not UTF-8 at byte {error.start:,} of it ({self._where}): it is left out"
        except RecursionError:
            problem = f"is nested too deep: it is left out ({self._where})"
        return Member(self._number, problem=problem)

    def _scalars(self) -> Iterator[Member]:
        """Yield what stood in the list outside of brackets."""
        if self._between:
            self._number += 1
            shown = self._between[:20].decode("utf-8", "replace")
            yield Member(self._number, problem=f"is no conversation, but {shown!r}")
        self._between = b""

    def _end(self) -> Iterator[Member]:
        if self._base < 0:
            yield Member(0, problem="is empty")
        elif self._depth > self._base:
            problem = f"the file ends inside of it, at byte {self._at:,}. {_AGAIN}"
            yield Member(self._number + 1, problem=problem)
        elif self._base:
            yield from self._scalars()
            yield Member(0, problem=f"ends before its list does, at byte {self._at:,}. {_AGAIN}")


def _pieces(stream: Stream) -> Iterator[tuple[bytes, int]]:
    """Yield brackets of one kind with the change of depth, and with 0 what stands between them."""
    in_string = escaped = False
    while chunk := stream.read(_CHUNK):
        pos = 0
        while pos < len(chunk):
            begin = pos
            if in_string:
                pos = _end_of(_IN_STRING, chunk, pos + escaped)
                escaped = chunk[pos : pos + 1] == b"\\"  # what it escapes is in the next chunk
                in_string = chunk[pos : pos + 1] != b'"'
                pos += pos < len(chunk)
            elif (pos := _end_of(_PLAIN, chunk, pos)) < len(chunk) and chunk[pos] == _QUOTE:
                in_string, escaped, pos = True, False, pos + 1
            elif pos == begin:
                run = _end_of(_OPENING, chunk, pos), _end_of(_CLOSING, chunk, pos)
                pos = max(run)
                yield chunk[begin:pos], run[0] - run[1]
                continue
            yield chunk[begin:pos], 0


def _end_of(pattern: re.Pattern[bytes], chunk: bytes, pos: int) -> int:
    match = pattern.match(chunk, pos)
    return match.end() if match else pos
