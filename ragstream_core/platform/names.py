"""Many names as few bytes: sequences of text that decode a name when it is asked for.

A million chunk ids as strings take 0.2 s to make and 200 MB; a question looks at a hundred of them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    import numpy.typing as npt

    I64 = npt.NDArray[Any]

# Ends each name; no path can hold it.
END = b"\0"
_BLOCK = 1 << 16


class _Texts(Sequence[str]):
    """What all lazy sequences of text do: slices are tuples, equal is what has equal members."""

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str) or not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[str, ...]: ...
    def __getitem__(self, at: int | slice) -> str | tuple[str, ...]:
        """Return a name, or a tuple of them."""
        if isinstance(at, slice):
            return tuple(map(self._at, range(*at.indices(len(self)))))
        row = at + len(self) if at < 0 else at
        if not 0 <= row < len(self):
            raise IndexError(at)
        return self._at(row)

    @abstractmethod
    def _at(self, row: int) -> str: ...


class Names(_Texts):
    """Names, one after the other."""

    def __init__(self, packed: bytes | memoryview, ends: I64) -> None:
        self.packed, self.ends = packed, ends

    @classmethod
    def of(cls, names: Iterable[str]) -> Names:
        """Pack names."""
        import numpy as np

        given = list(names)
        packed = "".join(f"{name}\0" for name in given).encode()
        ends = np.flatnonzero(np.frombuffer(packed, np.uint8) == 0)
        if len(ends) != len(given):
            raise ValueError("a name holds NUL")
        return cls(packed, ends)

    @classmethod
    def joined(cls, parts: Sequence[Names]) -> Names:
        """Return the names of several sequences as one."""
        import numpy as np

        starts = np.cumsum([0, *(len(part.packed) for part in parts)])
        ends = [part.ends + start for part, start in zip(parts, starts.tolist(), strict=False)]
        none = np.zeros(0, dtype=np.int64)
        return cls(b"".join(part.packed for part in parts), np.concatenate([none, *ends]))

    def changed(self, without: Sequence[int], added: Sequence[tuple[int, str]]) -> Names:
        """Return the names without some, and with others."""
        parts: list[Names] = []
        at = 0
        fresh: list[str] = []
        steps = [*((row, 1, "") for row in without), *((row, 0, name) for row, name in added)]
        for row, goes, name in sorted(steps, key=lambda step: step[:2]):
            if row > at:
                parts += [Names.of(fresh), self._part(at, row)]
                at, fresh = row, []
            if goes:
                at = row + 1
            else:
                fresh.append(name)
        return Names.joined([*parts, Names.of(fresh), self._part(at, len(self))])

    def _part(self, begin: int, end: int) -> Names:
        first = self._start(begin)
        return Names(self.packed[first : self._start(end)], self.ends[begin:end] - first)

    def _start(self, row: int) -> int:
        return int(self.ends[row - 1]) + 1 if row else 0

    def __len__(self) -> int:
        return len(self.ends)

    def __iter__(self) -> Iterator[str]:
        for at in range(0, len(self), _BLOCK):
            part = self._part(at, min(at + _BLOCK, len(self)))
            yield from str(part.packed, "utf-8").split("\0")[:-1]

    def _at(self, row: int) -> str:
        return str(self.packed[self._start(row) : int(self.ends[row])], "utf-8")


class CodedNames(_Texts):
    """Names of which few are distinct."""

    def __init__(self, distinct: Sequence[str], codes: npt.NDArray[Any]) -> None:
        self.distinct, self.codes = distinct, codes

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[str]:
        blocks = range(0, len(self), _BLOCK)
        codes = (self.codes[at : at + _BLOCK].tolist() for at in blocks)
        return map(self.distinct.__getitem__, chain.from_iterable(codes))

    def _at(self, row: int) -> str:
        return self.distinct[int(self.codes[row])]
