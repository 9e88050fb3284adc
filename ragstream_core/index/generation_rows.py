"""The rows of one generation, checked against its digest and the crc of every vector.

Both are read in blocks, and of a row no more is kept than a reader needs: id, path, place of the
vector and a crc32. So memory grows by about 150 bytes a chunk. Vectors are taken from their mapped
file when they are asked for. Chunks are read from the catalog when they are shown, and their rows
must have their crc.
"""

from __future__ import annotations

import json
import sqlite3
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_core.errors import IntegrityError
from ragstream_core.index.catalog_read import checked_entry, digest_matches
from ragstream_core.index.lock import rebuild_hint
from ragstream_core.index.rows import Generation, pages_without_text, parted, read_by_ocr
from ragstream_core.index.schema import CATALOG_NAME, CHUNK_CANON, FILE_CANON, LIVE
from ragstream_core.index.vectors import VectorFile
from ragstream_core.platform.names import CodedNames, Names
from ragstream_core.records import Chunk
from ragstream_core.records.identity import multiset_sum, sha256_hex

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ragstream_core.platform.placed_rows import PlacedRows


@dataclass(frozen=True)
class GenerationRows:
    """The rows of a generation, aligned and sorted by chunk id.

    Attributes:
        chunk_ids: Ids, sorted.
        paths: Source path of each.
        places: Row of each in the vector file, int64.
        crcs: Crc32 of each row as it enters the digest, uint32.
        file: Where their vectors lie.
        vectors_crc: Of all bytes of that file, also of rows that nothing names.
        state: Of that file before it was checked; empty if that says nothing.
        sealed: Whether the sealed file says all of this.
    """

    chunk_ids: Names
    paths: CodedNames
    places: npt.NDArray[np.int64]
    crcs: npt.NDArray[np.uint32]
    file: VectorFile
    vectors_crc: int = 0
    state: tuple[int, ...] = ()
    sealed: bool = False

    @cached_property
    def vectors(self) -> PlacedRows:
        """The vectors, read where they lie; raises `IntegrityError` if their file is cut off."""
        from ragstream_core.platform.placed_rows import PlacedRows

        return PlacedRows(self.file.rows, self.places, self.file.read)

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


_SETTLED_NS = 50_000_000
"""A file whose times are older was written before the look: they are of the kernel's coarse clock,
which ticks every 1 to 10 ms."""
_AHEAD_NS = 1_000_000_000
"""Times further ahead are of another clock, as over NFS: they say nothing of when."""
_BLOCK = 8_192
"""Rows that are read and checked at once."""
COLUMNS = f"c.chunk_id, c.path, c.text_hash, v.epoch, v.row, v.crc32, {CHUNK_CANON}"
"""What `ReadRows` are made from; of chunks ``c`` and their vectors ``v``."""
VECTORS = "LEFT JOIN vectors v ON v.embed_fp = :fp AND v.text_hash = c.text_hash"
_ROWS = f"SELECT {COLUMNS} FROM chunks c {VECTORS} WHERE {LIVE} ORDER BY c.chunk_id"
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


def file_state(path: Path) -> tuple[int, ...]:
    """Return size, inode and times of a file; empty if it may have been written just now."""
    status = path.stat()
    times = status.st_mtime_ns, status.st_ctime_ns
    settled = not -_AHEAD_NS < time.time_ns() - max(times) < _SETTLED_NS
    return (status.st_size, status.st_ino, *times) if settled else ()


