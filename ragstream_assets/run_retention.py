"""Runs that nobody needs any longer: Dagster deletes them, and the files that it leaves go as well.

A finished run goes when it is older than `retention.run_days`, or when `retention.run_count` newer
ones are there. One stays that holds the latest materialisation of an asset or a partition, that
made a kept prompt, that a run which stays was executed on top of, and the newest of all: SQLite
gives the highest row number away again, and cursors rely on it. Killed anywhere, the next call goes
on: files without a run go after a day.
"""

import contextlib
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_assets.instance import instance_for
from ragstream_core.platform.disk import size_of
from ragstream_core.platform.files import remove_path
from ragstream_core.prompts.store import KEPT_NAME, RECORD_NAME
from ragstream_core.services.prompt_retention import DAY_S
from ragstream_core.wiring.debug_log import debug_logs
from ragstream_core.wiring.workspace import Workspace

if TYPE_CHECKING:
    from dagster import DagsterInstance, RunRecord

PARENT_TAG = "dagster/parent_run_id"
_SHARD = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class DroppedRuns:
    """What a retention of runs dropped, or would drop."""

    dry_run: bool
    runs: tuple[str, ...] = ()  # oldest first
    orphans: int = 0  # event files without a run
    note: str = ""  # always empty; programs have read it
    logs: int = 0
    bytes: int = 0  # freed in files; what a database gives back is not counted


def gc(
    workspace: Workspace,
    *,
    instance: "DagsterInstance | None" = None,
    now: float | None = None,
    dry_run: bool = False,
) -> DroppedRuns:
    """Drop the runs and the debug logs that nobody needs; stopped anywhere, run it again.

    Without an `instance` it is this process's, if Dagster has been used.
    """
    now = time.time() if now is None else now
    rules, home = workspace.config.settings.retention, workspace.layout.dagster_home
    old = now - rules.run_days * DAY_S
    files = logs = [path for path in debug_logs(workspace) if path.stat().st_mtime < old]
    going: list[str] = []
    orphans: list[str] = []
    is_elsewhere = workspace.config.settings.dagster.storage.get_secret_value()
    if instance is not None or is_elsewhere or (home / "history").is_dir():
        instance = instance or instance_for(workspace.config)
        records = list(instance.get_run_records())
        staying = _latest(instance) | _of_kept_prompts(workspace.store.root)
        going = _superfluous(records, staying, old, rules.run_count)
        known = {record.dagster_run.run_id for record in records}
        orphans = list(_orphans(home, known, now - DAY_S))
        files = [*logs, *(path for run in (*going, *orphans) for path in _files(home, run))]
    freed = sum(size_of(path) for path in files)
    if not dry_run:
        if instance is not None:
            _delete(instance, going)
        for path in files:
            remove_path(path)
    return DroppedRuns(dry_run, tuple(going), len(orphans), logs=len(logs), bytes=freed)


def _delete(instance: "DagsterInstance", run_ids: list[str]) -> None:
    for run_id in run_ids:
        try:
            instance.delete_run(run_id)
        except Exception:
            if instance.get_run_by_id(run_id) is not None:
                raise  # else only its file of events was damaged, and files go next


def _superfluous(
    records: "list[RunRecord]", staying: set[str], old: float, count: int
) -> list[str]:
    """Return the ids of the runs that may go, oldest first.

    Of all runs, newest first, those go that were made before `old`, or after the newest `count`,
    unless one that stays goes on from them.
    """
    going = []
    for place, record in enumerate(records):
        run = record.dagster_run
        is_new = place < count and record.create_timestamp.timestamp() >= old
        if place == 0 or is_new or not run.is_finished or run.run_id in staying:
            parents = (run.parent_run_id, run.root_run_id, run.tags.get(PARENT_TAG))
            staying |= {parent for parent in parents if parent}  # older, so they come after it
        else:
            going.append(run.run_id)
    return going[::-1]


def _of_kept_prompts(prompts: Path) -> set[str]:
    """Return the runs that made kept prompts; a damaged record names none."""
    made = set()
    for kept in prompts.glob(f"*/{KEPT_NAME}"):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            made.add(str(json.loads(kept.with_name(RECORD_NAME).read_bytes())["run_id"]))
    return made


def _latest(instance: "DagsterInstance") -> set[str]:
    """Return the runs with the latest materialisation of each asset, and of each partition."""
    from dagster import AssetRecordsFilter, DagsterEventType

    runs = set()
    made = DagsterEventType.ASSET_MATERIALIZATION
    for key in instance.all_asset_keys():
        wanted = [AssetRecordsFilter(key)]
        if ids := list(instance.get_latest_storage_id_by_partition(key, made).values()):
            wanted.append(AssetRecordsFilter(key, storage_ids=ids))
        for which in wanted:
            limit = len(which.storage_ids or (0,))
            events = instance.fetch_materializations(which, limit=limit).records
            runs |= {event.run_id for event in events}
    return runs


def _files(home: Path, run_id: str) -> list[Path]:
    """Return the files of a run that Dagster's deletion leaves: its events, its output."""
    shard = home / "history" / "runs" / f"{run_id}.db"
    paths = [home / "storage" / run_id]
    paths += [shard.with_name(f"{shard.name}{end}") for end in ("-wal", "-shm", "")]
    return [path for path in paths if path.exists()]


def _orphans(home: Path, known: set[str], before: float) -> Iterator[str]:
    """Yield the ids of old event files whose run is gone: the web server makes such."""
    for path in sorted((home / "history" / "runs").glob("*.db")):
        if _SHARD.fullmatch(path.stem) and path.stem not in known:
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_mtime < before:
                    yield path.stem
