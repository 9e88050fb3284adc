"""The version of each stage, which is part of every prompt's key, and the clock that stages read.

Raise the number of a stage if its result changes for the same inputs, in whatever module the cause
lies: a formula, a table of words, a template, a fence. Prompts and earlier answers made before keep
their keys, and new ones get new keys. What changes no result raises nothing.
`tests/goldens/test_stages.py` fails if a result changed and no number was raised, and names it.
Indexes, models and settings have digests and values among the inputs.

The time of a prompt counts for its key only if a stage has read it; if stages read its day alone,
the day counts and not the hour.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragstream_core.records import SuperPrompt, evolve

if TYPE_CHECKING:
    from ragstream_core.prompts.chain import Stage


# Op of the chain → its version.
STAGE_VERSIONS: Mapping[str, int] = {
    "a0_preprocessing": 9,
    "a2_prompt_shaper": 7,
    "a1_file_injector": 4,
    "retrieval": 13,
    "reranker": 9,
    "a3_nli_gate": 7,
    "a4_condenser": 27,
    "a2_audit": 6,
    "a5_format_enforcer": 6,
    "prompt_builder": 4,
}


class Clock:
    """A clock that stands still at the time of a prompt, and notes that it was read.

    A stage that is run again with the same inputs reads it again or leaves it again: up to its
    first look nothing can depend on the time. So what was not read once is never read.

    Attributes:
        was_read: Whether anybody has asked for the time.
        day_was_read: Whether anybody has asked for the day.
    """

    def __init__(self, now: str) -> None:
        self._now = now
        self.was_read = False
        self.day_was_read = False

    def now(self) -> dt.datetime:
        """Return the prompt's time, with its zone; from here on it counts."""
        self.was_read = True
        return dt.datetime.fromisoformat(self._now)

    def today(self) -> dt.date:
        """Return the day of the prompt's time in its zone; from here on that day counts."""
        self.day_was_read = True
        return dt.datetime.fromisoformat(self._now).date()


@dataclass(frozen=True, slots=True)
class TimedStage:
    """A stage with a clock: whether it was read is left in ``extras``."""

    stage: Stage  # the stage
    clock: Clock  # the only one that it has

    def __call__(self, prompt: SuperPrompt) -> SuperPrompt:
        """Run the stage; that an earlier pass read the time stays noted."""
        result = self.stage(prompt)
        if not (self.clock.was_read or self.clock.day_was_read):
            return result
        timed = evolve(result)
        if self.clock.was_read:
            timed.extras.time_read = True
        if self.clock.day_was_read:
            timed.extras.day_read = True
        return timed
