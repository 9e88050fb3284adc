"""Looking after indexes: what is kept, whether it is sound, what can go.

What among the indexed passages looks like an attempt to command a language model (R-294).
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_core.errors import GenerationGone, RagstreamError
from ragstream_core.index import generations as index_generations
from ragstream_core.index import retention
from ragstream_core.index.schema import CATALOG_NAME, transaction
from ragstream_core.platform.disk import size_of
from ragstream_core.prompts.store import pinned
from ragstream_core.prompts.suspicion import Tally, tally
from ragstream_core.wiring import chroma_collections

if TYPE_CHECKING:
    from ragstream_core.index.catalog import Catalog
    from ragstream_core.index.generations import GenerationDiff
    from ragstream_core.index.verify import Finding, Part
    from ragstream_core.ingestion.index_store import Generation
    from ragstream_core.wiring.workspace import Workspace


BATCH = 512


def suspicious_passages(
    workspace: Workspace, project: str, paths: Collection[str] | None = None
) -> Tally:
    """Read a project's live passages and count what looks suspicious; nothing is changed.

    Args:
        workspace: The data root.
        project: Its name.
        paths: Only passages of these files; None: all.

    Raises:
        GenerationGone: Nothing is ingested.
        IntegrityError: The index is damaged.
    """
    view = workspace.view(project)
    rows = zip(view.chunk_ids, view.paths, strict=True)
    wanted = [i for i, path in rows if paths is None or path in paths]

    def texts() -> Iterator[tuple[str, str]]:
        for at in range(0, len(wanted), BATCH):
            for chunk in view.chunks(wanted[at : at + BATCH]):
                yield f"{chunk.source} #{chunk.meta['chunk_index']}", chunk.snippet

    return tally(texts())


def generations(workspace: Workspace, project: str) -> list[dict[str, Any]]:
    """Return the kept generations of a project, newest first.

    Returns:
        ``n, created, digest, files, chunks, index_fp, kept_by`` (``newest``, ``last 20``, or the
        keys of kept prompts).

    Raises:
        GenerationGone: Nothing was ever ingested.
        IntegrityError: The catalog is damaged.
        OperationFailed: It cannot be read.
    """
    found = index_generations.kept_generations(workspace.index_dir(project))[::-1]
    needed = pinned(workspace.store.root, project)
    last = kept_count(workspace)
    return [
        {
            "n": g.n,
            "created": g.created,
            "digest": g.digest,
            "files": g.counts.get("files", 0),
            "chunks": g.counts.get("chunks", 0),
            "index_fp": g.index_fp,
            "kept_by": [
                *(["newest"] if at == 0 else [f"last {last}"] if at < last else []),
                *needed.get(g.n, []),
            ],
        }
        for at, g in enumerate(found)
    ]


def kept_count(workspace: Workspace) -> int:
    """Return how many generations stay whoever needs them."""
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
        digest: Its digest; where that number has another one now, the store was made anew.

    Returns:
        Nothing as well where nothing is ingested or the catalog cannot be read.
    """
    try:
        found = index_generations.kept_generations(workspace.index_dir(project))
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
    return index_generations.compare(workspace.index_dir(project), before, after)


def check(workspace: Workspace, project: str, *, part: Part | None = None) -> dict[str, Any]:
    """Check one project's index; make derived files anew where they differ.

    Args:
        workspace: The data root.
        project: Its name.
        part: Also read all data of this part of the texts.

    Returns:
        ``project``, ``findings`` (check, message, run), ``healed`` (what was made again),
        ``generation``, ``collection`` (as `collections.state`).
    """
    from ragstream_core.index.verify import verify_data, verify_structure

    index_dir = workspace.index_dir(project)
    if not (index_dir / CATALOG_NAME).exists() and not any(index_dir.glob("vectors-*.f32")):
        nothing: dict[str, Any] = {"findings": [], "healed": [], "generation": 0}
        return {"project": project, **nothing, "collection": {}}
    with contextlib.suppress(RagstreamError):  # what cannot be read is found below
        index_generations.read(index_dir, lambda db: None)
    healed: list[str] = []
    findings = list(verify_structure(index_dir, read_texts=False))
    if part is not None:
        findings += verify_data(index_dir, part)
    if not findings:
        healed, findings = _heal(index_dir)
        more, left = _collection(workspace, project)
        healed, findings = healed + more, findings + left
    rows = dict.fromkeys((f.check, f.message) for f in findings)
    newest = _newest(index_dir)
    return {
        "project": project,
        "findings": [
            {"check": kind, "message": message, "run": _cure(project, kind, message)}
            for kind, message in rows
        ],
        "healed": healed,
        "generation": newest.n if newest else 0,
        "collection": chroma_collections.state(workspace, project, newest),
    }


