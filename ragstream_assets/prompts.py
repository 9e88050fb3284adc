"""The jobs of a prompt: one op a stage, made from `CHAIN`, with the audit's re-run unrolled once.

The job and the plain chain give the same SuperPrompt: both go through `step`. `answer_question` is
the same job with two more steps: the language model is asked, and the turn kept. An op that failed
would look as if there were no prompt: where the model gives no answer the run succeeds and says so
(R-212). Its words stand in the conversation only: `ragstream history show`.
"""

import datetime as dt
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import dagster as dg
from pydantic import Field

from ragstream_assets.events import ANSWERS_SPEC
from ragstream_assets.failures import short_errors
from ragstream_assets.io_managers import STAGE_JSON, StageJsonIOManager
from ragstream_assets.launchpad import (
    FROM_RUN,
    FROM_RUN_MEANS,
    by_reference,
    request_config,
    resolve,
    stage_config,
    typed_request,
)
from ragstream_assets.metadata import Metadata, joined, prompt_metadata, stage_metadata, table, usd
from ragstream_assets.resources import Run, RunState, WorkspaceResource
from ragstream_assets.specs import EVENT_ID
from ragstream_core.config import overlay
from ragstream_core.errors import Refused, UsageError
from ragstream_core.prompts.chain import AGAIN, AUDIT, CHAIN, OPS, RERUN, StageSpec, rescoped, step
from ragstream_core.prompts.chain_steps import AFTER_AUDIT, JOB
from ragstream_core.prompts.inputs import begin, change_settings, inputs_of, persists
from ragstream_core.prompts.store import key_of
from ragstream_core.records import SuperPrompt
from ragstream_core.records.prompt_inputs import PromptInputs
from ragstream_core.services.edit_prompt import with_edits
from ragstream_core.services.made_since import last_answer
from ragstream_core.wiring.answering import attempt, prepare
from ragstream_core.wiring.journal import require_uncleared
from ragstream_core.wiring.models import ranking_device
from ragstream_core.wiring.saved_prompts import recall, save_prompt
from ragstream_core.wiring.workspace import Workspace

OUT = dg.Out(SuperPrompt, io_manager_key=STAGE_JSON)

# An op subset may begin here: then there is no step before it, and `from_run` names a run.
IN = dg.In(input_manager_key=STAGE_JSON)


def unkept() -> Refused:
    """Return why there is no run of a prompt of which nothing may be kept."""
    return Refused(
        "history.persist is off, and a run would keep the prompt",
        hint="ragstream prompt … --no-persist runs it without a trace",
    )


def moment(config: Mapping[str, str]) -> dt.datetime | None:
    """Return the time of a request with its zone, None for the present."""
    given = config.get("now", "")
    if not given:
        return None
    try:
        now = dt.datetime.fromisoformat(given)
    except ValueError:
        raise UsageError(
            f"now = {given!r} is not a time", hint="e.g. 2026-03-01T12:30:00+01:00"
        ) from None
    offset = now.utcoffset()
    if offset is None:
        return now
    return now.replace(tzinfo=dt.timezone(offset, config.get("time_zone", "")))


def pinned(workspace: Workspace, config: Mapping[str, Any]) -> PromptInputs:
    """Pin what the config of the first op asks for."""
    from ragstream_core.wiring.prompt_inputs import pin_inputs

    asked = typed_request(workspace, config) or resolve(workspace, config["prompt_ref"])
    return pin_inputs(workspace, asked, moment(config))


def moved(context: dg.OpExecutionContext, workspace: Workspace) -> Metadata:
    """Move what was typed into the run's config to the inbox; return what to show of it."""
    reference, move = "", partial(by_reference, context.instance, context.run_id)
    try:
        asked = typed_request(workspace, context.op_config)
        if asked is None:
            return {}
        settings = overlay(workspace.config.chain(), context.op_config.get("settings", {}))
        reference = workspace.store.put_request(asked) if settings.history.persist else ""
    except Exception:
        move(op=str(context.op_handle), reference="")
        raise
    problem = move(op=str(context.op_handle), reference=reference)
    said = {"warnings": f"the prompt still stands in the run's config: {problem}"}
    return {"prompt_ref": reference or "-", **(said if problem else {})}


def answered(
    context: dg.OpExecutionContext, workspace: Workspace, run: RunState, inputs: PromptInputs
) -> Metadata:
    """Take what the stages left when the same prompt was made before, where nothing has changed.

    All steps of the run then find their results there, and the prompt its record.
    """
    if context.op_config.get("fresh") or not _is_whole(context):
        return {}
    found, said = recall(workspace, inputs)
    if found is None:
        return {"warnings": said} if said else {}
    run.passed, run.record = dict(found.passed), found.record
    return {"answered_from_the_record": found.key, "asked_before": len(found.asked)}


def _is_whole(context: dg.OpExecutionContext) -> bool:
    """Whether a run is of all steps, with no setting and no edit on the way."""
    ops: Any = context.run.run_config.get("ops", {})
    configs = [dict(op or {}).get("config") or {} for op in ops.values()]
    changed = any(config.get(name) for config in configs for name in ("settings", "edits"))
    run = context.run
    steps = run.step_keys_to_execute
    is_part = run.resolved_op_selection or (steps is not None and not set(OPS) <= set(steps))
    return not (changed or is_part or run.parent_run_id)


