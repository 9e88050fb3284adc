"""The kept generations of a project: which there are, why each is kept, and dropping the rest."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragstream_core.errors import RagstreamError
from ragstream_core.index import remove, vectors
from ragstream_core.index.look import compare, kept_generations
from ragstream_core.index.schema import CATALOG_NAME, no_generation, transaction
from ragstream_core.platform.disk import size_of
from ragstream_core.prompts.store import pinned

if TYPE_CHECKING:
    from ragstream_core.index.catalog import Catalog
    from ragstream_core.index.look import GenerationDiff
    from ragstream_core.index.rows import Generation
    from ragstream_core.wiring.workspace import Workspace


@dataclass(frozen=True, slots=True)
class KeptGeneration:
    """A generation that prompts can be made from again."""

    n: int
    created: str  # when it was committed, ISO 8601
    digest: str  # of its live rows
    files: int  # how many it has
    chunks: int  # how many it has
    index_fp: str  # fingerprint of the settings that made it
    # ``newest``, ``last 20``, or the keys of kept prompts; empty: the next gc drops it
    kept_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DroppedGenerations:
    """What one project no longer needed."""

    project: str
    dry_run: bool  # whether nothing was removed
    generations: list[int]  # their numbers, ascending
    chunks: int  # rows of chunks that go
    files: int  # rows of files that go
    texts: int  # texts that go
    vectors: int  # rows of vectors that go
    bytes: int  # freed, or an estimate in a dry run


def generations(workspace: Workspace, project: str) -> list[KeptGeneration]:
    """Return the kept generations of a project, newest first.

    Raises:
        GenerationGone: Nothing was ever ingested.
        IntegrityError: The catalog is damaged.
        OperationFailed: It cannot be read.
    """
    found = kept_generations(workspace.index_dir(project))[::-1]
    needed = pinned(workspace.store.root, project)
    last = kept_count(workspace)
    return [
        KeptGeneration(
            g.n,
            g.created,
            g.digest,
            g.counts.get("files", 0),
            g.counts.get("chunks", 0),
            g.index_fp,
            (
                *(["newest"] if at == 0 else [f"last {last}"] if at < last else []),
                *needed.get(g.n, []),
            ),
        )
        for at, g in enumerate(found)
    ]


def kept_count(workspace: Workspace) -> int:
    """Return how many of the newest generations always stay."""
    settings = workspace.config.settings.ingestion
    return 1 if settings.delete_replaced else settings.retain_generations


def generations_since(
    workspace: Workspace, project: str, number: int, *, digest: str
) -> list[Generation]:
    """Return the kept generations that came after one that is known, oldest first.

    Args:
        workspace: The data root.
        project: Its name.
        number: The known generation, 0 for none.
        digest: Its digest; if that number has another one now, the store was made anew.

    Returns:
        Nothing as well if nothing is ingested or the catalog cannot be read.
    """
    try:
        found = kept_generations(workspace.index_dir(project))
    except RagstreamError:
        return []
    behind = bool(found) and found[-1].n < number  # an ingest that was ended may leave none at all
    anew = behind or any(g.n == number and g.digest != digest for g in found)
    return [g for g in found if anew or g.n > number]


def diff(workspace: Workspace, project: str, *, before: int, after: int) -> GenerationDiff:
    """Compare two generations of a project.

    Raises:
        GenerationGone: One of them is not kept.
        IntegrityError: The catalog is damaged.
        OperationFailed: It cannot be read.
    """
    return compare(workspace.index_dir(project), before, after)


def gc(workspace: Workspace, project: str, *, dry_run: bool = False) -> DroppedGenerations:
    """Drop generations that nothing needs, and everything that no kept generation names.

    Args:
        workspace: The data root.
        project: Its name.
        dry_run: Only show what would be removed.

    Raises:
        GenerationGone: Nothing was ever ingested.
        ProjectLocked: Another process writes the project.
        IntegrityError: The catalog or the record of a kept prompt is damaged.
        OperationFailed: Disk full; nothing was dropped.
    """
    from ragstream_core.index.catalog import open_catalog
    from ragstream_core.proposers import kept

    index_dir = workspace.index_dir(project)
    if not (index_dir / CATALOG_NAME).exists():
        raise no_generation(index_dir)
    with open_catalog(index_dir) as catalog:
        needed = pinned(workspace.store.root, project)
        gone = remove.superfluous(catalog.db, kept_count(workspace), needed)
        went = _estimate(catalog, gone) if dry_run else _collect(catalog, gone)
    if not dry_run:  # compaction moves the vectors; what goes wrong the next ingest tells
        kept.bring_up_to_date(workspace, project, stores=kept.asked_stores(workspace))
    rows = {name: went[name] for name in ("chunks", "files", "texts", "vectors", "bytes")}
    return DroppedGenerations(project, dry_run, gone, **rows)


def _estimate(catalog: Catalog, gone: list[int]) -> dict[str, int]:
    db = catalog.db
    waste = sum(size_of(path) for path in remove.leftovers(db, catalog.index_dir))
    db.execute("BEGIN IMMEDIATE")
    try:
        before = _payload(db)
        went = remove.drop(db, gone, unnamed=True)
        waste += before - _payload(db) + vectors.unnamed_bytes(db, catalog.index_dir)
    finally:
        db.execute("ROLLBACK")
    pages = db.execute("PRAGMA freelist_count").fetchone()[0]
    size = db.execute("PRAGMA page_size").fetchone()[0]
    return {**went, "bytes": waste + pages * size}


def _collect(catalog: Catalog, gone: list[int]) -> dict[str, int]:
    before = size_of(catalog.index_dir)
    with transaction(catalog.db, catalog.path):
        went = remove.drop(catalog.db, gone, unnamed=True)
    vectors.compact(catalog.db, catalog.index_dir, thorough=True)
    remove.sweep(catalog.db, catalog.index_dir)
    remove.vacuum(catalog.db, catalog.path)
    return {**went, "bytes": max(before - size_of(catalog.index_dir), 0)}


def _payload(db: sqlite3.Connection) -> int:
    texts = "SELECT coalesce(sum(length(CAST(text AS BLOB)) + length(terms)), 0) FROM texts"
    chunks = (
        "SELECT coalesce(sum(length(chunk_id) + length(path) + length(heading) + 200), 0) "
        "FROM chunks"
    )
    return sum(int(db.execute(query).fetchone()[0]) for query in (texts, chunks))
