"""Runs the chain and the ingest for people, and records both as Dagster runs.

A prompt is made first and recorded behind it: its run is written by `writer` from what the chain
left, so no prompt waits for Dagster, and nothing wrong with it fails or delays one. So are the
figures of an answer, never its words. An ingest runs inside Dagster; there, whatever is wrong with
Dagster becomes a warning. Dagster is imported at the first recording, not before.
"""

import datetime as dt
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from ragstream_assets.instance import drop_instances, instance_for
from ragstream_assets.job_steps import JOB, is_before, steps_of, upstream_of
from ragstream_assets.reconcile import PROJECT_TAG, mark_stale_runs
from ragstream_assets.recorder import runs
from ragstream_assets.recorder.chain_run import (
    UNRECORDED,
    Observer,
    RecordedPrompt,
    answered_from_record,
    run_ops,
)
from ragstream_assets.recorder.writer import Recording, writer
from ragstream_assets.run_here import one_run
from ragstream_assets.run_outcomes import RunOutcome
from ragstream_core.answers.answer import Answer
from ragstream_core.errors import RagstreamError
from ragstream_core.ingestion.stats import IngestionStats
from ragstream_core.ports import PhaseProgress
from ragstream_core.prompts.chain import OPS, last_op
from ragstream_core.prompts.inputs import PromptRequest, begin, change_settings, inputs_of, persists
from ragstream_core.records import SuperPrompt
from ragstream_core.services.ingest import ingest_project
from ragstream_core.wiring import ingestion
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.prompt_reuse import recall
from ragstream_core.wiring.workspace import Workspace

WAIT_S = 60.0
"""How long an ingest waits for another run of this process before it goes unrecorded."""
EDITED_TAG = "ragstream/edited"


def record_ingest(
    workspace: Workspace,
    project: str,
    *,
    verify: bool = False,
    rebuild: bool = False,
    accept_missing: bool = False,
    fan_out: bool = False,
    progress: PhaseProgress | None = None,
) -> tuple[IngestionStats, str]:
    """Ingest a project as a Dagster run; return what it did and the run, empty if there is none.

    Workers are asked to embed the texts before if `fan_out` says so, or there are so many of them
    as `embeddings.fan_out_at` says and a broker is set; what they do not, the ingest does.

    Raises:
        RagstreamError: As `ingest_project`.
    """
    thorough = verify or rebuild or accept_missing
    unchanged = None if thorough else ingestion.unchanged(workspace, project)
    if unchanged is not None:
        return unchanged, ""
    of_ingest = {"rebuild": rebuild, "accept_missing": accept_missing}
    not_fanned = _fan_out(workspace, project, of_ingest, wanted=fan_out, progress=progress)
    problem, left = "", RunOutcome(progress=progress, asked_workers=True)
    tags = {"dagster/partition": project, PROJECT_TAG: project, "ragstream/mode": "ingest"}
    recording = Recording("ingest_documents", tags=tags) if is_on(workspace) else None
    if recording is not None:
        given = {"verify": verify, "rebuild": rebuild}
        accept = {"accept_missing": True} if accept_missing else {}
        problem = _ingest(workspace, recording, left, given, {**given, **accept})
    if isinstance(left.error, RagstreamError):
        raise left.error
    if left.stats is None:
        stats = ingest_project(
            workspace, project, verify=verify, rebuild=rebuild, accept_missing=accept_missing,
            progress=progress,
        )  # fmt: skip
    else:
        stats = replace(left.stats, after_commit_s=time.perf_counter() - left.ingested_at)
    said = (f"{UNRECORDED}{problem}" if problem else "", not_fanned)
    warnings = tuple(filter(None, said))
    run_id = recording.run_id if recording and not problem else ""
    return replace(stats, warnings=(*stats.warnings, *warnings)), run_id


