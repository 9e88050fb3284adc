"""Vectors of texts in a PostgreSQL table that machines share, and an embedder that asks it first.

A row is found by the embedder's fingerprint and the text's hash, so a text is embedded once,
whoever needs it: nothing has to be agreed on, a retry changes nothing, and two that embed the same
text at a time write one row. The texts themselves are not in the table.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from ragstream_core.errors import OperationFailed, RagstreamError, Refused
from ragstream_core.platform.postgres import Tables
from ragstream_core.records.identity import sha256_hex

if TYPE_CHECKING:
    from ragstream_core.platform.postgres import Connection, Database
    from ragstream_core.ports import F32, Embedder, Progress

TABLES = Tables(
    "shared_vectors",
    1,
    (
        """CREATE TABLE ragstream_embedders (
            id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            embed_fp text NOT NULL UNIQUE, model text NOT NULL, dimension integer NOT NULL)""",
        """CREATE TABLE ragstream_vectors (
            embedder integer NOT NULL REFERENCES ragstream_embedders ON DELETE CASCADE,
            text_hash bytea NOT NULL, crc bigint NOT NULL, vector bytea NOT NULL,
            made timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (embedder, text_hash))""",
        # floats do not get smaller
        "ALTER TABLE ragstream_vectors ALTER COLUMN vector SET STORAGE EXTERNAL",
    ),
)

# Seconds without a question after the database was away: each costs the time to connect.
RETRY_S = 60.0
_AT_ONCE = 1_000
_LENGTH_ERROR = 1e-5

_INSERT = (
    "INSERT INTO ragstream_vectors (embedder, text_hash, crc, vector)"
    " SELECT %s, * FROM unnest(%s::bytea[], %s::bigint[], %s::bytea[])"
    " ON CONFLICT (embedder, text_hash) DO "
)
_KEEP = f"{_INSERT}NOTHING"
_REPLACE = f"{_INSERT}UPDATE SET crc = excluded.crc, vector = excluded.vector, made = now()"


class FoundVectors(NamedTuple):
    """What a table holds of some texts."""

    vectors: dict[str, F32]  # text hash → vector, of rows that are sound
    damaged: set[str]  # text hashes of rows that are not


class VectorTable:
    """The rows of one embedder; connects when it is made."""

    def __init__(self, database: Database, embedder: Embedder) -> None:
        self._database = database
        self._fingerprint = embedder.fingerprint
        self._dimension = embedder.dimension
        self.db: Connection = database.connect()
        try:
            TABLES.ensure(self.db, database)
            with database.errors():
                self.embedder_id = self._registered(embedder)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the connection."""
        self.db.close()

    def read(self, hashes: Sequence[str]) -> FoundVectors:
        """Return what the table holds of some texts; a row that is not sound counts as damaged."""
        vectors: dict[str, F32] = {}
        damaged: set[str] = set()
        for start in range(0, len(hashes), _AT_ONCE):
            wanted = [bytes.fromhex(h) for h in hashes[start : start + _AT_ONCE]]
            with self._database.errors():
                rows = self.db.execute(
                    "SELECT text_hash, crc, vector FROM ragstream_vectors"
                    " WHERE embedder = %s AND text_hash = ANY(%s)",
                    (self.embedder_id, wanted),
                    binary=True,
                ).fetchall()
            for key, crc, data in rows:
                assert isinstance(key, bytes) and isinstance(data, bytes)
                vector = self._sound(key, crc, data)
                if vector is None:
                    damaged.add(key.hex())
                else:
                    vectors[key.hex()] = vector
        return FoundVectors(vectors, damaged)

    def lacking(self, hashes: Sequence[str]) -> list[str]:
        """Return those texts that have no row; whether a row is sound is not looked at."""
        keys = [bytes.fromhex(h) for h in hashes]
        with self._database.errors():
            rows = self.db.execute(
                "SELECT text_hash FROM ragstream_vectors"
                " WHERE embedder = %s AND text_hash = ANY(%s)",
                (self.embedder_id, keys),
                binary=True,
            ).fetchall()
        present = {row[0] for row in rows}
        return [h for h, key in zip(hashes, keys, strict=True) if key not in present]

    def add(self, vectors: Mapping[str, F32], *, damaged: Collection[str] = ()) -> int:
        """Add vectors; of a text that has one already the table keeps its own."""
        for again, statement in ((False, _KEEP), (True, _REPLACE)):
            # in one order: two that add the same texts wait for each other instead of for ever
            chosen = sorted(h for h in vectors if (h in damaged) is again)
            for start in range(0, len(chosen), _AT_ONCE):
                self._insert(statement, chosen[start : start + _AT_ONCE], vectors)
        return sum(h in damaged for h in vectors)

    def complete(
        self,
        embedder: Embedder,
        texts: Mapping[str, str],
        held: AbstractContextManager[bool],
    ) -> int | None:
        """Embed those texts that have no sound vector, and add the vectors."""
        stored = self.read(list(texts))
        missing = [h for h in texts if h not in stored.vectors]
        vectors = embedder.embed_documents([texts[h] for h in missing]) if missing else ()
        with held as is_wanted:
            if is_wanted:
                self.add(dict(zip(missing, vectors, strict=True)), damaged=stored.damaged)
        return len(missing) if is_wanted else None

    def _insert(self, statement: str, hashes: list[str], vectors: Mapping[str, F32]) -> None:
        keys = [bytes.fromhex(h) for h in hashes]
        data = [np.ascontiguousarray(vectors[h], dtype="<f4").tobytes() for h in hashes]
        crcs = [self._crc(key, each) for key, each in zip(keys, data, strict=True)]
        with self._database.errors():
            self.db.execute(statement.encode(), (self.embedder_id, keys, crcs, data))

    def _registered(self, embedder: Embedder) -> int:
        row = self.db.execute(
            "WITH made AS (INSERT INTO ragstream_embedders (embed_fp, model, dimension)"
            " VALUES (%s, %s, %s) ON CONFLICT DO NOTHING RETURNING id, dimension)"
            " SELECT id, dimension FROM made UNION ALL"
            " SELECT id, dimension FROM ragstream_embedders WHERE embed_fp = %s LIMIT 1",
            (self._fingerprint, embedder.name, self._dimension, self._fingerprint),
        ).fetchone()
        if row is None:  # another one registered it at the same moment
            return self._registered(embedder)
        if row[1] != self._dimension:
            raise Refused(
                f"{self._database.shown} ({self._database.setting}): the vectors of "
                f"{self._fingerprint[:12]} there have {row[1]} numbers, those of {embedder.name} "
                f"have {self._dimension}",
                hint=f"name another database in {self._database.setting}",
            )
        return int(str(row[0]))

    def _crc(self, key: bytes, data: bytes) -> int:
        return zlib.crc32(data, zlib.crc32(key, zlib.crc32(self._fingerprint.encode())))

    def _sound(self, key: bytes, crc: object, data: bytes) -> F32 | None:
        if crc != self._crc(key, data) or len(data) != 4 * self._dimension:
            return None
        vector: F32 = np.frombuffer(data, dtype="<f4").astype(np.float32)
        length = float(np.sqrt(np.square(vector, dtype=np.float64).sum()))
        return vector if abs(length - 1.0) <= _LENGTH_ERROR else None  # NaN fails too


