"""What became of the rows of the term arrays since their file was written: a small file beside it.

The rows that ended are numbers; the rows that came have term arrays, and their place among the
others. So a change of a few documents writes their rows, not all of them.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ragstream_core.index import lexical_file
from ragstream_core.platform import array_file
from ragstream_core.platform.files import replace_bytes
from ragstream_core.text.bm25 import LexicalArrays, build_lexical
from ragstream_core.text.bm25_merge import MergedLists, row_numbers

if TYPE_CHECKING:
    from ragstream_core.index.sealed_rows import Delta
    from ragstream_core.text.bm25 import I32

_ARRAYS = {**lexical_file.ARRAYS, "ended": "<i4", "gaps": "<i4", "names": "|u1"}
_END = "\0"  # no path can hold it
_LIVE_BETWEEN = (
    "SELECT count(*) FROM chunks WHERE chunk_id >= ? AND chunk_id < ? AND to_gen IS NULL"
)


@dataclass(frozen=True)
class Changes:
    """What became of the rows of a file of term arrays.

    Attributes:
        ended: Rows of the file that ended, ascending.
        names: Chunk ids of the rows that came, ascending.
        gaps: Of each of those, how many rows of the file are before it.
        arrays: Their term arrays.
    """

    ended: I32
    names: tuple[str, ...]
    gaps: I32
    arrays: LexicalArrays

    def __len__(self) -> int:
        """How many rows ended or came."""
        return len(self.ended) + len(self.names)

    def merged(self, old: LexicalArrays) -> MergedLists:
        """Return the arrays of the file with its changes."""
        return MergedLists(old, self.arrays, *row_numbers(len(old.lengths), self.ended, self.gaps))


def none() -> Changes:
    """Return no change."""
    nothing = np.zeros(0, dtype="<i4")
    return Changes(nothing, (), nothing, build_lexical([]))


def read(path: Path, stamp: Mapping[str, object]) -> Changes:
    """Read changes, checked."""
    _, found = array_file.decode(path.read_bytes(), _ARRAYS, stamp)
    names = str(found.pop("names").data, "utf-8").split(_END)[:-1]
    ended, gaps = found.pop("ended"), found.pop("gaps")
    return Changes(ended, tuple(names), gaps, LexicalArrays(**found))


def write(path: Path, stamp: Mapping[str, object], changes: Changes) -> None:
    """Put changes under a path: a reader sees the old ones or these."""
    names = "".join(name + _END for name in changes.names).encode()
    held = {name: getattr(changes.arrays, name) for name in lexical_file.ARRAYS}
    held |= {"ended": changes.ended, "gaps": changes.gaps}
    replace_bytes(path, array_file.encode(stamp, {**held, "names": np.frombuffer(names, np.uint8)}))


def extended(
    db: sqlite3.Connection,
    before: Changes,
    delta: Delta,
    blobs: Sequence[Sequence[bytes]],
    *,
    file_rows: int,
) -> Changes:
    """Return changes, and then a delta."""
    ended = set(delta.ended)
    kept = np.array([name not in ended for name in before.names], dtype=bool)
    known = set(before.names)
    gone = [name for name in delta.ended if name not in known]
    names = [name for name, stays in zip(before.names, kept, strict=True) if stays]
    places = _Places(db, before, delta, gone, sorted([*names, *delta.came]), file_rows)
    rows = np.array([places.row(name) for name in gone], dtype="<i4")
    gaps = np.array([places.gap(name) for name in delta.came], dtype="<i4")
    every = [*names, *delta.came]
    order = np.array(sorted(range(len(every)), key=every.__getitem__), dtype=np.int64)
    number = np.empty(len(every), dtype="<i4")
    number[order] = np.arange(len(every), dtype="<i4")
    held = np.full(len(before.names), -1, dtype="<i4")
    held[kept] = number[: len(names)]
    lists = MergedLists(before.arrays, build_lexical(blobs), held, number[len(names) :])
    return Changes(
        np.unique(np.concatenate([before.ended, rows])).astype("<i4"),
        tuple(every[i] for i in order),
        np.concatenate([before.gaps[kept], gaps])[order].astype("<i4"),
        lists.whole(),
    )


class _Places:
    """Where chunks stand, or stood, among the rows of the file that had not ended before."""

    def __init__(
        self,
        db: sqlite3.Connection,
        before: Changes,
        delta: Delta,
        gone: Sequence[str],
        others: Sequence[str],
        file_rows: int,
    ) -> None:
        self._gone, self._others, self._file_rows = gone, others, file_rows
        self._live = dict(_live_before(db, sorted({*gone, *delta.came})))
        self._ended = before.ended

    @cached_property
    def stood(self) -> I32:
        """Those rows, ascending."""
        found: I32 = np.delete(np.arange(self._file_rows, dtype="<i4"), self._ended)
        return found

    def before(self, name: str) -> int:
        """Return how many of those rows are before a chunk."""
        mine = self._live[name] - bisect_left(self._others, name)
        return mine + bisect_left(self._gone, name)

    def row(self, name: str) -> int:
        """Return the row of the file that a chunk was."""
        at = self.before(name)
        if not 0 <= at < len(self.stood):
            raise ValueError(f"no row was {name}")
        return int(self.stood[at])

    def gap(self, name: str) -> int:
        """Return how many rows of the file are before a chunk, or some that ended less."""
        at = self.before(name)
        return int(self.stood[at]) if at < len(self.stood) else self._file_rows


def _live_before(db: sqlite3.Connection, names: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield each chunk id with the number of live chunks before it; one pass over the index."""
    last, total = "", 0
    for name in names:
        total += db.execute(_LIVE_BETWEEN, (last, name)).fetchone()[0]
        yield name, total
        last = name
