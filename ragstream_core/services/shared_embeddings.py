"""`ragstream embeddings` and `worker`: the table of shared vectors, and who embeds for others."""

from __future__ import annotations

import contextlib
import datetime as dt
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from ragstream_core.errors import (
    AddOption,
    OperationFailed,
    Refused,
    RunCommand,
    UsageError,
    quoted,
)
from ragstream_core.ingestion.workers import Worker, Workers, workers_there
from ragstream_core.models.embedders.shared_vectors import TABLES
from ragstream_core.platform.postgres import has_table
from ragstream_core.wiring import models
from ragstream_core.wiring.fan_out import queue_of, require_workers
from ragstream_core.wiring.shared_vectors import require_shared

if TYPE_CHECKING:
    from ragstream_core.platform.postgres import Connection, Database
    from ragstream_core.records.identity import Json
    from ragstream_core.wiring.workspace import Workspace


# Of the beginning of a fingerprint: fewer may be meant as something else.
LEAST_DIGITS = 8


@dataclass(frozen=True, slots=True)
class SharedModel:
    """The vectors of one embedder in the table."""

    model: str
    fingerprint: str
    dimension: int
    vectors: int
    bytes: int  # of their rows, about
    newest: str  # when the last one was added, ISO 8601; empty if there is none


@dataclass(frozen=True, slots=True)
class SharedTable:
    """What a table of shared vectors holds."""

    database: str  # its address, without a password
    models: tuple[SharedModel, ...]  # what it holds of each embedder
    bytes: int  # of the table with its index, on the database's disk
    mine: str  # fingerprint of the embedder that is configured here
    waiting: int = 0  # texts that ingests have handed to workers and that have no vector yet
    # names of the workers that take them; None if none was ever started there
    workers: Sequence[str] | None = None
    workers_of_other_models: Sequence[str] = ()  # those that embed by another model

    @property
    def vectors(self) -> int:
        """How many vectors there are of the embedder that is configured here."""
        return sum(model.vectors for model in self.models if model.fingerprint == self.mine)

    def to_json(self) -> dict[str, Json]:
        """Return the documented JSON form."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ClearedVectors:
    """What was removed, or would be."""

    vectors: int
    dry_run: bool

    def to_json(self) -> dict[str, Json]:
        """Return the documented JSON form."""
        return asdict(self)


def shared_table(workspace: Workspace) -> SharedTable:
    """Return what the table holds; makes it if it is not there yet.

    Raises:
        UnknownSetting: No database is set, or the setting is no address.
        StoreFailed: The database is away or lets nobody in.
        Refused: The table has another version.
    """
    database, queue = require_shared(workspace.config), queue_of(workspace)
    with _connected(database) as db, database.errors():
        rows = db.execute(
            "SELECT model, embed_fp, dimension, count(v.*), coalesce(sum("
            " octet_length(vector) + octet_length(text_hash) + 48), 0)::bigint, max(made)"
            " FROM ragstream_embedders e LEFT JOIN ragstream_vectors v ON v.embedder = e.id"
            " GROUP BY e.id ORDER BY e.id"
        ).fetchall()
        size = db.execute("SELECT pg_total_relation_size('ragstream_vectors')").fetchone()
        found, waiting = workers_there(db, queue), None
        if has_table(db, "ragstream_batches"):
            waiting = db.execute(
                "SELECT coalesce(sum(cardinality(hashes)), 0) FROM ragstream_batches"
            ).fetchone()
    embedders = tuple(
        SharedModel(str(name), str(fp), int(str(dim)), int(str(count)), int(str(size_of)),
                    made.isoformat(timespec="seconds") if isinstance(made, dt.datetime) else "")
        for name, fp, dim, count, size_of, made in rows
    )  # fmt: skip
    there, others = found or (None, ())
    return SharedTable(
        database.shown, embedders, _number(size), models.fingerprint(workspace.config),
        _number(waiting), there, others,
    )  # fmt: skip


def workers_database(workspace: Workspace) -> Database:
    """Return the database of workers; see `require_workers`."""
    return require_workers(workspace)


def run_worker(
    workspace: Workspace,
    *,
    queues: Sequence[str] = (),
    at_once: int = 1,
    name: str = "",
    say: Callable[[str], None],
) -> None:
    """Embed texts for the ingests of other machines until SIGTERM or Ctrl-C.

    Args:
        workspace: Its settings are those of the machines that ingest.
        queues: Names as in `embeddings.queue`; default: that one.
        at_once: Batches at the same time.
        name: Of this worker; default: that of the machine.
        say: Told lines for people.

    Raises:
        UnknownSetting: No database is set, or the setting is no address.
        ExtraMissing: What a queue needs is not installed.
        StoreFailed: The database is away or lets nobody in.
        WeightsMissing: The model is not on this machine.
    """
    database, chosen = require_workers(workspace), _chosen_queues(workspace, queues)
    _connected(database).close()
    embedder = models.embedder(workspace.config)  # the first batch does not wait for the model
    say(f"vectors go to {database.shown}, of model {embedder.fingerprint[:12]}")
    name = worker_name(name)
    Worker(
        database,
        embedder,
        [queue_of(workspace, each) for each in chosen],
        at_once,
        name,
        say,
        f"worker {name} takes batches from {', '.join(chosen)} of {database.shown}",
    ).run()


def require_worker(workspace: Workspace, *, queues: Sequence[str] = (), name: str = "") -> str:
    """Require that a worker takes batches from some queues; return that it does, for people.

    Raises:
        OperationFailed: It does not.
        UnknownSetting: No database is set, or the setting is no address.
        StoreFailed: The database is away or lets nobody in.
    """
    database, chosen = require_workers(workspace), _chosen_queues(workspace, queues)
    name = worker_name(name)
    with contextlib.closing(database.connect()) as db, database.errors():
        for queue in chosen:
            found = workers_there(db, queue_of(workspace, queue)) or Workers([], [])
            if name not in found.there:
                others = f"; of another model: {', '.join(found.others)}" if found.others else ""
                raise OperationFailed(
                    f"worker {name} does not take batches from queue {queue} of {database.shown}; "
                    f"those that do: {', '.join(found.there) or 'none'}{others}",
                    hint=RunCommand("worker", quoted("--queue", queue, "--name", name)),
                )
    return f"worker {name} takes batches from {', '.join(chosen)} of {database.shown}"


def worker_name(name: str) -> str:
    """Return a worker's whole name, with that of this machine."""
    name = name or "ragstream"
    return name if "@" in name else f"{name}@{platform.node()}"


