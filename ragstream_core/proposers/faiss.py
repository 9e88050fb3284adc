"""`FaissStore`: a flat FAISS index in memory, kept as ``<name>.faiss`` + ``<name>_meta.json``.

Metric: inner product of unit vectors, exact; scores from the common kernel, rounded to 6 digits,
ties by id. Durability: `save` writes both files atomically, the index first; the JSON holds its
sha256 and a digest of itself, so damage, or a save that was killed, is noticed when it is opened.
Cost: one product over all rows. Needs the extra ``faiss``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_core.errors import IntegrityError
from ragstream_core.platform import extras
from ragstream_core.platform.files import replace_bytes, replace_text
from ragstream_core.proposers.model_stamp import ModelStamp, require_new
from ragstream_core.records.identity import digest_of, sha256_hex

if TYPE_CHECKING:
    from ragstream_core.ports import F32

FORMAT = 1


class FaissStore:
    """A `ragstream_core.ports.VectorStore` over ``faiss.IndexFlatIP``.

    Args:
        folder: Where the files lie; read when they are there.
        dimension: Length of a vector.
        name: First part of both file names.
        embed_fp: Fingerprint of the model that makes the vectors.
        model: Its name, for people.

    Raises:
        ExtraMissing: The extra ``faiss`` is not installed.
        ModelMismatch: The files were written for another model.
        IntegrityError: The files do not belong together.
    """

    def __init__(
        self,
        folder: Path,
        dimension: int,
        *,
        name: str = "vectors",
        embed_fp: str = "",
        model: str = "",
    ) -> None:
        self._engine = _engine()
        self._index_path = folder / f"{name}.faiss"
        self._meta_path = folder / f"{name}_meta.json"
        self._stamp = ModelStamp(embed_fp, model, dimension)
        self._ids: list[str] = []
        self._index: Any = self._engine.IndexFlatIP(dimension)
        if self._meta_path.exists():
            self._load()

    def add(self, ids: Sequence[str], vectors: F32) -> None:
        """Add rows.

        Raises:
            DuplicateId: An id is live already, or given twice; nothing was added.
            ValueError: The vectors do not have the shape (len(ids), dimension).
        """
        if vectors.shape != (len(ids), self._stamp.dimension):
            raise ValueError(f"shape {vectors.shape} for {len(ids)} ids")
        require_new(ids, set(self._ids))
        if len(ids):
            self._index.add(_contiguous(vectors))
            self._ids = [*self._ids, *ids]

    def delete(self, ids: Sequence[str]) -> None:
        """Remove rows; unknown ids are no error."""
        import numpy as np

        gone = set(ids)
        rows = [i for i, known in enumerate(self._ids) if known in gone]
        if rows:  # a flat index closes the gap and keeps the order, as the list does
            self._index.remove_ids(np.asarray(rows, dtype=np.int64))
            self._ids = [known for known in self._ids if known not in gone]

    def search(self, query: F32, k: int) -> list[tuple[str, float]]:
        """Return the ``k`` best (id, cosine), ties by id."""
        from ragstream_core.retrieval.scoring import MARGIN, exact_cosines, top

        if k < 1 or not self._ids:
            return []
        wanted = _contiguous(query[None, :])
        scores, _ = self._index.search(wanted, min(k, len(self._ids)))
        _, _, rows = self._index.range_search(wanted, float(scores[0, -1]) - MARGIN)
        vectors = self._vectors(rows)
        exact = exact_cosines(vectors, query[None, :])[:, 0]
        ids = [self._ids[row] for row in rows.tolist()]
        return [(ids[i], float(exact[i])) for i in top(ids, exact, k)]

    def ids(self) -> list[str]:
        """Return all live ids, sorted."""
        return sorted(self._ids)

    def save(self) -> None:
        """Write both files.

        Raises:
            OSError: Disk full; the old files still belong together, or are noticed not to.
        """
        data = self._engine.serialize_index(self._index).tobytes()
        meta = {
            "format": FORMAT,
            "ids": self._ids,
            "index_sha256": sha256_hex(data),
            **self._stamp.to_json(),
        }
        replace_bytes(self._index_path, data)
        whole = {**meta, "digest": digest_of(meta)}
        replace_text(self._meta_path, json.dumps(whole, ensure_ascii=True))

    def _load(self) -> None:
        import numpy as np

        try:
            meta = json.loads(self._meta_path.read_text(encoding="utf-8"))
            data = self._index_path.read_bytes()
            whole = meta.pop("digest") == digest_of(meta)
            ids, digest, written = list(meta["ids"]), meta["index_sha256"], meta["format"]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._damaged(str(error)) from error
        if not whole:
            raise self._damaged(f"{self._meta_path.name} is not what was written")
        self._stamp.require(ModelStamp.of(meta), what=str(self._index_path))
        if written != FORMAT or sha256_hex(data) != digest:
            raise self._damaged("it is not the file that the JSON beside it describes")
        self._index = self._engine.deserialize_index(np.frombuffer(data, dtype=np.uint8))
        self._ids = ids
        if self._index.ntotal != len(ids):
            raise self._damaged(f"{self._index.ntotal} rows for {len(ids)} ids")

    def _damaged(self, detail: str) -> IntegrityError:
        return IntegrityError(
            f"{self._index_path}: {detail}",
            hint=f"delete {self._index_path.name} and {self._meta_path.name}; they are made again",
        )

    def _vectors(self, rows: Any) -> F32:
        import numpy as np

        vectors: F32 = np.empty((len(rows), self._stamp.dimension), dtype=np.float32)
        for target, row in zip(vectors, rows.tolist(), strict=True):
            self._index.reconstruct(row, target)
        return vectors


def _contiguous(vectors: F32) -> F32:
    import numpy as np

    return np.ascontiguousarray(vectors, dtype=np.float32)


def _engine() -> Any:
    extras.require("the vector store faiss", "faiss")
    import faiss

    return faiss
