"""Loads the rows of one generation and checks them: digest, vectors present, crc."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_core.errors import IntegrityError
from ragstream_core.ingestion.index_store import Generation
from ragstream_core.records import Chunk
from ragstream_core.records.identity import multiset_sum, sha256_hex
from ragstream_core.stores import vector_file
from ragstream_core.stores.catalog_read import checked_entry, digest_matches
from ragstream_core.stores.loaded import Loaded
from ragstream_core.stores.naming import rebuild_hint
from ragstream_core.stores.schema import CATALOG_NAME, CHUNK_CANON, FILE_CANON, LIVE

if TYPE_CHECKING:
    from ragstream_core.ports import F32

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


def load_rows(db: sqlite3.Connection, index_dir: Path, wanted: Generation) -> Loaded:
    """Load and check one generation; the caller holds a read transaction.

    Raises:
        IntegrityError: The rows do not have the generation's digest, or a vector is missing or
            damaged.
        FileNotFoundError: The vector file was compacted away meanwhile, or is lost.
    """
    import numpy as np

    rows = db.execute(_ROWS, {"fp": wanted.embed_fp, "n": wanted.n}).fetchall()
    files = db.execute(f"SELECT {FILE_CANON} FROM files f WHERE {LIVE}", {"n": wanted.n})
    total = multiset_sum(0, (str(row[6]) for row in rows))
    total = multiset_sum(total, (str(canon) for (canon,) in files))
    if not digest_matches(wanted, total):
        raise damaged(index_dir, f"the rows of generation {wanted.n} do not have its digest")
    return Loaded(
        tuple(row[0] for row in rows),
        tuple(row[1] for row in rows),
        gathered_vectors(db, index_dir, wanted, rows),
        rows[0][3] if rows else 0,
        np.array([row[4] for row in rows], dtype=np.int64),
        np.array([canon_crc(row[6]) for row in rows], dtype=np.uint32),
    )


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
    if not all(vector_file.names_row(row[3], row[4], in_epoch=epoch, rows=count) for row in rows):
        raise damaged(index_dir, f"generation {wanted.n} has chunks without vectors")
    path = vector_file.vector_path(index_dir, wanted.embed_fp, epoch)
    try:
        mapped = vector_file.map_rows(path, rows=count if rows else 0, dimension=dimension)
    except FileNotFoundError:
        if _epoch_now(db, wanted.embed_fp) != epoch:
            raise
        raise damaged(index_dir, f"{path.name} is missing") from None
    gathered = mapped[[row[4] for row in rows]]
    whole = vector_file.intact(gathered, [row[2] for row in rows], [row[5] for row in rows])
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
