"""A step of a prompt's trail: an op and the digest of what it made, worked out when it is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import overload

from ragstream_core.records.json_form import Json


class TrailStep(Sequence[str]):
    """Reads as the pair (op, digest), and equals every pair of the same two texts.

    Most prompts are pasted and never recorded or replayed; their digests are never worked out.
    """

    __slots__ = ("_digest", "op")

    def __init__(self, op: str, digest: str | Callable[[], str]) -> None:
        """Note a step."""
        self.op = op
        self._digest = digest

    @property
    def digest(self) -> str:
        """The digest of the op's result."""
        if not isinstance(self._digest, str):
            self._digest = self._digest()  # two threads would get the same
        return self._digest

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[str, ...]: ...
    def __getitem__(self, at: int | slice) -> str | tuple[str, ...]:
        """Return the op (0), the digest (1), or some of both."""
        return self.op if at == 0 else (self.op, self.digest)[at]

    def __len__(self) -> int:
        """Return 2."""
        return 2

    def __eq__(self, other: object) -> bool:
        """Whether the other one is a step or a pair of the same op and digest."""
        return isinstance(other, (TrailStep, tuple)) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        """Return the hash of the pair."""
        return hash(tuple(self))

    def __repr__(self) -> str:
        """Show the pair."""
        return repr(tuple(self))

    def __reduce__(self) -> tuple[type[TrailStep], tuple[str, str]]:
        """Copy and pickle the pair."""
        return TrailStep, (self.op, self.digest)

    def to_json(self) -> Json:
        """Return the pair as a list."""
        return [self.op, self.digest]

    @classmethod
    def from_json(cls, data: Json) -> TrailStep:
        """Return the step of a pair."""
        if not isinstance(data, (list, tuple)) or list(map(type, data)) != [str, str]:
            raise TypeError("no pair of op and digest")
        return cls(*data)
