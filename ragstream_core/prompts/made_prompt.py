"""A prompt on its way or finished: what people and programs get of it, and its one JSON form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ragstream_core.prompts.blocks import injected
from ragstream_core.prompts.exchanges import AgentsUsage
from ragstream_core.prompts.prompt_html import prompt_html
from ragstream_core.records.json_form import Json, json_of

if TYPE_CHECKING:
    from ragstream_core.prompts.recorded import Asking
    from ragstream_core.prompts.store import PromptRecord
    from ragstream_core.records import SuperPrompt
    from ragstream_core.records.prompt_inputs import PromptInputs

_KEY_DIGITS = 12


@dataclass(frozen=True, slots=True, repr=False)
class MadePrompt:
    """A Super-Prompt, or what some of its stages made; printed, it is its text."""

    super_prompt: SuperPrompt  # after the last op that ran
    inputs: PromptInputs  # what was pinned for it
    passed: Mapping[str, SuperPrompt] = field(default_factory=dict)  # step → prompt after it
    timings_ms: Mapping[str, float] = field(default_factory=dict)  # of the ops that ran now
    record: PromptRecord | None = None  # what was kept; None if the chain did not run to its end
    resumed: str = ""  # key of the finished prompt that it goes on from
    asked: Sequence[Asking] = ()  # the earlier times, if its record answered
    notes: tuple[str, ...] = ()  # what there is to say of it, besides the warnings of its stages
    cost_usd: float | None = None  # of sending it to `prompt.model_target`; None if unknown
    edited_key: str = ""  # key of what edits by hand made of it; empty if it is not kept
    unedited: MadePrompt | None = None  # as it was before it was edited by hand

    @property
    def key(self) -> str:
        """Key of the finished prompt as it is now; empty before the builder, or if not kept."""
        if self.unedited is not None:
            return self.edited_key
        return self.record.prompt_key if self.record else ""

    @property
    def run_id(self) -> str:
        """The Dagster run that made its record; empty if none did."""
        return self.record.run_id if self.record else ""

    @property
    def from_record(self) -> bool:
        """Whether its record answered and the chain did not run."""
        return bool(self.asked)

    @property
    def answered_at(self) -> str:
        """When it was last asked for, ISO 8601, if its record answered; else empty."""
        return self.asked[-1].at if self.asked else ""

    @property
    def warnings(self) -> tuple[str, ...]:
        """For people: of it as a whole, and of its stages."""
        stages = self.super_prompt.extras.warnings
        return (*self.notes, *(warning.message for warning in stages))

    @property
    def text(self) -> str:
        """The Super-Prompt, empty before the builder has run."""
        return self.super_prompt.extras.super_prompt

    @property
    def tokens(self) -> int:
        """Tokens of the text, 0 before the builder has run."""
        return self.super_prompt.extras.token_tree.total

    @property
    def llm(self) -> AgentsUsage:
        """What agents took now that asked a language model; a record asks none."""
        return AgentsUsage.of([] if self.asked else self.super_prompt.extras.llm_usage.values())

    @property
    def selection(self) -> tuple[str, ...]:
        """Ids of the chunks that it quotes, in order."""
        return tuple(self.super_prompt.final_selection_ids)

    def to_json(self) -> dict[str, Json]:
        """Return what `ragstream prompt --json` prints."""
        prompt = self.super_prompt
        files = [json_of(file) for file in injected(prompt)]
        return {
            "prompt_key": self.key,
            "from_record": self.from_record,
            "run_id": self.run_id,
            "stage": prompt.stage,
            "model_target": prompt.model_target,
            "super_prompt": self.text,
            "tokens": self.tokens,
            "cost_usd": self.cost_usd,
            "token_tree": json_of(prompt.extras.token_tree) if self.text else {},
            "selection": list(self.selection),
            "answers": json_of(prompt.extras.answers),
            "files": [{k: v for k, v in row.items() if k != "text"} for row in files],
            "warnings": list(self.warnings),
            "events": [f"{event.stage}: {event.message}" for event in prompt.extras.events],
            "llm": self.llm.to_json(),
            "timings_ms": {op: round(ms, 3) for op, ms in self.timings_ms.items()},
        }

    def __str__(self) -> str:
        """Return the text."""
        return self.text

    def __repr__(self) -> str:
        """Return key, size and stage on one line."""
        return (
            f"Prompt(key={self.key[:_KEY_DIGITS]!r}, tokens={self.tokens}, "
            f"chunks={len(self.selection)}, stage={self.super_prompt.stage!r})"
        )

    def _repr_html_(self) -> str:
        return prompt_html(self.super_prompt, key=self.key, warnings=self.warnings)
