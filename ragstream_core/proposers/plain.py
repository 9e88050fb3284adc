"""Stores that are filled with rows: exact search, a flat FAISS index, a person's own.

Scores are cosines of unit vectors, in [-1, 1], higher is better, rounded to 6 digits; ties by id.
Importing this module loads no engine.
"""

from __future__ import annotations

import json
import logging
import shutil
import threading
from collections import OrderedDict
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_core.conversations.journal.records import HISTORY
from ragstream_core.errors import (
    DuplicateId,
    IntegrityError,
    ModelMismatch,
    RagstreamError,
    RunCommand,
    UsageError,
)
from ragstream_core.platform import extras
from ragstream_core.platform.files import replace_bytes, replace_text
from ragstream_core.platform.locks import one_thread_at_a_time
from ragstream_core.platform.registry import Port, Registry
from ragstream_core.records.identity import digest_of, sha256_hex

if TYPE_CHECKING:
    from ragstream_core.ports import F32, IndexView, VectorStore
    from ragstream_core.retrieval.proposers import I64
    from ragstream_core.wiring.workspace import Workspace

# The index's own vectors, scored exactly: not a store beside it, so nothing is made for it.
CATALOG = "catalog"
# Selected by their names too, and asked by `choose`; nobody fills one by hand.
MADE_FROM_AN_INDEX = ("chroma", "faiss_ivf", "pgvector")
FORMAT = 1

# Folder inside an index where stores that have a `save` keep their files; derived.
STORES = "stores"
CACHED_STORES = 4
LOG = logging.getLogger(__name__)
_filled: OrderedDict[tuple[Path, str], VectorStore] = OrderedDict()
_guard = threading.Lock()


def require_new(ids: Sequence[str], live: Container[str]) -> None:
    """Refuse rows that are live already, or given twice."""
    twice = sorted(identifier for identifier in set(ids) if identifier in live)
    if twice or len(set(ids)) < len(ids):
        raise DuplicateId(
            f"ids already exist or are given twice: {', '.join(twice[:3])}",
            hint="delete them first",
        )


class ExactStore:
    """A `ragstream_core.ports.VectorStore` in memory; what approximate stores are measured by."""

    def __init__(self, dimension: int) -> None:
        import numpy as np

        self._ids: list[str] = []
        self._rows: F32 = np.zeros((0, dimension), dtype=np.float32)

    def add(self, ids: Sequence[str], vectors: F32) -> None:
        """Add rows; a live id is refused and nothing is added."""
        import numpy as np

        rows = np.asarray(vectors, dtype=np.float32)
        _require_shape(ids, rows, self._rows.shape[1])
        require_new(ids, set(self._ids))
        self._ids = [*self._ids, *ids]
        self._rows = np.concatenate([self._rows, rows])

    def delete(self, ids: Sequence[str]) -> None:
        """Remove rows; unknown ids are no error."""
        gone = set(ids)
        keep = [i for i, known in enumerate(self._ids) if known not in gone]
        self._ids = [self._ids[i] for i in keep]
        self._rows = self._rows[keep]

    def search(self, query: F32, k: int) -> list[tuple[str, float]]:
        """Return the ``k`` best (id, cosine), ties by id."""
        from ragstream_core.retrieval.scoring import exact_cosines, propose, top

        if k < 1 or not self._ids:
            return []
        rows = propose(self._rows @ query, min(k, len(self._ids)))
        scores = exact_cosines(self._rows[rows], query[None, :])[:, 0]
        ids = [self._ids[row] for row in rows]
        return [(ids[i], float(scores[i])) for i in top(ids, scores, k)]

    def ids(self) -> list[str]:
        """Return all live ids, sorted."""
        return sorted(self._ids)


def _require_shape(ids: Sequence[str], vectors: F32, dimension: int) -> None:
    if vectors.shape != (len(ids), dimension):
        raise ValueError(f"shape {vectors.shape} for {len(ids)} ids")


