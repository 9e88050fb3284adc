"""`--dagster`: the real jobs, executed in this process against the data root's instance.

Dagster's pages show such a run like any other: its steps, and the time that each of them took. It
is not offered to be re-executed there, since Dagster does not know where its code is; the Launchpad
runs the same job.
"""

import datetime as dt
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import dagster as dg

from ragstream_assets.definitions import defs
from ragstream_assets.documents import INGEST_JOB, INGEST_OPS, SYNC_JOB, IngestConfig
from ragstream_assets.instance import drop_instances, instance_for
from ragstream_assets.launcher import MACHINE_TAG, machine
from ragstream_assets.prompts import unkept
from ragstream_assets.resources import RUN, RunState, adopt
from ragstream_assets.specs import PROJECT_TAG
from ragstream_core.errors import OperationFailed, RagstreamError
from ragstream_core.ingestion.stats import IngestionStats
from ragstream_core.ports import PhaseProgress
from ragstream_core.prompts.chain import OPS
from ragstream_core.prompts.chain_steps import JOB
from ragstream_core.prompts.inputs import PromptRequest, inputs_of
from ragstream_core.prompts.made_prompt import MadePrompt
from ragstream_core.prompts.recorded import times_asked
from ragstream_core.prompts.store import key_of
from ragstream_core.records import SuperPrompt
from ragstream_core.wiring.workspace import Workspace

# Dagster prints a line an event otherwise; what matters is in the run.
QUIET = {"console": {"config": {"log_level": "CRITICAL"}}}


def ingest(
    workspace: Workspace,
    project: str,
    config: IngestConfig,
    *,
    progress: PhaseProgress | None = None,
) -> tuple[IngestionStats, str]:
    """Execute the ingest job for one project; return what it did, and its run."""
    workspace.require_project(project)
    first, second = INGEST_OPS
    ops = {
        first: {"config": config.model_dump()},
        second: {"config": {"verify": config.verify, "rebuild": config.rebuild}},
    }
    state = RunState(progress=progress)
    job = SYNC_JOB if config.sync else INGEST_JOB
    result = _execute(workspace, job, ops, state, project=project)
    if state.stats is None:
        raise OperationFailed(f"the run of {project} did nothing", hint="look at it in Dagster")
    after_s = time.perf_counter() - state.ingested_at
    return replace(state.stats, after_commit_s=after_s), result.run_id


def prompt(
    workspace: Workspace,
    request: PromptRequest,
    *,
    fresh: bool = False,
    now: dt.datetime | None = None,
) -> MadePrompt:
    """Execute the job `build_prompt` for a request; its question lies in the inbox."""
    config = workspace.config.with_task(request.task, explicit=request.settings)
    if not config.settings.history.persist:
        raise unkept()
    given = {"prompt_ref": workspace.store.put_request(request), "fresh": fresh}
    if now is not None:
        given |= {"now": now.isoformat(), "time_zone": str(now.tzinfo)}
    state = RunState()
    result = _execute(workspace, JOB, {OPS[0]: {"config": given}}, state)
    made: SuperPrompt = result.output_for_node(OPS[-1])
    key = key_of(made)
    asked = times_asked(workspace.store.root / key)[:-1] if state.record else ()
    return MadePrompt(
        made,
        inputs_of(made),
        state.passed,
        state.timings_ms,
        state.record or workspace.store.record(key),
        asked=asked,
    )


def _execute(
    workspace: Workspace,
    job: str,
    ops: Mapping[str, Any],
    state: RunState,
    *,
    project: str = "",
) -> dg.ExecuteInProcessResult:
    """Execute a job here; what one of its steps raised comes out as it was raised there."""
    config = {
        "resources": {"workspace": {"config": adopt(workspace)}},
        "loggers": QUIET,
        "ops": ops,
    }
    try:
        instance = instance_for(workspace.config)
        if project:
            instance.add_dynamic_partitions("project", [project])
        return defs.resolve_job_def(job).execute_in_process(
            config,
            instance,
            project or None,
            tags={MACHINE_TAG: machine(), **({PROJECT_TAG: project} if project else {})},
            resources={RUN: state},
        )
    except dg.DagsterExecutionInterruptedError:
        raise KeyboardInterrupt from None
    except RagstreamError:
        raise
    except Exception as error:  # a step's own, or of Dagster, SQLAlchemy, the disk
        if state.error is not None:
            raise state.error from None
        drop_instances()
        first = str(error).partition("\n")[0][:200]
        raise OperationFailed(
            f"Dagster could not do it: {type(error).__name__}: {first}",
            hint="without --dagster the same work is done",
        ) from None