def _fan_out(
    workspace: Workspace,
    project: str,
    of_ingest: Mapping[str, bool],
    *,
    wanted: bool,
    progress: PhaseProgress | None,
) -> str:
    """Have workers embed what an ingest needs; return what is to be said about it, or nothing."""
    if not (wanted or workspace.config.settings.embeddings.broker.get_secret_value()):
        return ""
    from ragstream_assets import fan_out

    if not (wanted or is_on(workspace)):
        return ""
    return fan_out.ahead(workspace, project, wanted=wanted, progress=progress, **of_ingest)


def record_prompt(
    workspace: Workspace,
    request: PromptRequest,
    *,
    through: str = OPS[-1],
    now: dt.datetime | None = None,
    session: str = "",
    record: bool = True,
    fresh: bool = False,
    observe: Observer | None = None,
) -> RecordedPrompt:
    """Run the chain for a request; its run is written behind it where it may be kept.

    A whole prompt that was asked for before is answered from its record where nothing has changed:
    the chain does not run, and no run is written.

    Args:
        workspace: The data root.
        request: What is asked; bad requests are refused before anything is recorded.
        through: Last stage or op.
        now: Time of the request, with a zone; default: the present moment.
        session: Groups the runs of one person's work.
        record: False leaves no run behind, whatever the settings say.
        fresh: Run the chain whatever is kept.
        observe: Told about every op that ran.

    Raises:
        RagstreamError: The request or a stage refused or failed.
    """
    ops = OPS[: OPS.index(last_op(through)) + 1]
    inputs = pin_inputs(workspace, request, now)
    start = RecordedPrompt(begin(inputs), request, inputs)
    if ops == OPS and not fresh:
        recalled, said = recall(workspace, inputs)
        if recalled is not None:
            named = record and is_on(workspace)
            return answered_from_record(start, recalled, record=named, observe=observe)
        start = replace(start, said=said)
    if record and is_on(workspace) and persists(inputs):
        tags = {"ragstream/mode": "run" if ops == OPS else "through"}
        start = replace(start, recording=_recording(ops, tags, session=session))
    return run_ops(workspace, start, ops, observe)


def record_stage(
    workspace: Workspace,
    before: RecordedPrompt,
    ops: tuple[str, ...],
    *,
    settings: Mapping[str, str] | None = None,
    session: str = "",
    observe: Observer | None = None,
) -> RecordedPrompt:
    """Run some ops on top of an earlier result; its run is a re-execution of that one's.

    Args:
        workspace: The data root.
        before: What passed the ops before the first one, and perhaps later ones; its run is the
            parent.
        ops: Neighbours in `CHAIN`, in order, e.g. those of a button.
        settings: Dotted settings that change from the first op on.
        session: Groups the runs of one person's work.
        observe: Told about every op that ran.

    Raises:
        RagstreamError: A stage refused or failed.
    """
    changes = dict(settings or {})
    given = change_settings(_read_by(ops[0], before), ops[0], changes)
    upstream = {op: made for op, made in before.settings.items() if is_before(op, ops[0])}
    start = replace(
        before,
        prompt=given,
        passed={step: made for step, made in before.passed.items() if is_before(step, ops[0])},
        seconds={step: s for step, s in before.seconds.items() if is_before(step, ops[0])},
        settings={**upstream, ops[0]: changes} if changes else upstream,
        timings_ms={},
        record=None,
        recording=None,
        asked=(),
        said="",
        edited_key="",
        unedited=None,
        resumed=before.record.prompt_key if before.record else before.resumed,
    )
    if (before.recording or before.asked) and is_on(workspace) and persists(inputs_of(given)):
        tags = {"ragstream/mode": "stage"} | ({EDITED_TAG: "yes"} if given.extras.edits else {})
        parent = before.recording.run_id if before.recording else ""
        start = replace(start, recording=_recording(ops, tags, session=session, parent=parent))
    return run_ops(workspace, start, ops, observe)


