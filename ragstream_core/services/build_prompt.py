"""What people and programs get of a prompt: its text, key, cost, warnings, and one JSON form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ragstream_core.prompts.blocks import injected
from ragstream_core.prompts.chain import OPS, last_op
from ragstream_core.prompts.exchanges import AgentsUsage
from ragstream_core.prompts.prompt_html import prompt_html
from ragstream_core.records.json_form import json_of
from ragstream_core.wiring.ingestion import changed_files
from ragstream_core.wiring.make_prompt import MadePrompt, make_prompt
from ragstream_core.wiring.token_budget import estimate

if TYPE_CHECKING:
    from ragstream_core.ports import PhaseProgress
    from ragstream_core.prompts.inputs import PromptRequest
    from ragstream_core.prompts.recorded import Asking
    from ragstream_core.records import SuperPrompt
    from ragstream_core.records.identity import Json
    from ragstream_core.wiring.workspace import Workspace

_KEY_DIGITS = 12


@dataclass(frozen=True, slots=True, repr=False)
class Prompt:
    """A Super-Prompt, or what some of its stages made; printed, it is its text.

    Attributes:
        super_prompt: The record that went through the chain.
        key: Of its record; empty if nothing is kept of it.
        cost_usd: What sending it to `prompt.model_target` costs, US dollars; None if unknown.
        warnings: For people.
        timings_ms: Op → milliseconds, of the ops that ran.
        run_id: The Dagster run that made it; empty for none.
        asked: The earlier times that it was asked for, if its record answered.
    """

    super_prompt: SuperPrompt
    key: str = ""
    cost_usd: float | None = None
    warnings: tuple[str, ...] = ()
    timings_ms: Mapping[str, float] = field(default_factory=dict)
    run_id: str = ""
    asked: Sequence[Asking] = ()

    @property
    def from_record(self) -> bool:
        """Whether its record answered and the chain did not run."""
        return bool(self.asked)

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
        """What agents took now that asked a language model."""
        return agents_usage(self.super_prompt, from_record=self.from_record)

    @property
    def selection(self) -> tuple[str, ...]:
        """Ids of the chunks that it quotes, in order."""
        return tuple(self.super_prompt.final_selection_ids)

    def to_json(self) -> dict[str, Json]:
        """Return what `ragstream prompt --json` prints."""
        return prompt_json(
            self.super_prompt,
            prompt_key=self.key,
            from_record=self.from_record,
            run_id=self.run_id,
            cost_usd=self.cost_usd,
            warnings=self.warnings,
            timings_ms=self.timings_ms,
        )

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


def build_prompt(
    workspace: Workspace,
    request: PromptRequest,
    *,
    through: str = OPS[-1],
    fresh: bool = False,
    progress: PhaseProgress | None = None,
) -> Prompt:
    """Return the prompt of a request; a whole one is kept.

    Args:
        workspace: The data root.
        request: What is asked.
        through: Last stage or op.
        fresh: Run the chain also if the record of the same prompt could answer.
        progress: Called after each op with its name.

    Raises:
        RagstreamError: The request or a stage refused or failed; nothing is kept then.
    """
    ops = OPS[: OPS.index(last_op(through)) + 1]

    def on_step(op: str, _: MadePrompt) -> None:
        if progress is not None:
            progress(op, ops.index(op) + 1, len(ops))

    changed = () if request.as_of else changed_files(workspace, request.projects)
    made = make_prompt(workspace, request, through=through, fresh=fresh, on_step=on_step)
    return prompt_of(workspace, made, changed)


def prompt_of(workspace: Workspace, made: MadePrompt, changed: Sequence[str] = ()) -> Prompt:
    """Return what was made with what it would cost, and all that people should know of it.

    Args:
        workspace: The data root.
        made: Some or all of its stages.
        changed: What changed since the last ingest, for people.
    """
    config = workspace.config.with_task(made.request.task, explicit=made.request.settings)
    cost = None
    tokens = made.prompt.extras.token_tree.total
    if config.settings.prompt.model_target and tokens:
        cost = estimate(config).price(tokens, 0)
    return Prompt(
        made.prompt,
        made.prompt_key,
        cost,
        (*changed, *made.warnings),
        made.timings_ms,
        made.run_id,
        made.asked,
    )


def prompt_json(
    prompt: SuperPrompt,
    *,
    prompt_key: str,
    from_record: bool,
    run_id: str,
    cost_usd: float | None,
    warnings: Sequence[str],
    timings_ms: Mapping[str, float],
) -> dict[str, Json]:
    """Return the documented JSON form of a prompt.

    Args:
        prompt: After some or all of its stages.
        prompt_key: Of its record; empty for none.
        from_record: Whether its record answered.
        run_id: Its Dagster run; empty for none.
        cost_usd: What sending it costs, US dollars; None if unknown.
        warnings: For people.
        timings_ms: Op → milliseconds.
    """
    files = [json_of(file) for file in injected(prompt)]
    return {
        "prompt_key": prompt_key,
        "from_record": from_record,
        "run_id": run_id,
        "stage": prompt.stage,
        "model_target": prompt.model_target,
        "super_prompt": prompt.extras.super_prompt,
        "tokens": prompt.extras.token_tree.total,
        "cost_usd": cost_usd,
        "token_tree": json_of(prompt.extras.token_tree) if prompt.extras.super_prompt else {},
        "selection": list(prompt.final_selection_ids),
        "answers": json_of(prompt.extras.answers),
        "files": [{k: v for k, v in row.items() if k != "text"} for row in files],
        "warnings": list(warnings),
        "events": [f"{event.stage}: {event.message}" for event in prompt.extras.events],
        "llm": agents_usage(prompt, from_record=from_record).to_json(),
        "timings_ms": {op: round(ms, 3) for op, ms in timings_ms.items()},
    }


def agents_usage(prompt: SuperPrompt, *, from_record: bool) -> AgentsUsage:
    """Return what agents took now that asked a language model; a record asks none."""
    return AgentsUsage.of([] if from_record else prompt.extras.llm_usage.values())
