"""What the steps of a run share within a process, and what its caller there hears and gets.

Nothing of it is stored: Dagster keeps events, the prompt store keeps prompts. A run of another
process finds an empty one.
"""

import contextlib
import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragstream_core.ingestion.stats import IngestionStats
    from ragstream_core.ports import PhaseProgress
    from ragstream_core.prompts.store import PromptRecord
    from ragstream_core.records import SuperPrompt

KEPT_RUNS = 16
"""A code server's process lives for weeks; runs beside each other are two by default."""


@dataclass
class RunState:
    """One run of this process.

    Attributes:
        progress: Told (phase, done, total) while the run ingests.
        stats: What the ingest did.
        ingested_at: When it was through, on the clock of `time.perf_counter`.
        passed: Step → the prompt after it, of the steps that ran in this process.
        seconds: Step → what it took.
        record: The record that answers in place of the stages; None if they run.
        error: What a step raised, before Dagster wrapped it.
    """

    progress: "PhaseProgress | None" = None
    stats: "IngestionStats | None" = None
    ingested_at: float = 0.0
    passed: "dict[str, SuperPrompt]" = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    record: "PromptRecord | None" = None
    error: Exception | None = None

    def add(self, step: str, prompt: "SuperPrompt", seconds: float) -> None:
        """Add what a step made."""
        self.passed[step], self.seconds[step] = prompt, seconds

    def ingested(self, stats: "IngestionStats") -> None:
        """Take what the ingest did; what comes now is after the commit."""
        self.stats, self.ingested_at = stats, time.perf_counter()

    def tell(self, phase: str) -> None:
        """Report which part of the run begins."""
        if self.progress is not None:
            self.progress(phase, 0, 0)

    def warn(self, text: str) -> None:
        """Add a warning to what the ingest did; ignored without an ingest."""
        if self.stats is not None:
            self.stats = replace(self.stats, warnings=(*self.stats.warnings, text))

    @property
    def timings_ms(self) -> dict[str, float]:
        """Op → milliseconds of its steps, both passes together."""
        sums: dict[str, float] = {}
        for step, took in self.seconds.items():
            op = step.rpartition(".")[2]
            sums[op] = sums.get(op, 0.0) + took * 1000
        return sums


_states: OrderedDict[str, RunState] = OrderedDict()
_guard = Lock()


def state_of(run_id: str) -> RunState:
    """Return the state of a run, made at the first call; only the last few are kept."""
    with _guard:
        state = _states.setdefault(run_id, RunState())
        while len(_states) > KEPT_RUNS:
            _states.popitem(last=False)
        return state


@contextlib.contextmanager
def sharing(run_id: str, state: RunState) -> Iterator[None]:
    """Have the steps of a run find this state, as long as it goes on."""
    with _guard:
        _states[run_id] = state
    try:
        yield
    finally:
        with _guard:
            _states.pop(run_id, None)
