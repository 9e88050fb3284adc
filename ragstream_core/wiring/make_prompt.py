"""Makes a prompt, or some of its stages, with all that belongs to it: pinned, recalled, kept.

Every face makes its prompts here: the command line, the page, MCP, the API and a chat. The page
presses a button at a time and goes on from what the one before left; so does a rerun.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ragstream_core.conversations.given import pairs_in
from ragstream_core.errors import UsageError
from ragstream_core.prompts.chain import CHAIN, OPS, last_op, run_chain, step_of
from ragstream_core.prompts.chain_steps import is_before, upstream_of
from ragstream_core.prompts.inputs import CONVERSATION, PromptRequest, begin, change_settings
from ragstream_core.records.prompt_inputs import PromptInputs
from ragstream_core.settings import ChainSettings
from ragstream_core.wiring import prompt_inputs
from ragstream_core.wiring.file_sources import RecordedAnswers, RecordedFiles, diffs_in
from ragstream_core.wiring.saved_prompts import recall, save_prompt
from ragstream_core.wiring.stages import run_prompt, stages_of

if TYPE_CHECKING:
    from ragstream_core.prompts.recorded import Asking
    from ragstream_core.prompts.store import PromptRecord
    from ragstream_core.records import SuperPrompt
    from ragstream_core.wiring.workspace import Workspace


@dataclass(frozen=True, slots=True)
class MadePrompt:
    """A prompt on its way or finished, with what each of its steps left.

    Attributes:
        prompt: The record after the last op that ran.
        request: What was asked.
        inputs: What was pinned for it.
        passed: Step → the prompt after it, of all ops so far.
        timings_ms: Op → milliseconds, of the ops that ran now.
        record: What was kept; None if the chain did not run to its end.
        resumed: Key of the finished prompt that this one goes on from; empty for none.
        asked: The earlier times that it was asked for, if its record answered.
        damaged: Why its record could not answer, for people; empty for nothing.
        edited_key: Key of the prompt that edits by hand made of it; empty if it is not kept.
        unedited: The prompt before it was edited by hand; None if it was not.
    """

    prompt: SuperPrompt
    request: PromptRequest
    inputs: PromptInputs
    passed: Mapping[str, SuperPrompt] = field(default_factory=dict)
    timings_ms: Mapping[str, float] = field(default_factory=dict)
    record: PromptRecord | None = None
    resumed: str = ""
    asked: Sequence[Asking] = ()
    damaged: str = ""
    edited_key: str = ""
    unedited: MadePrompt | None = None

    @property
    def prompt_key(self) -> str:
        """Key of the finished prompt as it is now, empty before the builder."""
        if self.unedited is not None:
            return self.edited_key
        return self.record.prompt_key if self.record else ""

    @property
    def run_id(self) -> str:
        """The Dagster run that made its record; empty if none did."""
        return self.record.run_id if self.record else ""

    @property
    def answered_at(self) -> str:
        """When it was last asked for, ISO 8601, if its record answered; else empty."""
        return self.asked[-1].at if self.asked else ""

    @property
    def notes(self) -> tuple[str, ...]:
        """What there is to say of its record."""
        return (self.damaged,) if self.damaged else ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """For people: of its record, and of its stages."""
        return (*self.notes, *(warning.message for warning in self.prompt.extras.warnings))


OnStep = Callable[[str, MadePrompt], None]
"""Called after each op with its name and the prompt so far; what it raises ends the making."""


def make_prompt(
    workspace: Workspace,
    request: PromptRequest,
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
        request: What is asked.
        through: Last stage or op.
        fresh: Run the chain whatever is kept.
        now: Time of the request, with a zone; default: the present moment.
        on_step: Called after each op, also where a record answers.

    Raises:
        RagstreamError: The request or a stage refused or failed; nothing is kept then.
    """
    ops = OPS[: OPS.index(last_op(through)) + 1]
    inputs = prompt_inputs.pin_inputs(workspace, request, now)
    start = MadePrompt(begin(inputs), request, inputs)
    if ops == OPS and not fresh:
        start = _recalled(workspace, start, on_step)
    return start if start.record else _run(workspace, start, ops, on_step)


def recorded_prompt(workspace: Workspace, request: PromptRequest) -> MadePrompt | None:
    """Return the whole prompt of a request from its record; None if the chain has to run.

    Raises:
        RagstreamError: The request was refused.
    """
    inputs = prompt_inputs.pin_inputs(workspace, request)
    made = _recalled(workspace, MadePrompt(begin(inputs), request, inputs), None)
    return made if made.record else None


