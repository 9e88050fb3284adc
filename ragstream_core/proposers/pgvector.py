"""`PgvectorStore`: a table of PostgreSQL with a graph of pgvector behind the port of vector stores.

Metric: cosine of unit vectors, approximate candidates with exact scores, rounded to 6 digits, ties
by id among what was found. Durability: each change is a transaction. Cost: a round trip a call; the
graph holds half-precision vectors. A project is searched by a graph that never changes, not by this
(`pg_graph`). Needs the extra ``distributed``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np

from ragstream_core.errors import DuplicateId
from ragstream_core.platform import extras
from ragstream_core.platform.pg_sessions import sessions
from ragstream_core.platform.postgres import Tables, database_at
from ragstream_core.proposers.model_stamp import ModelStamp
from ragstream_core.proposers.pg_graph import (
    EF_CONSTRUCTION,
    SEARCH_SETTINGS,
    M,
    half_text,
    require_extension,
    set_local,
)
from ragstream_core.retrieval.scoring import exact_cosines, top

if TYPE_CHECKING:
    from ragstream_core.platform.postgres import Connection
    from ragstream_core.ports import F32

Answer = TypeVar("Answer")
EF_SEARCH = 1_000
SPARE = 16
"""Halves of vectors swap neighbours: so many more are looked at."""
MANY = 1_000
"""Into an empty store, so many rows are copied first and their graph is made at once."""
_TABLES = Tables(
    "stores",
    1,
    (
        "CREATE TABLE ragstream_stores (name text PRIMARY KEY, embed_fp text NOT NULL,"
        " model text NOT NULL, dimension integer NOT NULL)",
    ),
)


class PgvectorStore:
    """A `ragstream_core.ports.VectorStore` in PostgreSQL.

    Args:
        url: Address of the database.
        dimension: Length of a vector, up to 4,000.
        name: Which store of the database, up to 40 lower-case letters and digits.
        embed_fp: Fingerprint of the model that makes the vectors.
        model: Its name, for people.

    Raises:
        ExtraMissing: The extra ``distributed`` is not installed.
        ValueError: The name has other characters.
        UnknownSetting: The address is none.
        ModelMismatch: The store holds vectors of another model.
        StoreFailed: The database is away, or has no pgvector.
    """

    def __init__(
        self, url: str, dimension: int, *, name: str, embed_fp: str = "", model: str = ""
    ) -> None:
        extras.require("the vector store pgvector", "distributed", "psycopg")
        if not re.fullmatch("[a-z0-9]{1,40}", name):
            raise ValueError(f"{name!r} is no name of a table: lower-case letters and digits")
        self._database = database_at(url, setting="vector_store.url")
        self._stamp = ModelStamp(embed_fp, model, dimension)
        self._name, self._table = name, f"store_{name}"
        self._ask(self._open)

    def _ask(self, question: Callable[[Connection], Answer]) -> Answer:
        return sessions(self._database).ask(question)

    def _open(self, db: Connection) -> None:
        require_extension(db, self._database)
        _TABLES.ensure(db, self._database)
        stamp = self._stamp
        with db.transaction():
            db.execute("LOCK TABLE ragstream_stores IN EXCLUSIVE MODE")
            row = db.execute(
                "SELECT embed_fp, model, dimension FROM ragstream_stores WHERE name = %s",
                (self._name,),
            ).fetchone()
            if row is not None:
                there = ModelStamp(*cast("tuple[str, str, int]", row))
                stamp.require(there, what=f"the store {self._name} in {self._database.shown}")
                return
            d = stamp.dimension
            table = f"CREATE TABLE {self._table} (id text PRIMARY KEY, exact vector({d}) NOT NULL)"
            db.execute(table.encode())
            self._make_graph(db)
            db.execute(
                "INSERT INTO ragstream_stores VALUES (%s, %s, %s, %s)",
                (self._name, stamp.embed_fp, stamp.model, d),
            )

    def _make_graph(self, db: Connection) -> None:
        db.execute(
            f"CREATE INDEX {self._table}_near ON {self._table} USING hnsw"
            f" ((exact::halfvec({self._stamp.dimension})) halfvec_ip_ops)"
            f" WITH (m = {M}, ef_construction = {EF_CONSTRUCTION})".encode()
        )

    def add(self, ids: Sequence[str], vectors: F32) -> None:
        """Add rows.

        Raises:
            DuplicateId: An id is live already, or given twice; nothing was added.
            ValueError: The vectors do not have the shape (len(ids), dimension).
        """
        if vectors.shape != (len(ids), self._stamp.dimension):
            raise ValueError(f"shape {vectors.shape} for {len(ids)} ids")

        def question(db: Connection) -> None:
            """Add the rows in one transaction.

            Raises:
                DuplicateId: An id is there already.
            """
            from psycopg.errors import UniqueViolation

            into = f"COPY {self._table} (id, exact) FROM STDIN".encode()
            try:
                with db.unlimited(), db.transaction():
                    set_local(db, {"statement_timeout": "0"})
                    first = len(ids) >= MANY and self._is_empty(db)
                    if first:
                        db.execute(f"DROP INDEX {self._table}_near".encode())
                    with db.cursor().copy(into) as copy:
                        for identifier, row in zip(ids, vectors.tolist(), strict=True):
                            copy.write_row((identifier, str(row)))
                    if first:
                        self._make_graph(db)
            except UniqueViolation as error:
                twice = error.diag.message_detail or ""
                raise DuplicateId(
                    f"an id exists already or is given twice: {twice}", hint="delete it first"
                ) from error

        self._ask(question)

    def _is_empty(self, db: Connection) -> bool:
        return db.execute(f"SELECT 1 FROM {self._table} LIMIT 1".encode()).fetchone() is None

    def delete(self, ids: Sequence[str]) -> None:
        """Remove rows; unknown ids are no error."""
        statement = f"DELETE FROM {self._table} WHERE id = ANY(%s)".encode()
        self._ask(lambda db: db.execute(statement, (list(ids),)))

    def search(self, query: F32, k: int) -> list[tuple[str, float]]:
        """Return about the ``k`` best (id, cosine), ties by id; the cosines are exact."""
        if k < 1:
            return []
        rows = self._ask(lambda db: self._near(db, query, k))
        if not rows:
            return []
        names = [name for name, _ in rows]
        vectors = np.array([np.fromstring(row.strip("[]"), np.float32, sep=",") for _, row in rows])
        scores = exact_cosines(vectors, query[None, :])[:, 0]
        return [(names[i], float(scores[i])) for i in top(names, scores, k)]

    def _near(self, db: Connection, query: F32, k: int) -> list[tuple[str, str]]:
        half = f"halfvec({self._stamp.dimension})"
        wanted = (
            f"SELECT id, exact::text FROM {self._table} ORDER BY exact::{half} <#> %s::{half} "
            "LIMIT %s"
        )
        with db.transaction():
            set_local(db, {**SEARCH_SETTINGS, "hnsw.ef_search": str(EF_SEARCH)})
            asked = (half_text(query), 2 * k + SPARE)
            return cast("list[tuple[str, str]]", db.execute(wanted.encode(), asked).fetchall())

    def ids(self) -> list[str]:
        """Return all live ids, sorted."""
        statement = f"SELECT id FROM {self._table}".encode()
        return sorted(str(row[0]) for row in self._ask(lambda db: db.execute(statement).fetchall()))
