"""HNSW graphs of pgvector that propose rows: built once in PostgreSQL, then never changed.

A graph depends on the order of insertions and on chance, so what it proposes is a function of the
built graph alone; nothing is added to it or taken out. Rows that came later are scored beside it.
A row's name is a digest of its vector, so equal texts are one row and a graph serves every
generation of an index, also on another machine.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from ragstream_core.errors import StoreFailed
from ragstream_core.platform.postgres import Tables
from ragstream_core.proposers.graph_receipt import seal

if TYPE_CHECKING:
    from ragstream_core.platform.placed_rows import PlacedRows
    from ragstream_core.platform.postgres import Connection, Database
    from ragstream_core.ports import F32

I64 = npt.NDArray[np.int64]
M, EF_CONSTRUCTION = 24, 200

# Beyond it pgvector has no graph of half-precision vectors.
MOST_DIMENSIONS = 4_000
# A question that wants more rows named costs less if all of them are scored.
#
# A scan that goes on beyond ``ef_search`` rows takes longer with each; exact search of a million
# rows takes 0.13 s.
MOST_ROWS = 5_000
TABLES = Tables(
    "graphs",
    1,
    (
        "CREATE TABLE ragstream_graphs (name text PRIMARY KEY, project text NOT NULL,"
        " generation bigint NOT NULL, digest text NOT NULL, embed_fp text NOT NULL,"
        " dimension integer NOT NULL, rows bigint NOT NULL, maker text NOT NULL,"
        " made_at timestamptz NOT NULL DEFAULT now())",
    ),
)
_BLOCK = 4_096
_HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_END = b"\xff\xff"
SEARCH_SETTINGS = {
    "enable_seqscan": "off",  # whether the graph is asked must not depend on statistics
    "enable_sort": "off",
    "hnsw.iterative_scan": "strict_order",
    "hnsw.max_scan_tuples": "200000",
    "work_mem": "64MB",
}
_BUILD = {
    "statement_timeout": "0",
    "client_connection_check_interval": "5s",  # a builder that was killed ends its statement
}


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph as the database lists it."""

    name: str
    generation: int
    digest: str
    rows: int
    maker: str  # digest of the machine and the folder that made it


@dataclass(frozen=True, slots=True)
class Source:
    """What a graph is made of."""

    project: str
    generation: int
    digest: str
    embed_fp: str
    maker: str  # digest of this machine and folder
    names: I64  # name of each vector, ascending, each once
    vectors: F32 | PlacedRows  # all vectors of the generation, float32
    rows: I64  # row of each name in ``vectors``


def names_of(vectors: F32 | PlacedRows) -> I64:
    """Return the name of each vector: 64 bits of the digest of its bytes."""
    starts = range(0, len(vectors), _BLOCK)
    blocks = (np.ascontiguousarray(vectors[at : at + _BLOCK], dtype="<f4") for at in starts)
    rows = (row for block in blocks for row in block)
    digests = b"".join(hashlib.blake2b(row.data, digest_size=8).digest() for row in rows)
    return np.frombuffer(digests, dtype="<i8").astype(np.int64)


def require_extension(db: Connection, database: Database) -> None:
    """Make pgvector's types known in a database."""
    import psycopg

    place = f"{database.shown} ({database.setting})"
    try:
        db.execute("CREATE EXTENSION IF NOT EXISTS vector")
        db.execute("SELECT 'halfvec'::regtype")
    except (psycopg.errors.UndefinedFile, psycopg.errors.FeatureNotSupported) as error:
        raise StoreFailed(
            f"{place}: pgvector is not installed beside that PostgreSQL",
            hint="install it there (Debian: postgresql-16-pgvector), then run this again",
        ) from error
    except psycopg.errors.UndefinedObject as error:
        raise StoreFailed(
            f"{place}: pgvector is older than 0.7 there, and has no half-precision vectors",
            hint="ALTER EXTENSION vector UPDATE, after installing a newer one",
        ) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise StoreFailed(
            f"{place}: its user may not make pgvector known there",
            hint="run in that database as its administrator: CREATE EXTENSION vector",
        ) from error


