"""Prompts that the user keeps, and the generations that stay because of them."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_core.atomic import replace_text
from ragstream_core.errors import GenerationGone, IntegrityError, RagstreamError

if TYPE_CHECKING:
    from ragstream_core.build.workspace import Workspace

KEPT_NAME = "kept"
"""Marker beside a prompt's record: it and its generations are not dropped by age."""


def keep(workspace: Workspace, key: str) -> dict[str, Any]:
    """Mark a prompt as kept; from now on its generations stay.

    Args:
        workspace: The data root.
        key: Its key or the first digits.

    Returns:
        ``prompt_key``, ``kept``, ``pins`` (project, generation).

    Raises:
        UnknownPrompt: No prompt under that key.
        IntegrityError: Its record is damaged.
        GenerationGone: A generation that it was made from is no longer there; not marked.
    """
    full_key = workspace.store.find(key)
    record = workspace.store.record(full_key)
    pins = [(pin["project"], pin["generation"]) for pin in record.inputs["pins"]]
    marker = workspace.store.root / full_key / KEPT_NAME
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    replace_text(marker, f"{now}\n")  # first: from here on no ingest drops what is still there
    try:
        workspace.store.record(full_key)  # it may have expired at this very moment
        for pin in record.inputs["pins"]:
            _require(workspace, pin)
    except RagstreamError:
        marker.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            marker.parent.rmdir()  # where nothing but the marker was left
        raise
    return {"prompt_key": full_key, "kept": True, "pins": [list(pin) for pin in pins]}


def unkeep(workspace: Workspace, key: str) -> dict[str, Any]:
    """Take the mark away; the next retention may drop its generations.

    Raises:
        UnknownPrompt: No prompt under that key.
        OSError: The marker cannot be removed.
    """
    full_key = workspace.store.find(key)
    (workspace.store.root / full_key / KEPT_NAME).unlink(missing_ok=True)
    return {"prompt_key": full_key, "kept": False, "pins": []}


def pinned(prompts: Path, project: str) -> dict[int, list[str]]:
    """Return the generations of a project that kept prompts need, with those prompts' keys.

    Args:
        prompts: Folder of the prompt store.
        project: Project name.

    Raises:
        IntegrityError: The record of a kept prompt cannot be read, so nobody can say what it needs.
    """
    found: dict[int, list[str]] = {}
    for marker in sorted(prompts.glob(f"*/{KEPT_NAME}")):
        path = marker.with_name("record.json")
        try:
            pins = json.loads(path.read_bytes())["inputs"]["pins"]
            mine = [int(pin["generation"]) for pin in pins if pin["project"] == project]
        except (OSError, ValueError, KeyError, TypeError):
            raise IntegrityError(
                f"{path} is damaged, so the generations that it needs are not known",
                hint=f"remove {marker} if the prompt is not needed any more",
            ) from None
        for n in mine:
            found.setdefault(n, []).append(marker.parent.name)
    return found


def _require(workspace: Workspace, pin: dict[str, Any]) -> None:
    from ragstream_core.stores.generations import kept_generations

    project, n = pin["project"], pin["generation"]
    try:
        digests = {g.n: g.digest for g in kept_generations(workspace.index_dir(project))}
    except GenerationGone:
        digests = {}
    except RagstreamError as error:
        raise IntegrityError(error.message, hint=error.hint) from error
    if digests.get(n) != pin["digest"]:
        raise GenerationGone(
            f"generation {n} of {project}, which the prompt was made from, is no longer there",
            hint="keep a prompt soon after it is made; `ragstream index generations` lists them",
        )
