"""Where a chunk comes from: its row in a generation, and the ingest that brought it in."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragstream_core.errors import GenerationGone
from ragstream_core.ingestion.manifest import FileEntry
from ragstream_core.stores import catalog_read, generations
from ragstream_core.stores.naming import label, update_hint
from ragstream_core.stores.schema import LIVE

_CHUNK = (
    "SELECT path, sha256, chunk_idx, start, end, page, heading, from_gen FROM chunks "
    f"WHERE chunk_id = :id AND {LIVE}"
)


@dataclass(frozen=True, slots=True)
class Origin:
    """A chunk's row and how it came in.

    Attributes:
        path: File relative to the project.
        sha256: Of the file's bytes when it was read.
        chunk_idx: 0-based position in the file.
        span: Character offsets in the decoded text.
        page: 1-based page, 0 for text files.
        heading: Heading path, empty where there is none.
        since: The generation that brought it in.
        created: When, ISO 8601 UTC; empty where that generation is no longer kept.
        provenance: What made it, e.g. ``run_id``.
    """

    path: str
    sha256: str
    chunk_idx: int
    span: tuple[int, int]
    page: int
    heading: str
    since: int
    created: str = ""
    provenance: dict[str, Any] = field(default_factory=dict)


def origin(index_dir: Path, chunk_id: str, n: int) -> Origin | None:
    """Return the origin of a chunk that is live in generation ``n``; None where it is not.

    Raises:
        GenerationGone: Nothing was ever ingested.
        IntegrityError: The catalog is damaged.
        OperationFailed: It cannot be read.
    """

    def query(db: sqlite3.Connection) -> Origin | None:
        row = db.execute(_CHUNK, {"id": chunk_id, "n": n}).fetchone()
        if row is None:
            return None
        path, sha256, idx, start, end, page, heading, since = row
        made = catalog_read.generation(db, since)
        told = (made.created, dict(made.provenance)) if made else ("", {})
        return Origin(path, sha256, idx, (start, end), page, heading, since, *told)

    return generations.read(index_dir, query)


def manifest_of(index_dir: Path, n: int = 0) -> dict[str, FileEntry]:
    """Return the manifest of a generation by path; 0: the newest.

    Raises:
        GenerationGone: That generation is not kept, or nothing was ever ingested.
        IntegrityError: The catalog is damaged.
        OperationFailed: It cannot be read.
    """

    def query(db: sqlite3.Connection) -> dict[str, FileEntry]:
        """Read it.

        Raises:
            GenerationGone: It is not kept.
        """
        found = catalog_read.generation(db, n) if n else catalog_read.latest(db)
        if found is None:
            raise GenerationGone(
                f"{label(index_dir)} does not keep generation {n}", hint=update_hint(index_dir)
            )
        return catalog_read.live_files(db, found.n)

    return generations.read(index_dir, query)
