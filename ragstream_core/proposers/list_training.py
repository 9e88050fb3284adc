"""Inverted lists over unit vectors: how they are trained, which list a vector belongs to, its code.

Centroids are trained by FAISS on one thread with a fixed seed, so the same rows give the same
centroids on the same kind of machine. A vector belongs to the centroid of the largest cosine,
decided exactly where a product by BLAS cannot tell; its code has one byte a dimension.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ragstream_core.platform import extras
from ragstream_core.records.identity import sha256_hex

if TYPE_CHECKING:
    from ragstream_core.platform.placed_rows import PlacedRows
    from ragstream_core.ports import F32

I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]
# Measured in `docs/benchmarks.md`, "Inverted lists beside exact search": fewer rows a list
# make more centroids to compare, more make longer lists to read.
ROWS_A_LIST = 512
# Training is most of what making the lists costs: it grows with their number times the sample.
SAMPLE_A_LIST = 64
ROUNDS = 10
SEED = 16
BLOCK = 16_384

# Centroids that a vector may lie between; only these are compared exactly.
NEAREST = 4
# Products of float32 by BLAS differ in their last bits with the shape of the block, some 1e-7 for
# unit vectors; whatever lies closer than a hundred times that is decided in float64.
MARGIN = 1e-5


@dataclass(frozen=True)
class Training:
    """What inverted lists were trained to."""

    centroids: F32  # unit vectors, shape (lists, dimension)
    # least value of each dimension and its range, for the codes, shape (2 · dimension,)
    ranges: F32
    rows: int  # how many rows there were then

    @property
    def lists(self) -> int:
        """How many lists there are."""
        return len(self.centroids)

    @property
    def dimension(self) -> int:
        """Length of a vector, and of a code in bytes."""
        return int(self.centroids.shape[1])

    @cached_property
    def digest(self) -> str:
        """Sha256 of centroids and ranges, 64 hex digits: the same one names the same rows."""
        return sha256_hex(self.centroids.tobytes() + self.ranges.tobytes())

    @cached_property
    def coarse(self) -> Any:
        """FAISS's exact index of the centroids."""
        index = engine().IndexFlatIP(self.dimension)
        index.add(self.centroids)
        return index

    @cached_property
    def quantizer(self) -> Any:
        """FAISS's scalar quantizer, one byte a dimension."""
        faiss = engine()
        made = faiss.ScalarQuantizer(self.dimension, faiss.ScalarQuantizer.QT_8bit)
        faiss.copy_array_to_vector(self.ranges, made.trained)
        return made

    def list_of(self, vectors: F32) -> I64:
        """Return the list of each vector; the same whatever else is asked for with it."""
        if not len(vectors):
            return np.zeros(0, dtype=np.int64)
        block = np.ascontiguousarray(vectors, dtype=np.float32)
        scores, lists = self.coarse.search(block, min(NEAREST, self.lists))
        nearest: I64 = lists[:, 0].copy()
        if self.lists == 1:
            return nearest
        close = np.flatnonzero(scores[:, 0] - scores[:, 1] < MARGIN)
        if len(close):
            among = np.sort(lists[close], axis=1)
            wide = block[close].astype(np.float64)
            exact = (self.centroids[among].astype(np.float64) * wide[:, None, :]).sum(axis=2)
            nearest[close] = among[np.arange(len(close)), exact.argmax(axis=1)]
        return nearest

    def codes(self, vectors: F32) -> U8:
        """Return the codes of vectors, shape (n, dimension)."""
        if not len(vectors):
            return np.zeros((0, self.dimension), dtype=np.uint8)
        rows = np.ascontiguousarray(vectors, dtype=np.float32)
        codes: U8 = self.quantizer.compute_codes(rows)
        return codes


def lists_for(rows: int) -> int:
    """Return how many lists rows are spread over: a power of two, about one for 512 rows."""
    return 1 << max(0, round(math.log2(max(1, rows) / ROWS_A_LIST)))


def is_outgrown(training: Training, rows: int) -> bool:
    """Return whether rows became so many or so few that lists are to be trained again."""
    return rows > 2 * training.rows or 2 * rows < training.rows


def train(vectors: F32 | PlacedRows) -> Training:
    """Return lists for some rows."""
    faiss = engine()
    lists = min(len(vectors), lists_for(len(vectors)))
    wanted = min(len(vectors), max(lists * SAMPLE_A_LIST, ROWS_A_LIST))
    rows = np.linspace(0, len(vectors) - 1, wanted).astype(np.int64)
    sample = np.ascontiguousarray(vectors[rows], dtype=np.float32)
    means = faiss.Kmeans(
        sample.shape[1],
        lists,
        niter=ROUNDS,
        seed=SEED,
        spherical=True,
        min_points_per_centroid=1,
        max_points_per_centroid=len(sample),
    )
    means.train(sample)
    scalar = faiss.ScalarQuantizer(sample.shape[1], faiss.ScalarQuantizer.QT_8bit)
    scalar.train(sample)
    ranges = faiss.vector_to_array(scalar.trained).astype("<f4")
    return Training(means.centroids.astype("<f4"), ranges, len(vectors))


def engine() -> Any:
    """Return FAISS, on one thread: what it computes must not depend on how many there are."""
    extras.require("approximate search", "faiss")
    import faiss

    faiss.omp_set_num_threads(1)
    return faiss
