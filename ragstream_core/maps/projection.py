"""Vectors in two dimensions: PCA here, t-SNE in a child process that reports and can be stopped.

PCA keeps distances on the whole; t-SNE keeps neighbours together, and its distances between groups
mean little. Both give the same points for the same vectors and seed on the same machine.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING

import ragstream_core
from ragstream_core.errors import OperationFailed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ragstream_core.ports import F32

    F64 = NDArray[np.float64]

METHODS = ("tsne", "pca")
DIGITS = 4
LEAST = 4
"""So many vectors t-SNE needs; fewer are laid out by PCA."""
MODULE = "ragstream_core.maps.tsne_child"
StepsProgress = Callable[[int, int], None]
"""Called with (steps done, steps in all); what it raises ends the projection."""


def pca(vectors: F32, dimensions: int = 2) -> F64:
    """Project onto the directions of largest variance, each turned so that its signs are fixed.

    Args:
        vectors: Shape (n, d).
        dimensions: How many, ≥ 1; those beyond d are zeros.

    Returns:
        Shape (n, dimensions), each column with mean 0.
    """
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
    vectors: F32, *, method: str, seed: int, perplexity: float, told: StepsProgress | None = None
) -> F64:
    """Lay vectors out in the plane.

    Args:
        vectors: Shape (n, d); for ``tsne`` at least `LEAST`.
        method: ``tsne`` or ``pca``.
        seed: Of t-SNE, ≥ 0.
        perplexity: Of t-SNE, in (0, n); about how many neighbours count.
        told: Called now and then.

    Returns:
        Shape (n, 2), rounded to 4 digits.

    Raises:
        OperationFailed: The child died: too little memory, or it was stopped.
    """
    points = pca(vectors) if method == "pca" else _tsne(vectors, seed, perplexity, told)
    return points.round(DIGITS) + 0.0  # no -0.0


def _tsne(vectors: F32, seed: int, perplexity: float, told: StepsProgress | None) -> F64:
    import numpy as np

    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as made:
        np.save(given, vectors)
        given.seek(0)
        child = subprocess.Popen(
            [sys.executable, "-c", f"from {MODULE} import main; main({seed}, {perplexity!r})"],
            stdin=given,
            stdout=made,
            stderr=subprocess.PIPE,
            cwd=Path(ragstream_core.__file__).parent.parent,
        )
        try:
            last = _followed(child.stderr, told)
            code = child.wait()
        finally:
            child.kill()
            child.wait()
            if child.stderr is not None:
                child.stderr.close()
        if code:
            raise OperationFailed(
                f"t-SNE ended with {'signal' if code < 0 else 'exit code'} {abs(code)}: {last}",
                hint="--method pca, or a smaller --limit",
            )
        made.seek(0)
        return np.asarray(np.load(made), dtype=np.float64)


def _followed(lines: IO[bytes] | None, told: StepsProgress | None) -> str:
    """Hand the child's reports on until it closes its pipe; return the last other line."""
    last = "it said nothing"
    for raw in lines or ():
        line = raw.decode("utf-8", "replace").strip()
        word, _, numbers = line.partition(" ")
        done, _, total = numbers.partition(" ")
        if word == "step" and done.isdigit() and total.isdigit():
            if told is not None:
                told(int(done), int(total))
        elif line:
            last = line[:300]
    return last
