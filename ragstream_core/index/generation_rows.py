"""The rows of one generation, checked: from the catalog, or from the sealed file of the newest.

Reading a generation from the catalog hashes every row and every vector. A process that did so may
leave ids, paths and places in an `array_file`, stamped with the generation's digest, one crc over
all vectors in this order, and the state of the vector file before they were read: while size, inode
and times are those, no byte of it was written, and the vectors need no second look; that is asked
when a generation is opened, and again when its vectors are read. A file that is behind or damaged
is as good as none. Chunks are read from the catalog still; the crc of each row is in the file, so
what is shown is checked as well.
"""

from __future__ import annotations

import contextlib
import functools
import json
import sqlite3
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_core.errors import IntegrityError
from ragstream_core.index import vectors
from ragstream_core.index.catalog_read import checked_entry, digest_matches
from ragstream_core.index.lock import rebuild_hint
from ragstream_core.index.rows import Generation
from ragstream_core.index.schema import CATALOG_NAME, CHUNK_CANON, FILE_CANON, LIVE
from ragstream_core.platform import array_file
from ragstream_core.platform.files import replace_bytes
from ragstream_core.records import Chunk
from ragstream_core.records.identity import multiset_sum, sha256_hex

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ragstream_core.ports import F32


@dataclass(frozen=True)
class GenerationRows:
    """The rows of a generation, aligned and sorted by chunk id.

    Attributes:
        chunk_ids: Ids, sorted.
        paths: Source path of each.
        source: Their vectors, or the mapped vector file that holds them at `places`.
        epoch: Of the vector file they were read from.
        places: Row of each in that file, int64.
        crcs: Crc32 of each row as it enters the digest, uint32.
        mapped: Whether ``source`` is the file.
        still: Says whether what is read from it are the vectors that were checked.
        state: Of the file before its rows were checked; empty if that says nothing.
    """

    chunk_ids: tuple[str, ...]
    paths: tuple[str, ...]
    source: F32
    epoch: int
    places: npt.NDArray[np.int64]
    crcs: npt.NDArray[np.uint32]
    mapped: bool = False
    still: Callable[[Callable[[], F32]], bool] | None = None
    state: tuple[int, ...] = ()

    @cached_property
    def vectors(self) -> F32:
        """Shape (rows, dimension), float32, read-only; taken from the file at first use."""
        import numpy as np

        if not self.mapped:
            return self.source
        rows = np.take(self.source, self.places, axis=0)
        vectors.release(self.source)
        rows.flags.writeable = False
        return rows

    @cached_property
    def is_sound(self) -> bool:
        """Whether the vectors are those that were checked, also if they are read only now."""
        return self.still is None or self.still(lambda: self.vectors)

    @cached_property
    def row_of(self) -> dict[str, int]:
        """Row number by chunk id."""
        return {chunk_id: row for row, chunk_id in enumerate(self.chunk_ids)}

    @cached_property
    def _by_place(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Places, ascending, and the row of each."""
        import numpy as np

        order = np.argsort(self.places, kind="stable")
        return self.places[order], order

    def first_rows(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the places that rows have, ascending, each once, and the first row at each."""
        import numpy as np

        places, order = self._by_place
        fresh = np.ones(len(places), dtype=bool)
        fresh[1:] = places[1:] != places[:-1]
        return places[fresh], order[fresh]

    def rows_at(self, wanted: npt.NDArray[np.int64]) -> list[int]:
        """Return the rows at some places: chunks of equal text share one."""
        import numpy as np

        places, order = self._by_place
        begins = np.searchsorted(places, wanted, "left").tolist()
        ends = np.searchsorted(places, wanted, "right").tolist()
        return [row for at, end in zip(begins, ends, strict=True) for row in order[at:end].tolist()]


ROWS_FILE = Path("stores", "rows-newest.bin")
"""Beside the other stores that are made from an index: erasing a file takes them all away."""
_ARRAYS = {"places": "<i8", "paths": "<i4", "crcs": "<u4", "names": "|u1"}
_END = "\0"  # no path can hold it
_SETTLED_NS = 50_000_000
_FILE = "SELECT epoch, dimension FROM vector_files WHERE embed_fp = ?"


def save(index_dir: Path, made_for: Generation, loaded: GenerationRows) -> None:
    """Write the rows of a generation that was checked; a disk that cannot take them is no error.

    Args:
        index_dir: The project's folder below the index root.
        made_for: The generation.
        loaded: Its rows.
    """
    import numpy as np

    distinct = {path: code for code, path in enumerate(dict.fromkeys(loaded.paths))}
    names = "".join(name + _END for name in (*loaded.chunk_ids, *distinct))
    if names.count(_END) != len(loaded.chunk_ids) + len(distinct):
        return
    stamp = {
        "digest": made_for.digest,
        "epoch": loaded.epoch,
        "dimension": loaded.vectors.shape[1],
        "vectors": _crc(loaded.vectors),
        "state": loaded.state,
    }
    arrays = {
        "places": loaded.places.astype("<i8"),
        "paths": np.array([distinct[path] for path in loaded.paths], dtype="<i4"),
        "crcs": loaded.crcs.astype("<u4"),
        "names": np.frombuffer(names.encode(), np.uint8),
    }
    with contextlib.suppress(OSError):
        replace_bytes(index_dir / ROWS_FILE, array_file.encode(stamp, arrays), durable=False)


def drop(index_dir: Path) -> None:
    """Remove the file; no error where it cannot be."""
    with contextlib.suppress(OSError):
        (index_dir / ROWS_FILE).unlink()


def load(db: sqlite3.Connection, index_dir: Path, wanted: Generation) -> GenerationRows | None:
    """Return the rows of a generation, checked; None if the file does not have them.

    The caller holds a read transaction.
    """
    try:
        data = (index_dir / ROWS_FILE).read_bytes()
        stamp, arrays = array_file.decode(data, _ARRAYS, {"digest": wanted.digest})
    except (OSError, ValueError):
        return None
    places = arrays["places"]
    found = _vectors(db, index_dir, wanted.embed_fp, stamp, places)
    if found is None:
        return None
    source, still = found
    names = str(arrays["names"].data, "utf-8").split(_END)
    paths = tuple(map(names[len(places) :].__getitem__, arrays["paths"].tolist()))
    del names[len(places) :]
    chunk_ids = tuple(names)
    return GenerationRows(
        chunk_ids, paths, source, stamp["epoch"], places, arrays["crcs"],
        mapped=still is not None, still=still,
    )  # fmt: skip


def _vectors(
    db: sqlite3.Connection,
    index_dir: Path,
    embed_fp: str,
    stamp: Mapping[str, Any],
    places: npt.NDArray[np.int64],
) -> tuple[F32, Callable[[Callable[[], F32]], bool] | None] | None:
    """Return the mapped file and what checks vectors from it, or checked vectors.

    None if they are not what they were.
    """
    import numpy as np

    epoch, dimension = stamp["epoch"], stamp["dimension"]
    rows = np.zeros((0, dimension), dtype="<f4")
    if len(places):
        if db.execute(_FILE, (embed_fp,)).fetchone() != (epoch, dimension):
            return None
        path = vectors.vector_path(index_dir, embed_fp, epoch)
        try:
            before = file_state(path)
            mapped = vectors.map_rows(path, rows=int(places.max()) + 1, dimension=dimension)
        except (OSError, IntegrityError):  # gone, or shorter than it was: the catalog says so
            return None
        if before and list(before) == stamp.get("state"):
            return mapped, functools.partial(_still, path, before, stamp["vectors"])
        rows = np.take(mapped, places, axis=0)
    rows.flags.writeable = False
    return (rows, None) if _crc(rows) == stamp["vectors"] else None


def _still(path: Path, state: tuple[int, ...], crc: int, read: Callable[[], F32]) -> bool:
    """Whether rows from a mapped file are those it had in a state; by their crc if it changed."""
    with contextlib.suppress(OSError):  # compacted meanwhile; what is mapped stays
        if path.stat().st_size < state[0]:
            return False  # to read what was cut off would end the process
    rows = read()
    with contextlib.suppress(OSError):
        if file_state(path) == state:
            return True
    return _crc(rows) == crc


def file_state(path: Path) -> tuple[int, ...]:
    """Return size, inode and times of a file; empty if it may have been written just now.

    Raises:
        OSError: It is gone.
    """
    status = path.stat()
    times = status.st_mtime_ns, status.st_ctime_ns
    if time.time_ns() - max(times) < _SETTLED_NS:  # the clock of files is coarse
        return ()
    return status.st_size, status.st_ino, *times


def _crc(rows: F32) -> int:
    """Return the crc32 of the bytes of a contiguous array."""
    return zlib.crc32(rows.data) if rows.size else 0


_ROWS = (
    f"SELECT c.chunk_id, c.path, c.text_hash, v.epoch, v.row, v.crc32, {CHUNK_CANON} "
    "FROM chunks c LEFT JOIN vectors v ON v.embed_fp = :fp AND v.text_hash = c.text_hash "
    f"WHERE {LIVE} ORDER BY c.chunk_id"
)
_CHUNKS = (
    "SELECT c.chunk_id, c.path, c.sha256, c.chunk_idx, c.start, c.end, c.page, c.heading, "
    "c.text_hash, t.text, f.path, f.sha256, f.size, f.mtime_ns, f.type, f.decision, f.reason, "
    f"f.crc, {CHUNK_CANON} FROM chunks c "
    "LEFT JOIN texts t ON t.text_hash = c.text_hash "
    "LEFT JOIN files f ON f.path = c.path AND f.from_gen <= :n "
    "AND (f.to_gen IS NULL OR f.to_gen > :n) "
    "WHERE c.chunk_id IN (SELECT value FROM json_each(:ids)) "
    "AND c.from_gen <= :n AND (c.to_gen IS NULL OR c.to_gen > :n)"
)


def damaged(index_dir: Path, detail: str) -> IntegrityError:
    """Return the error for a catalog or vector file that is not what was committed."""
    return IntegrityError(f"{index_dir / CATALOG_NAME}: {detail}", hint=rebuild_hint(index_dir))


def load_rows(db: sqlite3.Connection, index_dir: Path, wanted: Generation) -> GenerationRows:
    """Load and check one generation; the caller holds a read transaction.

    Raises:
        IntegrityError: The rows do not have the generation's digest, or a vector is missing or
            damaged.
        FileNotFoundError: The vector file was compacted away meanwhile, or is lost.
    """
    import numpy as np

    state = _state_now(db, index_dir, wanted.embed_fp)
    rows = db.execute(_ROWS, {"fp": wanted.embed_fp, "n": wanted.n}).fetchall()
    files = db.execute(f"SELECT {FILE_CANON} FROM files f WHERE {LIVE}", {"n": wanted.n})
    total = multiset_sum(0, (str(row[6]) for row in rows))
    total = multiset_sum(total, (str(canon) for (canon,) in files))
    if not digest_matches(wanted, total):
        raise damaged(index_dir, f"the rows of generation {wanted.n} do not have its digest")
    return GenerationRows(
        tuple(row[0] for row in rows),
        tuple(row[1] for row in rows),
        gathered_vectors(db, index_dir, wanted, rows),
        rows[0][3] if rows else 0,
        np.array([row[4] for row in rows], dtype=np.int64),
        np.array([canon_crc(row[6]) for row in rows], dtype=np.uint32),
        state=state,
    )


def _state_now(db: sqlite3.Connection, index_dir: Path, embed_fp: str) -> tuple[int, ...]:
    """Return the state of a model's vector file; empty if it is not there."""
    row = db.execute(_FILE, (embed_fp,)).fetchone()
    try:
        return file_state(vectors.vector_path(index_dir, embed_fp, row[0])) if row else ()
    except FileNotFoundError:
        return ()


def canon_crc(canon: object) -> int:
    """Return the crc32 of a row's canonical text."""
    return zlib.crc32(str(canon).encode("utf-8", "surrogatepass"))


def gathered_vectors(
    db: sqlite3.Connection, index_dir: Path, wanted: Generation, rows: Sequence[Sequence[Any]]
) -> F32:
    """Return the vectors of some rows, checked, in their order, read-only.

    Args:
        db: The catalog, in a read transaction or under the lock.
        index_dir: Where the vector file lies.
        wanted: The generation; its model's file is read.
        rows: Each begins chunk_id, path, text_hash, epoch, row, crc32.

    Raises:
        IntegrityError: A vector is missing or damaged.
        FileNotFoundError: The vector file was compacted away meanwhile.
    """
    shape = db.execute(
        "SELECT epoch, rows, dimension FROM vector_files WHERE embed_fp = ?", (wanted.embed_fp,)
    ).fetchone()
    epoch, count, dimension = shape or (0, 0, 0)
    if not all(vectors.names_row(row[3], row[4], in_epoch=epoch, rows=count) for row in rows):
        raise damaged(index_dir, f"generation {wanted.n} has chunks without vectors")
    path = vectors.vector_path(index_dir, wanted.embed_fp, epoch)
    try:
        mapped = vectors.map_rows(path, rows=count if rows else 0, dimension=dimension)
    except FileNotFoundError:
        if _epoch_now(db, wanted.embed_fp) != epoch:
            raise
        raise damaged(index_dir, f"{path.name} is missing") from None
    gathered = mapped[[row[4] for row in rows]]
    whole = vectors.intact(gathered, [row[2] for row in rows], [row[5] for row in rows])
    if not all(whole):
        raise damaged(index_dir, f"{whole.count(False)} vectors in {path.name} fail their crc")
    gathered.flags.writeable = False
    return gathered


def _epoch_now(db: sqlite3.Connection, embed_fp: str) -> int | None:
    """Return the epoch outside of the read transaction that was being held."""
    db.execute("ROLLBACK")
    row = db.execute("SELECT epoch FROM vector_files WHERE embed_fp = ?", (embed_fp,)).fetchone()
    return row[0] if row else None


def load_chunks(
    db: sqlite3.Connection,
    index_dir: Path,
    *,
    project: str,
    pinned: Generation,
    crcs: Mapping[str, int],
) -> dict[str, Chunk]:
    """Load chunks with texts; ids that are gone are left out.

    Args:
        db: The catalog, in a read transaction.
        index_dir: The project's folder below the index root.
        project: Its name.
        pinned: The generation.
        crcs: Chunk id → crc of its row.

    Raises:
        IntegrityError: A row does not have its crc, or a text is missing or does not have its hash.
    """
    found = {}
    for row in db.execute(_CHUNKS, {"ids": json.dumps(list(crcs)), "n": pinned.n}):
        identifier, path, sha256, idx, start, end, page, heading, text_hash, text = row[:10]
        if canon_crc(row[18]) != crcs.get(identifier):
            raise damaged(index_dir, f"the row of {identifier} is not what was committed")
        entry = checked_entry(row[10:18])
        if not isinstance(text, str) or sha256_hex(text) != text_hash:
            raise damaged(index_dir, f"the text of {identifier} does not have its hash")
        meta = {
            "path": path,
            "source": path.rpartition("/")[2],
            "sha256": sha256,
            "mtime": entry.mtime_ns / 1e9,
            "file_type": entry.type,
            "chunk_index": idx,
            "page_number": page,
            "heading": heading,
            "generation": pinned.n,
            "project": project,
        }
        found[identifier] = Chunk(identifier, path, text, (start, end), meta)
    return found
