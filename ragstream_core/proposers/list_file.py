"""Inverted lists in one sealed file: written as a stream, mapped by FAISS, checked as a whole.

The bytes are a function of the training, of the rows, and of what the file says of itself: lists
that were brought up to date are those that would be made from nothing. A file is never changed;
the next one has another name. FAISS parses nothing: it is told where each list lies.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from ragstream_core.errors import IntegrityError, StoreFailed, TryAgain
from ragstream_core.platform import array_file
from ragstream_core.platform.disk import disk_failure
from ragstream_core.platform.placed_rows import PlacedRows
from ragstream_core.proposers.list_training import BLOCK, I64, U8, Training, engine

if TYPE_CHECKING:
    from ragstream_core.ports import F32

FORMAT = 1

# Codes are coarse: so many times the wanted rows are named, or so many more of a few.
SPARE, FEW = 2, 64
# Rows that ask for their neighbours at once, when recall is measured.
ASKING = 16
_ID_BYTES = 8
_ARRAYS = {"lists": "|u1", "sizes": "<i8", "centroids": "<f4", "ranges": "<f4"}


@dataclass(frozen=True, slots=True)
class Entries:
    """Rows with ids: what a file holds, or what is new in the next one."""

    ids: I64  # one a row, ≥ 0, ascending, each once
    matrix: F32 | PlacedRows  # unit vectors, shape (n, dimension)
    rows: I64  # where the vector of each id is in it

    @classmethod
    def of(cls, ids: I64, vectors: F32 | PlacedRows) -> Entries:
        """Return rows whose vectors are in the order of their ids."""
        return cls(ids, vectors, np.arange(len(ids)))

    def vectors(self, at: I64 | slice) -> F32:
        """Return the vectors of some positions."""
        return np.ascontiguousarray(self.matrix[self.rows[at]], dtype=np.float32)

    def products(self, queries: F32) -> F32:
        """Return the products of all with some queries, shape (n, queries)."""
        if isinstance(self.matrix, PlacedRows):  # read as it lies, not put in order first
            places = self.matrix.places[self.rows]
            return self.matrix.read(lambda matrix: (matrix @ queries.T)[places])
        return np.asarray((self.matrix @ queries.T)[self.rows])

    def only(self, at: I64) -> Entries:
        """Return some of them, by position."""
        return Entries(self.ids[at], self.matrix, self.rows[at])


class IvfFile:
    """A file of inverted lists, mapped.

    Attributes:
        meta: What its writer says of it.
        training: What its lists were trained to.
        sizes: Rows of each list.
        rows: Rows of all lists.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                self._read(file)
        except FileNotFoundError as error:
            raise _damaged(path, str(error.strerror)) from error
        except OSError as error:
            raise disk_failure(path, error) from error

    def _read(self, file: BinaryIO) -> None:
        """Check an open file and have FAISS map that one, whatever its name names by then."""
        path = self.path
        try:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self.meta, arrays = array_file.decode(
                memoryview(self._map), _ARRAYS, {"format": FORMAT}
            )
        except ValueError as error:
            raise _damaged(path, str(error)) from error
        dimension = int(self.meta.get("dimension", 0))
        self.sizes: I64 = arrays["sizes"]
        if not self._fits(arrays, dimension):
            raise _damaged(path, "its parts do not belong together")
        centroids = arrays["centroids"].reshape(-1, dimension)
        self.training = Training(centroids, arrays["ranges"], int(self.meta["trained_rows"]))
        self.rows = int(self.sizes.sum())
        self._lists = arrays["lists"]
        self._starts = np.cumsum([0, *(_bytes_of(size, dimension) for size in self.sizes.tolist())])
        self._index = self._mapped(f"/dev/fd/{file.fileno()}")

    def _fits(self, arrays: Mapping[str, Any], dimension: int) -> bool:
        sizes, held = arrays["sizes"], len(arrays["lists"])
        return bool(
            dimension > 0
            and len(arrays["centroids"]) == len(sizes) * dimension
            and len(arrays["ranges"]) == 2 * dimension
            and self.meta["arrays"]["lists"][0] == 0
            and (sizes >= 0).all()
            and sum(_bytes_of(size, dimension) for size in sizes.tolist()) == held
        )

    def _mapped(self, name: str) -> Any:
        """Return FAISS's index over the lists where they lie, in a file of some name."""
        # FAISS itself reads such lists from files of its own format alone, and its parser must see
        # no damaged byte: so its inner list of places is filled by hand. A name like /dev/fd/N has
        # it map the file that was checked, whatever lies under the path by now. Tried with
        # faiss-cpu 1.15; `test_list_file.py` fails if another version lays its lists out otherwise.
        faiss, training = engine(), self.training
        dimension, kind = training.dimension, faiss.ScalarQuantizer.QT_8bit
        lists = faiss.OnDiskInvertedLists(training.lists, dimension, name)
        lists.read_only, lists.totsize = True, len(self._lists)
        lists.lists.clear()
        for size, start in zip(self.sizes.tolist(), self._starts.tolist(), strict=False):
            one = faiss.OnDiskOneList()
            one.size, one.capacity, one.offset = size, _capacity(size), start
            lists.lists.push_back(one)
        if len(self._lists):
            try:
                lists.do_mmap()
            except RuntimeError as error:
                raise StoreFailed(f"FAISS cannot map {self.path}", hint=TryAgain()) from error
        metric = faiss.METRIC_INNER_PRODUCT
        index = faiss.IndexIVFScalarQuantizer(
            training.coarse, dimension, training.lists, kind, metric, False
        )
        faiss.copy_array_to_vector(training.ranges, index.sq.trained)
        index.is_trained, index.ntotal = True, self.rows
        index.replace_invlists(lists)
        self._kept = lists  # the index does not own it
        return index

    def entries(self, number: int) -> tuple[I64, U8]:
        """Return the ids of a list, ascending, and their codes."""
        size, start = int(self.sizes[number]), int(self._starts[number])
        dimension, capacity = self.training.dimension, _capacity(int(self.sizes[number]))
        codes = self._lists[start : start + size * dimension].reshape(size, dimension)
        at = start + capacity * dimension
        ids: I64 = self._lists[at : at + size * _ID_BYTES].view("<i8")
        return ids, codes

    def ids(self) -> I64:
        """Return the ids of all rows, ascending."""
        parts = [self.entries(number)[0] for number in range(self.training.lists)]
        return np.sort(np.concatenate(parts)) if parts else np.zeros(0, dtype=np.int64)

    def search(self, queries: F32, n: int, nprobe: int) -> list[I64]:
        """Return the ids of about twice ``n`` rows that may be the nearest of each query."""
        engine()  # threads are counted for each thread by itself
        if not self.rows:
            return [np.zeros(0, dtype=np.int64)] * len(queries)
        self._index.nprobe = min(nprobe, self.training.lists)
        wanted = np.ascontiguousarray(queries, dtype=np.float32)
        _, found = self._index.search(wanted, min(max(n * SPARE, n + FEW), self.rows))
        return [row[row >= 0] for row in found]


