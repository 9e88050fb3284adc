"""Brings turns of other conversations into a project by tag and time (R-147).

Nothing is copied or embedded: each turn gets the tag ``project:NAME``, which the filter
`history.projects` takes like a label that the turn was written with.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ragstream_core.build.history.turns import append_records, journal, require_persist
from ragstream_core.errors import UsageError
from ragstream_core.history.listing import turn_rows
from ragstream_core.history.records import TagEdit, project_tag

if TYPE_CHECKING:
    from ragstream_core.build.workspace import Workspace


def adopt(
    workspace: Workspace,
    project: str,
    *,
    tags: Sequence[str] = (),
    days: float = 0.0,
    session: str = "",
    undo: bool = False,
    dry_run: bool = False,
    now: dt.datetime | None = None,
) -> list[dict[str, Any]]:
    """Label turns with a project, or take the label away again.

    Args:
        workspace: The data root.
        project: The project's name.
        tags: Only turns with all of these tags.
        days: Only turns of so many days; 0: of any time.
        session: Only turns of this conversation; "": of any.
        undo: Take the label from the turns that have it.
        dry_run: Only say which turns these are.
        now: End of the ``days``; default: the present moment.

    Returns:
        The rows of `listing.turn_rows` that changed, or would.

    Raises:
        UnknownProject: There is no such folder.
        UsageError: Nothing says which turns.
        Refused: `history.persist` is off: nothing is written.
        OperationFailed: Disk full or failing; a first part of the labels may be written.
    """
    workspace.doc_dir(project)
    if not (tags or days or session):
        raise UsageError(
            "no turns are selected", hint=f"ragstream history adopt {project} --tag GOLD"
        )
    if not dry_run:
        require_persist(workspace)
    label = project_tag(project)
    since = (now or dt.datetime.now().astimezone()) - dt.timedelta(days=days) if days else None
    rows = [
        row
        for row in turn_rows(journal(workspace), session, tags=tags)
        if row["status"] != "unanswered"
        and (label in row["tags"] or project in row["projects"]) is undo
        and (label in row["tags"] or not undo)
        and (since is None or dt.datetime.fromisoformat(row["timestamp"]) >= since)
    ]
    if rows and not dry_run:
        change: dict[str, tuple[str, ...]] = {"remove" if undo else "add": (label,)}
        append_records(workspace, [TagEdit("", row["id"], "", **change) for row in rows])
    return rows
