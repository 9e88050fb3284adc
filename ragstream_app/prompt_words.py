"""What the words of `prompt` and `ask` mean: the text, the settings, the state of the documents."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ragstream_app.session import note, pending_paths

if TYPE_CHECKING:
    from ragstream_core.build.workspace import Workspace

_NAMES_SHOWN = 3


def read_text(text: str) -> str:
    """Return the text of a prompt; ``-`` reads stdin."""
    if text != "-":
        return text
    if sys.stdin.isatty():
        note("type the prompt; end it with Ctrl-D")
    return sys.stdin.buffer.read().decode("utf-8-sig", "replace")  # a mark of its encoding goes


def setting_values(assignments: list[str] | None) -> dict[str, str]:
    """Return dotted setting → value of ``--set``.

    Raises:
        UnknownSetting: A word that sets nothing.
    """
    if not assignments:
        return {}
    from ragstream_core.config import parse_assignments

    return parse_assignments(assignments)


def changed_files(workspace: Workspace, projects: tuple[str, ...]) -> list[str]:
    """Return one sentence a project with documents that changed since its last ingest.

    Raises:
        UnknownProject: There is no such folder.
    """
    found = []
    for project in projects:
        pending = pending_paths(workspace.status(project))
        if pending:
            names = ", ".join(pending[:_NAMES_SHOWN])
            more = " …" if len(pending) > _NAMES_SHOWN else ""
            changed = f"{len(pending)} file(s) changed since the last ingest"
            found.append(f"{project}: {changed}: {names}{more}")
    return found
