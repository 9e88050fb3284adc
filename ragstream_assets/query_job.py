"""The query job: one op a stage, made from `CHAIN`, with the audit's re-run unrolled once.

The job and the plain chain give the same SuperPrompt: both go through `step`.
"""

import datetime as dt
import time
from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg
from pydantic import Field

from ragstream_assets.example import EXAMPLE, resolve
from ragstream_assets.failures import short_errors
from ragstream_assets.io_managers import STAGE_JSON
from ragstream_assets.outcomes import outcome
from ragstream_assets.previews import Metadata, prompt_metadata, stage_metadata
from ragstream_assets.resources import WorkspaceResource
from ragstream_core.build.workspace import Workspace
from ragstream_core.errors import Refused
from ragstream_core.orchestration.chain import CHAIN, OPS, RERUN, StageSpec, rescoped, step
from ragstream_core.orchestration.inputs import PromptInputs, begin, change_settings, inputs_of
from ragstream_core.records import SuperPrompt
from ragstream_core.settings import chain_keys

JOB = "build_prompt"
AGAIN = "rerun"
AUDIT = "a2_audit"
AFTER_AUDIT = OPS[OPS.index(AUDIT) + 1]
UNKEPT = "ragstream prompt … --no-persist runs it without a trace"
OUT = dg.Out(SuperPrompt, io_manager_key=STAGE_JSON)


class StageConfig(dg.Config):
    """Settings of one stage."""

    settings: dict[str, str] = Field(
        default={},
        description="Settings that change from this stage on, e.g. `gate.theta: '0.1'`. "
        f"Names: {', '.join(chain_keys())}.",
    )


class RequestConfig(StageConfig):
    """What the first stage reads; the prompt itself never stands in run config."""

    prompt_ref: str = Field(
        default=EXAMPLE, description="`sha256:…` of a request in the inbox, or `example`."
    )
    now: str = Field(default="", description="Time of the request, ISO 8601; empty: the present.")
    time_zone: str = Field(default="", description="Name of the zone that `now` is in.")

    def moment(self) -> dt.datetime | None:
        """Return the time of the request with its zone, None for the present."""
        if not self.now:
            return None
        now = dt.datetime.fromisoformat(self.now)
        offset = now.utcoffset()
        return (
            now.replace(tzinfo=dt.timezone(offset, self.time_zone)) if offset is not None else now
        )


def steps_of(ops: tuple[str, ...]) -> list[str]:
    """Return the step keys that ops of the chain stand for: the audit brings its re-run along."""
    again = [f"{AGAIN}.{op}" for op in RERUN] if AUDIT in ops else []
    return [*ops, *again]


def pinned(workspace: Workspace, run_id: str, config: RequestConfig) -> PromptInputs:
    """Return the inputs that were pinned for this run, or pin what its reference asks for.

    Raises:
        RagstreamError: Unknown reference, project, setting or generation.
    """
    given = outcome(run_id).inputs
    if given is not None:
        return given
    return workspace.pin(resolve(workspace, config.prompt_ref), config.moment())


def staged(
    context: dg.OpExecutionContext,
    workspace: Workspace,
    *,
    op: str,
    prompt: SuperPrompt,
    settings: Mapping[str, str],
) -> tuple[SuperPrompt, Metadata]:
    """Run one stage; return its prompt and what to show of it.

    Raises:
        Failure: The stage refused or failed, or nothing may be kept of the prompt, and a run keeps
            everything; said in our own words.
    """
    left = outcome(context.run_id)
    with short_errors(context.run_id):
        started = time.perf_counter()
        given = change_settings(prompt, op, settings)
        if not workspace.persists(inputs_of(given)):
            raise Refused("history.persist is off, and a run would keep the prompt", hint=UNKEPT)
        result = step(workspace.stage, op, given)
        workspace.require_uncleared(inputs_of(given))
        seconds = time.perf_counter() - started
        left.prompt = result
        left.took(op, seconds)
        return result, stage_metadata(result, seconds)


