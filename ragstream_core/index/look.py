"""Look back: the kept generations of a project, what changed between two, and a chunk's origin.

And all values of one, for a bundle: those that were taken out are put into an empty catalog, and
the digest that a prompt pins covers every row, so it tells whether they are the same.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.errors import GenerationGone, IntegrityError, RunCommand
from ragstream_core.index.rows import (
    Change,
    ChunkRow,
    FileEntry,
    Generation,
    ScanStamp,
    TextRow,
    all_generations,
    heading_of,
    latest_generation,
    live_files,
    numbered_generation,
    read_by_ocr,
    reading_remark,
)
from ragstream_core.index.schema import LIVE, label, read, update_hint
from ragstream_core.records.identity import Json, sha256_hex
from ragstream_core.text.terms import term_blob

if TYPE_CHECKING:
    from ragstream_core.ports import F32


@dataclass(frozen=True, slots=True)
class GenerationDiff:
    """What a later generation has that an earlier one has not, and the other way round."""

    before: int  # the generation compared with
    after: int  # the generation described
    added: tuple[str, ...]  # paths, sorted; as the next two
    changed: tuple[str, ...]  # paths whose bytes or whose decision differ
    removed: tuple[str, ...]  # paths
    chunks_added: int  # chunk rows only in ``after``
    chunks_removed: int  # chunk rows only in ``before``
    chunks_kept: int  # chunk rows in both
    texts_added: int  # distinct chunk texts only in ``after``: what had to be embedded


def kept_generations(index_dir: Path) -> list[Generation]:
    """Return the kept generations of a project, oldest first."""
    return read(index_dir, all_generations)


def is_as_it_was(index_dir: Path, generation: Generation) -> bool:
    """Whether a generation holds what it held when it was read: erasing changes it.

    What is derived from it asks this when it is written: an erasure that began later sees it there.
    """
    return any(
        kept.n == generation.n and kept.digest == generation.digest
        for kept in kept_generations(index_dir)
    )


def compare(index_dir: Path, before: int, after: int) -> GenerationDiff:
    """Compare two kept generations of a project."""
    return read(index_dir, lambda db: _compare(db, index_dir, before, after))


def _compare(db: sqlite3.Connection, index_dir: Path, before: int, after: int) -> GenerationDiff:
    known = [found.n for found in all_generations(db)]
    for n in (before, after):
        if n not in known:
            raise GenerationGone(
                f"project {index_dir.name} no longer keeps generation {n}",
                hint=RunCommand("index generations", index_dir.name),
            )
    old, new = (_ingested(db, n) for n in (before, after))
    old_ids, new_ids = (_column(db, "chunk_id", n) for n in (before, after))
    old_texts, new_texts = (_column(db, "text_hash", n) for n in (before, after))
    return GenerationDiff(
        before,
        after,
        added=tuple(sorted(new.keys() - old.keys())),
        changed=tuple(sorted(p for p in new.keys() & old.keys() if new[p] != old[p])),
        removed=tuple(sorted(old.keys() - new.keys())),
        chunks_added=len(new_ids - old_ids),
        chunks_removed=len(old_ids - new_ids),
        chunks_kept=len(new_ids & old_ids),
        texts_added=len(new_texts - old_texts),
    )


def _ingested(db: sqlite3.Connection, n: int) -> dict[str, str]:
    entries = live_files(db, n).values()
    return {e.path: e.sha256 for e in entries if e.decision == "ingested"}


def _column(db: sqlite3.Connection, column: str, n: int) -> set[str]:
    rows = db.execute(f"SELECT DISTINCT {column} FROM chunks WHERE {LIVE}", {"n": n})
    return {str(value) for (value,) in rows}


_CHUNK = (
    "SELECT path, sha256, chunk_idx, start, end, page, heading, from_gen FROM chunks "
    f"WHERE chunk_id = :id AND {LIVE}"
)


_REASON = f"SELECT reason FROM files WHERE path = :path AND {LIVE}"


@dataclass(frozen=True, slots=True)
class Origin:
    """A chunk's row and how it came in."""

    path: str  # file relative to the project
    sha256: str  # of the file's bytes when it was read
    chunk_idx: int  # 0-based position in the file
    span: tuple[int, int]  # character offsets in the decoded text
    page: int  # 1-based page, 0 for text files
    heading: str  # heading path, empty if there is none
    since: int  # the generation that brought it in
    created: str = ""  # when, ISO 8601 UTC; empty if that generation is no longer kept
    provenance: Mapping[str, Json] = field(default_factory=dict)  # what made it, e.g. ``run_id``
    read_by: str = ""  # ``OCR`` if that read its page, else ""
    remark: str = ""  # what was assumed or left out when its file was read, or ""


