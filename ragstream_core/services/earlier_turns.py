"""What is told once of turns that were kept before turns belonged to projects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragstream_core.conversations.journal.records import Turn
from ragstream_core.platform.files import make_private_dir, replace_text
from ragstream_core.wiring.journal import journal

if TYPE_CHECKING:
    from ragstream_core.wiring.workspace import Workspace

MARK_NAME = ".told-where-turns-are-used"
TOLD = (
    "Conversations kept by an earlier version are used by the prompts of every project, as before. "
    "New ones are used only in the projects they belong to. To do the same with the earlier ones, "
    "set history.projects to [current]; `ragstream history adopt PROJECT` brings turns into one. "
    "(This is said once.)"
)


def told_once(workspace: Workspace) -> str:
    """Return what a person is to know of turns that all projects use; empty if there are none.

    It is told once a data root, and never where history is not written.

    Args:
        workspace: The data root.

    Raises:
        IntegrityError: A newer version of the program wrote the journal.
        OSError: That it was told cannot be written down.
    """
    log, mark = journal(workspace), workspace.layout.history / MARK_NAME
    settings = workspace.config.settings.history
    if mark.exists() or not log.folder.is_dir() or not settings.persist:
        return ""
    found = any(isinstance(e.record, Turn) and not e.record.used_in for e in log.entries())
    make_private_dir(mark.parent)
    replace_text(mark, "", durable=False)
    return TOLD if found and not settings.projects else ""