def _chosen_queues(workspace: Workspace, queues: Sequence[str]) -> Sequence[str]:
    return queues or [workspace.config.settings.embeddings.queue]


def clear_shared(
    workspace: Workspace,
    *,
    model: str = "",
    older_than_days: int = 0,
    dry_run: bool = False,
    several: bool = False,
) -> ClearedVectors:
    """Remove vectors from the table; an ingest that needs one later makes it again.

    Unless one embedder is named, texts go too that were to wait for workers and were left there.

    Args:
        workspace: The data root.
        model: Only those of this embedder: its name, or at least the first `LEAST_DIGITS` digits
            of its fingerprint.
        older_than_days: Only those that were added before so many days; 0: all.
        dry_run: Only count them.
        several: Whether `model` may fit several embedders.

    Raises:
        UsageError: The table has no such embedder.
        Refused: It has several of them; nothing was removed.
        UnknownSetting: No database is set, or the setting is no address.
        StoreFailed: The database is away or lets nobody in; nothing was removed.
        Refused: The table has another version.
    """
    database = require_shared(workspace.config)
    with _connected(database) as db, database.errors():
        chosen = _chosen(db, database, model, several=several or dry_run)
        which = "embedder = ANY(%s) AND made <= now() - make_interval(days => %s)"
        given = (chosen, older_than_days)
        if dry_run:
            counted = db.execute(f"SELECT count(*) FROM ragstream_vectors WHERE {which}", given)
            return ClearedVectors(_number(counted.fetchone()), dry_run=True)
        with db.transaction():
            removed = db.execute(f"DELETE FROM ragstream_vectors WHERE {which}", given).rowcount
            db.execute(
                "DELETE FROM ragstream_embedders e WHERE id = ANY(%s) AND NOT EXISTS"
                " (SELECT FROM ragstream_vectors v WHERE v.embedder = e.id)",
                (chosen,),
            )
            if not model and has_table(db, "ragstream_batches"):
                db.execute(
                    "DELETE FROM ragstream_batches WHERE made <= now() - make_interval(days => %s)",
                    (older_than_days,),
                )
    return ClearedVectors(removed, dry_run=False)


def _chosen(db: Connection, database: Database, model: str, *, several: bool) -> list[int]:
    """Return the embedders that a person named; all of them if nothing was named."""
    rows = db.execute("SELECT id, model, embed_fp FROM ragstream_embedders ORDER BY id").fetchall()
    there = [(int(str(n)), str(name), str(fp)) for n, name, fp in rows]
    found = [row for row in there if model in ("", row[1]) or row[2].startswith(model)]
    fits = [row for row in found if model in ("", row[1]) or len(model) >= LEAST_DIGITS]
    if found and not fits:
        raise UsageError(
            f"{model!r} is no model's name, and too short for the beginning of a digest",
            hint=(f"give {LEAST_DIGITS} digits or more, as shown by ",
                  RunCommand("embeddings status")),
        )  # fmt: skip
    if model and not fits:
        raise UsageError(
            f"{database.shown} holds no vectors of {model!r}", hint=RunCommand("embeddings status")
        )
    if model and len(fits) > 1 and not several:
        named = ", ".join(f"{name} ({fp[:12]})" for _, name, fp in fits)
        raise Refused(
            f"{model!r} fits {len(fits)} models of {database.shown}: {named}",
            hint=("name one by its digest, or add ", AddOption("--yes"), " for all of them"),
        )
    return [row[0] for row in fits]


def _number(row: tuple[object, ...] | None) -> int:
    return int(str(row[0])) if row else 0


def _connected(database: Database) -> Connection:
    db = replace(database, statement_s=0).connect()  # millions of rows are counted
    try:
        TABLES.ensure(db, database)
    except BaseException:
        db.close()
        raise
    return db