def _first_op(spec: StageSpec) -> dg.OpDefinition:
    @dg.op(name=spec.op, description=spec.summary, out=OUT)
    def first(
        context: dg.OpExecutionContext, config: RequestConfig, workspace: WorkspaceResource
    ) -> dg.Output[SuperPrompt]:
        space = workspace.open()
        with short_errors(context.run_id):
            raw = begin(pinned(space, context.run_id, config))
        result, metadata = staged(context, space, op=spec.op, prompt=raw, settings=config.settings)
        return dg.Output(result, metadata=metadata)

    return first


def _stage_op(spec: StageSpec) -> dg.OpDefinition:
    @dg.op(name=spec.op, description=spec.summary, out=OUT)
    def stage(
        context: dg.OpExecutionContext,
        config: StageConfig,
        workspace: WorkspaceResource,
        prompt: SuperPrompt,
    ) -> dg.Output[SuperPrompt]:
        result, metadata = staged(
            context, workspace.open(), op=spec.op, prompt=prompt, settings=config.settings
        )
        return dg.Output(result, metadata=metadata)

    return stage


def _audit_op(spec: StageSpec) -> dg.OpDefinition:
    way = dg.Out(SuperPrompt, io_manager_key=STAGE_JSON, is_required=False)

    @dg.op(name=spec.op, description=spec.summary, out={"settled": way, "rescoped": way})
    def audit(
        context: dg.OpExecutionContext,
        config: StageConfig,
        workspace: WorkspaceResource,
        prompt: SuperPrompt,
    ) -> Iterator[dg.Output[SuperPrompt]]:
        result, metadata = staged(
            context, workspace.open(), op=spec.op, prompt=prompt, settings=config.settings
        )
        yield dg.Output(result, "rescoped" if rescoped(result) else "settled", metadata=metadata)

    return audit


def _fan_in_op(spec: StageSpec) -> dg.OpDefinition:
    @dg.op(name=spec.op, description=spec.summary, out=OUT)
    def fan_in(
        context: dg.OpExecutionContext,
        config: StageConfig,
        workspace: WorkspaceResource,
        prompts: list[SuperPrompt],
    ) -> dg.Output[SuperPrompt]:
        result, metadata = staged(
            context, workspace.open(), op=spec.op, prompt=prompts[-1], settings=config.settings
        )
        return dg.Output(result, metadata=metadata)

    return fan_in


def _last_op(spec: StageSpec) -> dg.OpDefinition:
    @dg.op(name=spec.op, description=spec.summary, out=OUT)
    def last(
        context: dg.OpExecutionContext,
        config: StageConfig,
        workspace: WorkspaceResource,
        prompt: SuperPrompt,
    ) -> dg.Output[SuperPrompt]:
        space, left = workspace.open(), outcome(context.run_id)
        result, metadata = staged(
            context, space, op=spec.op, prompt=prompt, settings=config.settings
        )
        with short_errors(context.run_id):
            left.record = space.finish(result, run_id=context.run_id, timings_ms=left.timings_ms)
            metadata.update(prompt_metadata(result, left.record))
        return dg.Output(result, metadata=metadata)

    return last


def _op(spec: StageSpec) -> dg.OpDefinition:
    special = {OPS[0]: _first_op, AUDIT: _audit_op, AFTER_AUDIT: _fan_in_op, OPS[-1]: _last_op}
    return special.get(spec.op, _stage_op)(spec)


stage_ops = {spec.op: _op(spec) for spec in CHAIN}


@dg.graph(name=AGAIN)
def rerun(prompt: SuperPrompt) -> SuperPrompt:
    """The audit's one re-run: retrieval to condenser in the new scope."""
    for op in RERUN:
        prompt = stage_ops[op](prompt)
    return prompt


def through_chain() -> Any:
    """Connect the whole chain inside a job; return the finished prompt's output."""
    result = stage_ops[OPS[0]]()
    for op in OPS[1 : OPS.index(AUDIT)]:
        result = stage_ops[op](result)
    audited = stage_ops[AUDIT](result)
    result = [audited.settled, rerun(audited.rescoped)]
    for op in OPS[OPS.index(AFTER_AUDIT) :]:
        result = stage_ops[op](result)
    return result


@dg.job(name=JOB, executor_def=dg.in_process_executor)
def build_prompt() -> None:
    """One Super-Prompt from a request, stage by stage; any stage can be re-executed from."""
    through_chain()