def build(db: Connection, source: Source, name: str) -> Graph:
    """Build a graph; it is there as a whole or not at all."""
    dimension = source.vectors.shape[1]
    if dimension > MOST_DIMENSIONS:
        raise StoreFailed(
            f"pgvector's graphs take up to {MOST_DIMENSIONS:,} dimensions, these have {dimension:,}"
        )
    row = Graph(name, source.generation, source.digest, len(source.names), source.maker)
    # In MB: twice what the halves (2 bytes a dimension) and the neighbours (10 bytes each) of all
    # rows take. A graph that outgrows it is built much slower; more than 2 GB few servers can give.
    memory = min(2_048, 64 + row.rows * (2 * dimension + 10 * M) // 500_000)
    with db.unlimited(), db.transaction():
        set_local(db, {**_BUILD, "maintenance_work_mem": f"{memory}MB"})
        db.execute(
            f"CREATE TABLE {name} (name bigint NOT NULL, near halfvec({dimension}) NOT NULL)"
            " WITH (autovacuum_enabled = false)".encode()
        )
        with db.cursor().copy(f"COPY {name} FROM STDIN (FORMAT BINARY)".encode()) as copy:
            for block in _blocks(source):
                copy.write(block)
        db.execute(
            f"CREATE INDEX {name}_near ON {name} USING hnsw (near halfvec_ip_ops)"
            f" WITH (m = {M}, ef_construction = {EF_CONSTRUCTION})".encode()
        )
        db.execute(
            "INSERT INTO ragstream_graphs (name, project, generation, digest, embed_fp, dimension,"
            " rows, maker) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
            (name, source.project, row.generation, row.digest, source.embed_fp, dimension,
             row.rows, row.maker),
        )  # fmt: skip
    return row


def find(db: Connection, project: str, embed_fp: str, dimension: int) -> list[Graph]:
    """Return the graphs of a project's vectors, newest first."""
    rows = db.execute(
        "SELECT name, generation, digest, rows, maker FROM ragstream_graphs WHERE project = %s"
        " AND embed_fp = %s AND dimension = %s AND to_regclass(name) IS NOT NULL"
        " ORDER BY made_at DESC, name",
        (project, embed_fp, dimension),
    ).fetchall()
    return [Graph(*cast("tuple[str, int, str, int, str]", row)) for row in rows]


def drop(db: Connection, names: Iterable[str]) -> None:
    """Remove graphs; one that is gone is no error."""
    for name in names:
        if not _TABLE.fullmatch(name):
            continue
        with db.transaction():
            db.execute(f"DROP TABLE IF EXISTS {name}".encode())
            db.execute("DELETE FROM ragstream_graphs WHERE name = %s", (name,))


def names_in(db: Connection, name: str) -> I64:
    """Return the names of a graph's rows, ascending."""
    kind = np.dtype([("fields", ">i2"), ("n", ">i4"), ("name", ">i8")])
    parts = [part["name"].astype(np.int64) for part in _copied(db, name, "name", kind)]
    found: I64 = np.sort(np.concatenate(parts)) if parts else np.zeros(0, dtype=np.int64)
    return found


def search(
    db: Connection, name: str, expected: str, queries: F32, *, n: int, ef: int
) -> list[I64] | None:
    """Return the names of the rows near each query, best first; None: it is another one or gone."""
    import psycopg

    wanted = f"SELECT name FROM {name} ORDER BY near <#> %s::halfvec({queries.shape[1]}) LIMIT %s"
    found = []
    with db.transaction():
        try:
            db.execute(f"LOCK TABLE {name} IN ACCESS SHARE MODE".encode())
        except psycopg.errors.UndefinedTable:
            raise psycopg.Rollback from None
        if seal(db, name) == expected:
            set_local(db, {**SEARCH_SETTINGS, "hnsw.ef_search": str(ef)})
            for query in queries:
                rows = db.execute(wanted.encode(), (half_text(query), n)).fetchall()
                found.append(np.array([row[0] for row in rows], dtype=np.int64))
    return found if len(found) == len(queries) else None


def half_text(vector: F32) -> str:
    """Return a vector as pgvector reads it, in half the precision, as the graph has it."""
    return f"[{','.join(map(str, vector.astype(np.float16).tolist()))}]"


def differing(db: Connection, name: str, names: I64, vectors: F32 | PlacedRows, rows: I64) -> int:
    """Return how many rows of a graph are not what their name says; unknown names are left out."""
    seen, wrong = [], 0
    for part in _copied(db, name, "name, near", _row(vectors.shape[1])):
        held = part["name"].astype(np.int64)
        at = np.minimum(np.searchsorted(names, held), len(names) - 1)
        known = np.flatnonzero(names[at] == held)
        exact = _half(vectors[rows[at[known]]])
        wrong += int((part["near"][known] != exact).any(axis=1).sum())
        seen.append(held)
    total = np.concatenate(seen) if seen else np.zeros(0, dtype=np.int64)
    return wrong + len(total) - len(np.unique(total))


def _copied(
    db: Connection, name: str, columns: str, kind: np.dtype[np.void]
) -> Iterator[npt.NDArray[np.void]]:
    """Yield a graph's rows, some thousand at a time."""
    statement = f"COPY (SELECT {columns} FROM {name}) TO STDOUT (FORMAT BINARY)".encode()
    held, begin = bytearray(), len(_HEAD)
    with db.transaction():
        set_local(db, _BUILD)
        with db.cursor().copy(statement) as copy:
            for data in copy:
                held += data
                if len(held) - begin >= _BLOCK * kind.itemsize + len(_END):
                    yield np.frombuffer(bytes(held), kind, _BLOCK, begin)
                    held, begin = held[begin + _BLOCK * kind.itemsize :], 0
    count = (len(held) - begin - len(_END)) // kind.itemsize
    yield np.frombuffer(bytes(held), kind, count, begin)


def _blocks(source: Source) -> Iterator[bytes]:
    """Yield PostgreSQL's binary form: row by row in Python it takes ten times as long."""
    kind = _row(source.vectors.shape[1])
    yield _HEAD
    for begin in range(0, len(source.names), _BLOCK):
        rows = source.rows[begin : begin + _BLOCK]
        block = np.zeros(len(rows), dtype=kind)
        block["fields"], block["n"], block["size"] = 2, 8, kind["near"].itemsize + 4
        block["dimension"] = source.vectors.shape[1]
        block["name"] = source.names[begin : begin + _BLOCK]
        block["near"] = _half(source.vectors[rows])
        yield block.tobytes()
    yield _END


def _row(dimension: int) -> np.dtype[np.void]:
    return np.dtype(
        [
            ("fields", ">i2"), ("n", ">i4"), ("name", ">i8"), ("size", ">i4"),
            ("dimension", ">i2"), ("unused", ">i2"), ("near", ">u2", (dimension,)),
        ]
    )  # fmt: skip


def _half(vectors: F32) -> npt.NDArray[np.uint16]:
    return vectors.astype(np.float16).view(np.uint16)


_TABLE = re.compile(r"graph_[a-z0-9_]{1,60}")


def table_name(project: str, generation: int) -> str:
    """Return a name for the table of a new graph; each call another one."""
    slug = re.sub(r"[^a-z0-9]+", "_", project.lower())[:24].strip("_")
    return f"graph_{slug}_g{generation}_{secrets.token_hex(6)}".replace("__", "_")


def set_local(db: Connection, values: dict[str, str]) -> None:
    """Set parameters of the database until the transaction ends."""
    calls = ", ".join("set_config(%s, %s, true)" for _ in values)
    flat: Sequence[str] = [word for pair in values.items() for word in pair]
    db.execute(f"SELECT {calls}".encode(), flat)
