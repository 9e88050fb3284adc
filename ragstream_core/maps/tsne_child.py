"""The child of `projection`: t-SNE by scikit-learn, with one thread, so that it repeats exactly.

Reads the vectors as npy from stdin, writes the points as npy to stdout, and ``step <done> <all>``
to stderr, taken from what scikit-learn says about its iterations; it has no other way to report.
"""

from __future__ import annotations

import io
import re
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragstream_core.maps.projection import F64
    from ragstream_core.ports import F32

STEPS = 1000
REDUCED = 50
"""Dimensions that t-SNE looks at; the others of 384 hold little but noise, and cost time."""
_ITERATION = re.compile(r"Iteration (\d+):")


class Reports(io.TextIOBase):
    """A stdout that keeps only what says how many iterations are done."""

    def write(self, text: str, /) -> int:
        """Pass on the number of an iteration."""
        found = _ITERATION.search(text)
        if found:
            sys.stderr.write(f"step {found[1]} {STEPS}\n")
            sys.stderr.flush()
        return len(text)


def embed(vectors: F32, *, seed: int, perplexity: float) -> F64:
    """Return the points of vectors.

    Args:
        vectors: Shape (n, d), n ≥ 4.
        seed: Of the random part of the start, ≥ 0.
        perplexity: In (0, n).
    """
    import numpy as np
    from sklearn.manifold import TSNE

    from ragstream_core.maps.projection import pca

    reduced = pca(vectors, min(REDUCED, *vectors.shape)).astype(np.float32)
    begin = np.random.default_rng(seed).normal(size=(len(vectors), 2)) * 1e-5
    spread = float(np.std(reduced[:, 0]))
    if spread > 0:  # the main directions first, so that the map as a whole means something
        begin += reduced[:, :2] / spread * 1e-4
    model = TSNE(
        perplexity=perplexity, init=begin.astype(np.float32), learning_rate="auto",
        max_iter=STEPS, random_state=seed, n_jobs=1, verbose=2,
    )  # fmt: skip
    return np.asarray(model.fit_transform(reduced), dtype=np.float64)


def main(seed: int, perplexity: float) -> None:
    """Project stdin to stdout."""
    import numpy as np
    import sklearn.manifold  # noqa: F401 - only libraries that are loaded can be limited
    from threadpoolctl import threadpool_limits

    sys.stderr.write(f"step 0 {STEPS}\n")
    sys.stderr.flush()
    vectors = np.load(io.BytesIO(sys.stdin.buffer.read()), allow_pickle=False)
    answer, sys.stdout = sys.stdout, Reports()
    with threadpool_limits(limits=1):
        points = embed(vectors, seed=seed, perplexity=perplexity)
    packed = io.BytesIO()  # NumPy asks a file for its position, and a pipe may have none
    np.save(packed, points)
    answer.buffer.write(packed.getvalue())
    answer.flush()
