"""Vectors in two dimensions: PCA here, t-SNE in a child process that reports and can be stopped.

The child is ``python -m … SEED PERPLEXITY``: vectors and points as npy, and ``step <done> <all>``
on standard error, taken from what scikit-learn prints about its iterations. It has one thread, so
that it repeats exactly.

PCA keeps distances on the whole; t-SNE keeps neighbours together, and its distances between groups
mean little. Both give the same points for the same vectors and seed on the same machine.
"""

from __future__ import annotations

import io
import re
import sys
import tempfile
from typing import TYPE_CHECKING

from ragstream_core.errors import AddOption, OperationFailed
from ragstream_core.platform import extras
from ragstream_core.platform.sandbox import answer_stdin, run_child

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ragstream_core.ports import F32, Progress

    F64 = NDArray[np.float64]

METHODS = ("tsne", "pca")
DIGITS = 4

# So many vectors t-SNE needs; fewer are laid out by PCA.
LEAST = 4
CHILD = "ragstream_core.maps.projection"
STEPS = 1000

# Dimensions that t-SNE looks at; the others of 384 hold little but noise, and cost time.
REDUCED = 50
_ITERATION = re.compile(r"Iteration (\d+):")
_STEP = re.compile(r"step (\d+) (\d+)")


def pca(vectors: F32, dimensions: int = 2) -> F64:
    """Project (n, d) onto the directions of largest variance; their signs are fixed."""
    import numpy as np

    found = np.zeros((len(vectors), dimensions))
    if len(vectors) < 2:
        return found
    rows = np.asarray(vectors, dtype=np.float64)
    rows = rows - rows.mean(axis=0)
    axes = np.linalg.eigh(rows.T @ rows)[1][:, ::-1][:, :dimensions]
    axes = axes * np.where(axes[np.abs(axes).argmax(axis=0), range(axes.shape[1])] < 0, -1, 1)
    found[:, : axes.shape[1]] = rows @ axes
    return found


def usable_perplexity(asked: float, rows: int) -> float:
    """Return the perplexity that so many rows allow: at most a third of the others."""
    return min(asked, (rows - 1) / 3)


def project_vectors(
    vectors: F32, *, method: str, seed: int, perplexity: float, told: Progress | None = None
) -> F64:
    """Lay vectors out in the plane: shape (n, 2), rounded to 4 digits."""
    if method != "pca":
        extras.require("t-SNE (`pca` needs nothing)", "maps", "sklearn", "threadpoolctl")
    points = pca(vectors) if method == "pca" else _tsne(vectors, seed, perplexity, told)
    return points.round(DIGITS) + 0.0  # no -0.0


def _tsne(vectors: F32, seed: int, perplexity: float, told: Progress | None) -> F64:
    import numpy as np

    last = "it wrote nothing"

    def follow(line: str) -> None:
        nonlocal last
        step = _STEP.fullmatch(line)
        if step is None:
            last = line[:300] or last
        elif told is not None:
            told(int(step[1]), int(step[2]))

    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as made:
        np.save(given, vectors)
        given.seek(0)
        words = ["-m", CHILD, str(seed), repr(perplexity)]
        code = run_child(words, given, answer=made, told=follow).code or 0
        if code:
            raise OperationFailed(
                f"t-SNE ended with {'signal' if code < 0 else 'exit code'} {abs(code)}: {last}",
                hint=AddOption("--method pca, or a smaller --limit"),
            )
        made.seek(0)
        return np.asarray(np.load(made), dtype=np.float64)


class Reports(io.TextIOBase):
    """A stdout that keeps only what says how many iterations are done."""

    def write(self, text: str, /) -> int:
        """Pass on the number of an iteration."""
        found = _ITERATION.search(text)
        if found:
            sys.stderr.write(f"step {found[1]} {STEPS}\n")
            sys.stderr.flush()
        return len(text)


def embed(vectors: F32, seed: int, perplexity: float) -> F64:
    """Return the points of vectors; for the child."""
    import numpy as np
    from sklearn.manifold import TSNE

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


def main(argv: list[str]) -> None:
    """Run as the child: see the module."""
    seed, perplexity = int(argv[0]), float(argv[1])
    import numpy as np
    import sklearn.manifold  # noqa: F401 - only libraries that are loaded can be limited
    from threadpoolctl import threadpool_limits

    sys.stderr.write(f"step 0 {STEPS}\n")
    sys.stderr.flush()
    sys.stdout = Reports()

    def work(data: bytes) -> bytes:
        with threadpool_limits(limits=1):
            points = embed(np.load(io.BytesIO(data), allow_pickle=False), seed, perplexity)
        packed = io.BytesIO()
        np.save(packed, points)
        return packed.getvalue()

    answer_stdin(work)


if __name__ == "__main__":
    main(sys.argv[1:])
