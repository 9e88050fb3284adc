"""Recorded runs that nobody needs any longer: which go, and all that goes with each.

A finished run goes when it is older than `retention.run_days`, or when `retention.run_count` newer
ones are there. Whatever its age, one stays that holds the latest event of an asset, a partition or
a check, that made a kept prompt, that a run which stays was executed on top of, and the newest of
all. Dagster's own deletion frees nothing on SQLite, so files are removed here. A run's row goes
last: killed anywhere, the next call finds it and goes on.
"""

import contextlib
import json
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_assets.instance import instance_for
from ragstream_core.platform.disk import size_of
from ragstream_core.platform.files import remove_path
from ragstream_core.prompts.store import KEPT_NAME, PARENT_PREFIX, RECORD_NAME
from ragstream_core.records.identity import Json
from ragstream_core.records.json_form import fields_of
from ragstream_core.services.prompt_retention import DAY_S
from ragstream_core.wiring.debug_log import debug_logs
from ragstream_core.wiring.workspace import Workspace

if TYPE_CHECKING:
    from dagster import DagsterInstance, RunRecord

PARENT_TAG = "dagster/parent_run_id"
DAMAGED = "the record of a kept prompt is damaged, so the runs that it needs are not known"
NOT_SQLITE = "the runs are in your own database: maintain it with Dagster's tools"
_SHARD = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LATEST = (
    "SELECT run_id FROM event_logs WHERE id IN (SELECT max(id) FROM event_logs"
    " WHERE asset_key IS NOT NULL GROUP BY asset_key, partition, dagster_event_type)"
    " UNION SELECT run_id FROM asset_check_executions WHERE id IN (SELECT max(id)"
    " FROM asset_check_executions GROUP BY asset_key, check_name, partition)"
)
_VACUUM_SHARE, _VACUUM_LEAST = 4, 256  # a quarter of the pages, and at least so many, are free
_BUSY_S = 10.0


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the files of runs lie."""

    home: Path
    stages: Path

    def of(self, run_id: str) -> list[Path]:
        """Return what there is of a run: stage JSON, its output, its events."""
        shard = self.home / "history" / "runs" / f"{run_id}.db"
        found = [self.stages / run_id, self.home / "storage" / run_id]
        found += [shard.with_name(f"{shard.name}{end}") for end in ("-wal", "-shm", "")]
        return [path for path in found if path.exists()]

    def orphans(self, known: Iterable[str], before: float) -> Iterator[str]:
        """Yield the ids of old event files whose run is gone: the web server makes such."""
        rows = set(known)
        for path in sorted((self.home / "history" / "runs").glob("*.db")):
            if _SHARD.fullmatch(path.stem) and path.stem not in rows:
                with contextlib.suppress(FileNotFoundError):
                    if path.stat().st_mtime < before:
                        yield path.stem


@dataclass(frozen=True, slots=True)
class DroppedRuns:
    """What a retention of runs dropped, or would drop.

    Attributes:
        dry_run: Whether it only looked.
        runs: Their ids, oldest first.
        orphans: How many event files without a run.
        note: Why runs stay that are old enough; may be empty.
        logs: How many debug logs.
        bytes: Freed on the disk; in a dry run without what the databases give back.
    """

    dry_run: bool
    runs: tuple[str, ...] = ()
    orphans: int = 0
    note: str = ""
    logs: int = 0
    bytes: int = 0

    def to_json(self) -> dict[str, Json]:
        """Return what `ragstream runs gc --json` prints."""
        return fields_of(self)


def gc(
    workspace: Workspace,
    *,
    instance: "DagsterInstance | None" = None,
    now: float | None = None,
    dry_run: bool = False,
) -> DroppedRuns:
    """Drop the recorded runs and the debug logs that nobody needs.

    Args:
        workspace: The data root.
        instance: Where its runs are recorded; default: that of the data root.
        now: Seconds since the epoch; default: the present moment.
        dry_run: Only show what would be removed.

    Raises:
        OSError: Something cannot be removed; what went is gone, run it again.
    """
    now = time.time() if now is None else now
    rules = workspace.config.settings.retention
    old = now - rules.run_days * DAY_S
    logs = [p for p in debug_logs(workspace) if p.stat().st_mtime < old]
    done = DroppedRuns(dry_run, logs=len(logs), bytes=sum(size_of(path) for path in logs))
    for path in () if dry_run else logs:
        path.unlink(missing_ok=True)
    home = workspace.data_dir / "dagster_home"
    if instance is None and not (home / "history").is_dir():
        return done
    instance = instance or instance_for(workspace.config)
    if not hasattr(instance.event_log_storage, "path_for_shard"):
        return replace(done, note=NOT_SQLITE)
    place = _Place(home, workspace.store.root / "runs")
    runs = _Runs(instance, place, workspace.store.root)
    if runs.kept is None:
        return replace(done, note=DAMAGED)
    going = runs.superfluous(old, rules.run_count)
    orphans = list(place.orphans((r.dagster_run.run_id for r in runs.records), now - DAY_S))
    freed = _drop(instance, place, [*going, *orphans], dry_run=dry_run)
    bytes_ = done.bytes + freed
    return replace(done, runs=tuple(going), orphans=len(orphans), bytes=bytes_)


class _Runs:
    """All runs of an instance, and what they need.

    Attributes:
        records: Newest first.
        kept: Runs that made a kept prompt; None where nobody knows.
    """

    def __init__(self, instance: "DagsterInstance", place: _Place, prompts: Path) -> None:
        self.kept = _of_kept_prompts(prompts)
        self.records: list[RunRecord] = list(instance.get_run_records())
        self._latest = _latest(instance)
        self._parents = {
            record.dagster_run.run_id: _parents(record, place.stages) for record in self.records
        }

    def superfluous(self, old: float, count: int) -> list[str]:
        """Return the ids of the runs that may go, oldest first.

        Args:
            old: Runs that were made earlier go.
            count: So many of the newest stay.
        """
        staying = {*(self.kept or ()), *self._latest}
        for at, record in enumerate(self.records):
            recent = at < count and record.create_timestamp.timestamp() >= old
            if at == 0 or recent or not record.dagster_run.is_finished:
                staying.add(record.dagster_run.run_id)
        waiting = list(staying)
        while waiting:
            parents = self._parents.get(waiting.pop(), frozenset()) - staying
            staying |= parents
            waiting += parents
        ids = [record.dagster_run.run_id for record in reversed(self.records)]
        return [run_id for run_id in ids if run_id not in staying]


def _parents(record: "RunRecord", stages: Path) -> frozenset[str]:
    """Return the runs that a run was executed on top of, or read stage JSON of."""
    run = record.dagster_run
    notes = (stages / run.run_id).glob(f"{PARENT_PREFIX}*")
    named = {run.parent_run_id, run.tags.get(PARENT_TAG), run.root_run_id}
    return frozenset({*filter(None, named), *(p.name.removeprefix(PARENT_PREFIX) for p in notes)})


def _of_kept_prompts(prompts: Path) -> set[str] | None:
    try:
        records = [path.with_name(RECORD_NAME) for path in prompts.glob(f"*/{KEPT_NAME}")]
        return {str(json.loads(path.read_bytes())["run_id"]) for path in records}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _latest(instance: "DagsterInstance") -> set[str]:
    """Return the runs with the latest event of each asset, partition, kind and check."""
    with _index(instance) as db:
        return {str(run_id) for (run_id,) in db.exec_driver_sql(_LATEST)}


def _index(instance: "DagsterInstance") -> Any:
    """Open the events that all runs share."""
    storage: Any = instance.event_log_storage
    return storage.index_connection()


def _drop(instance: "DagsterInstance", place: _Place, run_ids: list[str], *, dry_run: bool) -> int:
    """Remove runs with all that is theirs; return the bytes that they took."""
    freed, going = 0, set(run_ids)
    for run_id in run_ids:
        paths = place.of(run_id)
        if dry_run:
            freed += sum(size_of(path) for path in paths)
        elif _children(instance, run_id) <= going:  # else somebody re-executes it just now
            freed += _drop_one(instance, run_id, paths)
    if run_ids and not dry_run:
        freed += sum(
            _shrink(place.home / "history" / name) for name in ("runs.db", "runs/index.db")
        )
    return freed


def _children(instance: "DagsterInstance", run_id: str) -> set[str]:
    from dagster import RunsFilter

    return {run.run_id for run in instance.get_runs(RunsFilter(tags={PARENT_TAG: run_id}))}


def _drop_one(instance: "DagsterInstance", run_id: str, paths: list[Path]) -> int:
    storage: Any = instance.event_log_storage
    freed = sum(size_of(path) for path in paths)
    for path in paths:
        remove_path(path)
    with _index(instance) as db:
        storage.delete_events_for_run(db, run_id)
        db.exec_driver_sql("DELETE FROM asset_check_executions WHERE run_id = ?", (run_id,))
    instance.run_storage.delete_run(run_id)
    return freed


def _shrink(path: Path) -> int:
    """Give the free pages of a database back where they are many; return the bytes."""
    before = size_of(path)
    with contextlib.suppress(sqlite3.Error):  # busy: its pages are used again, nothing is lost
        db = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
        with contextlib.closing(db):
            free, pages = (
                int(db.execute(f"PRAGMA {name}").fetchone()[0])
                for name in ("freelist_count", "page_count")
            )
            if free >= _VACUUM_LEAST and free * _VACUUM_SHARE >= pages:
                db.execute("VACUUM")
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return max(0, before - size_of(path))
