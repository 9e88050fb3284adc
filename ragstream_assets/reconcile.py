"""Keeping Dagster's view true: runs of dead processes."""

import os
import socket
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ragstream_assets import roll_call
from ragstream_core.config import AppConfig
from ragstream_core.errors import RagstreamError, quoted
from ragstream_core.platform.locks import pid_namespace, process_start
from ragstream_core.wiring.workspace import Workspace

if TYPE_CHECKING:
    from dagster import DagsterInstance, DagsterRun, RunRecord

PROJECT_TAG = "ragstream/project"
PID_TAG = ".dagster/ragstream_pid"
START_TAG = ".dagster/ragstream_pid_start"
HOST_TAG = ".dagster/ragstream_host"
SPACE_TAG = ".dagster/ragstream_pid_space"
"""Of the process that makes a run; Dagster's pages show no tag that begins so."""
ANSWERS_TAG = ".dagster/ragstream_answers"
"""The names of a process that answers for its run at the roll call; earlier versions did not."""
_BEFORE = {PID_TAG: "ragstream/pid", START_TAG: "ragstream/pid_start", HOST_TAG: "ragstream/host"}
"""Their names of before, which older runs still have; of the namespace those say nothing."""
SCANNED_RUNS = 100
NAMING_S = 120.0
"""How long a run that is repeated in Dagster's pages may take to name its process: before it
begins, and from then on."""
_COMMANDS = {
    "ingest_documents": ("ingest", ""),
    "embed_texts": ("ingest", " --fan-out"),
    "sync_documents": ("project sync", ""),
}


def process_tags(config: AppConfig | None = None) -> dict[str, str]:
    """Return the tags that name this process for good: pid, start time, host, pid namespace.

    Args:
        config: The settings; where Dagster's records are shared, the process says that it answers.

    Raises:
        UnknownSetting: `dagster.storage` is no address.
    """
    pid = os.getpid()
    tags = {
        PID_TAG: str(pid),
        START_TAG: process_start(pid) or "unknown",
        HOST_TAG: socket.gethostname(),
        SPACE_TAG: pid_namespace(),
    }
    if config is not None and roll_call.database_of(config) is not None:
        tags[ANSWERS_TAG] = " ".join(_names(tags))
    return tags


def name_process(instance: "DagsterInstance", run: "DagsterRun", config: AppConfig) -> None:
    """Name this process as the one of a run that others launched, and answer for it from now on.

    A run that is repeated in Dagster's pages has the names of the run before it until then. One
    that this process made has its names, and somebody who answers for it.

    Raises:
        UnknownSetting: `dagster.storage` is no address.
    """
    names = process_tags(config)
    if not names.items() <= run.tags.items():
        instance.add_run_tags(run.run_id, names)
        roll_call.answer(config, run.run_id)


def mark_stale_runs(instance: "DagsterInstance", config: AppConfig) -> list[str]:
    """Fail the unfinished runs whose process is gone; return their ids.

    Runs of another host or container are called, see `roll_call`. They are left alone if records
    are files or they do not answer, as in earlier versions; so are runs that are being launched or
    have just begun, if they carry the names of the run that they repeat.
    """
    from dagster import DagsterRunStatus, RunsFilter

    unfinished = [
        DagsterRunStatus.NOT_STARTED,
        DagsterRunStatus.STARTED,
        DagsterRunStatus.CANCELING,
    ]
    runs = instance.get_runs(RunsFilter(statuses=unfinished), limit=SCANNED_RUNS)
    silent = _silent(config, [run.run_id for run in runs if _is_called(run.tags)])
    stale: list[str] = []
    for run in runs:
        is_silent = run.run_id in silent
        record = None
        if is_silent or _gone(run.tags):
            record = instance.get_run_record_by_id(run.run_id)
        # read again: a process that ended well has said so before it went
        if record is None or record.dagster_run.status not in unfinished:
            continue
        tags = record.dagster_run.tags
        if is_silent and _names(tags) == _names(run.tags):
            said = _of_silence(tags)
        elif _gone(tags) and not _just_begun(instance, record):
            said = "The process that made this run is gone."
        else:
            continue
        instance.report_run_failed(run, f"{said}{_next(run)}")
        stale.append(run.run_id)
    return stale


def tidy(instance: "DagsterInstance", workspace: Workspace, project: str) -> None:
    """Do what is due before a run; before an ingest, also make its project a partition."""
    mark_stale_runs(instance, workspace.config)
    if not project:
        return
    instance.add_dynamic_partitions("project", [project])


def _just_begun(instance: "DagsterInstance", record: "RunRecord") -> bool:
    """Whether a run that was made or began lately carries the names of the run that it repeats."""
    if time.time() - (record.start_time or record.create_timestamp.timestamp()) > NAMING_S:
        return False
    run = record.dagster_run
    parent = instance.get_run_by_id(run.parent_run_id) if run.parent_run_id else None
    return parent is not None and _names(parent.tags) == _names(run.tags)


def _silent(config: AppConfig, run_ids: list[str]) -> set[str]:
    """Return the runs of other hosts that are taken for dead; none if they cannot be called."""
    database = roll_call.database_of(config)
    if database is None or not run_ids:
        return set()
    try:
        return roll_call.call(database, run_ids)
    except RagstreamError:  # they stay as they are
        return set()


def _of_silence(tags: Mapping[str, str]) -> str:
    pid, _, host, _ = _names(tags)
    return (
        f"Process {pid} on {host}, which makes this run, has left {roll_call.CALLS} calls "
        "unanswered: it has ended, or it is cut off and finishes its work where it is."
    )


def _next(run: "DagsterRun") -> str:
    """Return the command that goes on with a run; empty where there is none."""
    verb, option = _COMMANDS.get(run.job_name, ("", ""))
    project = run.tags.get(PROJECT_TAG, "")
    if not (verb and project):
        return ""
    host = _names(run.tags)[2]
    return f"\nnext: on {host}: `ragstream {verb} {quoted(project)}{option}`"


def _names(tags: Mapping[str, str]) -> list[str]:
    """Return pid, start time, host and pid namespace of the process of a run."""
    names = [tags.get(name, tags.get(_BEFORE[name], "")) for name in _BEFORE]
    return [*names, tags.get(SPACE_TAG, "")]


def _is_seen(names: list[str]) -> bool:
    """Whether a process would be seen from here if it lived."""
    pid, start, host, space = names
    if host != socket.gethostname() or start in ("", "unknown") or not pid.isdigit():
        return False
    return not space or space == pid_namespace()  # in another one its pid says nothing here


def _is_called(tags: Mapping[str, str]) -> bool:
    """Whether the process of a run answers, and can be asked in no other way."""
    names = _names(tags)
    return tags.get(ANSWERS_TAG) == " ".join(names) and not _is_seen(names)


def _gone(tags: Mapping[str, str]) -> bool:
    pid, start, *_ = names = _names(tags)
    return _is_seen(names) and process_start(int(pid)) != start
