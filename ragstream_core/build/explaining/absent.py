"""Why a file has no chunk in the generations that a prompt was made from."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from ragstream_core.build.explaining.distances import lacks
from ragstream_core.errors import RagstreamError, UsageError
from ragstream_core.ingestion.parsers.engines import untagged

if TYPE_CHECKING:
    from ragstream_core.build.workspace import Workspace
    from ragstream_core.ingestion.manifest import FileEntry
    from ragstream_core.orchestration.inputs import Pin, PromptInputs

INGESTION = "ingestion"


def absent_file(workspace: Workspace, inputs: PromptInputs, target: str) -> dict[str, Any]:
    """Return the verdict on a file without chunks: skipped, refused, later, or unchunked.

    Args:
        workspace: The data root.
        inputs: The prompt's.
        target: ``path`` or ``project/path``.

    Raises:
        UsageError: No project of the prompt has, or had, such a file.
        RagstreamError: An index cannot be read.
    """
    for pin in inputs.pins:
        path = target.removeprefix(f"{pin.project}/")
        found = _in_generation(workspace, pin, path) or _elsewhere(workspace, pin, path)
        if found is not None:
            rule, reason = found
            return {
                "chunk_id": "",
                "project": pin.project,
                "path": path,
                "kept": False,
                "stage": INGESTION,
                "rule": rule,
                "reason": reason,
                **lacks(None),
            }
    known = [path for pin in inputs.pins for path in _manifest(workspace, pin.project, 0)]
    near = get_close_matches(target, known, 3, 0.5)
    raise UsageError(
        f"the projects of this prompt know nothing called {target!r}",
        hint=f"one of: {', '.join(near)}" if near else "a chunk id, path#index, or a path",
    )


def _in_generation(workspace: Workspace, pin: Pin, path: str) -> tuple[str, str] | None:
    entry = _manifest(workspace, pin.project, pin.generation).get(path)
    if entry is None:
        return None
    if entry.decision == "skipped":
        return "skipped", untagged(entry.reason)
    return "no_chunk", f"it was read for generation {pin.generation} and holds no text"


def _elsewhere(workspace: Workspace, pin: Pin, path: str) -> tuple[str, str] | None:
    """Return what the newest generation and the folder say of a file that was not there then."""
    when = f"it was not in generation {pin.generation}"
    newest = _manifest(workspace, pin.project, 0)
    if path in newest:
        return "later", f"{when}; a later ingest brought it in"
    status = workspace.status(pin.project)
    refused = dict(status["skipped"])
    if path in refused:
        return "refused", refused[path]
    if any(path in names for names in status["pending"].values()):
        return "not_indexed", f"{when} and waits for `ragstream ingest {pin.project}`"
    return None


def _manifest(workspace: Workspace, project: str, n: int) -> dict[str, FileEntry]:
    from ragstream_core.stores.origin import manifest_of

    try:
        return manifest_of(workspace.index_dir(project), n)
    except RagstreamError:
        return {}
