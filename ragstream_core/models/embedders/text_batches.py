"""Texts that wait in the shared database until workers have embedded them, in numbered batches.

They are the input of one run of `embed_texts`, and go when it is settled. Which worker takes which
batch is not written here: that is Celery's work.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ragstream_core.errors import IntegrityError, ModelMismatch
from ragstream_core.platform.postgres import Tables
from ragstream_core.records.identity import sha256_hex

if TYPE_CHECKING:
    from ragstream_core.platform.postgres import Connection, Database

BATCHES = Tables(
    "text_batches",
    1,
    (
        """CREATE TABLE ragstream_batches (
            run text NOT NULL, batch integer NOT NULL, owner text NOT NULL, embed_fp text NOT NULL,
            format integer NOT NULL, package text NOT NULL,
            hashes bytea[] NOT NULL, texts bytea[] NOT NULL,
            made timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (run, batch))""",
        "CREATE INDEX ragstream_batches_owner ON ragstream_batches (owner)",
    ),
)
FORMAT = 1
"""What planner and worker agree on; raised when one of them changes what the other relies on."""
KEPT_DAYS = 7
"""Days until the texts of a run that nobody settled are removed by the next run of anybody."""


class Batch(NamedTuple):
    """One batch.

    Attributes:
        texts: Hash → text.
        embed_fp: Fingerprint of the embedder that must make its vectors.
    """

    texts: dict[str, str]
    embed_fp: str


class BatchTable:
    """The batches of runs."""

    def __init__(self, db: Connection, database: Database, package: str) -> None:
        self._db, self._database, self._package = db, database, package
        BATCHES.ensure(db, database)

    def forget(self, owner: str) -> None:
        """Remove the batches of an owner's earlier runs, and of runs that nobody settled."""
        with self._database.errors():
            self._db.execute(
                "DELETE FROM ragstream_batches"
                " WHERE owner = %s OR made < now() - make_interval(days => %s)",
                (owner, KEPT_DAYS),
            )

    def write(
        self, run: str, batch: int, texts: Mapping[str, str], *, owner: str, embed_fp: str
    ) -> None:
        """Write one batch."""
        hashes = [bytes.fromhex(h) for h in texts]
        data = [text.encode("utf-8", "surrogatepass") for text in texts.values()]
        with self._database.errors():
            self._db.execute(
                "INSERT INTO ragstream_batches"
                " (run, batch, owner, embed_fp, format, package, hashes, texts)"
                " VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
                (run, batch, owner, embed_fp, FORMAT, self._package, hashes, data),
            )

    def read(self, run: str, batch: int) -> Batch | None:
        """Return a batch; None if its run is settled."""
        with self._database.errors():
            row = self._db.execute(
                "SELECT embed_fp, format, package, hashes, texts FROM ragstream_batches"
                " WHERE run = %s AND batch = %s",
                (run, batch),
                binary=True,
            ).fetchone()
        if row is None:
            return None
        embed_fp, written, package, hashes, texts = row
        if written != FORMAT:
            raise ModelMismatch(
                f"this worker has RAGstream {self._package}, the batch is of {package}",
                hint=f"install RAGstream {package} on the worker, and start it again",
            )
        assert isinstance(hashes, list) and isinstance(texts, list)
        by_hash = {
            key.hex(): text.decode("utf-8", "surrogatepass")
            for key, text in zip(hashes, texts, strict=True)
        }
        if any(sha256_hex(text) != h for h, text in by_hash.items()):
            raise IntegrityError(
                f"{self._database.shown}: texts of batch {batch} are damaged",
                hint="run the ingest again: it plans them anew",
            )
        return Batch(by_hash, str(embed_fp))

    @contextlib.contextmanager
    def held(self, run: str, batch: int) -> Iterator[bool]:
        """Yield whether a batch is still there; until the end of the block nobody can remove it.

        What is written inside is kept at its end. Who erases a text removes its batches first and
        its vectors then, so a vector is either refused here or removed there.
        """
        with self._database.errors(), self._db.transaction():
            row = self._db.execute(
                "SELECT FROM ragstream_batches WHERE run = %s AND batch = %s FOR KEY SHARE",
                (run, batch),
            ).fetchone()
            yield row is not None

    def remove(self, run: str) -> None:
        """Remove the batches of a run."""
        with self._database.errors():
            self._db.execute("DELETE FROM ragstream_batches WHERE run = %s", (run,))

    def lacking(self, run: str, embedder_id: int) -> tuple[int, int]:
        """Return how many texts a run has, and how many of them have no vector."""
        with self._database.errors():
            row = self._db.execute(
                "SELECT count(*), count(*) FILTER (WHERE v.text_hash IS NULL)"
                " FROM ragstream_batches b CROSS JOIN unnest(b.hashes) AS h (text_hash)"
                " LEFT JOIN ragstream_vectors v"
                " ON v.embedder = %s AND v.text_hash = h.text_hash WHERE b.run = %s",
                (embedder_id, run),
            ).fetchone()
        return (int(str(row[0])), int(str(row[1]))) if row else (0, 0)