def blocks(
    meta: Mapping[str, object],
    training: Training,
    *,
    added: Entries,
    old: IvfFile | None = None,
    gone: I64 | None = None,
) -> Iterator[bytes]:
    """Yield the bytes of a file."""
    starts = range(0, len(added.ids), BLOCK)
    near = [training.list_of(added.vectors(slice(at, at + BLOCK))) for at in starts]
    lists = np.concatenate(near) if near else np.zeros(0, dtype=np.int64)
    order = np.argsort(lists, kind="stable")
    ends = np.searchsorted(lists[order], np.arange(training.lists + 1))
    sizes: list[int] = []

    def parts() -> Iterator[bytes]:
        for number in range(training.lists):
            rows = order[ends[number] : ends[number + 1]]
            ids, codes = added.ids[rows], training.codes(added.vectors(rows))
            if old is not None:
                ids, codes = _merged(old.entries(number), (ids, codes), gone)
            sizes.append(len(ids))
            spare = _capacity(len(ids)) - len(ids)
            yield codes.tobytes() + bytes(spare * training.dimension)
            yield ids.astype("<i8").tobytes() + bytes(spare * _ID_BYTES)

    told = {
        **meta,
        "format": FORMAT,
        "dimension": training.dimension,
        "training": training.digest,
        "trained_rows": training.rows,
    }
    return array_file.stream(
        told,
        (
            ("lists", parts()),
            ("sizes", (np.array(sizes, dtype="<i8").tobytes() for _ in range(1))),
            ("centroids", [training.centroids.tobytes()]),
            ("ranges", [training.ranges.tobytes()]),
        ),
    )


def _merged(old: tuple[I64, U8], new: tuple[I64, U8], gone: I64 | None) -> tuple[I64, U8]:
    ids, codes = old
    if gone is not None and len(gone):
        kept = ~np.isin(ids, gone)
        ids, codes = ids[kept], codes[kept]
    if not len(new[0]):
        return ids, codes
    ids, codes = np.concatenate([ids, new[0]]), np.concatenate([codes, new[1]])
    order = np.argsort(ids)
    return ids[order], codes[order]


def differing(file: IvfFile, rows: Entries) -> int:
    """Return how many rows a file lacks, has too many, or holds with another code."""
    held = file.ids()
    wrong = len(np.setxor1d(held, rows.ids))
    for number in range(file.training.lists):
        ids, codes = file.entries(number)
        at = np.searchsorted(rows.ids, ids)
        known = at < len(rows.ids)
        known[known] = rows.ids[at[known]] == ids[known]
        fresh = file.training.codes(rows.vectors(at[known]))
        wrong += int((fresh != codes[known]).any(axis=1).sum())
    return wrong


def recall(file: IvfFile, rows: Entries, *, depth: int, nprobe: int, sample: int = 64) -> float:
    """Return the share of the exact nearest rows that a file names, 0…1.

    Each of some rows, spread evenly, asks for its neighbours.
    """
    total = len(rows.ids)
    if not total:
        return 1.0
    asking = np.unique(np.linspace(0, total - 1, min(sample, total)).astype(np.int64))
    wanted, hits = min(depth, total), 0
    for begin in range(0, len(asking), ASKING):
        queries = rows.vectors(asking[begin : begin + ASKING])
        scores = rows.products(queries)
        for near, named in zip(scores.T, file.search(queries, depth, nprobe), strict=True):
            exact = rows.ids[np.argpartition(-near, wanted - 1)[:wanted]]
            hits += len(np.intersect1d(exact, named))
    return hits / (wanted * len(asking))


def _capacity(size: int) -> int:
    return -(-size // _ID_BYTES) * _ID_BYTES  # ids behind the codes stay aligned


def _bytes_of(size: int, dimension: int) -> int:
    return _capacity(size) * (dimension + _ID_BYTES)


def _damaged(path: Path, detail: str) -> IntegrityError:
    return IntegrityError(f"{path.name}: {detail}")