def _recalled(workspace: Workspace, start: MadePrompt, on_step: OnStep | None) -> MadePrompt:
    """Return a prompt after all its steps if its record answers, else as it was."""
    recalled, damaged = recall(workspace, start.inputs)
    if recalled is None:
        return replace(start, damaged=damaged)
    made = replace(start, asked=recalled.asked)
    for step, prompt in recalled.passed.items():
        record = recalled.record if prompt is recalled.prompt else None
        passed = {**made.passed, step: prompt}
        made = replace(made, prompt=prompt, passed=passed, record=record)
        if on_step is not None:
            on_step(step.rpartition(".")[2], made)
    return made


def make_stages(
    workspace: Workspace,
    before: MadePrompt,
    ops: tuple[str, ...],
    *,
    settings: Mapping[str, str] | None = None,
    on_step: OnStep | None = None,
) -> MadePrompt:
    """Run some ops on top of an earlier result.

    Args:
        workspace: The data root.
        before: What passed the ops before the first one, and perhaps later ones.
        ops: Neighbours in `CHAIN`, in order, e.g. those of a button.
        settings: Dotted settings that change from the first op on.
        on_step: Called after each op.

    Raises:
        RagstreamError: A stage refused or failed.
    """
    start = replace(
        before,
        prompt=change_settings(_read_by(ops[0], before), ops[0], dict(settings or {})),
        passed={step: made for step, made in before.passed.items() if is_before(step, ops[0])},
        timings_ms={},
        record=None,
        asked=(),
        damaged="",
        edited_key="",
        unedited=None,
        resumed=before.record.prompt_key if before.record else before.resumed,
    )
    return _run(workspace, start, ops, on_step)


def rerun(
    workspace: Workspace, key: str, stage: str, *, settings: Mapping[str, str] | None = None
) -> MadePrompt:
    """Run a kept prompt again from a stage on, with other settings; the first one stays.

    What was edited by hand before the stage stays; what was edited behind it is left out.

    Args:
        workspace: The data root.
        key: The prompt's key or its first digits.
        stage: Name of a stage, or of an op.
        settings: Dotted settings that change from there on.

    Raises:
        UnknownPrompt: No prompt under that key.
        RagstreamError: An input is no longer there, or a stage refused or failed.
    """
    op = first_op(stage)
    record = workspace.store.record(key)
    inputs = _timed(PromptInputs.from_json(record.inputs))
    prompt_inputs.require_inputs(workspace, inputs)
    passed = _upstream(workspace, record, inputs, op)
    prompt = list(passed.values())[-1] if passed else begin(inputs)
    before = MadePrompt(prompt, _request(inputs), inputs, passed, resumed=record.prompt_key)
    return make_stages(workspace, before, OPS[OPS.index(op) :], settings=settings)


def first_op(stage: str) -> str:
    """Return the first op that works on a stage; the name of an op is itself.

    Raises:
        UsageError: Neither a stage nor an op.
    """
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
            prompt=prompt,
            passed={**made.passed, step_of(op, made.passed): prompt},
            timings_ms={**made.timings_ms, op: took},
        )
        if op == OPS[-1]:
            made = replace(made, record=_kept(workspace, made))
        if on_step is not None:
            on_step(op, made)

    run_chain(stages_of(workspace), start.prompt, first=ops[0], through=ops[-1], observe=passed)
    return made


def _kept(workspace: Workspace, made: MadePrompt) -> PromptRecord:
    return save_prompt(
        workspace,
        made.prompt,
        resumed=made.resumed,
        timings_ms=dict(made.timings_ms),
        passed=made.passed,
    )


def _read_by(op: str, before: MadePrompt) -> SuperPrompt:
    """Return what an op reads: the newest prompt if the op is the next one, else an older."""
    upstream = upstream_of(op, before.passed)
    if not upstream:
        return begin(before.inputs)
    newest = list(before.passed)[-1]
    return before.prompt if newest == upstream else before.passed[upstream]


def _timed(inputs: PromptInputs) -> PromptInputs:
    """Return inputs with a time: the present, where no stage has read one until now."""
    now = dt.datetime.now().astimezone()
    return inputs if inputs.now else replace(inputs, now=now.isoformat(), time_zone=str(now.tzinfo))


def _upstream(
    workspace: Workspace, record: PromptRecord, inputs: PromptInputs, op: str
) -> dict[str, SuperPrompt]:
    """Return what the steps before an op made of a kept prompt, made again.

    Raises:
        RagstreamError: As `run_prompt`.
    """
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


def _request(inputs: PromptInputs) -> PromptRequest:
    """Return the request that pins these inputs, as long as the projects are what they were."""
    return PromptRequest(
        text=inputs.text,
        projects=tuple(pin.project for pin in inputs.pins),
        files=inputs.named,
        off=inputs.off,
        lock=inputs.lock,
        settings={
            f"{section}.{name}": value
            for section, values in ChainSettings.completed(inputs.settings).items()
            for name, value in values.items()
        },
        session=inputs.history.session,
        diffs=tuple("/".join(home) for home in diffs_in(inputs.texts)),
        conversation=pairs_in(inputs.texts.get(CONVERSATION, "")),
    )
