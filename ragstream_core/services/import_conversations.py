"""Importing conversations of other programs: exports of chats, and logs of coding agents.

Each question with its answer becomes a turn whose id follows from the ids in the export, so that
the same export, or a newer one of the same account, adds only what is new.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.conversations.importers import reader
from ragstream_core.conversations.importers.exchange import (
    Conversation,
    exchanges,
    iso_time,
    session_of,
    turn_of,
)
from ragstream_core.conversations.importers.reader import FORMATS, Problem
from ragstream_core.conversations.journal.records import Turn
from ragstream_core.errors import UsageError
from ragstream_core.ingestion.secrets import find_secrets
from ragstream_core.wiring.journal import append_records, journal, require_persist

if TYPE_CHECKING:
    from ragstream_core.wiring.workspace import Workspace

BATCH = 500
"""Turns made durable with one sync."""
SETTLED = dt.timedelta(days=1)
"""An answer that its log does not call finished is taken once nothing was added for so long."""
Progress = Callable[[str, int, int], None]
"""Called with ``bytes``, how many are read, and of how many."""


@dataclass(frozen=True, slots=True)
class ImportedConversation:
    """One conversation of an import.

    Attributes:
        session: The name it is kept under.
        format: Name of the importer.
        title: Its title; may be empty.
        timestamp: When it began, ISO 8601; "" if its format has no times.
        added: Turns that are new.
        existing: Turns that were there.
        unfinished: Questions whose answer may still be written; the next import takes them.
    """

    session: str
    format: str
    title: str
    timestamp: str
    added: int
    existing: int
    unfinished: int


@dataclass(frozen=True, slots=True)
class ConversationImport:
    """What an import did, or would do.

    Attributes:
        conversations: Each that was read, in the order of the export.
        problems: What could not be read; nothing of it was kept.
        secrets: Session → kinds of secrets that its new turns seem to hold.
        dry_run: Whether nothing was written.
    """

    conversations: tuple[ImportedConversation, ...]
    problems: tuple[Problem, ...]
    secrets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    dry_run: bool = False

    @property
    def added(self) -> int:
        """Turns that are new."""
        return sum(row.added for row in self.conversations)

    @property
    def existing(self) -> int:
        """Turns that were there."""
        return sum(row.existing for row in self.conversations)

    @property
    def unfinished(self) -> int:
        """Questions whose answer may still be written."""
        return sum(row.unfinished for row in self.conversations)

    def to_json(self) -> dict[str, object]:
        """Return the documented JSON form."""
        names = ImportedConversation.__slots__
        return {
            "added": self.added,
            "existing": self.existing,
            "unfinished": self.unfinished,
            "dry_run": self.dry_run,
            "conversations": [{n: getattr(row, n) for n in names} for row in self.conversations],
            "problems": [{"where": p.where, "what": p.what} for p in self.problems],
            "secrets": {name: list(kinds) for name, kinds in self.secrets.items()},
        }


def is_of_rows(path: Path) -> bool:
    """Whether a file holds rows of `history_transfer`: an own export, or plain turns as JSONL."""
    try:
        with path.open(encoding="utf-8") as file:
            first = next((line for line in file if line.strip()), "")
        row = json.loads(first)
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(row, dict) and bool(row.keys() & {"rec", "user", "assistant"})


def import_conversations(
    workspace: Workspace,
    path: Path,
    *,
    form: str = "",
    project: str = "",
    dry_run: bool = False,
    progress: Progress | None = None,
    now: dt.datetime | None = None,
) -> ConversationImport:
    """Append the turns of an export that are not in the journal yet.

    A kill leaves a first part; the same import again adds the rest.

    Args:
        workspace: The data root.
        path: A file, a folder or a ZIP.
        form: One of `reader.FORMATS`; "": as the content tells.
        project: Project that the turns are labelled with; "": none.
        dry_run: Only say what would come.
        progress: Told how far it is.
        now: The present moment, with a zone.

    Raises:
        UsageError: There is nothing to read, or no such format; nothing was written.
        UnknownProject: There is no such project.
        Refused: `history.persist` is off: nothing is written.
        OperationFailed: Disk full or failing; what was written before stays.
    """
    if form and form not in FORMATS:
        raise UsageError(f"no format {form!r}", hint=f"one of {', '.join(FORMATS)}")
    if project:
        workspace.doc_dir(project)
    files = reader.export_files(path)
    if not dry_run:
        require_persist(workspace)
    run = _Import(workspace, project, dry_run, now or dt.datetime.now().astimezone())
    total, read = sum(file.size for file in files), 0

    def on_read(size: int) -> None:
        nonlocal read
        read += size
        if progress is not None:
            progress("bytes", read, total)

    for file in files:
        for found in reader.conversations(file, form, on_read):
            if isinstance(found, Problem):
                run.problems.append(found)
            else:
                run.take(file.name, found)
    run.write()
    secrets = {name: tuple(sorted(kinds)) for name, kinds in run.secrets.items()}
    return ConversationImport(tuple(run.rows), tuple(run.problems), secrets, dry_run)


class _Import:
    """The state of one import: what is known, what waits to be written, and what is reported."""

    def __init__(self, workspace: Workspace, project: str, dry_run: bool, now: dt.datetime) -> None:
        self.workspace, self.project, self.dry_run, self.now = workspace, project, dry_run, now
        self.known = {entry.record.id for entry in journal(workspace).entries()}
        self.waiting: list[Turn] = []
        self.rows: list[ImportedConversation] = []
        self.problems: list[Problem] = []
        self.secrets: dict[str, Counter[str]] = {}

    def take(self, where: str, found: Conversation) -> None:
        """Take the new turns of a conversation."""
        title = f"{where}, conversation {found.title or found.id!r}"
        self.problems += [Problem(title, what) for what in found.problems]
        counts, began = Counter[str](), ""
        for state, turn in self._turns(found):
            counts[state] += 1
            began = min(filter(None, (began, turn.timestamp)), default="")
            if state == "added":
                self._keep(turn)
        if counts:
            self.rows.append(
                ImportedConversation(
                    session_of(found), found.format, found.title, began, counts["added"],
                    counts["existing"], counts["unfinished"],
                )
            )  # fmt: skip

    def write(self) -> None:
        """Make what waits durable."""
        if self.waiting and not self.dry_run:
            append_records(self.workspace, self.waiting)
        self.waiting = []

    def _turns(self, found: Conversation) -> Iterator[tuple[str, Turn]]:
        for exchange in exchanges(found):
            turn = turn_of(found, exchange, now=self.now)
            if not (turn.user_text + turn.assistant_text).strip():
                continue
            if not exchange.is_finished and self._may_grow(found, turn):
                yield "unfinished", turn
            elif turn.id in self.known:
                yield "existing", turn
            else:
                yield "added", replace(turn, projects=(self.project,) if self.project else ())

    def _may_grow(self, found: Conversation, turn: Turn) -> bool:
        times = [message.timestamp for message in found.messages if message.timestamp]
        newest = max(times, default="")
        return bool(iso_time(newest)) and (self.now - dt.datetime.fromisoformat(newest) < SETTLED)

    def _keep(self, turn: Turn) -> None:
        self.known.add(turn.id)
        for text in (turn.user_text, turn.assistant_text):
            for finding in find_secrets(text):
                self.secrets.setdefault(turn.session_id, Counter())[finding.kind] += 1
        self.waiting.append(turn)
        if len(self.waiting) >= BATCH:
            self.write()
