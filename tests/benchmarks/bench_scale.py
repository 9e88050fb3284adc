"""What search costs at 10,000 and 100,000 chunks, beside the bare product and beside bm25s.

OMP_NUM_THREADS=1 python -m tests.benchmarks.bench_scale

Random unit vectors of 384 dimensions and texts of 100 words drawn from a Zipf vocabulary; ten
query pieces. BLAS runs on one thread, as in the program.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from ragstream_core.evaluation.retrieval import CorpusView
from ragstream_core.models.embedders.hashed import HashedEmbedder
from ragstream_core.text.bm25 import LexicalArrays
from tests.benchmarks.measure import cpu, table

WORDS, VOCABULARY, PIECES, PIECE_WORDS = 100, 20_000, 10, 12
RESCORED = 2_000  # about what the lists of ten pieces propose


class Queries(HashedEmbedder):
    """An embedder whose queries are random unit vectors."""

    def embed_queries(self, texts: Sequence[str]) -> np.ndarray:
        """Return the same vectors for as many texts."""
        return unit(np.random.default_rng(3), len(texts))


def unit(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Return random unit vectors."""
    made = rng.standard_normal((rows, 384)).astype(np.float32) + np.float32(0.05)
    found: np.ndarray = made / np.linalg.norm(made, axis=1, keepdims=True)
    return found


def drawn(rng: np.random.Generator, shape: int | tuple[int, int]) -> np.ndarray:
    """Return word numbers after Zipf's law."""
    weights = 1 / np.arange(1, VOCABULARY + 1)
    found: np.ndarray = rng.choice(VOCABULARY, shape, p=weights / weights.sum())
    return found


def blobs(rows: np.ndarray, ids: np.ndarray) -> list[list[bytes]]:
    """Return the stored terms of texts."""
    made = []
    for row in rows:
        terms, counts = np.unique(ids[row], return_counts=True)
        made.append([np.stack([terms, counts], axis=1).astype("<i8").tobytes()])
    return made


def median(repeat: int, *calls: Callable[[], object]) -> list[float]:
    """Return the median CPU milliseconds of each call, run in turn."""
    times: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()
    for _ in range(repeat):
        for mine, call in zip(times, calls, strict=True):
            mine.append(cpu(call) * 1000)
    return [statistics.median(mine) for mine in times]


def lexical_rows(
    words: np.ndarray, names: list[str], n: int
) -> tuple[list[list[object]], LexicalArrays]:
    """Measure building and asking the term arrays beside bm25s; return rows and the arrays."""
    import bm25s

    from ragstream_core.text.bm25 import Bm25, build_lexical
    from ragstream_core.text.terms import term_id

    stored = blobs(words, np.array([term_id(name) for name in names]))
    tokens = [[names[i] for i in row] for row in words]
    started = time.process_time()
    arrays = build_lexical(stored)
    ours = time.process_time() - started
    started = time.process_time()
    peer = bm25s.BM25(k1=1.5, b=0.75, method="lucene")
    peer.index(tokens, show_progress=False)
    theirs = time.process_time() - started
    known = sorted({names[i] for i in drawn(np.random.default_rng(5), PIECE_WORDS)})
    mine, other = median(9, lambda: Bm25([arrays]).scores(known), lambda: peer.get_scores(known))
    apart = float(np.abs(Bm25([arrays]).scores(known) - peer.get_scores(known) * 2.5).max())
    return [
        [f"{n:,}", "term arrays built from stored terms", f"{ours * 1000:.0f}",
         f"bm25s {theirs * 1000:.0f}"],
        [f"{n:,}", "BM25 of one query, all rows", f"{mine:.2f}",
         f"bm25s {other:.2f}; largest difference {apart:.0e}"],
    ], arrays  # fmt: skip


def at(n: int) -> list[list[object]]:
    """Measure one size; return the rows of the table."""
    from ragstream_core.models.onnx_session import row_products
    from ragstream_core.retrieval.retriever import Fusion, Retriever
    from ragstream_core.retrieval.scoring import approximate_log_avg_exp, exact_cosines

    rng = np.random.default_rng(0)
    names = [f"w{i}" for i in range(VOCABULARY)]
    words, vectors = drawn(rng, (n, WORDS)), unit(rng, n)
    lexical, arrays = lexical_rows(words, names, n)
    paths = tuple(f"{i // 10:06}.md" for i in range(n))
    ids = [f"{path}::{i:06}" for i, path in enumerate(paths)]
    queries = Queries()
    view = CorpusView("bench", 1, "d", queries.fingerprint, ids, paths, vectors, arrays, {})
    pieces = [" ".join(names[i] for i in row) for row in drawn(rng, (PIECES, PIECE_WORDS))]
    retriever = Retriever(queries, Fusion(), multiply=row_products)
    search = partial(retriever.search, [view], " ".join(pieces), pieces=pieces)
    sixteen = unit(rng, 16)
    some_rows = np.sort(rng.choice(n, RESCORED, replace=False))
    distinct = sorted(set(paths))
    few = tuple(f"bench/{path}" for path in distinct[3:])
    some = tuple(f"bench/{path}" for number, path in enumerate(distinct) if number % 100)
    half = tuple(f"bench/{path}" for path in distinct[::2])
    found = median(
        7,
        lambda: vectors @ sixteen.T,
        lambda: approximate_log_avg_exp(np.ascontiguousarray((vectors @ sixteen.T).T)),
        lambda: exact_cosines(vectors[some_rows], sixteen[:PIECES]),
        search,
        lambda: search(off=half),
        lambda: search(off=some),
        lambda: search(off=few),
    )
    gemm, scan, exact, whole, by_half, by_some, by_few = found
    return [
        [f"{n:,}", "product with 16 pieces (GEMM)", f"{gemm:.1f}", "1 ×"],
        [f"{n:,}", "scan: product and LogAvgExp of 16", f"{scan:.1f}", f"{scan / gemm:.2f} ×"],
        [f"{n:,}", f"exact scores of {RESCORED:,} rows, 10 pieces", f"{exact:.1f}", ""],
        [f"{n:,}", "whole fused query, 10 pieces, exact scores", f"{whole:.1f}", "1 ×"],
        [f"{n:,}", "the same, half of the files off", f"{by_half:.1f}", f"{by_half / whole:.2f} ×"],
        [f"{n:,}", "the same, 1 % of the files on", f"{by_some:.1f}", f"{by_some / whole:.2f} ×"],
        [f"{n:,}", "the same, 3 files on", f"{by_few:.1f}", f"{by_few / whole:.2f} ×"],
        *lexical,
    ]  # fmt: skip


def report() -> str:
    """Measure in a process of its own, with one BLAS thread; return the Markdown section."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.bench_scale"],
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout.strip()


def section(*sizes: int) -> str:
    """Measure in this process; return the Markdown section."""
    rows = [row for n in sizes or (10_000, 100_000) for row in at(n)]
    return "## Search at scale\n\n" + table(["chunks", "what", "CPU ms", "beside it"], rows)


if __name__ == "__main__":
    print(section())