def _heal(index_dir: Path) -> tuple[list[str], list[Finding]]:
    from ragstream_core.index.repair import repair_derived
    from ragstream_core.index.verify import Finding

    try:
        return repair_derived(index_dir), []
    except (RagstreamError, OSError) as error:
        return [], [Finding("derived", f"derived files cannot be made again: {error}")]


def _collection(workspace: Workspace, project: str) -> tuple[list[str], list[Finding]]:
    """Make the Chroma collection again where it is not what the catalog says, or could not be."""
    from ragstream_core.index.verify import Finding

    done = chroma_collections.keep_up(workspace, project, again=True)
    if isinstance(done, chroma_collections.Left):
        return [], [Finding("collection", done.why)] if done.failed else []
    return (["the Chroma collection"] if done.made != "unchanged" else []), []


def _cure(project: str, kind: str, message: str) -> str:
    if kind == "erasing":
        path = message.removeprefix("the erasing of ").removesuffix(" was interrupted")
        return f"ragstream forget {path} -p {project}"
    if kind == "collection":
        return f"ragstream index check {project}"
    return f"ragstream ingest {project}" + ("" if kind == "derived" else " --rebuild")


def _newest(index_dir: Path) -> Generation | None:
    try:
        found = index_generations.kept_generations(index_dir)
    except RagstreamError:
        return None
    return found[-1] if found else None


def gc(workspace: Workspace, project: str, *, dry_run: bool = False) -> dict[str, Any]:
    """Drop generations nobody needs and everything that no kept generation names.

    Args:
        workspace: The data root.
        project: Its name.
        dry_run: Only show what would be removed.

    Returns:
        ``project``, ``dry_run``, ``generations`` (numbers), ``chunks``, ``files``, ``texts``,
        ``vectors`` (rows that go), ``bytes`` (freed, or an estimate in a dry run).

    Raises:
        GenerationGone: Nothing was ever ingested.
        ProjectLocked: Another process writes the project.
        IntegrityError: The catalog or the record of a kept prompt is damaged.
        OperationFailed: Disk full; nothing was dropped.
    """
    from ragstream_core.index.catalog import open_catalog

    index_dir = workspace.index_dir(project)
    if not (index_dir / CATALOG_NAME).exists():
        raise GenerationGone(
            f"project {project} has no generation yet", hint=f"ragstream ingest {project}"
        )
    with open_catalog(index_dir) as catalog:
        needed = pinned(workspace.store.root, project)
        gone = retention.superfluous(catalog.db, kept_count(workspace), needed)
        went = _estimate(catalog, gone) if dry_run else _collect(catalog, gone)
    rows = {name: went[name] for name in ("chunks", "files", "texts", "vectors", "bytes")}
    return {"project": project, "dry_run": dry_run, "generations": gone, **rows}


def _estimate(catalog: Catalog, gone: list[int]) -> dict[str, int]:
    db = catalog.db
    waste = sum(size_of(path) for path in retention.leftovers(db, catalog.index_dir))
    db.execute("BEGIN IMMEDIATE")
    try:
        before = _payload(db)
        went = retention.drop(db, gone, unnamed=True)
        waste += before - _payload(db) + retention.unnamed_bytes(db)
    finally:
        db.execute("ROLLBACK")
    pages = db.execute("PRAGMA freelist_count").fetchone()[0]
    size = db.execute("PRAGMA page_size").fetchone()[0]
    return {**went, "bytes": waste + pages * size}


def _collect(catalog: Catalog, gone: list[int]) -> dict[str, int]:
    from ragstream_core.index.erase import vacuum

    before = size_of(catalog.index_dir)
    with transaction(catalog.db, catalog.path):
        went = retention.drop(catalog.db, gone, unnamed=True)
    retention.compact(catalog.db, catalog.index_dir, thorough=True)
    retention.sweep(catalog.db, catalog.index_dir)
    vacuum(catalog.db, catalog.path)
    return {**went, "bytes": max(before - size_of(catalog.index_dir), 0)}


def _payload(db: sqlite3.Connection) -> int:
    texts = "SELECT coalesce(sum(length(CAST(text AS BLOB)) + length(terms)), 0) FROM texts"
    chunks = (
        "SELECT coalesce(sum(length(chunk_id) + length(path) + length(heading) + 200), 0) "
        "FROM chunks"
    )
    return sum(int(db.execute(query).fetchone()[0]) for query in (texts, chunks))
