"""A prompt's way through the ops of the chain, and the run that is written of it afterwards."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ragstream_assets.recorder import runs
from ragstream_assets.recorder.writer import Recording, writer
from ragstream_assets.run_here import one_run
from ragstream_assets.run_outcomes import RunOutcome
from ragstream_core.prompts.chain import OPS, run_chain, step_of
from ragstream_core.prompts.inputs import PromptRequest, inputs_of
from ragstream_core.prompts.recorded import Asking
from ragstream_core.prompts.store import PromptRecord
from ragstream_core.records import SuperPrompt
from ragstream_core.records.prompt_inputs import PromptInputs
from ragstream_core.services.edit_prompt import put_edits
from ragstream_core.wiring.journal import require_uncleared
from ragstream_core.wiring.prompt_reuse import Recalled
from ragstream_core.wiring.saved_prompts import save_prompt
from ragstream_core.wiring.stages import stages_of
from ragstream_core.wiring.workspace import Workspace

UNRECORDED = "not recorded in Dagster: "


@dataclass(frozen=True, slots=True)
class RecordedPrompt:
    """A prompt on its way or finished, and the run that is written of it.

    Attributes:
        prompt: The record after the last op that ran.
        request: What was asked.
        inputs: What was pinned for it.
        passed: Step → the prompt after it, of all ops so far, those of earlier runs included.
        seconds: Step → what it took, of the same steps.
        settings: Op → the dotted settings that change from it on.
        timings_ms: Op → milliseconds, of the ops that ran now.
        record: What was kept; None if the chain did not run to its end.
        recording: The run; None if none is to be made.
        resumed: Key of the finished prompt that this one goes on from; empty for none.
        asked: The earlier times that it was asked for, if its record answered.
        said: What else people should know; empty for nothing.
        edited_key: Key of the prompt that edits by hand made of it; empty if it is not kept.
        unedited: The prompt before it was edited by hand; None if it was not.
    """

    prompt: SuperPrompt
    request: PromptRequest
    inputs: PromptInputs
    passed: Mapping[str, SuperPrompt] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    timings_ms: Mapping[str, float] = field(default_factory=dict)
    record: PromptRecord | None = None
    recording: Recording | None = None
    resumed: str = ""
    asked: Sequence[Asking] = ()
    said: str = ""
    edited_key: str = ""
    unedited: "RecordedPrompt | None" = None

    @property
    def prompt_key(self) -> str:
        """Key of the finished prompt as it is now, empty before the builder."""
        if self.unedited is not None:
            return self.edited_key
        return self.record.prompt_key if self.record else ""

    @property
    def run_id(self) -> str:
        """The Dagster run, written or yet to be; empty if there is none."""
        return self.recording.run_id if self.recording and not self.recording.problem else ""

    @property
    def is_written(self) -> bool:
        """Whether it is known if there is a run; Dagster's pages show none before."""
        return self.recording is None or self.recording.done

    @property
    def answered_at(self) -> str:
        """When it was last asked for, ISO 8601, if its record answered; else empty."""
        return self.asked[-1].at if self.asked else ""

    @property
    def notes(self) -> tuple[str, ...]:
        """What there is to say of its run, once that is known, and of a record that is damaged."""
        return (*((self.said,) if self.said else ()), *self.warnings)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why there is no run, if there should be one; known when it was tried."""
        run = self.recording
        problem = f"{UNRECORDED}{run.problem}" if run and run.problem else ""
        return tuple(text for text in (problem, run.note if run else "") if text)


Observer = Callable[[str, RecordedPrompt], None]
"""Called after each op with its name and the prompt so far."""


def run_ops(
    workspace: Workspace,
    start: RecordedPrompt,
    ops: tuple[str, ...],
    observe: Observer | None = None,
) -> RecordedPrompt:
    """Run some ops; have their run written, also if one of them refused or failed.

    Args:
        workspace: The data root.
        start: What the first op reads, and the run that is to be made, if any.
        ops: Neighbours in `CHAIN`, in order.
        observe: Told about every op that ran.

    Raises:
        RagstreamError: A stage refused or failed.
    """
    after = [start]
    tell = observe or (lambda op, so_far: None)

    def passed(op: str, prompt: SuperPrompt, seconds: float) -> None:
        after.append(_after(after[-1], op, prompt, seconds))
        if op != OPS[-1]:
            tell(op, after[-1])

    def submit(error: Exception | None) -> None:
        if start.recording is not None:
            write = partial(_write, workspace, start.recording, start.prompt, after[-1], error)
            writer.submit(start.recording, write)

    try:
        run_chain(stages_of(workspace), start.prompt, first=ops[0], through=ops[-1], observe=passed)
        if ops[-1] == OPS[-1]:
            built = after.pop()  # the last op has passed when its prompt is kept
            kept = save_prompt(
                workspace,
                built.prompt,
                run_id=built.run_id,
                resumed=built.resumed,
                timings_ms=dict(built.timings_ms),
                passed=built.passed,
            )
            after.append(replace(built, record=kept))
            tell(OPS[-1], after[-1])
    except Exception as error:
        submit(error)
        raise
    submit(None)
    return after[-1]


def _after(now: RecordedPrompt, op: str, prompt: SuperPrompt, seconds: float) -> RecordedPrompt:
    """Return a prompt after one more op."""
    step, took = step_of(op, now.passed), now.timings_ms.get(op, 0.0) + seconds * 1000
    return replace(
        now,
        prompt=prompt,
        passed={**now.passed, step: prompt},
        seconds={**now.seconds, step: seconds},
        timings_ms={**now.timings_ms, op: took},
    )


def _write(
    workspace: Workspace,
    recording: Recording,
    before: SuperPrompt,
    last: RecordedPrompt,
    error: Exception | None,
) -> str:
    """Write the run of some ops; return why there is none, empty if there is one."""
    left = RunOutcome(
        inputs=last.inputs,
        has_run=True,
        before=before,
        passed=dict(last.passed),
        seconds=dict(last.seconds),
        record=last.record,
        error=error,
    )
    with one_run:
        require_uncleared(workspace, inputs_of(last.prompt))
        if last.record and not (workspace.store.root / last.record.prompt_key).is_dir():
            return "the prompt is not kept any more"
        problem = runs.execute(workspace, recording, partial(_config, workspace, last), left)
    return "" if error else problem


def answered_from_record(
    start: RecordedPrompt, recalled: Recalled, *, record: bool, observe: Observer | None
) -> RecordedPrompt:
    """Return a prompt from its record, as if its steps had passed just now; no run is written.

    Args:
        start: Before the first step.
        recalled: The record, and what its steps left.
        record: Name the run that made it, if there was one.
        observe: Told about every step.
    """
    recording = None
    if record and recalled.record.run_id:
        recording = Recording.written(recalled.record.run_id)
    now = replace(start, recording=recording, asked=recalled.asked)
    for step, prompt in recalled.passed.items():
        now = replace(now, prompt=prompt, passed={**now.passed, step: prompt})
        if prompt is recalled.prompt:
            now = replace(now, record=recalled.record)
        if observe is not None:
            observe(step.rpartition(".")[2], now)
    return now


def _config(workspace: Workspace, last: RecordedPrompt) -> dict[str, dict[str, Any]]:
    """Return what a run of the same ops has to be given; the prompt is kept, and named."""
    inputs, settings = last.inputs, {op: dict(made) for op, made in last.settings.items()}
    config: dict[str, dict[str, Any]] = {op: {"settings": made} for op, made in settings.items()}
    reference = workspace.store.put_request(last.request)
    asked = {"prompt_ref": reference, "now": inputs.now, "time_zone": inputs.time_zone}
    edits = put_edits(workspace, last.prompt)
    config |= {op: {**config.get(op, {}), "edits": named} for op, named in edits.items()}
    return {**config, OPS[0]: {**config.get(OPS[0], {}), **asked}}
