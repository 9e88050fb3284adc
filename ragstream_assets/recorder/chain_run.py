"""One way of a prompt through the chain, and the run that is written of it behind the prompt.

The steps that stand for the chain's ops in a run, and the settings that each op reads.

The audit's re-run is unrolled once.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ragstream_assets.instance import drop_instances
from ragstream_assets.recorder import runs
from ragstream_assets.recorder.outcomes import RunOutcome, StepResult
from ragstream_assets.recorder.writer import Recording, brief, writer
from ragstream_core.prompts.chain import AGAIN, AUDIT, OPS, RERUN, run_chain, step_of
from ragstream_core.prompts.inputs import PromptInputs, PromptRequest, inputs_of
from ragstream_core.prompts.recorded import Asking
from ragstream_core.prompts.store import PromptRecord
from ragstream_core.records import SuperPrompt
from ragstream_core.services.edit_prompt import put_edits
from ragstream_core.settings import CHAIN_SECTIONS
from ragstream_core.wiring.journal import require_uncleared
from ragstream_core.wiring.recall import Recalled
from ragstream_core.wiring.workspace import Workspace

AFTER_AUDIT = OPS[OPS.index(AUDIT) + 1]

OWN = {
    "a0_preprocessing": tuple(f"{section}." for section in CHAIN_SECTIONS),
    "a2_prompt_shaper": ("agents.a2",),
    "a1_file_injector": ("files.", "agents.a1"),
    "retrieval": ("retrieval.", "history."),
    "reranker": ("rerank.",),
    "a3_nli_gate": ("gate.", "agents.a3"),
    "a4_condenser": (
        "prompt.",
        "retrieval.",
        "history.",
        "memory.enabled",
        "memory.max_tokens",
        "memory.max_chars",
        "memory.top_k",
        "agents.a4",
    ),
    "a2_audit": ("agents.a2", "agents.audit"),
    "a5_format_enforcer": ("prompt.",),
    "prompt_builder": ("prompt.",),
}
"""Op → how the names of the settings that it reads begin."""


def steps_of(ops: tuple[str, ...]) -> list[str]:
    """Return the step keys that ops of the chain stand for: the audit brings its re-run along."""
    again = [f"{AGAIN}.{op}" for op in RERUN] if AUDIT in ops else []
    return [*ops, *again]


def upstream_of(op: str, passed: Container[str]) -> str:
    """Return the step that an op reads from, given those that have passed; none for the first."""
    position = OPS.index(op)
    last_again = f"{AGAIN}.{RERUN[-1]}"
    if op == AFTER_AUDIT and last_again in passed:
        return last_again
    return OPS[position - 1] if position else ""


def outputs_before(step: str) -> tuple[str, ...]:
    """Return the names ``step.output`` of what a step of the job reads, of which a run has one."""
    op = step.rpartition(".")[2]
    before = OPS[OPS.index(op) - 1] if op in OPS else OPS[-1]
    if step != op:
        return (f"{AUDIT}.rescoped",) if op == RERUN[0] else (f"{AGAIN}.{before}.result",)
    if op == AFTER_AUDIT:
        return f"{AGAIN}.{RERUN[-1]}.result", f"{AUDIT}.settled"
    return (f"{before}.result",)


def is_before(step: str, op: str) -> bool:
    """Whether a step comes before an op in the chain."""
    at = AUDIT if step.startswith(f"{AGAIN}.") else step
    return OPS.index(at) < OPS.index(op)


def readers(name: str) -> list[str]:
    """Return the ops that read a setting of the chain, in order.

    Args:
        name: Dotted. Where no later op offers it, it is read at the beginning alone.
    """
    later = [op for op in OPS[1:] if name.startswith(OWN[op])]
    return later or [OPS[0]]


JOB = "build_prompt"
UNRECORDED = "not recorded in Dagster: "


@dataclass(frozen=True, slots=True)
class RecordedPrompt:
    """A prompt on its way or finished, and the run that is written of it.

    Attributes:
        prompt: The record after the last op that ran.
        request: What was asked.
        inputs: What was pinned for it.
        passed: Step → what it made, of all ops so far, those of earlier runs included.
        settings: Op → the dotted settings that change from it on.
        timings_ms: Op → milliseconds, of the ops that ran now.
        record: What was kept; None where the chain did not run to its end.
        recording: The run; None where none is to be made.
        resumed: Key of the finished prompt that this one goes on from; empty for none.
        asked: The earlier times that it was asked for, where its record answered.
        said: What else people should know; empty for nothing.
    """

    prompt: SuperPrompt
    request: PromptRequest
    inputs: PromptInputs
    passed: Mapping[str, StepResult] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    timings_ms: Mapping[str, float] = field(default_factory=dict)
    record: PromptRecord | None = None
    recording: Recording | None = None
    resumed: str = ""
    asked: Sequence[Asking] = ()
    said: str = ""

    @property
    def run_id(self) -> str:
        """The Dagster run, written or yet to be; empty where there is none."""
        return self.recording.run_id if self.recording and not self.recording.problem else ""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why there is no run, if there should be one; known when it was tried."""
        run = self.recording
        problem = f"{UNRECORDED}{run.problem}" if run and run.problem else ""
        return tuple(text for text in (problem, run.note if run else "") if text)