class FaissStore:
    """A `ragstream_core.ports.VectorStore` over ``faiss.IndexFlatIP``, exact, kept in two files.

    The JSON is written last and holds the sha256 of the index and a digest of itself, so damage,
    or a save that was killed, is noticed when it is opened.
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
        extras.require("the vector store faiss", "faiss")
        import faiss

        self._engine: Any = faiss
        self._index_path = folder / f"{name}.faiss"
        self._meta_path = folder / f"{name}_meta.json"
        stamp = {"embed_fp": embed_fp, "model": model, "dimension": dimension}
        self._dimension = dimension
        self._stamp = {key: value for key, value in stamp.items() if value}
        self._ids: list[str] = []
        self._index: Any = faiss.IndexFlatIP(dimension)
        if self._meta_path.exists():
            self._load()

    def add(self, ids: Sequence[str], vectors: F32) -> None:
        """Add rows; a live id is refused and nothing is added."""
        _require_shape(ids, vectors, self._dimension)
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
        exact = exact_cosines(self._vectors(rows), query[None, :])[:, 0]
        ids = [self._ids[row] for row in rows.tolist()]
        return [(ids[i], float(exact[i])) for i in top(ids, exact, k)]

    def ids(self) -> list[str]:
        """Return all live ids, sorted."""
        return sorted(self._ids)

    def save(self) -> None:
        """Write both files; on a full disk the old ones still belong together, or are noticed."""
        data = self._engine.serialize_index(self._index).tobytes()
        meta = {
            "format": FORMAT,
            "ids": self._ids,
            "index_sha256": sha256_hex(data),
            **self._stamp,
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
        stored_fp, mine_fp = meta.get("embed_fp"), self._stamp.get("embed_fp")
        if stored_fp != mine_fp or meta.get("dimension") not in (None, self._dimension):
            raise ModelMismatch(
                f"{self._index_path} was built by {_model_of(meta)}, this session uses "
                f"{_model_of(self._stamp)}",
                hint=RunCommand("ingest", "PROJECT --rebuild"),
            )
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

        vectors: F32 = np.empty((len(rows), self._dimension), dtype=np.float32)
        for target, row in zip(vectors, rows.tolist(), strict=True):
            self._index.reconstruct(row, target)
        return vectors


def _model_of(stamp: Mapping[str, Any]) -> str:
    """Return which model a store is of, for people."""
    digest = str(stamp.get("embed_fp", "unknown"))[:12]
    size = f", {stamp['dimension']} dimensions" if "dimension" in stamp else ""
    return f"{stamp.get('model', 'an unnamed model')} ({digest}{size})"


def _contiguous(vectors: F32) -> F32:
    import numpy as np

    return np.ascontiguousarray(vectors, dtype=np.float32)


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """What a store may ask for."""

    folder: Path
    dimension: int
    name: str = "vectors"  # first part of its file names
    embed_fp: str = ""  # fingerprint of the model that makes the vectors
    model: str = ""


VECTOR_STORES: Registry[VectorStore] = Registry(
    "vector store",
    setting="retrieval.store",
    port=Port("VectorStore", ("add", "delete", "search", "ids")),
    options=StoreOptions,
    built_in={"exact": ExactStore, "faiss": FaissStore},
    reserved=(CATALOG, *MADE_FROM_AN_INDEX),
)


def create_vector_store(backend: str, options: StoreOptions) -> VectorStore:
    """Return a store by its name or import path, opened if there are files of it (R-080)."""
    if backend in MADE_FROM_AN_INDEX:
        raise UsageError(
            f"the vector store {backend!r} is made from an index and cannot be filled by hand",
            hint=f"set retrieval.store={backend}; the next ingest makes it",
        )
    return VECTOR_STORES.create(backend, options)


@dataclass(frozen=True, slots=True)
class FilledStore:
    """Proposes from a store that is filled with the rows of a generation when it is first asked."""

    workspace: Workspace
    backend: str
    model: str  # name of the embedding model, for people

    def near(self, view: IndexView, queries: F32, n: int) -> list[I64] | None:
        """Return the rows that it names; all are scored if it cannot be filled or asked."""
        from ragstream_core.retrieval.proposers import row_numbers

        if view.project == HISTORY:
            return None
        try:
            store = self._filled(view)
            found = [[identifier for identifier, _ in store.search(query, n)] for query in queries]
        except (RagstreamError, OSError, MemoryError) as error:
            LOG.warning("%s of %s cannot be used: %s", self.backend, view.project, error)
            return None
        return [row_numbers(view.chunk_ids, ids) for ids in found]

    def _filled(self, view: IndexView) -> VectorStore:
        home = self.workspace.index_dir(view.project) / STORES / self.backend.replace(":", ".")
        folder = home / view.digest[:16]  # other rows are another store, whatever their ids
        key = folder, view.embed_fp
        with one_thread_at_a_time(key):  # filling one takes seconds; the others go on meanwhile
            with _guard:
                store = _filled.get(key)
            if store is None:
                store = self._opened(view, folder)
            with _guard:
                _filled[key] = store
                _filled.move_to_end(key)
                while len(_filled) > CACHED_STORES:
                    _filled.popitem(last=False)
            return store

    def _opened(self, view: IndexView, folder: Path) -> VectorStore:
        import numpy as np

        options = StoreOptions(
            folder, int(view.vectors.shape[1]),
            embed_fp=view.embed_fp, model=self.model,
        )  # fmt: skip
        try:
            store = create_vector_store(self.backend, options)
        except IntegrityError:  # derived: what is damaged is made again
            shutil.rmtree(folder, ignore_errors=True)
            store = create_vector_store(self.backend, options)
        if store.ids() != list(view.chunk_ids):
            store.delete(store.ids())
            store.add(list(view.chunk_ids), np.asarray(view.vectors))
            save = getattr(store, "save", None)
            if save is not None:
                shutil.rmtree(folder.parent, ignore_errors=True)
                try:
                    save()
                except OSError as error:  # it is filled; the next process fills it again
                    LOG.warning("%s of %s is not kept: %s", self.backend, view.project, error)
        return store
