"""Batches of texts that wait in PostgreSQL, and the workers that embed them.

Texts lie beside the shared vectors; procrastinate's queue in the same database says who embeds
which batch. A batch goes with the vectors that complete it, so whatever ends, it is there or done.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import platform
import signal
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ragstream_core.errors import IntegrityError, ModelMismatch, OperationFailed, StoreFailed
from ragstream_core.models.embedders.shared_vectors import VectorTable
from ragstream_core.platform import extras
from ragstream_core.platform.postgres import Tables, has_table
from ragstream_core.records.identity import sha256_hex

if TYPE_CHECKING:
    import procrastinate
    from procrastinate.job_context import JobContext
    from procrastinate.worker import Worker as QueueWorker

    from ragstream_core.platform.postgres import Connection, Database
    from ragstream_core.ports import Embedder

# What planner and worker agree on; raised when one of them changes what the other relies on.
FORMAT = 1
TASK = "ragstream.embed_batch"

# How often a batch is given to a worker: one that ends each of its workers must end.
HAND_OUTS = 4
# Days until the texts of an ingest that was killed are removed by the next one of anybody.
KEPT_DAYS = 7
HEARTBEAT_S = 5.0

# A worker that was not heard of for so long has lost its batch: six heartbeats.
SILENT_S = 30.0
POLL_S = 1.0
LIMIT_S = 30.0
T = TypeVar("T")


def tables() -> Tables:
    """Return the tables of workers, with those of the queue."""
    extras.require("a queue for workers", "workers", "procrastinate", "psycopg_pool")
    from procrastinate.schema import SchemaManager

    return Tables(
        "workers",
        1,
        (
            # of versions whose workers had a broker
            "DROP TABLE IF EXISTS ragstream_batches",
            "DELETE FROM ragstream_schema WHERE part = 'text_batches'",
            """CREATE TABLE ragstream_batches (
                run text NOT NULL, batch integer NOT NULL, owner text NOT NULL,
                embed_fp text NOT NULL, format integer NOT NULL, package text NOT NULL,
                hashes bytea[] NOT NULL, texts bytea[] NOT NULL, problem text NOT NULL DEFAULT '',
                made timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (run, batch))""",
            "CREATE INDEX ragstream_batches_owner ON ragstream_batches (owner)",
            """CREATE TABLE ragstream_workers (
                name text NOT NULL, queue text NOT NULL, seen timestamptz NOT NULL,
                PRIMARY KEY (name, queue))""",
            SchemaManager.get_schema(),
        ),
    )


class Batch(NamedTuple):
    """Hash → text, and the fingerprint of the embedder that must make the vectors."""

    texts: dict[str, str]
    embed_fp: str


class TextBatches:
    """The batches in a database; whoever asks turns what psycopg raises into our errors."""

    def __init__(self, db: Connection, database: Database) -> None:
        self.db, self._shown = db, database.shown
        tables().ensure(db, database)

    def forget(self, owner: str) -> None:
        """Remove an owner's batches, those that nobody came back for, and their jobs."""
        with self.db.transaction():
            self.db.execute(
                "DELETE FROM ragstream_batches"
                " WHERE owner = %s OR made < now() - make_interval(days => %s)",
                (owner, KEPT_DAYS),
            )
            # a job that a worker is at ends by itself: it finds no batch
            self.db.execute(
                "DELETE FROM procrastinate_jobs j WHERE task_name = %s"
                " AND (status <> 'doing' OR worker_id IS NULL) AND NOT EXISTS"
                " (SELECT FROM ragstream_batches b WHERE b.run = j.args->>'run')",
                (TASK,),
            )

    def write(
        self, run: str, batch: int, texts: Mapping[str, str], *, owner: str, embed_fp: str
    ) -> None:
        """Write one batch of an ingest."""
        hashes = [bytes.fromhex(h) for h in texts]
        data = [text.encode("utf-8", "surrogatepass") for text in texts.values()]
        self.db.execute(
            "INSERT INTO ragstream_batches"
            " (run, batch, owner, embed_fp, format, package, hashes, texts)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
            (run, batch, owner, embed_fp, FORMAT, package(), hashes, data),
        )

    def read(self, run: str, batch: int) -> Batch | None:
        """Return a batch; None if it is done, or nobody waits for it any more."""
        row = self.db.execute(
            "SELECT embed_fp, format, package, hashes, texts FROM ragstream_batches"
            " WHERE run = %s AND batch = %s",
            (run, batch),
            binary=True,
        ).fetchone()
        if row is None:
            return None
        embed_fp, written, wanted, hashes, texts = row
        if written != FORMAT:
            raise ModelMismatch(
                f"this worker has RAGstream {package()}, the batch is of {wanted}",
                hint=f"install RAGstream {wanted} on the worker, and start it again",
            )
        assert isinstance(hashes, list) and isinstance(texts, list)
        by_hash = {
            key.hex(): text.decode("utf-8", "surrogatepass")
            for key, text in zip(hashes, texts, strict=True)
        }
        if any(sha256_hex(text) != h for h, text in by_hash.items()):
            raise IntegrityError(
                f"{self._shown}: texts of batch {batch} are damaged",
                hint="run the ingest again: it plans them anew",
            )
        return Batch(by_hash, str(embed_fp))

    @contextlib.contextmanager
    def taken(self, run: str, batch: int) -> Iterator[bool]:
        """Yield whether a batch is still there; it goes with what is written inside.

        Who erases a text removes its batches first and its vectors then, so a vector is either
        refused here or removed there.
        """
        which = "ragstream_batches WHERE run = %s AND batch = %s"
        with self.db.transaction():
            row = self.db.execute(f"SELECT FROM {which} FOR UPDATE".encode(), (run, batch))
            yield row.fetchone() is not None
            self.db.execute(f"DELETE FROM {which}".encode(), (run, batch))

    def note(self, run: str, batch: int, problem: str) -> None:
        """Keep why a worker could not embed a batch, for the ingest that waits."""
        self.db.execute(
            "UPDATE ragstream_batches SET problem = %s WHERE run = %s AND batch = %s",
            (problem, run, batch),
        )

    def left(self, run: str) -> dict[int, str]:
        """Return the batches that are not done → what was wrong with them last."""
        query = "SELECT batch, problem FROM ragstream_batches WHERE run = %s"
        rows = self.db.execute(query, (run,)).fetchall()
        return {int(str(batch)): str(problem) for batch, problem in rows}


