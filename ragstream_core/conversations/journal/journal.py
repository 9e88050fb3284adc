"""The journal of all conversations: what is acknowledged is on the disk (R-214…221).

Append = take the lock, check the tail, one write, one sync, and only then return. Order is ``seq``,
never a clock. Reading needs no lock and skips what does not verify; `Journal.check` names it.
"""

from __future__ import annotations

import contextlib
import json
import operator
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ragstream_core.conversations.journal.purge import purge_segments
from ragstream_core.conversations.journal.records import Entry, Position, Record, record_json
from ragstream_core.conversations.journal.segments import (
    CURRENT,
    LineFilter,
    backwards,
    chain_of,
    entry_of,
    forwards,
    frame_line,
    offset_behind,
    read_forward,
)
from ragstream_core.conversations.journal.tail import Tail, close_segment, file_state, sound_tail
from ragstream_core.conversations.journal.verify import JournalReport, check_journal
from ragstream_core.errors import FreeSpace, TryAgain, UsageError
from ragstream_core.platform.disk import disk_failure
from ragstream_core.platform.files import pwrite_durable, truncate_durable
from ragstream_core.platform.locks import LOCK_NAME, FolderLock

SEGMENT_BYTES = 64 << 20
MAX_RECORD_BYTES = 8 << 20
_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_HINT = (FreeSpace(), " and ", TryAgain(), "; what was acknowledged is kept")


class Journal:
    """The append-only journal below one folder, which is made by the first append.

    Attributes:
        warnings: What the last append found and repaired, for people.
    """

    def __init__(
        self, folder: Path, *, segment_bytes: int = SEGMENT_BYTES, wait_s: float = 5.0
    ) -> None:
        self.folder = folder
        self.warnings: list[str] = []
        self._path = folder / CURRENT
        self._segment_bytes = segment_bytes
        self._wait_s = wait_s
        self._lock = FolderLock(folder, "the conversation journal")
        self._known: Tail | None = None

    def append(self, records: Sequence[Record]) -> list[Entry]:
        """Make records durable, in order; when this returns they are acknowledged.

        A kill before that may leave a first part of several records; one record is whole or not
        there. The first append of a process verifies the current segment.
        """
        texts = [_encoded(record) for record in records]
        if not texts:
            return []
        with self.locked():
            return self._append(records, texts)

    def append_made(self, make: Callable[[], Sequence[Record]]) -> list[Entry]:
        """As `append`, of records that depend on what the journal holds: no writer gets between."""
        with self.locked():
            records = make()
            return self._append(records, [_encoded(record) for record in records])

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep all other writers out."""
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(self._lock.held(wait_s=self._wait_s))
            except OSError as error:
                raise disk_failure(self.folder / LOCK_NAME, error, hint=_HINT) from error
            yield

    def purge(self, ranges: Sequence[tuple[int, int]]) -> list[str]:
        """Rewrite the segments that hold any of these numbers without them; return their names.

        The one rewrite, of what a durable `Cleared` record names already. Each segment is the old
        file or the new one, so a kill is harmless: purge again. Bytes that do not verify and may
        belong to these numbers go too; the other lines keep their bytes, numbers and hashes.
        """
        with self.locked():
            self._known = None
            try:
                return purge_segments(self.folder, ranges)
            except OSError as error:
                raise disk_failure(self.folder, error, hint=_HINT) from error

    def newest(self) -> Position:
        """Return the position behind the last verified record; reads the tail only."""
        for name, piece in backwards(self.folder):
            if piece.parsed is not None:
                end = piece.offset + piece.size
                return Position(piece.parsed.seq, piece.parsed.chain, name, end)
        return Position()

    def entries(
        self, start: int = 1, end: int | None = None, *, hint: Position | None = None
    ) -> Iterator[Entry]:
        """Return the verified records from one number to before another; damaged ones are skipped.

        ``hint`` is a position before the first from which to read on, if it is still true.
        """
        return map(operator.itemgetter(0), self.lines(start, end, hint=hint))

    def lines(
        self, start: int = 1, end: int | None = None, *, hint: Position | None = None
    ) -> Iterator[tuple[Entry, bytes]]:
        """Yield (record, raw line) as `entries` does."""
        last = start - 1
        near = hint if hint is not None and hint.seq < start else None
        for fd, name, limit in forwards(self.folder, start):
            for piece in read_forward(fd, offset_behind(fd, near)):
                parsed = piece.parsed
                if parsed is None or not last < parsed.seq < (limit or parsed.seq + 1):
                    continue
                if end is not None and parsed.seq >= end:
                    return
                last = parsed.seq
                entry = entry_of(piece, parsed, name)
                if entry is not None:
                    yield entry, piece.raw

    def backwards(
        self, *, wanted: LineFilter | None = None, max_bytes: int | None = None
    ) -> Iterator[Entry]:
        """Yield verified records, newest first, reading blocks from the end.

        What ``wanted`` passes over, asked with raw bytes of many lines or of one, is not verified:
        that is what makes looking for rare records cheap.
        """
        for name, piece in backwards(self.folder, wanted=wanted, max_bytes=max_bytes):
            entry = entry_of(piece, piece.parsed, name) if piece.parsed is not None else None
            if entry is not None:
                yield entry

    def check(self) -> JournalReport:
        """Verify every line of every segment, the chain, and that no number is missing."""
        return check_journal(self.folder)

    def _append(self, records: Sequence[Record], texts: Sequence[bytes]) -> list[Entry]:
        if not texts:
            return []
        self.warnings = []
        try:
            tail = sound_tail(self.folder, self._known, self.warnings)
            if tail.size and tail.size + sum(map(len, texts)) > self._segment_bytes:
                close_segment(self.folder, tail.first)
                tail = Tail(tail.seq, tail.chain)
        except OSError as error:
            raise disk_failure(self._path, error, hint=_HINT) from error
        return self._write(tail, records, texts)

    def _write(self, tail: Tail, records: Sequence[Record], texts: Sequence[bytes]) -> list[Entry]:
        entries: list[Entry] = []
        lines: list[bytes] = []
        seq, chain, offset = tail.seq, tail.chain, tail.size
        for record, text in zip(records, texts, strict=True):
            seq += 1
            line = frame_line(seq, chain, text)
            chain = chain_of(line)
            entries.append(Entry(seq, record, chain, CURRENT, offset, len(line)))
            lines.append(line)
            offset += len(line)
        data = b"".join(lines)
        self._known = None
        try:
            pwrite_durable(self._path, data, offset=tail.size)
        except BaseException as error:
            with contextlib.suppress(OSError):
                truncate_durable(self._path, tail.size)
            if isinstance(error, OSError):
                raise disk_failure(self._path, error, needed=len(data), hint=_HINT) from error
            raise
        first = tail.first or entries[0].seq
        self._known = Tail(seq, chain, first, offset, file_state(self._path))
        return entries


def _encoded(record: Record) -> bytes:
    try:
        text = _JSON.encode(record_json(record)).encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:  # UnicodeEncodeError is a ValueError
        raise UsageError(
            f"a record of the conversation cannot be kept: {error}",
            hint="texts must be valid Unicode, numbers finite",
        ) from None
    if len(text) > MAX_RECORD_BYTES:
        raise UsageError(
            f"a record of {len(text)} bytes; the journal keeps up to {MAX_RECORD_BYTES}",
            hint="put long texts into a file and ingest it",
        )
    return text
