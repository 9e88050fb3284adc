"""Columns of the selected history: values per row, decoded only where somebody looks.

A snapshot holds up to 100,000 rows and a prompt shows ten of them, so texts stay bytes in the
mapped file and labels stay numbers: a rule is asked once per distinct value, never once per row.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, overload

import numpy as np
import numpy.typing as npt

from ragstream_core.history.fold import Folded

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
U8 = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
V = TypeVar("V")


class Strings(Sequence[str]):
    """Texts as one run of UTF-8 bytes.

    Args:
        offsets: Start of each text in ``data``, and the end of the last; shape (rows + 1,).
        data: The bytes.
    """

    def __init__(self, offsets: I64, data: U8) -> None:
        self.offsets = offsets
        self.data = data

    @classmethod
    def of(cls, texts: Iterable[str]) -> Strings:
        """Encode texts."""
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
        np.cumsum([len(text) for text in encoded], out=offsets[1:])
        return cls(offsets, np.frombuffer(b"".join(encoded), dtype=np.uint8))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> list[str]: ...
    def __getitem__(self, row: int | slice) -> str | list[str]:
        if isinstance(row, slice):
            return [self[i] for i in range(*row.indices(len(self)))]
        at = range(len(self))[row]
        return _text(self.data[int(self.offsets[at]) : int(self.offsets[at + 1])].tobytes())

    def __iter__(self) -> Iterator[str]:
        whole, ends = self.data.tobytes(), self.offsets.tolist()
        return (_text(whole[start:end]) for start, end in itertools.pairwise(ends))


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:  # damaged: the digest of the file says so, not a traceback
        return data.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Coded(Generic[V]):
    """A column with few distinct values.

    Attributes:
        codes: Number of each row's value, shape (rows,).
        values: The distinct values.
    """

    codes: I32
    values: Sequence[V]

    @classmethod
    def of(cls, values: Iterable[V]) -> Coded[V]:
        """Number the values in the order they come."""
        numbers: dict[V, int] = {}
        codes = [numbers.setdefault(value, len(numbers)) for value in values]
        return cls(np.array(codes, dtype=np.int32), tuple(numbers))

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, row: int) -> V:
        return self.values[int(self.codes[row])]

    def where(self, rule: Callable[[V], bool]) -> Mask:
        """Return which rows have a value that the rule takes; shape (rows,)."""
        return np.array([rule(v) for v in self.values], dtype=bool)[self.codes]

    def number(self, measure: Callable[[V], float]) -> F64:
        """Return a number for each row's value; shape (rows,)."""
        return np.array([measure(v) for v in self.values], dtype=np.float64)[self.codes]


@dataclass(frozen=True, slots=True)
class HistoryColumns:
    """What selection looks at, a row each chunk.

    Attributes:
        seq: Place of the turn in the journal; of a summary, of its first turn.
        seq_last: The same, but for a summary, of its last turn.
        timestamp_ns: Its time, ns since the epoch; may run backwards.
        importance: Its flag in [0, 1].
        sessions: Its conversation.
        tags: Its labels, sorted.
        projects: Project labels active in it, sorted.
        sources: ``chat``, ``file`` or ``external``; ``summary`` for a rolled-up span.
        turn_ids: Id of the turn.
        start: Character offset in the text of its unit.
        end: Character offset, exclusive.
    """

    seq: I64
    seq_last: I64
    timestamp_ns: I64
    importance: F64
    sessions: Coded[str]
    tags: Coded[tuple[str, ...]]
    projects: Coded[tuple[str, ...]]
    sources: Coded[str]
    turn_ids: Sequence[str]
    start: I32
    end: I32

    def __len__(self) -> int:
        return len(self.seq)

    def edited(self, folded: Folded) -> HistoryColumns:
        """Return the columns with the tags of now.

        Args:
            folded: What the records behind the snapshot say.
        """
        edits = folded.edits
        rows = [row for row, turn in enumerate(self.turn_ids) if turn in edits] if edits else []
        if not rows:
            return self
        numbers = {value: code for code, value in enumerate(self.tags.values)}
        codes = self.tags.codes.copy()
        for row in rows:
            now = tuple(sorted(folded.tags(self.turn_ids[row], self.tags[row])))
            codes[row] = numbers.setdefault(now, len(numbers))
        return dataclasses.replace(self, tags=Coded(codes, tuple(numbers)))