class ReadRows:
    """Rows of the catalog as they are read: what is kept of them, and what checks them.

    Attributes:
        total: The sum of the rows, as it enters the digest.
        named: Whether each row names a row of the file.
    """

    def __init__(self, file: VectorFile) -> None:
        self._file = file
        self.total, self.named = 0, True
        self._codes: dict[str, int] = {}
        self._names: list[Names] = []
        self._blocks: list[list[npt.NDArray[Any]]] = []

    def add(self, rows: Sequence[Sequence[Any]]) -> None:
        """Add rows in the order of their ids; each is `COLUMNS`."""
        import numpy as np

        if not rows:
            return
        ids, paths, hashes, epochs, places, crcs, canons = zip(*rows, strict=True)
        texts = list(map(str, canons))
        self.total = multiset_sum(self.total, texts)
        self._names.append(Names.of(map(str, ids)))
        known = self._codes
        self.named &= all(map(self._file.holds, epochs, places))
        self._blocks.append([
            np.array([known.setdefault(str(path), len(known)) for path in paths], dtype="<i4"),
            np.array(list(map(canon_crc, texts)), dtype="<u4"),
            np.array(places if self.named else [0] * len(rows), dtype="<i8"),
            np.array([zlib.crc32(str(h).encode()) for h in hashes], dtype="<u4"),
            np.array([crc if type(crc) is int else -1 for crc in crcs], dtype="<i8"),
        ])  # fmt: skip

    def made(self) -> tuple[Names, CodedNames, list[npt.NDArray[Any]]]:
        """Return ids, paths, and crcs, places, crcs of text hashes, and crcs of vectors."""
        import numpy as np

        types = "<i4", "<u4", "<i8", "<u4", "<i8"
        blocks = zip(*self._blocks, strict=True) if self._blocks else [[]] * len(types)
        codes, *arrays = (
            np.concatenate([np.zeros(0, dtype=kind), *parts])
            for kind, parts in zip(types, blocks, strict=True)
        )
        return Names.joined(self._names), CodedNames(tuple(self._codes), codes), arrays


def load_rows(db: sqlite3.Connection, index_dir: Path, wanted: Generation) -> GenerationRows:
    """Load and check one generation; the caller holds a read transaction."""
    file = VectorFile.of(db, index_dir, wanted.embed_fp)
    read = ReadRows(file)
    cursor = db.execute(_ROWS, {"fp": wanted.embed_fp, "n": wanted.n})
    while block := cursor.fetchmany(_BLOCK):
        try:
            read.add(block)
        except ValueError as error:
            raise damaged(index_dir, str(error)) from error
    files = db.execute(f"SELECT {FILE_CANON} FROM files f WHERE {LIVE}", {"n": wanted.n})
    total = multiset_sum(read.total, (str(canon) for (canon,) in files))
    if not digest_matches(wanted, total):
        raise damaged(index_dir, f"the rows of generation {wanted.n} do not have its digest")
    if not read.named:
        raise damaged(index_dir, f"generation {wanted.n} has chunks without vectors")
    ids, paths, (crcs, places, heads, vector_crcs) = read.made()
    file = file if len(ids) else replace(file, count=0)  # of an empty generation nothing is mapped
    try:
        state = file_state(file.path) if file.count else ()
        crc, bad = file.crc((places, heads, vector_crcs))
    except FileNotFoundError:
        if _epoch_now(db, wanted.embed_fp) != file.epoch:
            raise
        raise damaged(index_dir, f"{file.path.name} is missing") from None
    if bad:
        raise damaged(index_dir, f"{bad} vectors in {file.path.name} fail their crc")
    return GenerationRows(ids, paths, places, crcs, file, crc, state)


def canon_crc(canon: object) -> int:
    """Return the crc32 of a row's canonical text."""
    return zlib.crc32(str(canon).encode("utf-8", "surrogatepass"))


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
    """Load chunks with texts; ids that are gone are left out."""
    found = {}
    for row in db.execute(_CHUNKS, {"ids": json.dumps(list(crcs)), "n": pinned.n}):
        identifier, path, sha256, idx, start, end, page, place, text_hash, text = row[:10]
        if canon_crc(row[18]) != crcs.get(identifier):
            raise damaged(index_dir, f"the row of {identifier} is not what was committed")
        entry = checked_entry(row[10:18])
        if not isinstance(text, str) or sha256_hex(text) != text_hash:
            raise damaged(index_dir, f"the text of {identifier} does not have its hash")
        try:
            heading, context, snippet = parted(place, text)
        except ValueError as error:
            raise damaged(index_dir, f"{identifier}: {error}") from error
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
        if missing := pages_without_text(entry.reason):
            meta["without_text"] = missing
        if read_by_ocr(entry.reason, page):
            meta["read_by"] = "OCR"
        if context:
            meta["context"] = context
        found[identifier] = Chunk(identifier, path, snippet, (start, end), meta)
    return found
