"""What a run leaves in its own process for whoever started it there; nothing of it is stored.

Dagster keeps events, the prompt store keeps prompts. This holds the objects themselves, the error
a stage raised before Dagster wrapped it, and the timings of the stages so far.
"""

import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragstream_core.ingestion.stats import IngestionStats
    from ragstream_core.orchestration.inputs import PromptInputs
    from ragstream_core.orchestration.prompt_store import PromptRecord
    from ragstream_core.records import SuperPrompt

KEPT_RUNS = 16


@dataclass
class Outcome:
    """One run of this process.

    Attributes:
        inputs: Inputs that were pinned before the run; None where the run pins them.
        progress: Told (phase, done, total) while the run ingests.
        stats: What the ingest did.
        prompt: The prompt after the last stage that ran.
        record: The record of the finished prompt.
        timings_ms: Op → milliseconds, both passes together.
        error: What a stage raised.
    """

    inputs: "PromptInputs | None" = None
    progress: Callable[[str, int, int], None] | None = None
    stats: "IngestionStats | None" = None
    prompt: "SuperPrompt | None" = None
    record: "PromptRecord | None" = None
    timings_ms: dict[str, float] = field(default_factory=dict)
    error: Exception | None = None

    def took(self, op: str, seconds: float) -> None:
        """Add the time that an op took."""
        self.timings_ms[op] = self.timings_ms.get(op, 0.0) + seconds * 1000


_outcomes: OrderedDict[str, Outcome] = OrderedDict()
_guard = Lock()


def outcome(run_id: str) -> Outcome:
    """Return the outcome of a run, made at the first call; only the last few are kept."""
    with _guard:
        found = _outcomes.setdefault(run_id, Outcome())
        while len(_outcomes) > KEPT_RUNS:
            _outcomes.popitem(last=False)
        return found


def start(given: Outcome) -> str:
    """Give a run that is about to be made its id and what it is to find here; return the id."""
    run_id = str(uuid.uuid4())
    with _guard:
        _outcomes[run_id] = given
    return run_id


def forget(run_id: str) -> None:
    """Drop the outcome of a run."""
    with _guard:
        _outcomes.pop(run_id, None)
