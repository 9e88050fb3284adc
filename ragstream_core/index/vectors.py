"""Append-only float32 rows on disk, one file a model and epoch, and their checks.

Rows are written at row × 4·d from the committed count on, synced, and only then named by the
catalog. A file is never truncated or replaced, so readers may map exactly the committed shape; a
torn tail behind it is harmless and overwritten by the next writer. A file whose sync failed is
never written again: its committed rows move to the next epoch. The crc of a row covers its text's
hash too: a row that was swapped for another one is found. Checks read blocks, so that memory stays
flat.
A file is compacted into the next epoch when more than a quarter of it is unnamed, and when the
disk failed to keep it; readers that hold the old file keep it.
"""

from __future__ import annotations

import mmap
import sqlite3
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from ragstream_core.errors import EmbeddingFailed, IntegrityError, RunCommand
from ragstream_core.index.schema import CATALOG_NAME, rebuild_hint, transaction
from ragstream_core.platform.disk import disk_failure, require_space
from ragstream_core.platform.files import is_suspect, pwrite_durable
from ragstream_core.records.identity import sha256_hex

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ragstream_core.ports import F32


FLOAT_BYTES = 4
UNIT_TOLERANCE = 1e-4


def vector_path(index_dir: Path, embed_fp: str, epoch: int) -> Path:
    """Return the file of a model's vectors in one epoch."""
    return index_dir / f"vectors-{quote(embed_fp, safe='')}-{epoch}.f32"


def free_epoch(index_dir: Path, embed_fp: str) -> int:
    """Return the first epoch above all files of a model: a name in use is never written again."""
    prefix = f"vectors-{quote(embed_fp, safe='')}-"
    names = (p.name for p in index_dir.iterdir() if p.suffix == ".f32")
    taken = (n.removeprefix(prefix).removesuffix(".f32") for n in names if n.startswith(prefix))
    return max((int(epoch) for epoch in taken if epoch.isdigit()), default=0) + 1


def row_crc(text_hash: str, row: bytes | memoryview) -> int:
    """Return the crc32 of a text's hash followed by the bytes of its vector."""
    return zlib.crc32(row, zlib.crc32(text_hash.encode()))


def check_vectors(vectors: F32, *, count: int, dimension: int) -> F32:
    """Return the vectors as contiguous little-endian float32 rows, or refuse them all."""
    import numpy as np

    rows = np.ascontiguousarray(vectors, dtype="<f4")
    if rows.shape != (count, dimension):
        what = f"shape {rows.shape}, expected {(count, dimension)}"
    elif bad := np.count_nonzero(~unit_rows(rows)):
        what = f"{bad} of {count} vectors that are not finite unit vectors"
    else:
        return rows
    raise EmbeddingFailed(
        f"embedder returned {what}",
        hint=("run ", RunCommand("doctor"), "; the files stay pending"),
    )


def unit_rows(rows: F32) -> npt.NDArray[np.bool_]:
    """Say of each row whether it is finite and of length 1 ± 1e-4; shape (rows,)."""
    import numpy as np

    with np.errstate(invalid="ignore", over="ignore"):
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
        return np.asarray(np.abs(lengths - 1.0) <= UNIT_TOLERANCE)


def append_rows(
    path: Path, vectors: F32, text_hashes: Sequence[str], *, first_row: int
) -> list[int]:
    """Write rows from the committed count on and sync them; return the crc of each."""
    data = vectors.tobytes()
    stride = vectors.shape[1] * FLOAT_BYTES
    _require_length(path, first_row * stride)
    require_space(path.parent, len(data))
    try:
        pwrite_durable(path, data, offset=first_row * stride)
    except OSError as error:
        raise disk_failure(path, error, needed=len(data)) from error
    view = memoryview(data)
    return [
        row_crc(text_hash, view[i * stride : (i + 1) * stride])
        for i, text_hash in enumerate(text_hashes)
    ]


def map_rows(path: Path, *, rows: int, dimension: int) -> F32:
    """Map exactly the committed shape, read-only; `FileNotFoundError`: compacted since, or lost."""
    import numpy as np

    if rows == 0:
        return np.zeros((0, dimension), dtype="<f4")
    path.stat()
    _require_length(path, rows * dimension * FLOAT_BYTES)
    return np.memmap(path, dtype="<f4", mode="r", shape=(rows, dimension))