@contextlib.contextmanager
def batches_in(database: Database) -> Iterator[TextBatches]:
    """Yield the batches of a database over a connection of their own."""
    with contextlib.closing(database.connect()) as db, database.errors():
        yield TextBatches(db, database)


class Workers(NamedTuple):
    """Names of the workers that take batches of a model, and of those of other models, sorted."""

    there: list[str]
    others: list[str]


def queue_name(queue: str, embed_fp: str) -> str:
    """Return the name of a queue in the database: each model has its own."""
    return f"ragstream-{queue}-{embed_fp[:12]}"


def workers_there(db: Connection, queue: str) -> Workers | None:
    """Return who takes batches from a queue; None if no worker was ever started there."""
    if not has_table(db, "ragstream_workers"):
        return None
    rows = db.execute(
        "SELECT name, queue FROM ragstream_workers"
        " WHERE seen > now() - make_interval(secs => %s) ORDER BY name",
        (SILENT_S,),
    ).fetchall()
    there = {str(name) for name, taken in rows if taken == queue}
    of_any_model = queue.rpartition("-")[0]
    others = {str(name) for name, taken in rows if str(taken).rpartition("-")[0] == of_any_model}
    return Workers(sorted(there), sorted(others - there))


class Queue:
    """The jobs of one model's batches: procrastinate's, in the database of the vectors."""

    def __init__(self, database: Database, name: str) -> None:
        self._database, self._name = database, name

    def offer(self, run: str, batches: int) -> None:
        """Offer the batches of an ingest to the workers."""

        async def offered(app: procrastinate.App) -> None:
            jobs: list[dict[str, Any]] = [{"run": run, "batch": n} for n in range(batches)]
            await app.configure_task(TASK, queue=self._name).batch_defer_async(*jobs)

        self._done(offered)

    def tend(self, run: str) -> list[int]:
        """Offer again what a worker has left; return the batches that no worker gets done."""
        from procrastinate.exceptions import ConnectorException

        async def tended(app: procrastinate.App) -> list[int]:
            manager = app.job_manager
            silent = await manager.get_stalled_jobs(
                queue=self._name, task_name=TASK, seconds_since_heartbeat=SILENT_S
            )
            stalled = [job for job in silent if job.task_kwargs["run"] == run]
            for job in stalled:
                if job.attempts < HAND_OUTS - 1:
                    with contextlib.suppress(ConnectorException):  # it ended at this moment
                        await manager.retry_job(job)
            failed = await manager.list_jobs_async(queue=self._name, task=TASK, status="failed")
            lost = [job for job in stalled if job.attempts >= HAND_OUTS - 1]
            lost += [job for job in failed if job.task_kwargs["run"] == run]
            return sorted(int(str(job.task_kwargs["batch"])) for job in lost)

        return self._done(tended)

    def _done(self, work: Callable[[procrastinate.App], Coroutine[Any, Any, T]]) -> T:
        """Run something in a thread of its own: in a notebook this one has a loop already."""
        from procrastinate.exceptions import ConnectorException

        async def opened() -> T:
            app = app_at(self._database)
            async with asyncio.timeout(LIMIT_S), app.open_async():
                return await work(app)

        with ThreadPoolExecutor(1) as thread:
            try:
                return thread.submit(lambda: asyncio.run(opened())).result()
            except (ConnectorException, TimeoutError) as error:
                raise StoreFailed(
                    f"{self._database.shown} ({self._database.setting}): the queue of workers "
                    f"cannot be used: {error.__cause__ or error or 'nobody answers there'}"
                ) from None


