"""Runs a stage of a kept prompt again, with other settings; the stages before it stay as kept."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import replace

from ragstream_assets.recorder.chain_run import RecordedPrompt
from ragstream_assets.recorder.recorder import is_on, record_stage
from ragstream_assets.recorder.writer import Recording
from ragstream_core.conversations.given import pairs_in
from ragstream_core.errors import UsageError
from ragstream_core.prompts.chain import CHAIN, OPS, step_of
from ragstream_core.prompts.inputs import CONVERSATION, PromptRequest, begin
from ragstream_core.prompts.store import PromptRecord
from ragstream_core.records import SuperPrompt
from ragstream_core.records.prompt_inputs import PromptInputs
from ragstream_core.settings import ChainSettings
from ragstream_core.wiring import prompt_inputs
from ragstream_core.wiring.file_sources import RecordedAnswers, RecordedFiles, diffs_in
from ragstream_core.wiring.stages import run_prompt
from ragstream_core.wiring.workspace import Workspace


def first_op(stage: str) -> str:
    """Return the first op that works on a stage; the name of an op is itself.

    Raises:
        UsageError: Neither a stage nor an op.
    """
    found = next((spec.op for spec in CHAIN if stage in (spec.stage, spec.op)), "")
    if not found:
        stages = ", ".join(dict.fromkeys(spec.stage for spec in CHAIN))
        raise UsageError(f"unknown stage {stage!r}", hint=f"one of: {stages}")
    return found


def resume(
    workspace: Workspace,
    key: str,
    stage: str,
    *,
    settings: Mapping[str, str] | None = None,
    record: bool = True,
) -> RecordedPrompt:
    """Run a kept prompt again from a stage on; its run is a re-execution of that prompt's.

    What was edited by hand before the stage stays; what was edited behind it is left out.

    Args:
        workspace: The data root.
        key: The prompt's key or its first digits.
        stage: Name of a stage, or of an op.
        settings: Dotted settings that change from there on.
        record: False leaves no run behind, whatever the settings say.

    Raises:
        UnknownPrompt: No prompt under that key.
        RagstreamError: An input is no longer there, or a stage refused or failed.
    """
    op = first_op(stage)
    then = workspace.store.record(key)
    inputs = _timed(PromptInputs.from_json(then.inputs))
    prompt_inputs.require_inputs(workspace, inputs)
    passed, seconds = _upstream(workspace, then, inputs, op)
    recorded = record and is_on(workspace)
    before = RecordedPrompt(
        list(passed.values())[-1] if passed else begin(inputs),
        _request(inputs),
        inputs,
        passed,
        seconds,
        recording=Recording.written(then.run_id) if recorded else None,
        resumed=then.prompt_key,
    )
    return record_stage(workspace, before, OPS[OPS.index(op) :], settings=settings)


def _timed(inputs: PromptInputs) -> PromptInputs:
    """Return inputs with a time: the present, where no stage has read one until now."""
    now = dt.datetime.now().astimezone()
    return inputs if inputs.now else replace(inputs, now=now.isoformat(), time_zone=str(now.tzinfo))


def _upstream(
    workspace: Workspace, then: PromptRecord, inputs: PromptInputs, op: str
) -> tuple[dict[str, SuperPrompt], dict[str, float]]:
    """Return what the steps before an op made of a kept prompt, made again, and their seconds.

    Raises:
        RagstreamError: As `run_prompt`.
    """
    passed: dict[str, SuperPrompt] = {}
    took: dict[str, float] = {}

    def observe(name: str, prompt: SuperPrompt, seconds: float) -> None:
        step = step_of(name, passed)
        passed[step], took[step] = prompt, seconds

    at = OPS.index(op)
    if at:
        files = RecordedFiles(workspace.store, inputs, RecordedAnswers.of(then))
        last = run_prompt(
            workspace, inputs, through=OPS[at - 1], observe=observe, files=files, edits=then.edits
        )
        passed[list(passed)[-1]] = last
    return passed, took


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