def _require_length(path: Path, committed: int) -> None:
    left = path.stat().st_size if path.exists() else -1
    if left < committed and committed:
        what = f"holds {left} bytes" if left >= 0 else "is missing"
        raise IntegrityError(
            f"{path} {what}, {committed} bytes were committed", hint=rebuild_hint(path.parent)
        )


def intact(rows: F32, text_hashes: Sequence[str], crcs: Sequence[int]) -> list[bool]:
    """Say of each row (contiguous, in memory) whether it has its crc."""
    view = memoryview(rows.data).cast("B") if rows.size else memoryview(b"")
    stride = rows.shape[1] * FLOAT_BYTES
    return [
        row_crc(text_hash, view[i * stride : (i + 1) * stride]) == crc
        for i, (text_hash, crc) in enumerate(zip(text_hashes, crcs, strict=True))
    ]


# Of a file, that are in memory at once while it is checked.
_CHECKED_BYTES = 16 << 20
# text_hash, epoch, row, crc32: what the catalog says of a vector.
NamedRow = tuple[str, int, int, int]
# Of some vectors: row in the file, crc32 of its text hash, crc as `row_crc`; −1 for none.
Checks = tuple["npt.NDArray[np.int64]", "npt.NDArray[np.uint32]", "npt.NDArray[np.int64]"]


