"""Recorded runs written by hand: rows and event files of any age, in a real storage."""

import contextlib
import datetime as dt
import json
import os
import shutil
import sqlite3

import dagster as dg

from ragstream_core.services.prompt_retention import DAY_S

NOW = 2_000_000_000.0


def name(n):
    return f"00000000-0000-4000-8000-{n:012d}"


class Archive:
    """The runs of a data root; the n-th is older than the next."""

    def __init__(self, space, home):
        self.space = space
        self.home = home
        self.root = space.data_dir / "dagster_home"

    def fill(self, rows):
        """Put runs there: (age in days, parent's number or -1, finished, made a kept prompt)."""
        self.empty()
        for n, (age, parent, finished, kept) in enumerate(rows):
            tags = {"dagster/parent_run_id": name(parent)} if parent >= 0 else {}
            status = dg.DagsterRunStatus.SUCCESS if finished else dg.DagsterRunStatus.STARTED
            self.home.run_storage.add_run(
                dg.DagsterRun(job_name="build_prompt", run_id=name(n), status=status, tags=tags,
                              parent_run_id=name(parent) if parent >= 0 else None,
                              root_run_id=name(parent) if parent >= 0 else None)
            )  # fmt: skip
            self.write(self.root / "history" / "runs" / f"{name(n)}.db", "e" * 5_000, age)
            self.write(self.root / "storage" / name(n) / "compute_logs" / "out", "said", age)
            if kept:
                self.write(self.space.store.root / f"{n:064d}" / "kept", "", age)
                record = json.dumps({"run_id": name(n)})
                self.write(self.space.store.root / f"{n:064d}" / "record.json", record, age)
        with self._rows() as db:
            for n, (age, *_) in enumerate(rows):
                made = dt.datetime.fromtimestamp(NOW - age * DAY_S, dt.UTC).replace(tzinfo=None)
                db.execute("UPDATE runs SET create_timestamp = ? WHERE run_id = ?",
                           (made.isoformat(" ", "microseconds"), name(n)))  # fmt: skip

    def write(self, path, text, age):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (NOW - age * DAY_S, NOW - age * DAY_S))

    def empty(self):
        with self._rows() as db:
            db.execute("DELETE FROM run_tags")
            db.execute("DELETE FROM runs")
        shutil.rmtree(self.space.store.root, ignore_errors=True)
        shutil.rmtree(self.root / "storage", ignore_errors=True)
        for path in (self.root / "history" / "runs").glob("0000*"):
            path.unlink()

    @contextlib.contextmanager
    def _rows(self):
        db = sqlite3.connect(self.root / "history" / "runs.db", timeout=60)
        with contextlib.closing(db), db:
            yield db

    def runs(self):
        return {run.run_id for run in self.home.get_runs()}

    def tags(self):
        with self._rows() as db:
            return {row[0] for row in db.execute("SELECT run_id FROM run_tags")}

    def files(self):
        """The runs that still have any file, by kind of file."""
        shards = (self.root / "history" / "runs").glob("0000*")
        return (
            {path.name.partition(".")[0] for path in shards},
            {path.name for path in (self.root / "storage").glob("0000*")},
        )


def wanted(rows, days, count):
    """The numbers of the runs that must stay, from the rules as they are written."""
    newest = len(rows) - 1
    stays = {
        n for n, (age, _, finished, kept) in enumerate(rows)
        if kept or not finished or n == newest or (age <= days and n > newest - count)
    }  # fmt: skip
    while True:
        more = stays | {rows[n][1] for n in stays if rows[n][1] >= 0}
        if more == stays:
            return stays
        stays = more
