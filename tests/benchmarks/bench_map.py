"""How long a map takes: t-SNE and PCA of 5,000 chunks, wall clock and CPU, with the picture.

python -m tests.benchmarks.bench_map [CHUNKS]

Vectors of 384 dimensions in 60 groups, as a real index has topics, given to the same functions as
`ragstream index tsne` gives those of an index. t-SNE runs in one child process with one thread.
"""

import resource
import sys
import time

import numpy as np

from ragstream_core.maps.chunk_map import ChunkMap, PlacedChunk
from ragstream_core.maps.drawing import draw
from ragstream_core.maps.projection import project_vectors
from tests.benchmarks.measure import table

FILES = 120


def vectors(count: int) -> np.ndarray:
    """Return unit vectors around 60 centres, the same each time."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(60, 384))
    rows = centres[rng.integers(0, 60, count)] + 0.7 * rng.normal(size=(count, 384))
    units: np.ndarray = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return units.astype(np.float32)


def main() -> None:
    """Measure and print a table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000
    rows = vectors(count)
    lines = [measured(rows, method) for method in ("tsne", "pca")]
    print(table(("method", "chunks", "wall", "CPU", "drawn in", "PNG", "reports"), lines))


def measured(rows: np.ndarray, method: str) -> tuple[object, ...]:
    """Return what one map took."""
    reports: list[int] = []
    began, before = time.monotonic(), cpu()
    points = project_vectors(
        rows, method=method, seed=0, perplexity=30.0, told=lambda done, _: reports.append(done)
    )
    laid, spent, count = time.monotonic(), cpu() - before, len(rows)
    places = tuple(
        PlacedChunk("demo", f"f{n % FILES}.md", f"f::{'a' * 64}::{n}", x, y)
        for n, (x, y) in enumerate(points.tolist())
    )
    png = draw(ChunkMap(places, count, method, 0, 30.0, {"demo": 1}))
    took = f"{time.monotonic() - laid:.1f} s"
    return (
        method, f"{count:,}", f"{laid - began:.1f} s", f"{spent:.1f} s", took,
        f"{len(png) / 1024:.0f} KiB", len(reports),
    )  # fmt: skip


def cpu() -> float:
    """Return the CPU seconds of this process and of the children that ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


if __name__ == "__main__":
    main()