@dataclass(frozen=True)
class VectorFile:
    """The vectors of a model as a catalog names them, mapped when rows are asked for."""

    path: Path  # the file
    embed_fp: str  # the model
    # of the file's name; in another one all rows have other numbers. 0: there is no file
    epoch: int
    count: int  # committed rows
    dimension: int  # numbers a row

    @classmethod
    def named(
        cls, index_dir: Path, embed_fp: str, epoch: int, count: int, dimension: int
    ) -> VectorFile:
        """Return the file by what a row of ``vector_files`` says of it."""
        path = vector_path(index_dir, embed_fp, epoch)
        return cls(path, embed_fp, epoch, count, dimension)

    @classmethod
    def of(cls, db: sqlite3.Connection, index_dir: Path, embed_fp: str) -> VectorFile:
        """Return the file of a model; of epoch 0 if it has none."""
        query = "SELECT epoch, rows, dimension FROM vector_files WHERE embed_fp = ?"
        return cls.named(
            index_dir, embed_fp, *(db.execute(query, (embed_fp,)).fetchone() or (0, 0, 0))
        )

    @classmethod
    def every(cls, db: sqlite3.Connection, index_dir: Path) -> list[VectorFile]:
        """Return the files of all models."""
        query = "SELECT embed_fp, epoch, rows, dimension FROM vector_files"
        return [cls.named(index_dir, *row) for row in db.execute(query).fetchall()]

    @cached_property
    def rows(self) -> F32:
        """Shape (count, dimension), mapped; raises as `map_rows`."""
        return map_rows(self.path, rows=self.count, dimension=self.dimension)

    def require_whole(self) -> None:
        """Raise `IntegrityError` if the file lost its end or is gone; writers look before."""
        _require_length(self.path, self.count * self.dimension * FLOAT_BYTES)

    def cut(self) -> VectorFile:
        """Return the file with no more rows than are left of it; none where it is gone."""
        stride = max(self.dimension, 1) * FLOAT_BYTES
        left = self.path.stat().st_size // stride if self.path.exists() else 0
        return replace(self, count=min(self.count, left))

    def holds(self, epoch: object, row: object) -> bool:
        """Say whether what a catalog row holds, possibly damaged, names a committed row."""
        return epoch == self.epoch and isinstance(row, int) and 0 <= row < self.count

    def copy(self, rows: Sequence[object]) -> F32:
        """Return copies of some rows; one that is not there comes as zeros and fails its crc."""
        import numpy as np

        there = [(at, r) for at, r in enumerate(rows) if isinstance(r, int) and 0 <= r < self.count]
        copies = np.zeros((len(rows), self.dimension), dtype="<f4")
        copies[[at for at, _ in there]] = self.rows[[row for _, row in there]]
        return copies

    def damaged(self, named: Sequence[NamedRow]) -> list[str]:
        """Return the texts whose vector is missing, fails its crc, or is no finite unit vector."""
        rows = self.copy([row if epoch == self.epoch else None for _, epoch, row, _ in named])
        hashes = [text_hash if isinstance(text_hash, str) else "" for text_hash, *_ in named]
        whole = intact(rows, hashes, [crc for *_, crc in named])
        sound = zip(named, whole, unit_rows(rows), strict=True)
        return [text_hash for (text_hash, *_), has_crc, unit in sound if not (has_crc and unit)]

    def crc(
        self, checks: Checks | None = None, *, first: int = 0, end: int | None = None, crc: int = 0
    ) -> tuple[int, int]:
        """Return the crc32 of the file's rows, and how many vectors among them fail their own.

        Rows are read in the order in which they lie there, from ``first`` to ``end``; with the
        ``crc`` of those before, a call goes on where another ended.
        """
        import numpy as np

        none = np.zeros(0, dtype="<i8")
        places, heads, crcs = checks or (none, none.astype("<u4"), none)
        order = np.argsort(places, kind="stable")
        ascending = places[order]
        stride = self.dimension * FLOAT_BYTES
        step = max(1, _CHECKED_BYTES // max(stride, 1))
        end, bad = self.count if end is None else end, 0
        for at in range(first, end, step):
            # a copy: the bytes that are checked are those that the crc is of
            block = np.array(self.rows[at : min(at + step, end)]).data.cast("B")
            crc = zlib.crc32(block, crc)
            low, high = np.searchsorted(ascending, [at, min(at + step, end)]).tolist()
            here = order[low:high]
            begins = ((ascending[low:high] - at) * stride).tolist()
            own = [
                zlib.crc32(block[begin : begin + stride], head)
                for begin, head in zip(begins, heads[here].tolist(), strict=True)
            ]
            bad += int((np.array(own, dtype=np.int64) != crcs[here]).sum())
            self.release()
        return crc, bad

    def read(self, how: Callable[[], F32]) -> F32:
        """Return what a function reads from the rows; to read what was cut off ends the process."""
        base = self.rows.base
        try:
            is_cut = isinstance(base, mmap.mmap) and base.size() < self.rows.nbytes
        except OSError:
            is_cut = True
        if is_cut:
            raise IntegrityError(
                f"{self.path} lost its end while it was read", hint=rebuild_hint(self.path.parent)
            )
        return how()

    def release(self) -> None:
        """Give the pages of the mapped file back: a pass over it needs no memory of its size."""
        if isinstance(self.rows.base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            self.rows.base.madvise(mmap.MADV_DONTNEED)


_BLOCK = 2048

_STAGED = (
    "SELECT DISTINCT s.text_hash, v.epoch, v.row, v.crc32, t.text_hash IS NULL FROM staged s "
    "LEFT JOIN vectors v ON v.embed_fp = ? AND v.text_hash = s.text_hash "
    "LEFT JOIN texts t ON t.text_hash = s.text_hash ORDER BY v.row"
)
_SOUND = (
    "SELECT v.text_hash, v.epoch, v.row, v.crc32, t.text, unpack_terms(t.terms), t.terms_crc "
    "FROM vectors v JOIN texts t ON t.text_hash = v.text_hash "
    "WHERE v.embed_fp = ? AND v.text_hash = ?"
)
_ALL = "SELECT text_hash, epoch, row, crc32, 0 FROM vectors WHERE embed_fp = ? ORDER BY row"


def broken_vectors(
    db: sqlite3.Connection, index_dir: Path, embed_fp: str, *, everything: bool
) -> list[str]:
    """Return the texts whose vector is missing, damaged, or not a finite unit vector."""
    file = VectorFile.of(db, index_dir, embed_fp)
    file.require_whole()
    rows = db.execute(_ALL if everything else _STAGED, (embed_fp,))
    broken: list[str] = []
    while block := rows.fetchmany(_BLOCK):
        if any(textless for *_, textless in block):
            raise IntegrityError(
                f"{index_dir / CATALOG_NAME}: a chunk's text is missing",
                hint=rebuild_hint(index_dir),
            )
        broken += file.damaged([row[:4] for row in block])
        file.release()
    return broken


def sound_texts(
    db: sqlite3.Connection, index_dir: Path, text_hashes: Sequence[str], embed_fp: str
) -> set[str]:
    """Return those texts that have their hash, sound terms, and a sound vector under a model."""
    file = VectorFile.of(db, index_dir, embed_fp)
    stored = (db.execute(_SOUND, (embed_fp, h)).fetchone() for h in text_hashes)
    rows = [
        r for r in stored
        if r is not None and sha256_hex(r[4]) == r[0] and zlib.crc32(r[5]) == r[6]
    ]  # fmt: skip
    if not rows:
        return set()
    file.require_whole()
    return {r[0] for r in rows}.difference(file.damaged([r[:4] for r in rows]))


COMPACT_MIN_ROWS = 1024
_COPIED_ROWS = 4096


def compact(db: sqlite3.Connection, index_dir: Path, *, thorough: bool = False) -> None:
    """Write each vector file that is more than a quarter unnamed anew; thorough: if a row is."""
    for file in VectorFile.every(db, index_dir):
        unnamed = file.count - _named_count(db, file)
        if unnamed and (thorough or (file.count >= COMPACT_MIN_ROWS and unnamed * 4 > file.count)):
            rewrite(db, index_dir, file)


def unnamed_bytes(db: sqlite3.Connection, index_dir: Path) -> int:
    """Return how many bytes of the vector files no text names."""
    files = VectorFile.every(db, index_dir)
    return sum((f.count - _named_count(db, f)) * f.dimension * FLOAT_BYTES for f in files)


def replace_suspect_files(db: sqlite3.Connection, index_dir: Path, *, lost_end: bool) -> list[str]:
    """Move vectors out of files whose sync failed into the next epoch; say so, a sentence each.

    With ``lost_end`` also out of files that lost their end or are gone: the lost rows fail their
    crc and are made anew by the rebuild that follows.
    """
    notes = []
    for file in VectorFile.every(db, index_dir):
        suspect = file.path.exists() and is_suspect(file.path)
        left = file.cut() if lost_end else file
        if suspect or left.count < file.count:
            rewrite(db, index_dir, left)
        if suspect:
            notes.append(
                f"{file.path.name}: the disk had failed to keep it, its rows are in a new file"
            )
    return notes


def rewrite(db: sqlite3.Connection, index_dir: Path, old: VectorFile) -> None:
    """Write the named vectors of a file into the next epoch; rows that it lost come as zeros."""
    embed_fp, epoch = old.embed_fp, free_epoch(index_dir, old.embed_fp)
    named = db.execute(
        "SELECT text_hash, row FROM vectors WHERE embed_fp = ? ORDER BY row", (embed_fp,)
    ).fetchall()
    path = vector_path(index_dir, embed_fp, epoch)
    for at in range(0, len(named), _COPIED_ROWS):
        block = named[at : at + _COPIED_ROWS]
        append_rows(path, old.copy([row for _, row in block]), [h for h, _ in block], first_row=at)
    with transaction(db, index_dir / CATALOG_NAME):
        # the crcs stay: bytes that were damaged before are still found to be so
        db.executemany(
            "UPDATE vectors SET epoch = ?, row = ? WHERE embed_fp = ? AND text_hash = ?",
            ((epoch, i, embed_fp, text_hash) for i, (text_hash, _) in enumerate(named)),
        )
        db.execute("DELETE FROM vector_files WHERE embed_fp = ?", (embed_fp,))
        db.execute(
            "INSERT INTO vector_files VALUES(?,?,?,?)", (embed_fp, epoch, len(named), old.dimension)
        )


def _named_count(db: sqlite3.Connection, file: VectorFile) -> int:
    query = "SELECT count(*) FROM vectors WHERE embed_fp = ?"
    return int(db.execute(query, (file.embed_fp,)).fetchone()[0])
