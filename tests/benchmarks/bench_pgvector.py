"""What a graph of pgvector costs and finds, beside exact search of the same rows.

python -m tests.benchmarks.bench_pgvector [--rows 10000 100000] [--vectors FILE]

Rows as in `bench_inverted_lists`, or the float32 rows of a file of vectors of an index (384
dimensions; fifty of them ask). A private PostgreSQL on this machine. Milliseconds are CPU time of
this process and of the backend, of one question at a time over an open connection.
"""

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ragstream_core.platform.postgres import database_at
from ragstream_core.proposers import graph_receipt
from ragstream_core.proposers import graph_tables as tables
from tests.benchmarks.bench_inverted_lists import DEPTH, DIMENSION, QUESTIONS, exact, mixture
from tests.benchmarks.measure import table
from tests.databases import PostgresServer

if TYPE_CHECKING:
    from ragstream_core.platform.postgres import Connection
    from ragstream_core.ports import F32

EFS = (200, 400, 800)


def _cpu_s(pid: int) -> float:
    """Return the CPU seconds that a process has used."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def measured(db: "Connection", held: "F32", questions: "F32", title: str) -> list[list[str]]:
    """Return the lines of one set of rows."""
    names = tables.names_of(held)
    order = np.unique(names, return_index=True)[1]
    source = tables.Source(
        "bench", 1, "0" * 64, "0" * 64, "", names[order], held, order.astype(np.int64)
    )
    began = time.perf_counter()
    graph = tables.build(db, source, tables.table_name(source.project, source.generation))
    built_s = time.perf_counter() - began
    row = db.execute("SELECT pg_total_relation_size(%s)", (graph.name,)).fetchone()
    size = int(str(row[0])) / 1e6 if row else 0.0
    seal = graph_receipt.seal(db, graph.name)
    began = time.process_time()
    wanted = [names[exact(held, question)] for question in questions]
    exact_ms = (time.process_time() - began) / len(questions) * 1e3
    backend = db.info.backend_pid
    lines: list[list[str]] = []
    for ef in EFS:
        began = _cpu_s(backend) + time.process_time()
        found = [
            tables.search(db, graph.name, seal, q[None, :], n=2 * DEPTH, ef=ef) or []
            for q in questions
        ]
        asked_ms = (_cpu_s(backend) + time.process_time() - began) / len(questions) * 1e3
        shares = [
            np.mean(
                [len(np.intersect1d(a[0], b[:k])) / len(set(b[:k].tolist()))
                 for a, b in zip(found, wanted, strict=True)]
            )
            for k in (20, DEPTH)
        ]  # fmt: skip
        first = not lines
        lines.append([
            title if first else "", f"{exact_ms:,.1f}" if first else "", str(ef),
            f"{asked_ms:,.1f}", *(f"{share:.3f}" for share in shares),
            f"{built_s:,.0f}" if first else "", f"{size:,.0f}" if first else "",
        ])  # fmt: skip
    tables.drop(db, [graph.name])
    return lines


def report(counts: Sequence[int] = (10_000, 100_000), vectors: Path | None = None) -> str:
    """Return the section of docs/benchmarks.md."""
    server = PostgresServer(memory="2GB")  # graphs are searched in memory
    try:
        database = database_at(server.url(), setting="vector_store.url")
        lines = []
        with database.connect() as db:
            tables.require_extension(db, database)
            tables.TABLES.ensure(db, database)
            if vectors is not None:
                every = np.fromfile(vectors, "<f4")
                every = every[: len(every) // DIMENSION * DIMENSION].reshape(-1, DIMENSION)
                asking = np.arange(0, len(every), max(1, len(every) // QUESTIONS))
                title = f"{len(every):,} of an index"
                lines += measured(db, np.delete(every, asking, axis=0), every[asking], title)
            for rows in counts:
                every = mixture(rows + QUESTIONS, max(rows // 10, 1))
                lines += measured(db, every[:rows], every[rows:], f"{rows:,}")
    finally:
        server.close()
    head = ["chunks", "exact, ms", "ef_search", "graph, ms", "of 20 nearest", "of 100 nearest",
            "building, s", "MB"]  # fmt: skip
    return (
        "## A graph of pgvector beside exact search\n\n"
        f"`halfvec`, m {tables.M}, ef_construction {tables.EF_CONSTRUCTION}; twice the wanted "
        f"rows are asked for, {QUESTIONS} questions one at a time: CPU time of this process and "
        "of the one that serves it; building is by the clock. Synthetic mixtures as above"
        + (", and the real vectors of an index" if vectors else "")
        + ".\n\n"
        + table(head, lines)
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--vectors", type=Path)
    given = parser.parse_args()
    print(report(given.rows, given.vectors))