def close_stale_runs(workspace: Workspace) -> None:
    """Have the unfinished runs of processes that are gone marked as failed, behind all else."""
    if is_on(workspace) and (workspace.data_dir / "dagster_home").is_dir():
        writer.submit(Recording(), partial(_close_stale_runs, workspace))


def is_on(workspace: Workspace) -> bool:
    """Whether the settings ask for Dagster runs."""
    return workspace.config.settings.dagster.record == "dagster"


def _recording(
    ops: tuple[str, ...], tags: Mapping[str, str], *, session: str, parent: str = ""
) -> Recording:
    """Return the run of some ops, which executes those of its parent again if it has one."""
    through = OPS[: OPS.index(ops[-1]) + 1]
    own = {"ragstream/session": session} if session else {}
    return Recording(
        JOB,
        tags={"ragstream/stage": ops[-1], **tags, **own},
        steps=() if ops == OPS else steps_of(ops),
        parent=parent,
        alone=steps_of(through),
    )


def _ingest(
    workspace: Workspace,
    recording: Recording,
    left: RunOutcome,
    given: dict[str, bool],
    of_ingest: dict[str, bool],
) -> str:
    """Make the run of an ingest; return what is wrong, empty if it is all done.

    Args:
        workspace: The data root.
        recording: The run.
        left: Takes what came of it.
        given: The configuration of every op.
        of_ingest: That of the first one.
    """

    def config() -> dict[str, dict[str, bool]]:
        from ragstream_assets.document_assets import INGEST_OPS

        return {**dict.fromkeys(INGEST_OPS, given), INGEST_OPS[0]: of_ingest}

    if not one_run.acquire(timeout=WAIT_S):
        return f"another run has been busy for {WAIT_S:.0f} s"
    try:
        return runs.execute(workspace, recording, config, left)
    finally:
        one_run.release()


def _read_by(op: str, before: RecordedPrompt) -> SuperPrompt:
    """Return what an op reads: the newest prompt if the op is the next one, else an older."""
    upstream = upstream_of(op, before.passed)
    if not upstream:
        return begin(before.inputs)
    newest = list(before.passed)[-1]
    return before.prompt if newest == upstream else before.passed[upstream]


def _close_stale_runs(workspace: Workspace) -> str:
    mark_stale_runs(instance_for(workspace.config), workspace.config)
    return ""


def record_answer(workspace: Workspace, answer: Answer, *, run_id: str = "") -> Recording | None:
    """Have an answer observed in Dagster, behind the run of its prompt; delays and fails nothing.

    Args:
        workspace: The data root.
        answer: To a prompt of the command line or the page.
        run_id: The run of its prompt, if there is one.

    Returns:
        What is to be written; None if nothing is: the prompt or the answer is not kept, or the
        settings ask for no runs.
    """
    if not (is_on(workspace) and answer.prompt_key and answer.session):
        return None
    recording = Recording()
    writer.submit(recording, partial(_observe, workspace, answer, run_id))
    return recording


def _observe(workspace: Workspace, answer: Answer, run_id: str) -> str:
    """Write the observation.

    Raises:
        Exception: Whatever is wrong with Dagster.
    """
    import dagster as dg

    from ragstream_assets.answer_job import ANSWERS

    usage = answer.usage
    known = {
        "prompt_key": answer.prompt_key,
        "prompt_run": run_id or None,
        "session": answer.session,
        "status": answer.status,
        "model": answer.model or None,
        "citations": len(answer.citations),
        "unverified_citations": sum(not citation.verified for citation in answer.citations),
        "input_tokens": usage.input_tokens if usage else 0,
        "output_tokens": usage.output_tokens if usage else 0,
        "cost_usd": answer.cost_usd,
        "total_cost_usd": answer.total_cost_usd,
    }
    metadata = {name: value for name, value in known.items() if value is not None}
    try:
        with one_run:
            instance_for(workspace.config).report_runless_asset_event(
                dg.AssetObservation(dg.AssetKey(ANSWERS), metadata=metadata)
            )
    except Exception:
        drop_instances()
        raise
    return ""
