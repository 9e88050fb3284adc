"""The rows of a published history: as the publisher is given them, and as columns that are read.

A snapshot holds up to 100,000 rows and a prompt shows ten of them, so texts stay bytes in the
mapped file and labels stay numbers: a rule is asked once per distinct value, never once per row.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar, overload

import numpy as np
import numpy.typing as npt

from ragstream_core.conversations.edits import Folded
from ragstream_core.conversations.journal.records import GOLD, HIDDEN, SILVER
from ragstream_core.text.bm25 import LexicalArrays, build_lexical

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
U8 = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
V = TypeVar("V")


class Strings(Sequence[str]):
    """Texts as one run of UTF-8 bytes."""

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
    """A column with few distinct values."""

    codes: I32  # number of each row's value, shape (rows,)
    values: Sequence[V]  # the distinct values

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
    """What selection looks at, a row each chunk."""

    seq: I64  # place of the turn in the journal; of a summary, of its first turn
    seq_last: I64  # the same, but for a summary, of its last turn
    timestamp_ns: I64  # its time, ns since the epoch; may run backwards
    importance: F64  # its flag in [0, 1]
    sessions: Coded[str]  # its conversation
    tags: Coded[tuple[str, ...]]  # its labels, sorted
    projects: Coded[tuple[str, ...]]  # project labels active in it, sorted
    sources: Coded[str]  # ``chat``, ``file`` or ``external``; ``summary`` for a rolled-up span
    turn_ids: Sequence[str]  # id of the turn
    start: I32  # character offset in the text of its unit
    end: I32  # character offset, exclusive

    def __len__(self) -> int:
        return len(self.seq)

    def edited(self, folded: Folded) -> HistoryColumns:
        """Return the columns with current tags."""
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


# How often the words of a turn count, and those of the turns before and after it.
OWN_WORDS, NEIGHBOURS_WORDS = 3, 2
_TAG_VALUE = {GOLD: 1.0, SILVER: 0.5}


class SelectedRow(NamedTuple):
    """One live chunk of one turn."""

    chunk_id: str  # ``history::<session>::<seq>-<seq>::<chunk_idx>``
    seq: int  # its turn
    chunk_idx: int  # its place in the turn
    text: str  # its text, with the line of date and speaker
    text_hash: str  # sha256 of the text
    terms: bytes  # its own terms as `terms.term_blob` packs them; the neighbours' are added here
    session: str  # the conversation
    turn_id: str  # id of the turn's record
    timestamp_ns: int  # time of the turn, ns since the epoch
    tags: tuple[str, ...] = ()  # labels as of the mark
    projects: tuple[str, ...] = ()  # project labels active in the turn
    active_dbs: tuple[str, ...] = ()  # names of the indexes used
    source: str = "chat"  # ``chat``, ``file`` or ``external``
    importance: float = 0.0  # its flag in [0, 1]
    start: int = 0  # character offset in the turn's unit text
    end: int = 0  # character offset, exclusive
    versions: str = "[]"  # canonical JSON of the files that the turn speaks of
    prompt_key: str = ""  # the prompt that it answers, or ""
    sha256: str = ""  # digest of the turn's texts, 64 hex digits
    seq_last: int = 0  # the last turn of a summary of several; 0 for a chunk of one turn
    is_non_answer: bool = False  # whether it shows that its turn is no answer


def value_of(tags: Collection[str], importance: float) -> float:
    """Return how much a turn is worth keeping: GOLD 1, SILVER 0.5, or its flag; hidden −1."""
    if not HIDDEN.isdisjoint(tags):
        return -1.0
    return max(importance, *(_TAG_VALUE.get(tag, 0.0) for tag in (*tags, "")))


def capped(rows: Sequence[SelectedRow], cap: int) -> list[int]:
    """Return the positions of the rows that stay, ascending (R-239).

    The least important leave first, among equals the oldest; the catalog keeps them all.
    """
    order = sorted(
        range(len(rows)),
        key=lambda i: (
            -value_of(rows[i].tags, rows[i].importance),
            -rows[i].seq,
            rows[i].chunk_idx,
        ),
    )
    return sorted(order[:cap])


def lexical_of(rows: Sequence[SelectedRow], kept: Sequence[int]) -> LexicalArrays:
    """Build the term arrays of the rows that stay.

    A row is found by its own words and by those of its neighbours in the same session, also of
    neighbours that left: an answer is found by its question (`quality.md`). Its own words count
    half as much again, so that of equals the turn that said it comes first.
    """
    before, after = {}, {}
    order = sorted(
        range(len(rows)), key=lambda i: (rows[i].session, rows[i].seq, rows[i].chunk_idx)
    )
    for left, right in itertools.pairwise(order):
        if rows[left].session == rows[right].session:
            after[left], before[right] = right, left
    own = [_times(row.terms, OWN_WORDS) for row in rows]
    near = [_times(row.terms, NEIGHBOURS_WORDS) for row in rows]
    return build_lexical(
        [own[i], *(near[at] for at in (before.get(i), after.get(i)) if at is not None)]
        for i in kept
    )


def _times(blob: bytes, factor: int) -> bytes:
    """Return packed terms with every count multiplied."""
    pairs = np.frombuffer(blob, dtype="<i8").reshape(-1, 2).copy()
    pairs[:, 1] *= factor
    return bytes(pairs.data)
