"""What has become of the files that a prompt shows: as they were, changed, deleted, unreadable."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from hashlib import file_digest
from typing import TYPE_CHECKING

from ragstream_core.errors import RagstreamError, UsageError
from ragstream_core.index.schema import is_pulled
from ragstream_core.prompts.blocks import HISTORY_PREFIX
from ragstream_core.records.identity import parse_chunk_id, sha256_hex
from ragstream_core.wiring.file_sources import diff_of
from ragstream_core.wiring.ingestion import ingestion_config

if TYPE_CHECKING:
    from ragstream_core.ingestion.document_tree import DocumentTree
    from ragstream_core.records.prompt_inputs import Pin
    from ragstream_core.wiring.workspace import Workspace

CURRENT, CHANGED, DELETED, UNREADABLE = "current", "changed", "deleted", "unreadable"

# The index is pulled, and its documents lie where it is made.
ELSEWHERE = "elsewhere"


def state_now(workspace: Workspace, project: str, path: str, sha256: str) -> str:
    """Return what has become of a file.

    ``current``, ``changed``, ``deleted``, ``unreadable``; ``elsewhere`` if its project is pulled.
    """
    try:
        if is_pulled(workspace.index_dir(project)):
            return ELSEWHERE
        fd = workspace.open_document(project, path)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            return CHANGED
        with os.fdopen(fd, "rb") as handle:
            found = file_digest(handle, "sha256").hexdigest()
    except (UsageError, FileNotFoundError, NotADirectoryError):
        return DELETED
    except (OSError, ValueError):
        return UNREADABLE
    return CURRENT if found.startswith(sha256) else CHANGED


def file_location(workspace: Workspace, project: str, path: str) -> str | None:
    """Return where a document lies on this machine if it is read in place, else None."""
    return file_locations(workspace, [(project, path)]).get((project, path))


def file_locations(
    workspace: Workspace, documents: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], str]:
    """Return where documents lie on this machine that are read in place; others are left out."""
    trees: dict[str, DocumentTree | None] = {}
    found: dict[tuple[str, str], str] = {}
    for project, path in documents:
        if project not in trees:
            trees[project] = _in_place(workspace, project)
        tree = trees[project]
        if tree is not None:
            with suppress(FileNotFoundError):  # the folder's label is gone
                found[project, path] = str(tree.location(path))
    return found


def _in_place(workspace: Workspace, project: str) -> DocumentTree | None:
    try:
        tree = workspace.documents(project)
    except RagstreamError:  # the project is gone, or its file is damaged
        return None
    return tree if tree.in_place else None


def chunk_locations(
    workspace: Workspace, pins: Sequence[Pin], chunk_ids: Iterable[str]
) -> dict[str, str]:
    """Return where the files of chunks lie that are read in place; others are left out."""
    away = {pin.project for pin in pins if _in_place(workspace, pin.project)}
    if not away:
        return {}
    homes: dict[str, tuple[str, str]] = {}
    known: dict[tuple[str, str], list[str]] = {}
    for chunk_id in chunk_ids:
        if chunk_id.startswith(HISTORY_PREFIX):
            continue
        path, sha256, _ = parse_chunk_id(chunk_id)
        if (path, sha256) not in known:
            known[path, sha256] = homes_of(workspace, pins, path, sha256)
        homes[chunk_id] = (known[path, sha256][0], path)
    places = file_locations(workspace, set(homes.values()))
    return {chunk_id: places[home] for chunk_id, home in homes.items() if home in places}


def diff_now(workspace: Workspace, project: str, path: str, sha256: str) -> str:
    """Return what has become of a file's changes since its last commit, as `state_now`."""
    try:
        text = diff_of(workspace, project, path)
    except (RagstreamError, OSError):
        return UNREADABLE
    return CURRENT if sha256_hex(text).startswith(sha256) else CHANGED


def homes_of(workspace: Workspace, pins: Sequence[Pin], path: str, sha256: str) -> list[str]:
    """Return the projects of a prompt whose pinned generation holds a version of a file.

    Where none can say so any more all of them may.
    """
    from ragstream_core.index.look import manifest_of

    projects = [pin.project for pin in pins]
    if len(projects) == 1:
        return projects
    found = []
    for pin in pins:
        try:
            entry = manifest_of(workspace.index_dir(pin.project), pin.generation).get(path)
        except RagstreamError:
            continue
        if entry is not None and entry.sha256 == sha256:
            found.append(pin.project)
    return found or projects


def indexed_text(workspace: Workspace, project: str, path: str, sha256: str) -> str:
    """Return the text of a file of the bytes that were indexed; empty if it is not to be had."""
    from ragstream_core.ingestion.ingestion_manager import reading_of
    from ragstream_core.ingestion.loader import DocumentLoader

    documents = workspace.documents(project)
    if not documents.roots:
        return ""
    reading = reading_of(ingestion_config(workspace, project))
    loader = DocumentLoader(documents.roots[0].path, "", documents=documents, reading=reading)
    try:
        document = loader.read(path)
    except (RagstreamError, OSError):
        return ""
    return document.text or "" if document.entry.sha256 == sha256 else ""
