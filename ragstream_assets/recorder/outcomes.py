"""What a run and whoever started it share within a process; nothing of it is stored.

Dagster keeps events, the prompt store keeps prompts. This holds the objects themselves: what a
chain that has run already left for the run that is written of it, the error a stage raised before
Dagster wrapped it, the timings of the stages so far.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragstream_core.ingestion.stats import IngestionStats
    from ragstream_core.prompts.inputs import PromptInputs
    from ragstream_core.prompts.store import PromptRecord
    from ragstream_core.records import SuperPrompt

KEPT_RUNS = 16


@dataclass(frozen=True, slots=True)
class StepResult:
    """What an op made, and how long it took."""

    prompt: "SuperPrompt"
    seconds: float


@dataclass
class RunOutcome:
    """One run of this process.

    Attributes:
        inputs: Inputs that were pinned before the run; None where the run pins them.
        passed: Step → what it made, where the chain ran before the run is written of it; the run
            then computes nothing. None where the run itself is the work.
        before: What the first of these steps read.
        progress: Told (phase, done, total) while the run ingests.
        states: Step → the prompt after it, of the steps that ran in this process so far.
        stats: What the ingest did.
        ingested_at: When it was through, on the clock of `time.perf_counter`.
        record: The record of the finished prompt.
        timings_ms: Op → milliseconds, both passes together.
        error: What a stage raised.
    """

    inputs: "PromptInputs | None" = None
    passed: Mapping[str, StepResult] | None = None
    before: "SuperPrompt | None" = None
    progress: Callable[[str, int, int], None] | None = None
    states: dict[str, "SuperPrompt"] = field(default_factory=dict)
    stats: "IngestionStats | None" = None
    ingested_at: float = 0.0
    record: "PromptRecord | None" = None
    timings_ms: dict[str, float] = field(default_factory=dict)
    error: Exception | None = None

    def took(self, op: str, seconds: float) -> None:
        """Add the time that an op took."""
        self.timings_ms[op] = self.timings_ms.get(op, 0.0) + seconds * 1000

    def ingested(self, stats: "IngestionStats") -> None:
        """Take what the ingest did; what comes now is after the commit."""
        self.stats, self.ingested_at = stats, time.perf_counter()

    def tell(self, phase: str) -> None:
        """Tell whoever waits which part of the run begins."""
        if self.progress is not None:
            self.progress(phase, 0, 0)

    def warn(self, text: str) -> None:
        """Add a warning to what the ingest did; without an ingest there is nobody to tell."""
        if self.stats is not None:
            self.stats = replace(self.stats, warnings=(*self.stats.warnings, text))

    def made(self, step: str) -> StepResult | None:
        """Return what a step of the chain made before the run was written, None in any other run.

        Raises:
            Exception: What the chain raised there.
        """
        if self.passed is None:
            return None
        if step not in self.passed:
            raise self.error or LookupError(f"{step} did not run")
        return self.passed[step]

    def read(self, step: str) -> "SuperPrompt | None":
        """Return what a step left for the one after it, None in a run that reads stage files."""
        if self.passed is None:
            return None
        return self.passed[step].prompt if step in self.passed else self.before


_outcomes: OrderedDict[str, RunOutcome] = OrderedDict()
_guard = Lock()


def outcome(run_id: str) -> RunOutcome:
    """Return the outcome of a run, made at the first call; only the last few are kept."""
    with _guard:
        found = _outcomes.setdefault(run_id, RunOutcome())
        while len(_outcomes) > KEPT_RUNS:
            _outcomes.popitem(last=False)
        return found


def start(run_id: str, given: RunOutcome) -> None:
    """Say what a run that is about to be made is to find here."""
    with _guard:
        _outcomes[run_id] = given


def forget(run_id: str) -> None:
    """Drop the outcome of a run."""
    with _guard:
        _outcomes.pop(run_id, None)
