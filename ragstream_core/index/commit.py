"""The one transaction that makes a generation, the digest it will have, and a view of it before.

`CandidateView` lives as long as the catalog that staged it is open, and is for judging only: its
vectors and texts are the recorded ones, its rows those that stay and those that are staged.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.errors import IntegrityError
from ragstream_core.index import remove
from ragstream_core.index.generation_rows import damaged
from ragstream_core.index.remove import mark_recording
from ragstream_core.index.rows import (
    Change,
    FileEntry,
    Generation,
    ScanStamp,
    TextRow,
    file_crc,
    latest_generation,
    parted,
)
from ragstream_core.index.schema import (
    CATALOG_NAME,
    CHUNK_CANON,
    FILE_CANON,
    INSERT_TEXT,
    rebuild_hint,
    transaction,
)
from ragstream_core.index.vectors import (
    VectorFile,
    append_rows,
    check_vectors,
    free_epoch,
    intact,
    vector_path,
)
from ragstream_core.records import Chunk
from ragstream_core.records.identity import generation_digest, multiset_sum

if TYPE_CHECKING:
    from ragstream_core.ports import F32
    from ragstream_core.text.bm25 import LexicalArrays


_STAYING = "to_gen IS NULL AND path NOT IN (SELECT path FROM closing)"
_COLUMNS = "chunk_id, path, start, end, page, heading, heading_terms, text_hash"
_ALL = f"SELECT {_COLUMNS} FROM staged UNION ALL SELECT {_COLUMNS} FROM chunks WHERE {_STAYING}"
_ROWS = (
    "SELECT r.chunk_id, r.path, r.text_hash, v.epoch, v.row, v.crc32, "
    "unpack_terms(r.heading_terms), unpack_terms(t.terms) "
    f"FROM ({_ALL}) r LEFT JOIN vectors v ON v.embed_fp = ? AND v.text_hash = r.text_hash "
    "LEFT JOIN texts t ON t.text_hash = r.text_hash ORDER BY r.chunk_id"
)
_CHUNK = (
    "SELECT r.chunk_id, r.path, r.start, r.end, r.page, r.heading, t.text FROM "
    f"(SELECT {_COLUMNS} FROM staged WHERE chunk_id = :id UNION ALL "
    f"SELECT {_COLUMNS} FROM chunks WHERE chunk_id = :id AND {_STAYING}) r "
    "JOIN texts t ON t.text_hash = r.text_hash"
)


@dataclass(frozen=True, slots=True)
class CandidateView:
    """What a commit would publish; implements `ragstream_core.ports.IndexView`."""

    db: sqlite3.Connection
    project: str
    generation: int
    digest: str
    embed_fp: str
    chunk_ids: Sequence[str]
    paths: Sequence[str]
    vectors: F32
    lexical: LexicalArrays

    def chunks(self, chunk_ids: Iterable[str]) -> list[Chunk]:
        """Load chunks with their texts, in the order asked for."""
        found = []
        for identifier in chunk_ids:
            row = self.db.execute(_CHUNK, {"id": identifier}).fetchone()
            if row is None:
                raise KeyError(identifier)
            _, path, start, end, page, place, text = row
            heading, context, snippet = parted(place, text)
            meta = {"path": path, "page_number": page, "heading": heading, "project": self.project}
            meta |= {"context": context} if context else {}
            found.append(Chunk(identifier, path, snippet, (start, end), meta))
        return found


def candidate_view(db: sqlite3.Connection, index_dir: Path, prepared: Generation) -> CandidateView:
    """Return the view of a prepared generation; nothing is written."""
    from ragstream_core.text.bm25 import build_lexical

    rows = db.execute(_ROWS, (prepared.embed_fp,)).fetchall()
    if not all(isinstance(row[7], bytes) for row in rows):
        raise damaged(index_dir, f"a chunk of generation {prepared.n} has no text")
    file = VectorFile.of(db, index_dir, prepared.embed_fp)
    file.require_whole()
    vectors = file.copy([row if epoch == file.epoch else None for _, _, _, epoch, row, *_ in rows])
    whole = intact(vectors, [row[2] for row in rows], [row[5] for row in rows])
    if not all(whole):
        raise damaged(index_dir, f"{whole.count(False)} vectors in {file.path.name} fail their crc")
    vectors.flags.writeable = False
    return CandidateView(
        db,
        index_dir.name,
        prepared.n,
        prepared.digest,
        prepared.embed_fp,
        tuple(row[0] for row in rows),
        tuple(row[1] for row in rows),
        vectors,
        build_lexical((row[6], row[7]) for row in rows),
    )


_CLOSING = "to_gen IS NULL AND path IN (SELECT path FROM closing)"


def prepare(
    db: sqlite3.Connection,
    change: Change,
    *,
    index_fp: str,
    embed_fp: str,
    provenance: Mapping[str, object],
) -> Generation:
    """Return the generation a commit would make; writes only to temporary tables.

    The digest is the parent's, less the rows that end, plus the staged ones.
    """
    _fill_temporary(db, change)
    parent = latest_generation(db)
    total = multiset_sum(
        parent.row_sum if parent else 0,
        _texts(db, f"SELECT {CHUNK_CANON} FROM staged c"),
        removed=_texts(db, f"SELECT {CHUNK_CANON} FROM chunks c WHERE {_CLOSING}"),
    )
    total = multiset_sum(
        total,
        _texts(db, f"SELECT {FILE_CANON} FROM opening f"),
        removed=_texts(db, f"SELECT {FILE_CANON} FROM files f WHERE {_CLOSING}"),
    )
    return Generation(
        n=parent.n + 1 if parent else 1,
        digest=generation_digest(total, index_fp, embed_fp),
        row_sum=total,
        parent=parent.n if parent else 0,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        index_fp=index_fp,
        embed_fp=embed_fp,
        counts=_counts(db, parent),
        provenance=dict(provenance),
    )


def _texts(db: sqlite3.Connection, query: str) -> Iterable[str]:
    return (str(canon) for (canon,) in db.execute(query))


def _count(db: sqlite3.Connection, query: str) -> int:
    return int(db.execute(f"SELECT count(*) FROM {query}").fetchone()[0])


def _counts(db: sqlite3.Connection, parent: Generation | None) -> dict[str, int]:
    before = parent.counts if parent else {}
    ingested = "decision = 'ingested'"
    return {
        "files": before.get("files", 0)
        + _count(db, f"opening WHERE {ingested}")
        - _count(db, f"files WHERE {ingested} AND {_CLOSING}"),
        "chunks": before.get("chunks", 0)
        + _count(db, "staged")
        - _count(db, f"chunks WHERE {_CLOSING}"),
    }


def _fill_temporary(db: sqlite3.Connection, change: Change) -> None:
    db.execute("DELETE FROM opening")
    db.execute("DELETE FROM closing")
    db.execute("BEGIN")
    db.executemany("INSERT INTO closing VALUES(?)", ((p,) for p in change.closed))
    db.executemany(
        "INSERT INTO opening VALUES(?,?,?,?,?,?,?,?)",
        ((e.path, e.sha256, e.size, e.mtime_ns, e.type, e.decision, e.reason, file_crc(e))
         for e in change.opened),
    )  # fmt: skip
    db.execute("COMMIT")


def commit(
    db: sqlite3.Connection,
    path: Path,
    made: Generation,
    change: Change,
    *,
    stamp: ScanStamp,
    in_transaction: Callable[[sqlite3.Connection], None],
) -> None:
    """Commit a prepared generation: end the replaced rows, add the staged ones, record the scan."""
    with transaction(db, path):
        for table in ("chunks", "files"):
            db.execute(f"UPDATE {table} SET to_gen = :n WHERE {_CLOSING}", {"n": made.n})
        db.execute("INSERT INTO chunks SELECT *, ?, NULL FROM staged ORDER BY chunk_id", (made.n,))
        db.execute("INSERT INTO files SELECT *, ?, NULL FROM opening", (made.n,))
        _record_scan(db, change, stamp, rewritten=change.touched)
        in_transaction(db)
        # last: what that refuses has no generation, and a generation that is there has all its rows
        db.execute(
            "INSERT INTO generations VALUES(?,?,?,?,?,?,?,?,?)",
            (made.n, made.digest, f"{made.row_sum:064x}", made.parent, made.created, made.index_fp,
             made.embed_fp, json.dumps(dict(made.counts)), json.dumps(dict(made.provenance))),
        )  # fmt: skip
        _settle(db)


def note_scan(db: sqlite3.Connection, path: Path, change: Change, *, stamp: ScanStamp) -> None:
    """Record a scan that changed no content; what was read again keeps its rows."""
    with transaction(db, path):
        _record_scan(db, change, stamp, rewritten=[*change.touched, *change.opened])
        _settle(db)


def _settle(db: sqlite3.Connection) -> None:
    """What this ingest recorded has its names; what an earlier one left without them goes."""
    if remove.finish_recording(db):
        remove.drop(db, (), unnamed=True)


def _record_scan(
    db: sqlite3.Connection, change: Change, stamp: ScanStamp, *, rewritten: Sequence[FileEntry]
) -> None:
    db.executemany(
        "UPDATE files SET size = ?, mtime_ns = ?, reason = ?, crc = ? "
        "WHERE path = ? AND to_gen IS NULL",
        ((e.size, e.mtime_ns, e.reason, file_crc(e), e.path) for e in rewritten),
    )
    db.executemany("DELETE FROM signatures WHERE path = ?", ((p,) for p in change.forgotten))
    db.executemany(
        "INSERT OR REPLACE INTO signatures VALUES(?,?,?,?,?)",
        ((path, *signature) for path, signature in change.signatures.items()),
    )
    db.executemany(
        "INSERT OR REPLACE INTO meta VALUES(?,?)",
        [("scan_started_ns", str(stamp.started_ns)), ("scan_fp", stamp.scan_fp)],
    )


def write_vectors(
    db: sqlite3.Connection,
    index_dir: Path,
    rows: Sequence[TextRow],
    *,
    vectors: F32,
    embed_fp: str,
) -> Callable[[sqlite3.Connection], None]:
    """Write vectors and sync them; return what names them inside a transaction.

    Until that has run nothing else may be written: the same place would be taken.
    """
    dimension = int(vectors.shape[-1])
    checked = check_vectors(vectors, count=len(rows), dimension=dimension)
    epoch, first = _place(db, index_dir, embed_fp, dimension)
    hashes = [row.text_hash for row in rows]
    path = vector_path(index_dir, embed_fp, epoch)
    crcs = append_rows(path, checked, hashes, first_row=first)

    def name(db: sqlite3.Connection) -> None:
        db.executemany(
            INSERT_TEXT,
            ((r.text_hash, r.tokens, r.terms, zlib.crc32(r.terms), r.text) for r in rows),
        )
        db.executemany(
            "INSERT OR REPLACE INTO vectors VALUES(?,?,?,?,?)",
            ((embed_fp, text_hash, epoch, first + i, crc)
             for i, (text_hash, crc) in enumerate(zip(hashes, crcs, strict=True))),
        )  # fmt: skip
        mark_recording(db)
        db.execute("DELETE FROM vector_files WHERE embed_fp = ?", (embed_fp,))
        db.execute(
            "INSERT INTO vector_files VALUES(?,?,?,?)",
            (embed_fp, epoch, first + len(rows), dimension),
        )

    return name


def _place(
    db: sqlite3.Connection, index_dir: Path, embed_fp: str, dimension: int
) -> tuple[int, int]:
    """Return epoch and committed row count of the file to write to."""
    file = VectorFile.of(db, index_dir, embed_fp)
    if file.epoch and file.dimension == dimension:
        return file.epoch, file.count
    if not db.execute("SELECT 1 FROM vectors WHERE embed_fp = ?", (embed_fp,)).fetchone():
        return free_epoch(index_dir, embed_fp), 0  # there is none, or all failed their checks
    raise IntegrityError(
        f"{index_dir / CATALOG_NAME}: model {embed_fp} has {dimension} dimensions, its stored "
        f"vectors {file.dimension}",
        hint=rebuild_hint(index_dir),
    )