_T = TypeVar("_T")


class SharedEmbedder:
    """An embedder that takes vectors of passages from a table and adds to it what it made itself.

    A database that is away costs one warning and local work. Questions and tokens never go there.
    """

    def __init__(
        self,
        inner: Embedder,
        database: Database,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._inner = inner
        self._database = database
        self._clock = clock
        self._table: VectorTable | None = None
        self._closed_until = 0.0
        self.taken = 0  # texts whose vectors came from the table
        self.remade = 0  # rows that were damaged and have been replaced
        self.warning = ""  # why the table was not used, or not all the time; empty if it was

    def __getattr__(self, name: str) -> Any:
        """Return what else the embedder behind it has."""
        return getattr(self._inner, name)

    def close(self) -> None:
        """End the connection."""
        if self._table is not None:
            self._table.close()
            self._table = None

    def embed_documents(self, texts: Sequence[str], *, progress: Progress | None = None) -> F32:
        """Return one vector a text: from the table where it has it, else made here and added."""
        by_hash = {sha256_hex(text): text for text in texts}
        stored = self._asked(lambda table: table.read(list(by_hash))) or FoundVectors({}, set())
        missing = [h for h in by_hash if h not in stored.vectors]
        have = len(texts) - len(missing)
        vectors = dict(stored.vectors)
        if missing:
            embedded = self._inner.embed_documents(
                [by_hash[h] for h in missing],
                progress=progress and (lambda done, _: progress(have + done, len(texts))),
            )
            fresh = dict(zip(missing, embedded, strict=True))
            vectors |= fresh
            replaced = self._asked(lambda table: table.add(fresh, damaged=stored.damaged))
            self.remade += replaced or 0
        elif progress is not None:
            progress(len(texts), len(texts))
        self.taken += len(stored.vectors)
        rows = [vectors[sha256_hex(text)] for text in texts]
        return np.asarray(rows, dtype=np.float32).reshape(len(texts), self._inner.dimension)

    def _asked(self, question: Callable[[VectorTable], _T]) -> _T | None:
        """Ask the table; None if it cannot be asked, and for a while after that."""
        if self._table is None and self._clock() < self._closed_until:
            return None
        try:
            if self._table is None:
                self._table = VectorTable(self._database, self._inner)
            return question(self._table)
        except (OperationFailed, Refused) as error:
            self.close()
            self._closed_until = self._clock() + RETRY_S
            self.warning = self.warning or _warning(error)
            return None


def _warning(error: RagstreamError) -> str:
    return f"vectors were made here, not shared: {error}"
