"""What a run and its caller share within a process; nothing of it is stored.

Dagster keeps events, the prompt store keeps prompts. This holds the objects themselves: what a
chain or a sync that has run left for the run that is written of it, the error a stage raised before
Dagster wrapped it, the timings of the stages so far.
"""

import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragstream_core.ingestion.stats import IngestionStats
    from ragstream_core.ports import PhaseProgress
    from ragstream_core.prompts.store import PromptRecord
    from ragstream_core.records import SuperPrompt
    from ragstream_core.records.prompt_inputs import PromptInputs
    from ragstream_core.services.sync_project import ProjectSync

KEPT_RUNS = 16


@dataclass
class RunOutcome:
    """One run of this process.

    Attributes:
        inputs: Inputs that were pinned before the run; None if the run pins them.
        has_run: Whether the chain or the sync ran before the run is written of it; the run then
            does nothing and takes the results from here.
        before: What the first of its steps read, if it did.
        passed: Step → the prompt after it, of the steps that ran in this process so far.
        seconds: Step → what it took.
        progress: Told (phase, done, total) while the run ingests.
        stats: What the ingest did.
        ingested_at: When it was through, on the clock of `time.perf_counter`.
        synced: What was fetched, if it was a sync.
        record: The record of the finished prompt.
        error: What a stage raised.
    """

    run_id: str = ""
    inputs: "PromptInputs | None" = None
    has_run: bool = False
    before: "SuperPrompt | None" = None
    passed: "dict[str, SuperPrompt]" = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    progress: "PhaseProgress | None" = None
    stats: "IngestionStats | None" = None
    ingested_at: float = 0.0
    synced: "ProjectSync | None" = None
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

    def made(self, step: str) -> "SuperPrompt | None":
        """Return what a step of the chain made before the run was written, None in any other run.

        Raises:
            Exception: What the chain raised there.
        """
        if not self.has_run:
            return None
        if step not in self.passed:
            raise self.error or LookupError(f"{step} did not run")
        return self.passed[step]

    def fetched(self) -> "ProjectSync | None":
        """Return what was fetched before the run was written, None in any other run.

        Raises:
            Exception: What the sync raised there.
        """
        if self.has_run and self.synced is None:
            raise self.error or LookupError("there was no sync")
        return self.synced

    def read(self, step: str) -> "SuperPrompt | None":
        """Return what a step left for the one after it, None in a run that reads stage files."""
        return self.passed.get(step, self.before) if self.has_run else None


def milliseconds(seconds: Mapping[str, float]) -> dict[str, float]:
    """Return op → what its steps took in milliseconds, both passes together.

    Args:
        seconds: Step → what it took.
    """
    sums: dict[str, float] = {}
    for step, took in seconds.items():
        op = step.rpartition(".")[2]
        sums[op] = sums.get(op, 0.0) + took * 1000
    return sums


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
    """Set what a run that is about to be made finds here."""
    with _guard:
        _outcomes[run_id] = given


def forget(run_id: str) -> None:
    """Drop the outcome of a run."""
    with _guard:
        _outcomes.pop(run_id, None)
