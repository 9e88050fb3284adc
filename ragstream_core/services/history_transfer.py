"""Export and import of conversations, and the projects that their turns may be used in.

Nothing is copied or embedded to bring a turn into a project (R-147): it gets the tag
``project:NAME``, which the filter `history.projects` takes like a label it was written with.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.conversations.journal.records import TagEdit, Turn, project_tag
from ragstream_core.conversations.sessions import HistoryTurn, turn_rows
from ragstream_core.conversations.transfer import (
    Imported,
    exported,
    imported,
    jsonl_lines,
    markdown,
)
from ragstream_core.conversations.use import Use
from ragstream_core.errors import RunCommand, UsageError
from ragstream_core.platform.files import lines_of, make_private_dir, replace_text
from ragstream_core.wiring.journal import (
    Written,
    append_records,
    completed,
    importing,
    journal,
    new_session,
    require_persist,
    show,
)

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
) -> list[HistoryTurn]:
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
        The turns that changed, or would, as they were before.

    Raises:
        UnknownProject: There is no such folder.
        UsageError: Nothing says which turns.
        Refused: `history.persist` is off: nothing is written.
        OperationFailed: Disk full or failing; a first part of the labels may be written.
    """
    workspace.require_project(project)
    if not (tags or days or session):
        raise UsageError(
            "no turns are selected", hint=RunCommand("history adopt", f"{project} --tag GOLD")
        )
    if not dry_run:
        require_persist(workspace)
    label = project_tag(project)
    since = (now or dt.datetime.now().astimezone()) - dt.timedelta(days=days) if days else None
    log = journal(workspace)
    change: dict[str, tuple[str, ...]] = {"remove" if undo else "add": (label,)}
    rows: list[HistoryTurn] = []

    def look() -> list[Written]:
        rows[:] = [
            row
            for row in turn_rows(log, session, tags=tags)
            if row.turn.status != "unanswered"
            and (label in row.tags or project in row.turn.projects) is undo
            and (label in row.tags or not undo)
            and (since is None or dt.datetime.fromisoformat(row.turn.timestamp) >= since)
        ]
        return completed([TagEdit("", row.id, "", **change) for row in rows])

    if look() and not dry_run:
        log.append_made(look)  # again: what was cleared meanwhile must not be named any more
    return rows


_BATCH = 500


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What an import did."""

    added: int  # records that were appended
    skipped: int  # records that existed already, by their ids
    sessions: tuple[str, ...]  # conversations that were touched, sorted


def export_jsonl(workspace: Workspace, session: str = "") -> Iterator[str]:
    """Yield the lines of an export; `import_jsonl` brings equal records back.

    Raises:
        IntegrityError: A newer version of the program wrote the journal.
    """
    return jsonl_lines(exported(journal(workspace), session))


def export_markdown(workspace: Workspace, session: str = "") -> tuple[str, int]:
    """Return conversations as Markdown, for people, and how many turns they have.

    Raises:
        IntegrityError: A newer version of the program wrote the journal.
    """
    turns = show(workspace, session)
    return markdown(turns), len(turns)


def import_jsonl(
    workspace: Workspace,
    lines: Iterable[str],
    *,
    session: str = "",
    use_in: Sequence[str] = (),
) -> ImportReport:
    """Append the records of an export or of plain rows; those that are there are passed over.

    Everything is read and checked before the first is written; a kill leaves a first part, and
    the same import again adds the rest.

    Args:
        workspace: The data root.
        lines: JSONL.
        session: Conversation of plain rows that name none; "": a new one.
        use_in: Where plain rows may be used, as for `Use.of`; rows of an export say it themselves.

    Raises:
        UnknownProject: There is no such project.
        UsageError: A line cannot be read; nothing was written.
        IntegrityError: A row is not what was exported; nothing was written.
        Refused: `history.persist` is off: nothing is written.
        ProjectLocked: Another import is under way.
        OperationFailed: Disk full or failing; what was written before stays.
    """
    require_persist(workspace)
    now = dt.datetime.now().astimezone()
    use = Use.of(use_in)
    for project in use.projects:
        workspace.require_project(project)
    session = session or new_session(workspace, now)
    records = imported(lines, now=now, session=session, use=use)
    with importing(workspace):
        known = {entry.record.id for entry in journal(workspace).entries()}
        fresh: dict[str, Imported] = {}
        for record in records:
            if record.id not in known:
                fresh.setdefault(record.id, record)
        new = completed(list(fresh.values()))
        for at in range(0, len(new), _BATCH):
            append_records(workspace, new[at : at + _BATCH])
    names = {record.session_id for record in new if hasattr(record, "session_id")}
    return ImportReport(len(new), len(records) - len(new), tuple(sorted(names)))


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file of JSONL.

    Raises:
        UsageError: It cannot be read, or is not UTF-8.
    """
    try:
        return lines_of(path)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(
            f"{path} cannot be read: {why}", hint="name a file of JSONL in UTF-8 that you may read"
        ) from None
