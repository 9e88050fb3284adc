"""Export and import of conversations."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.build.history.turns import (
    append_records,
    completed,
    journal,
    new_session,
    require_persist,
    show,
)
from ragstream_core.errors import UsageError
from ragstream_core.history.transfer import Imported, exported, imported, jsonl_lines, markdown

if TYPE_CHECKING:
    from ragstream_core.build.workspace import Workspace

_BATCH = 500


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What an import did.

    Attributes:
        added: Records that were appended.
        skipped: Records that existed already, by their ids.
        sessions: Conversations that were touched, sorted.
    """

    added: int
    skipped: int
    sessions: tuple[str, ...]


def export_jsonl(workspace: Workspace, session: str = "") -> Iterator[str]:
    """Yield the lines of an export; `import_jsonl` brings equal records back.

    Raises:
        IntegrityError: A newer version of the program wrote the journal.
    """
    return jsonl_lines(exported(journal(workspace), session))


def export_markdown(workspace: Workspace, session: str = "") -> str:
    """Return conversations as Markdown, for people.

    Raises:
        IntegrityError: A newer version of the program wrote the journal.
    """
    return markdown(show(workspace, session))


def import_jsonl(workspace: Workspace, lines: Iterable[str], *, session: str = "") -> ImportReport:
    """Append the records of an export or of plain rows; those that are there are passed over.

    Everything is read and checked before the first is written; a kill leaves a first part, and
    the same import again adds the rest.

    Args:
        workspace: The data root.
        lines: JSONL.
        session: Conversation of plain rows that name none; "": a new one.

    Raises:
        UsageError: A line cannot be read; nothing was written.
        IntegrityError: A row is not what was exported; nothing was written.
        Refused: `history.persist` is off: nothing is written.
        OperationFailed: Disk full or failing; what was written before stays.
    """
    require_persist(workspace)
    now = dt.datetime.now().astimezone()
    records = imported(lines, now=now, session=session or new_session(workspace, now))
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
        return path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