Observer = Callable[[str, RecordedPrompt], None]
"""Called after each op with its name and the prompt so far."""


@dataclass(slots=True)
class ChainRun:
    """One way through some ops, and the run that is written of it.

    Attributes:
        workspace: The data root.
        start: What the first op reads, and the run that is to be made, if any.
        ops: Neighbours in `CHAIN`, in order.
        tags: Of the run.
        observe: Told about every op that ran.
        parent: The run that this one goes on from, empty for none.
        now: The prompt so far.
    """

    workspace: Workspace
    start: RecordedPrompt
    ops: tuple[str, ...]
    tags: Mapping[str, str]
    observe: Observer | None = None
    parent: str = ""
    now: RecordedPrompt = field(init=False)

    def through(self) -> RecordedPrompt:
        """Run the ops; have the run written, also where one of them refused or failed."""
        self.now = self.start
        try:
            run_chain(
                self.workspace.stage,
                self.start.prompt,
                first=self.ops[0],
                through=self.ops[-1],
                observe=self._passed,
            )
        except Exception as error:
            self._submit(error)
            raise
        self._submit(None)
        return self.now

    def _submit(self, error: Exception | None) -> None:
        recording = self.start.recording
        if recording is not None:
            writer.submit(recording, partial(self._write, recording, self.now, error))

    def _passed(self, op: str, prompt: SuperPrompt, seconds: float) -> None:
        before = self.now
        step = step_of(op, before.passed)
        took = before.timings_ms.get(op, 0.0) + seconds * 1000
        after = replace(
            before,
            prompt=prompt,
            passed={**before.passed, step: StepResult(prompt, seconds)},
            timings_ms={**before.timings_ms, op: took},
        )
        if op == OPS[-1]:
            times = dict(after.timings_ms)
            kept = self.workspace.finish(
                prompt,
                run_id=after.run_id,
                resumed=after.resumed,
                timings_ms=times,
                passed={step: made.prompt for step, made in after.passed.items()},
            )
            after = replace(after, record=kept)
        self.now = after
        if self.observe is not None:
            self.observe(op, after)

    def _write(self, recording: Recording, last: RecordedPrompt, error: Exception | None) -> str:
        """Write the run; return why there is none, empty where there is."""
        wanted = runs.JobRequest(
            recording.run_id,
            JOB,
            lambda: _config(self.workspace, last),
            self.tags,
            steps=() if self.ops == OPS else tuple(steps_of(self.ops)),
            parent=self.parent,
            alone=tuple(steps_of(OPS[: OPS.index(self.ops[-1]) + 1])),
        )
        left = RunOutcome(
            inputs=last.inputs,
            passed=last.passed,
            before=self.start.prompt,
            record=last.record,
            error=error,
        )
        with runs.one_run:
            require_uncleared(self.workspace, inputs_of(last.prompt))
            if last.record and not (self.workspace.store.root / last.record.prompt_key).is_dir():
                return "the prompt is not kept any more"
            problem, has_parent = attempt(self.workspace, wanted, left)
        if not problem and not has_parent:
            recording.note = "the run before this one is not there; recorded from the start"
        return "" if error else problem


def answered_from_record(
    start: RecordedPrompt, recalled: Recalled, *, record: bool, observe: Observer | None
) -> RecordedPrompt:
    """Return a prompt from its record, as if its steps had passed just now; no run is written.

    Args:
        start: Before the first step.
        recalled: The record, and what its steps left.
        record: Name the run that made it, where there was one.
        observe: Told about every step.
    """
    recording = None
    if record and recalled.record.run_id:
        recording = Recording()
        recording.run_id = recalled.record.run_id
        recording.end()
    now = replace(start, recording=recording, asked=recalled.asked)
    for step, prompt in recalled.passed.items():
        now = replace(now, prompt=prompt, passed={**now.passed, step: StepResult(prompt, 0.0)})
        if prompt is recalled.prompt:
            now = replace(now, record=recalled.record)
        if observe is not None:
            observe(step.rpartition(".")[2], now)
    return now


def attempt(workspace: Workspace, wanted: runs.JobRequest, left: RunOutcome) -> tuple[str, bool]:
    """Make a run; return what is wrong with it or with Dagster, and whether it has its parent."""
    try:
        return runs.execute(workspace, wanted, left)
    except Exception as error:  # whatever is wrong with Dagster, the work goes on
        drop_instances()
        return brief(error), False


def _config(workspace: Workspace, last: RecordedPrompt) -> dict[str, dict[str, Any]]:
    """Return what a run of the same ops has to be given; the prompt is kept, and named."""
    inputs, settings = last.inputs, {op: dict(made) for op, made in last.settings.items()}
    config: dict[str, dict[str, Any]] = {op: {"settings": made} for op, made in settings.items()}
    reference = workspace.store.put_request(last.request)
    asked = {"prompt_ref": reference, "now": inputs.now, "time_zone": inputs.time_zone}
    edits = put_edits(workspace, last.prompt)
    config |= {op: {**config.get(op, {}), "edits": named} for op, named in edits.items()}
    return {**config, OPS[0]: {**config.get(OPS[0], {}), **asked}}