def staged(
    context: dg.OpExecutionContext,
    workspace: Workspace,
    run: RunState,
    op: str,
    prompt: SuperPrompt,
) -> dg.Output[SuperPrompt]:
    """Run one stage; return its prompt and what to show of it.

    Where a record answers in place of the stages, its result is taken and nothing is computed.
    """
    from ragstream_core.wiring.stages import stages_of

    key, config, seconds = str(context.op_handle), context.op_config, 0.0
    with short_errors(run):
        if run.record is not None:
            result = run.passed[key]
        else:
            began = time.perf_counter()
            edited = with_edits(workspace, prompt, config.get("edits", ""))
            given = change_settings(edited, op, config.get("settings", {}))
            if not persists(inputs_of(given)):
                raise unkept()
            result = step(stages_of(workspace), op, given)
            seconds = time.perf_counter() - began
            run.passed[key] = result
            run.timings_ms[op] = run.timings_ms.get(op, 0.0) + seconds * 1000  # both passes
        require_uncleared(workspace, inputs_of(result))
        shown = stage_metadata(result, seconds, device=ranking_device(op, inputs_of(result)))
        if op == OPS[-1]:
            record = run.record or save_prompt(
                workspace,
                result,
                run_id=context.run_id,
                resumed=StageJsonIOManager(workspace).resumed(context.run_id),
                timings_ms=run.timings_ms,
                passed=run.passed,
            )
            shown |= prompt_metadata(result, record, workspace.store.root / record.prompt_key)
    output = ("rescoped" if rescoped(result) else "settled") if op == AUDIT else "result"
    return dg.Output(result, output, metadata=shown)


def _first_op(spec: StageSpec) -> dg.OpDefinition:
    @dg.op(name=spec.op, description=spec.summary, out=OUT, config_schema=request_config())
    def first(
        context: dg.OpExecutionContext, workspace: WorkspaceResource, run: Run
    ) -> dg.Output[SuperPrompt]:
        space = workspace.open()
        with short_errors(run):
            told = moved(context, space)
            inputs = pinned(space, context.op_config)
            told |= answered(context, space, run, inputs)
        output = staged(context, space, run, spec.op, begin(inputs))
        return output.with_metadata({**output.metadata, **told})

    return first


def _stage_op(spec: StageSpec) -> dg.OpDefinition:
    way = dg.Out(SuperPrompt, io_manager_key=STAGE_JSON, is_required=False)
    outs = {"settled": way, "rescoped": way} if spec.op == AUDIT else {"result": OUT}

    @dg.op(
        name=spec.op, description=spec.summary, ins={"prompt": IN}, out=outs,
        config_schema=stage_config(spec.op),
    )  # fmt: skip
    def stage(
        context: dg.OpExecutionContext,
        workspace: WorkspaceResource,
        run: Run,
        prompt: SuperPrompt,
    ) -> Iterator[dg.Output[SuperPrompt]]:
        yield staged(context, workspace.open(), run, spec.op, prompt)

    return stage


def _fan_in_op(spec: StageSpec) -> dg.OpDefinition:
    @dg.op(name=spec.op, description=spec.summary, out=OUT, config_schema=stage_config(spec.op))
    def fan_in(
        context: dg.OpExecutionContext,
        workspace: WorkspaceResource,
        run: Run,
        prompts: list[SuperPrompt],
    ) -> dg.Output[SuperPrompt]:
        space = workspace.open()
        if not prompts:  # an op subset begins here
            named = context.op_config.get(FROM_RUN, "")
            stages = StageJsonIOManager(space)
            prompts = [stages.taken_over(spec.op, named, context.run, context.instance)]
        return staged(context, space, run, spec.op, prompts[-1])

    return fan_in


special_ops = {OPS[0]: _first_op, AFTER_AUDIT: _fan_in_op}
stage_ops = {spec.op: special_ops.get(spec.op, _stage_op)(spec) for spec in CHAIN}


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


class AnswerConfig(dg.Config):
    """How a prompt is answered."""

    session: str = Field(
        default="", description="The conversation that it is kept in; empty: the prompt's own."
    )
    allow_secrets: bool = Field(
        default=False, description="Send it even if it seems to contain keys or passwords."
    )
    from_run: str = Field(default="", description=FROM_RUN_MEANS)


@dg.op(out=dg.Out(dg.Nothing), ins={"prompt": IN})
def answer(
    context: dg.OpExecutionContext,
    config: AnswerConfig,
    workspace: WorkspaceResource,
    run: Run,
    prompt: SuperPrompt,
) -> None:
    """Asks the language model; the answer is checked and kept in the conversation."""
    space = workspace.open()
    with short_errors(run):
        prepared = prepare(space, prompt, prompt_key=key_of(prompt), session=config.session)
        found = attempt(space, prepared, allow_secrets=config.allow_secrets)
        turn = last_answer(space, found.prompt_key, found.session)
    usage = found.usage
    figures: Metadata = {
        "characters": len(found.text),
        "status": found.status,
        "model": found.model or "none was asked",
        "input_tokens": usage.input_tokens if usage else 0,
        "output_tokens": usage.output_tokens if usage else 0,
        "cost_usd": usd(usage.cost_usd if usage else None),
        "total_cost_usd": usd(found.total_cost_usd),
        "session": found.session,
        "warnings": joined(found.warnings),
    }
    rows = [(cited.id, cited.source, cited.verified, cited.reason) for cited in found.citations]
    citations = table(("id", "source", "verified", "reason"), rows)
    context.add_output_metadata({**figures, "citations": citations})
    if turn:
        context.log_event(
            dg.AssetObservation(ANSWERS_SPEC.key, metadata=figures | {EVENT_ID: turn})
        )


@dg.job(executor_def=dg.in_process_executor)
def answer_question() -> None:
    """One answer to a request: the Super-Prompt stage by stage, then the language model."""
    answer(through_chain())