def origin(index_dir: Path, chunk_id: str, n: int) -> Origin | None:
    """Return the origin of a chunk that is live in generation ``n``; None if it is not."""

    def query(db: sqlite3.Connection) -> Origin | None:
        row = db.execute(_CHUNK, {"id": chunk_id, "n": n}).fetchone()
        if row is None:
            return None
        path, sha256, idx, start, end, page, place, since = row
        made = numbered_generation(db, since)
        told = (made.created, dict(made.provenance)) if made else ("", {})
        reason = (db.execute(_REASON, {"path": path, "n": n}).fetchone() or ("",))[0]
        read_by, remark = "OCR" if read_by_ocr(reason, page) else "", reading_remark(reason)
        place = heading_of(place)
        return Origin(path, sha256, idx, (start, end), page, place, since, *told, read_by, remark)

    return read(index_dir, query)


def manifest_of(index_dir: Path, n: int = 0) -> dict[str, FileEntry]:
    """Return the manifest of a generation by path; 0: the newest."""

    def query(db: sqlite3.Connection) -> dict[str, FileEntry]:
        found = numbered_generation(db, n) if n else latest_generation(db)
        if found is None:
            raise GenerationGone(
                f"{label(index_dir)} does not keep generation {n}", hint=update_hint(index_dir)
            )
        return live_files(db, found.n)

    return read(index_dir, query)


_CHUNK_ROWS = (
    "SELECT chunk_id, path, sha256, chunk_idx, start, end, page, heading, text_hash FROM chunks "
    f"WHERE {LIVE} ORDER BY chunk_id"
)
_TEXTS = (
    "SELECT text_hash, tokens, text FROM texts WHERE text_hash IN "
    f"(SELECT text_hash FROM chunks WHERE {LIVE}) ORDER BY text_hash"
)
_BATCH = 4096


@dataclass(frozen=True, slots=True)
class Portable:
    """All that a generation holds."""

    index_fp: str  # fingerprint of model, chunker and parsers
    embed_fp: str  # fingerprint of the model
    files: tuple[FileEntry, ...]  # the manifest
    chunks: tuple[ChunkRow, ...]  # the live chunks, by id
    # (text_hash, tokens, text) of each distinct text, by hash
    texts: tuple[tuple[str, int, str], ...]
    vectors: F32  # shape (texts, dimension), float32, in the order of ``texts``


def take_out(index_dir: Path, n: int, digest: str) -> Portable:
    """Return a generation, checked as a prompt checks it."""

    def query(db: sqlite3.Connection) -> Portable:
        found = numbered_generation(db, n)
        if found is None or found.digest != digest:
            raise GenerationGone(
                f"generation {n} of {index_dir.name}, which the prompt was made from, is gone",
                hint=(RunCommand("keep", "KEY"), " keeps those of a prompt"),
            )
        return _values(db, index_dir, found)

    return read(index_dir, query)


def _values(db: sqlite3.Connection, index_dir: Path, found: Generation) -> Portable:
    from ragstream_core.index.generation_rows import load_rows  # not where it is only looked at

    loaded = load_rows(db, index_dir, found)
    chunks = tuple(ChunkRow(*row) for row in db.execute(_CHUNK_ROWS, {"n": found.n}))
    texts = tuple((h, t, text) for h, t, text in db.execute(_TEXTS, {"n": found.n}))
    row_of = {chunk.text_hash: row for row, chunk in enumerate(chunks)}
    if any(sha256_hex(text) != text_hash for text_hash, _, text in texts):
        raise IntegrityError(
            f"{index_dir}: a text of generation {found.n} does not have its hash",
            hint=RunCommand("index check", index_dir.name),
        )
    return Portable(
        found.index_fp,
        found.embed_fp,
        tuple(live_files(db, found.n).values()),
        chunks,
        texts,
        loaded.vectors[[row_of[text_hash] for text_hash, _, _ in texts]],
    )


def put_in(index_dir: Path, portable: Portable, *, n: int, digest: str) -> None:
    """Make an empty index that holds one generation under its old number."""
    from ragstream_core.index import commit
    from ragstream_core.index.catalog import open_catalog

    rows = [TextRow(h, text, tokens, term_blob(text)) for h, tokens, text in portable.texts]
    with open_catalog(index_dir) as catalog:
        for at in range(0, len(rows), _BATCH):
            part = slice(at, at + _BATCH)
            vectors = portable.vectors[part]
            catalog.record_texts(rows[part], vectors, embed_fp=portable.embed_fp)
        catalog.stage(portable.chunks)
        change = Change(opened=list(portable.files))
        made = commit.prepare(
            catalog.db,
            change,
            index_fp=portable.index_fp,
            embed_fp=portable.embed_fp,
            provenance={},
        )
        if made.digest != digest:
            raise IntegrityError(
                f"the rows of {index_dir.name} do not have the digest that the prompt names",
                hint="ask for the bundle again",
            )
        catalog.commit(replace(made, n=n), change, stamp=ScanStamp(0, ""))
