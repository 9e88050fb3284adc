"""`HistoryStats`: what one run of the history worker did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class HistoryStats:
    """The numbers of one run.

    Attributes:
        generation: The newest generation of the catalog afterwards; 0 where there is none.
        digest: Its digest, or "".
        seq: Every turn of the journal up to here is embedded.
        committed: Whether this run made a generation.
        turns: Turns that were read and cut.
        retagged: Earlier turns whose tags changed.
        passed_over: Turns that are not embedded: the answer broke off, or they were cleared.
        embedded: Texts given to the model.
        reused: Chunks whose text had a sound vector already, or comes twice.
        missing: Texts that have yet to be embedded before another model can take over.
        months: Turns by month, ``2026-10``.
        sessions: Last turn of each conversation that was read, by ``seq``.
        seconds: Wall time.
        model_seconds: Wall time inside the model.
        warnings: What went wrong after the commit, or is worth knowing.
    """

    generation: int = 0
    digest: str = ""
    seq: int = 0
    committed: bool = False
    turns: int = 0
    retagged: int = 0
    passed_over: int = 0
    embedded: int = 0
    reused: int = 0
    missing: int = 0
    months: Mapping[str, int] = field(default_factory=dict)
    sessions: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    model_seconds: float = 0.0
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as plain JSON values."""
        row = asdict(self)
        return {**row, "warnings": list(self.warnings)}
