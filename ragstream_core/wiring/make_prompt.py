"""Makes a prompt, or some of its stages, with all that belongs to it: pinned, recalled, kept.

Every face makes its prompts here: the command line, the page, MCP, the API and a chat, and so do
specifications. The page presses a button at a time and goes on from what the one before left; so
does a rerun.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ragstream_core.errors import UsageError
from ragstream_core.prompts.chain import CHAIN, OPS, last_op, run_chain, step_of
from ragstream_core.prompts.chain_steps import is_before, upstream_of
from ragstream_core.prompts.inputs import PromptRequest, begin, change_settings, settings_at
from ragstream_core.prompts.made_prompt import MadePrompt
from ragstream_core.records.prompt_inputs import PromptInputs
from ragstream_core.wiring import prompt_inputs
from ragstream_core.wiring.file_sources import RecordedAnswers, RecordedFiles
from ragstream_core.wiring.saved_prompts import recall, save_prompt
from ragstream_core.wiring.stages import run_prompt, stages_of
from ragstream_core.wiring.token_budget import price_of

if TYPE_CHECKING:
    from ragstream_core.prompts.store import PromptRecord
    from ragstream_core.records import SuperPrompt
    from ragstream_core.wiring.workspace import Workspace

# Called after each op with its name and the prompt so far; what it raises ends the making.
OnStep = Callable[[str, MadePrompt], None]


def make_prompt(
    workspace: Workspace,
    request: PromptRequest | PromptInputs,
    *,
    through: str = OPS[-1],
    fresh: bool = False,
    now: dt.datetime | None = None,
    on_step: OnStep | None = None,
) -> MadePrompt:
    """Run the chain for a request, and keep a whole prompt.

    A whole prompt that was asked for before is answered from its record where nothing has changed.

    Args:
        workspace: The data root.
        request: What is asked, or what was pinned for it.
        through: Last stage or op.
        fresh: Run the chain whatever is kept.
        now: Time of the request, with a zone; default: the present moment.
        on_step: Called after each op, also where a record answers.

    Raises:
        RagstreamError: The request or a stage refused or failed; nothing is kept then.
    """
    ops = OPS[: OPS.index(last_op(through)) + 1]
    inputs = request
    if isinstance(inputs, PromptRequest):
        inputs = prompt_inputs.pin_inputs(workspace, inputs, now)
    start = MadePrompt(begin(inputs), inputs)
    if ops == OPS and not fresh:
        recalled, damaged = recall(workspace, inputs)
        if recalled is not None:
            _tell_steps(recalled, on_step)
            return recalled
        start = replace(start, notes=(damaged,) if damaged else ())
    return _run(workspace, start, ops, on_step)


def recorded_prompt(workspace: Workspace, request: PromptRequest) -> MadePrompt | None:
    """Return the whole prompt of a request from its record; None if the chain has to run."""
    return recall(workspace, prompt_inputs.pin_inputs(workspace, request))[0]


def with_cost(workspace: Workspace, made: MadePrompt, notes: Sequence[str] = ()) -> MadePrompt:
    """Return a prompt with what it costs to send, and with what else people should know of it."""
    target = settings_at(made.super_prompt.extras.inputs, OPS[-1]).prompt.model_target
    cost = price_of(workspace.config, target)(made.tokens, 0) if target and made.tokens else None
    return replace(made, cost_usd=cost, notes=(*notes, *made.notes))


def _tell_steps(recalled: MadePrompt, on_step: OnStep | None) -> None:
    if on_step is None:
        return
    passed: dict[str, SuperPrompt] = {}
    for step, prompt in recalled.passed.items():
        passed[step] = prompt
        record = recalled.record if prompt is recalled.super_prompt else None
        so_far = replace(recalled, super_prompt=prompt, passed=dict(passed), record=record)
        on_step(step.rpartition(".")[2], so_far)


def make_stages(
    workspace: Workspace,
    before: MadePrompt,
    ops: tuple[str, ...],
    *,
    settings: Mapping[str, str] | None = None,
    on_step: OnStep | None = None,
) -> MadePrompt:
    """Run some neighbours in `CHAIN` on top of what passed the ops before them.

    ``settings`` change from the first op on; later ops that ``before`` passed are dropped.
    """
    start = MadePrompt(
        change_settings(_read_by(ops[0], before), ops[0], dict(settings or {})),
        before.inputs,
        {step: made for step, made in before.passed.items() if is_before(step, ops[0])},
        resumed=before.record.prompt_key if before.record else before.resumed,
    )
    return _run(workspace, start, ops, on_step)


def rerun(
    workspace: Workspace, key: str, stage: str, *, settings: Mapping[str, str] | None = None
) -> MadePrompt:
    """Run a kept prompt again from a stage on, with other settings; the first one stays.

    What was edited by hand before the stage stays; what was edited behind it is left out.
    """
    op = first_op(stage)
    record = workspace.store.record(key)
    inputs = _timed(PromptInputs.from_json(record.inputs))
    prompt_inputs.require_inputs(workspace, inputs)
    passed = _upstream(workspace, record, inputs, op)
    prompt = list(passed.values())[-1] if passed else begin(inputs)
    before = MadePrompt(prompt, inputs, passed, resumed=record.prompt_key)
    return make_stages(workspace, before, OPS[OPS.index(op) :], settings=settings)


def first_op(stage: str) -> str:
    """Return the first op that works on a stage; the name of an op is itself."""
    op = next((spec.op for spec in CHAIN if stage in (spec.stage, spec.op)), "")
    if not op:
        stages = ", ".join(dict.fromkeys(spec.stage for spec in CHAIN))
        raise UsageError(f"unknown stage {stage!r}", hint=f"one of: {stages}")
    return op


def _run(
    workspace: Workspace, start: MadePrompt, ops: tuple[str, ...], on_step: OnStep | None
) -> MadePrompt:
    """Run some ops; a prompt that passed the last one is kept before anybody hears of it."""
    made = start

    def passed(op: str, prompt: SuperPrompt, seconds: float) -> None:
        nonlocal made
        took = made.timings_ms.get(op, 0.0) + seconds * 1000
        made = replace(
            made,
            super_prompt=prompt,
            passed={**made.passed, step_of(op, made.passed): prompt},
            timings_ms={**made.timings_ms, op: took},
        )
        if op == OPS[-1]:
            record = save_prompt(
                workspace,
                prompt,
                resumed=made.resumed,
                timings_ms=dict(made.timings_ms),
                passed=made.passed,
            )
            made = replace(made, record=record)
        if on_step is not None:
            on_step(op, made)

    stages = stages_of(workspace)
    run_chain(stages, start.super_prompt, first=ops[0], through=ops[-1], observe=passed)
    return made


def _read_by(op: str, before: MadePrompt) -> SuperPrompt:
    """Return what an op reads: the newest prompt if the op is the next one, else an older."""
    upstream = upstream_of(op, before.passed)
    if not upstream:
        return begin(before.inputs)
    newest = list(before.passed)[-1]
    return before.super_prompt if newest == upstream else before.passed[upstream]


def _timed(inputs: PromptInputs) -> PromptInputs:
    """Return inputs with a time: the present, where no stage has read one until now."""
    now = dt.datetime.now().astimezone()
    return inputs if inputs.now else replace(inputs, now=now.isoformat(), time_zone=str(now.tzinfo))


def _upstream(
    workspace: Workspace, record: PromptRecord, inputs: PromptInputs, op: str
) -> dict[str, SuperPrompt]:
    """Return what the steps before an op made of a kept prompt, made again."""
    passed: dict[str, SuperPrompt] = {}

    def observe(name: str, prompt: SuperPrompt, _: float) -> None:
        passed[step_of(name, passed)] = prompt

    at = OPS.index(op)
    if at:
        files = RecordedFiles(workspace.store, inputs, RecordedAnswers.of(record))
        last = run_prompt(
            workspace, inputs, through=OPS[at - 1], observe=observe, files=files, edits=record.edits
        )
        passed[list(passed)[-1]] = last
    return passed