def app_at(database: Database) -> procrastinate.App:
    """Return procrastinate at a database, with the limits of our other connections."""
    import procrastinate

    connector = procrastinate.PsycopgConnector(
        conninfo=database.url, kwargs=database.limits(), min_size=1, max_size=4, timeout=LIMIT_S
    )
    return procrastinate.App(connector=connector)


class Embedded(NamedTuple):
    """How many texts a batch has, 0 if it is gone, and how many of them were embedded now."""

    texts: int
    embedded: int


def embed_batch(database: Database, embedder: Embedder, run: str, batch: int) -> Embedded:
    """Embed the texts of a batch that have no sound vector yet, and add the vectors."""
    with contextlib.closing(VectorTable(database, embedder)) as vectors, database.errors():
        batches = TextBatches(vectors.db, database)
        found = batches.read(run, batch)
        if found is None:
            return Embedded(0, 0)
        if found.embed_fp != embedder.fingerprint:
            raise ModelMismatch(
                f"the worker on {platform.node()} (RAGstream {package()}) embeds by "
                f"{embedder.fingerprint[:12]} ({embedder.name}), the batch is for "
                f"{found.embed_fp[:12]}",
                hint="give the worker the model, the embedding settings and the RAGstream of the "
                "machine that ingests, and start it again",
            )
        # a text of it may be erased while they are made
        made = vectors.complete(embedder, found.texts, batches.taken(run, batch))
    return Embedded(0, 0) if made is None else Embedded(len(found.texts), made)


@dataclass
class Worker:
    """Embeds batches until it is stopped; a database that is away is waited for."""

    database: Database
    embedder: Embedder
    queues: Sequence[str]  # as `queue_name` has them
    at_once: int
    name: str  # another worker of this name would be taken for this one
    say: Callable[[str], None]
    takes: str  # what is said when it takes batches

    def run(self) -> None:
        """Work until SIGTERM or Ctrl-C; what has begun is finished."""
        for noisy in ("procrastinate", "psycopg.pool", "asyncio"):
            logging.getLogger(noisy).setLevel(logging.CRITICAL)  # what is wrong is said here
        self._sign()
        try:
            asyncio.run(self._until_stopped())
        finally:
            with contextlib.suppress(OperationFailed), batches_in(self.database) as batches:
                batches.db.execute("DELETE FROM ragstream_workers WHERE name = %s", (self.name,))

    async def _until_stopped(self) -> None:
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        stopped = asyncio.create_task(stop.wait())
        signing = asyncio.create_task(self._signing())
        while not stop.is_set():
            work = asyncio.create_task(self._work())
            await asyncio.wait({work, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                work.cancel()
            await asyncio.wait({work})
            if not stop.is_set():  # the queue gives up when its database is away for a moment
                self.say("the database does not answer; trying again")
                await asyncio.wait({stopped}, timeout=HEARTBEAT_S)
        signing.cancel()

    async def _work(self) -> None:
        from procrastinate import RetryStrategy

        app = app_at(self.database)
        again = RetryStrategy(max_attempts=HAND_OUTS - 1, exponential_wait=2)
        app.task(name=TASK, retry=again)(self._embed)
        async with app.open_async():
            self.say(self.takes)
            await app.run_worker_async(
                queues=self.queues,
                concurrency=self.at_once,
                fetch_job_polling_interval=POLL_S,
                update_heartbeat_interval=HEARTBEAT_S,
                stalled_worker_timeout=SILENT_S,
                delete_jobs="successful",
                install_signal_handlers=False,
                worker_middleware=[_leave_if_away],
            )

    def _embed(self, run: str, batch: int) -> None:
        began = time.perf_counter()
        try:
            done = embed_batch(self.database, self.embedder, run, batch)
        except Exception as error:
            problem = str(error).partition("\n")[0] or type(error).__name__
            self.say(f"batch {batch}: {problem}")
            with contextlib.suppress(OperationFailed), batches_in(self.database) as batches:
                batches.note(run, batch, problem)
            raise
        took = time.perf_counter() - began
        self.say(f"batch {batch}: {done.embedded} of {done.texts} texts embedded in {took:.1f} s")

    async def _signing(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            with contextlib.suppress(OperationFailed):
                await asyncio.to_thread(self._sign)

    def _sign(self) -> None:
        """Say in the database that this worker is there."""
        with batches_in(self.database) as batches:
            for queue in self.queues:
                batches.db.execute(
                    "INSERT INTO ragstream_workers VALUES (%s, %s, now())"
                    " ON CONFLICT (name, queue) DO UPDATE SET seen = now()",
                    (self.name, queue),
                )


async def _leave_if_away(
    call_next: Callable[[], Awaitable[Any]], context: JobContext, worker: QueueWorker
) -> Any:
    """End a worker whose batch could not reach the database: neither may the job's own end.

    A job of a worker that has left is offered again; one of a worker that lives would wait for it.
    """
    try:
        return await call_next()
    except StoreFailed:
        worker.stop()  # type: ignore[no-untyped-call]  # of procrastinate
        raise


def package() -> str:
    """Return the version of this RAGstream."""
    try:
        return metadata.version("ragstream")
    except metadata.PackageNotFoundError:
        return "of a source tree"
