"""`FaissIvfStore`: the inverted lists of large projects behind the port of vector stores.

Metric: cosine of unit vectors, approximate candidates with exact scores, rounded to 6 digits, ties
by id among what was found. Durability: `save` writes one sealed file of ids and vectors, from which
the lists are made again. Cost: a copy of the lists after a change, else those that are looked at. A
project is searched by the lists beside its index, not by this. Needs the extra ``faiss``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ragstream_core.errors import IntegrityError
from ragstream_core.platform import array_file
from ragstream_core.platform.files import replace_bytes, write_blocks
from ragstream_core.proposers.ivf import I64, engine, is_outgrown, train
from ragstream_core.proposers.ivf_file import Entries, IvfFile, blocks
from ragstream_core.proposers.model_stamp import ModelStamp, require_new
from ragstream_core.retrieval.scoring import exact_cosines, top

if TYPE_CHECKING:
    from ragstream_core.ports import F32

NPROBE = 256
_ARRAYS = {"names": "|u1", "vectors": "<f4"}
_END = "\0"


class FaissIvfStore:
    """A `ragstream_core.ports.VectorStore` over inverted lists.

    Args:
        folder: Where the file lies; read if it is there.
        dimension: Length of a vector.
        name: First part of the file's name.
        embed_fp: Fingerprint of the model that makes the vectors.
        model: Its name, for people.
        nprobe: How many lists a search looks at.

    Raises:
        ExtraMissing: The extra ``faiss`` is not installed.
        ModelMismatch: The file was written for another model.
        IntegrityError: The file is damaged.
    """

    def __init__(
        self,
        folder: Path,
        dimension: int,
        *,
        name: str = "vectors",
        embed_fp: str = "",
        model: str = "",
        nprobe: int = NPROBE,
    ) -> None:
        engine()
        self._path = folder / f"{name}.ivf"
        self._stamp = ModelStamp(embed_fp, model, dimension)
        self._nprobe = nprobe
        self._names: list[str] = []  # by number; a number is never used twice
        self._vectors: F32 = np.zeros((0, dimension), dtype=np.float32)
        self._live: dict[str, int] = {}
        self._lists: IvfFile | None = None
        if self._path.exists():
            self._load()

    def add(self, ids: Sequence[str], vectors: F32) -> None:
        """Add rows.

        Raises:
            DuplicateId: An id is live already, or given twice; nothing was added.
            ValueError: The vectors do not have the shape (len(ids), dimension).
        """
        if vectors.shape != (len(ids), self._stamp.dimension):
            raise ValueError(f"shape {vectors.shape} for {len(ids)} ids")
        require_new(ids, self._live)
        first = len(self._names)
        self._names += ids
        self._live |= {identifier: first + i for i, identifier in enumerate(ids)}
        self._vectors = np.concatenate([self._vectors, vectors.astype(np.float32)])

    def delete(self, ids: Sequence[str]) -> None:
        """Remove rows; unknown ids are no error."""
        for identifier in ids:
            self._live.pop(identifier, None)

    def search(self, query: F32, k: int) -> list[tuple[str, float]]:
        """Return about the ``k`` best (id, cosine), ties by id; the cosines are exact."""
        if k < 1 or not self._live:
            return []
        (rows,) = self._current().search(query[None, :], k, self._nprobe)
        rows = np.sort(rows)
        scores = exact_cosines(self._vectors[rows], query[None, :])[:, 0]
        names = [self._names[row] for row in rows.tolist()]
        return [(names[i], float(scores[i])) for i in top(names, scores, k)]

    def ids(self) -> list[str]:
        """Return all live ids, sorted."""
        return sorted(self._live)

    def save(self) -> None:
        """Write the file.

        Raises:
            OSError: Disk full; the old file is untouched.
        """
        names = sorted(self._live)
        rows = self._vectors[[self._live[name] for name in names]]
        told = {"rows": len(names), **self._stamp.to_json()}
        arrays = {
            "names": np.frombuffer("".join(name + _END for name in names).encode(), np.uint8),
            "vectors": np.ascontiguousarray(rows, dtype="<f4"),
        }
        replace_bytes(self._path, array_file.encode(told, arrays))

    def _current(self) -> IvfFile:
        """Return the lists of the live rows: those of the last search, brought up to date."""
        numbers: I64 = np.array(sorted(self._live.values()), dtype=np.int64)
        rows, old = Entries(numbers, self._vectors, numbers), self._lists
        if old is not None and is_outgrown(old.training, len(numbers)):
            old = None
        held = old.ids() if old is not None else np.zeros(0, dtype=np.int64)
        fresh = np.flatnonzero(~np.isin(numbers, held, assume_unique=True))
        gone = np.setdiff1d(held, numbers, assume_unique=True)
        if old is None or len(fresh) or len(gone):
            training = old.training if old is not None else train(self._vectors[numbers])
            with tempfile.TemporaryDirectory(prefix="ragstream-ivf-") as home:
                path = Path(home, "lists.ivf")
                write_blocks(path, blocks({}, training, added=rows.only(fresh), old=old, gone=gone))
                self._lists = IvfFile(path)  # mapped: its name may go
        assert self._lists is not None
        return self._lists

    def _load(self) -> None:
        try:
            told, arrays = array_file.decode(self._path.read_bytes(), _ARRAYS, {})
            names = str(arrays["names"].data, "utf-8").split(_END)[:-1]
            vectors = arrays["vectors"].reshape(len(names), -1) if names else self._vectors
        except (OSError, ValueError) as error:
            raise IntegrityError(
                f"{self._path}: {error}", hint=f"delete {self._path.name}; it is made again"
            ) from error
        self._stamp.require(ModelStamp.of(told), what=str(self._path))
        self.add(names, vectors)
