"""What a change of 1,000 of 100,000 rows costs in the term arrays, beside writing all of them.

OMP_NUM_THREADS=1 python -m tests.benchmarks.bench_term_arrays [ROWS]

Rows of 100 words drawn from a Zipf vocabulary; both sides in turn.
"""

import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from ragstream_core.index import term_files
from ragstream_core.index.term_files import Changes
from ragstream_core.text.bm25 import Bm25, LexicalArrays, PostingLists, build_lexical
from ragstream_core.text.bm25_merge import MergedLists
from ragstream_core.text.terms import term_id
from tests.benchmarks.bench_scale import VOCABULARY, WORDS, blobs, drawn, median
from tests.benchmarks.measure import cpu, table

ROWS, CHANGED, BLOCK = 100_000, 1_000, 10_000
STAMP = {"digest": "d", "lexical": "v"}
NAMES = [f"w{i}" for i in range(VOCABULARY)]


def rows(seed: int, count: int) -> Iterator[list[bytes]]:
    """Yield the stored terms of rows."""
    rng, ids = np.random.default_rng(seed), np.array([term_id(name) for name in NAMES])
    for at in range(0, count, BLOCK):
        yield from blobs(drawn(rng, (min(BLOCK, count - at), WORDS)), ids)


def changes(count: int) -> Changes:
    """Return changes that end as many rows as come, anywhere."""
    rng = np.random.default_rng(3)
    ended = np.sort(rng.choice(count, CHANGED, replace=False)).astype("<i4")
    gaps = np.sort(rng.integers(0, count + 1, CHANGED)).astype("<i4")
    names = tuple(f"{n:06}.md::{'0' * 64}::0" for n in range(CHANGED))
    return Changes(ended, names, gaps, build_lexical(rows(2, CHANGED)))


def measured(count: int, folder: Path) -> list[list[object]]:
    """Measure; return the rows of the table."""
    path, beside = folder / "arrays.bin", folder / "changes.bin"
    stored = list(rows(1, count))
    whole = cpu(partial(term_files.write, path, STAMP, stored))

    def opened() -> LexicalArrays:
        return term_files.mapped(path, STAMP)

    def changed() -> None:
        opened()  # as an ingest checks the file that it does not write
        term_files.write_changes(beside, STAMP, changes(count))

    def both() -> MergedLists:
        return term_files.read_changes(beside, STAMP).merged(opened())

    def ask(arrays: PostingLists) -> None:
        Bm25([arrays]).scores_of(pieces)

    changed()
    pieces = [[NAMES[i] for i in row] for row in drawn(np.random.default_rng(5), (10, 12))]
    one, two = opened(), both()
    merged = cpu(partial(term_files.write_merged, folder / "merged.bin", STAMP, two))
    found = median(9, changed, opened, both, partial(ask, one), partial(ask, two))
    written, plain, overlaid, question, again = found
    name = f"{count:,}"
    return [
        [name, "all rows written from their terms", f"{whole * 1000:.0f}", "1 ×"],
        [name, f"{CHANGED:,} rows that end and as many that come, written beside them",
         f"{written:.0f}", f"{written / whole / 1000:.3f} ×"],
        [name, "both files merged into one", f"{merged * 1000:.0f}", f"{merged / whole:.2f} ×"],
        [name, "one file opened", f"{plain:.1f}", "1 ×"],
        [name, "both files opened as one", f"{overlaid:.1f}", f"{overlaid / plain:.2f} ×"],
        [name, "BM25 of ten pieces, one file", f"{question:.1f}", "1 ×"],
        [name, "the same, both files", f"{again:.1f}", f"{again / question:.2f} ×"],
    ]  # fmt: skip


def report(count: int = ROWS) -> str:
    """Measure; return the Markdown section."""
    with tempfile.TemporaryDirectory() as folder:
        found = measured(count, Path(folder))
    return "## Term arrays and their changes\n\n" + table(
        ["rows", "what", "CPU ms", "beside it"], found
    )


if __name__ == "__main__":
    print(report(*map(int, sys.argv[1:])))
