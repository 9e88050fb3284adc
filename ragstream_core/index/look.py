"""Look back: the kept generations of a project, what changed between two, and a chunk's origin."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from ragstream_core.errors import GenerationGone, RunCommand
from ragstream_core.index.rows import (
    FileEntry,
    Generation,
    all_generations,
    heading_of,
    latest_generation,
    live_files,
    numbered_generation,
    read_by_ocr,
    reading_remark,
)
from ragstream_core.index.schema import CATALOG_NAME, LIVE, label, reading, recover, update_hint
from ragstream_core.records.identity import Json

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class GenerationDiff:
    """What a later generation has that an earlier one has not, and the other way round.

    Attributes:
        before: The generation compared with.
        after: The generation described.
        added: Paths, sorted; as the next two.
        changed: Paths whose bytes or whose decision differ.
        removed: Paths.
        chunks_added: Chunk rows only in ``after``.
        chunks_removed: Chunk rows only in ``before``.
        chunks_kept: Chunk rows in both.
        texts_added: Distinct chunk texts only in ``after``: what had to be embedded.
    """

    before: int
    after: int
    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    chunks_added: int
    chunks_removed: int
    chunks_kept: int
    texts_added: int


def read(index_dir: Path, query: Callable[[sqlite3.Connection], Found]) -> Found:
    """Run a query in one read transaction, after rolling back what a killed writer left."""
    if not (index_dir / CATALOG_NAME).exists():
        raise GenerationGone(
            f"{label(index_dir)} has no generation yet", hint=update_hint(index_dir)
        )
    recover(index_dir)
    with reading(index_dir) as db:
        return query(db)


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
    """A chunk's row and how it came in.

    Attributes:
        path: File relative to the project.
        sha256: Of the file's bytes when it was read.
        chunk_idx: 0-based position in the file.
        span: Character offsets in the decoded text.
        page: 1-based page, 0 for text files.
        heading: Heading path, empty if there is none.
        since: The generation that brought it in.
        created: When, ISO 8601 UTC; empty if that generation is no longer kept.
        provenance: What made it, e.g. ``run_id``.
        read_by: ``OCR`` if that read its page, else "".
        remark: What was assumed or left out when its file was read, or "".
    """

    path: str
    sha256: str
    chunk_idx: int
    span: tuple[int, int]
    page: int
    heading: str
    since: int
    created: str = ""
    provenance: Mapping[str, Json] = field(default_factory=dict)
    read_by: str = ""
    remark: str = ""


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
