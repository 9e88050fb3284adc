"""Build a prompt in this process: from its record if nothing has changed, else by the chain.

What is kept is what the command line keeps, under the same key; there is no Dagster run.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ragstream_core.prompts.blocks import injected
from ragstream_core.prompts.chain import OPS, last_op, run_chain, step_of
from ragstream_core.prompts.exchanges import AgentsUsage
from ragstream_core.prompts.inputs import PromptRequest, begin
from ragstream_core.prompts.prompt_html import prompt_html
from ragstream_core.records.json_form import json_of
from ragstream_core.records.prompt_inputs import PromptInputs
from ragstream_core.wiring.ingestion import changed_files
from ragstream_core.wiring.prompt_reuse import recall
from ragstream_core.wiring.token_budget import estimate

if TYPE_CHECKING:
    from ragstream_core.ports import PhaseProgress
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
        from_record: Whether its record answered and the chain did not run.
        cost_usd: What sending it to `prompt.model_target` costs, US dollars; None if unknown.
        warnings: For people.
        timings_ms: Op → milliseconds, of the ops that ran.
    """

    super_prompt: SuperPrompt
    key: str = ""
    from_record: bool = False
    cost_usd: float | None = None
    warnings: tuple[str, ...] = ()
    timings_ms: Mapping[str, float] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The Super-Prompt, empty before the builder has run."""
        return self.super_prompt.extras.super_prompt

    @property
    def tokens(self) -> int:
        """Tokens of the text, 0 before the builder has run."""
        return self.super_prompt.extras.token_tree.total

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
            run_id="",
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
    now: dt.datetime | None = None,
    progress: PhaseProgress | None = None,
) -> Prompt:
    """Return the prompt of a request; a whole one is kept.

    Args:
        workspace: The data root.
        request: What is asked.
        through: Last stage or op.
        fresh: Run the chain also if the record of the same prompt could answer.
        now: Time of the request, with a zone; default: the present moment.
        progress: Called after each op with its name.

    Raises:
        RagstreamError: The request or a stage refused or failed; nothing is kept then.
    """
    from ragstream_core.wiring.prompt_inputs import pin_inputs
    from ragstream_core.wiring.saved_prompts import save_prompt

    last = last_op(through)
    changed = () if request.as_of else changed_files(workspace, request.projects)
    inputs = pin_inputs(workspace, request, now)
    damaged = ""
    if last == OPS[-1] and not fresh:
        recalled, damaged = recall(workspace, inputs)
        if recalled is not None:
            key, prompt = recalled.record.prompt_key, recalled.prompt
            return _finished(workspace, request, prompt, key, changed, from_record=True)
    prompt, timings = _through(workspace, inputs, last, progress)
    key = ""
    if last == OPS[-1]:
        passed = timings.passed
        done = save_prompt(workspace, prompt, timings_ms=dict(timings.ms), passed=passed)
        key = done.prompt_key
    said = [*changed, *([damaged] if damaged else [])]
    return _finished(workspace, request, prompt, key, said, timings_ms=timings.ms)


@dataclass(slots=True)
class _Steps:
    """What the ops left: step → prompt after it, op → milliseconds of all its passes."""

    passed: dict[str, SuperPrompt] = field(default_factory=dict)
    ms: dict[str, float] = field(default_factory=dict)


def _through(
    workspace: Workspace, inputs: PromptInputs, last: str, progress: PhaseProgress | None
) -> tuple[SuperPrompt, _Steps]:
    from ragstream_core.wiring.stages import stages_of

    steps = _Steps()
    ops = OPS[: OPS.index(last) + 1]

    def observe(op: str, prompt: SuperPrompt, seconds: float) -> None:
        steps.passed[step_of(op, steps.passed)] = prompt
        steps.ms[op] = steps.ms.get(op, 0.0) + seconds * 1000
        if progress is not None:
            progress(op, ops.index(op) + 1, len(ops))

    return run_chain(stages_of(workspace), begin(inputs), through=last, observe=observe), steps


def _finished(
    workspace: Workspace,
    request: PromptRequest,
    prompt: SuperPrompt,
    key: str,
    changed: Sequence[str],
    *,
    from_record: bool = False,
    timings_ms: Mapping[str, float] | None = None,
) -> Prompt:
    """Return a prompt with what it would cost and all that people should know of it."""
    config = workspace.config.with_task(request.task, explicit=request.settings)
    cost = None
    tokens = prompt.extras.token_tree.total
    if config.settings.prompt.model_target and tokens:
        cost = estimate(config).price(tokens, 0)
    told = [warning.message for warning in prompt.extras.warnings]
    warnings = tuple([*changed, *told])
    return Prompt(prompt, key, from_record, cost, warnings, timings_ms or {})


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
