"""Importing conversations of other programs, once or as they grow: exports, logs of coding agents.

Each question with its answer becomes a turn whose id follows from the ids in the export, so that
the same export, or a newer one of the same account, adds only what is new. A log that is followed
is read again when it changed, and a turn of it that was cleared does not come back.
"""

from __future__ import annotations

import datetime as dt
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import IO, TYPE_CHECKING

from ragstream_core.conversations.importers import reader
from ragstream_core.conversations.importers.exchange import (
    MOST_OF_ALL_WAYS,
    Conversation,
    Exchange,
    TooManyBranches,
    beyond,
    exchanges,
    iso_time,
    kept_before,
    not_kept,
    turn_of,
)
from ragstream_core.conversations.importers.followed import (
    SETTLED,
    FollowedLogs,
    id_digest,
    log_states,
)
from ragstream_core.conversations.importers.reader import FORMATS, Problem
from ragstream_core.conversations.journal.records import Turn
from ragstream_core.conversations.use import UNSAID, Use, used_in
from ragstream_core.errors import UsageError
from ragstream_core.ingestion.secrets import find_secrets, redact
from ragstream_core.wiring.journal import (
    append_records,
    importing,
    journal,
    require_persist,
)

if TYPE_CHECKING:
    from ragstream_core.ports import PhaseProgress
    from ragstream_core.wiring.workspace import Workspace

# Turns made durable with one sync.
BATCH = 500
BRANCHES = f"its branches together are longer than {MOST_OF_ALL_WAYS >> 20} MiB: it is left out"

# Characters of a first line that is looked at.
MOST_FIRST = 16 << 20


@dataclass(frozen=True, slots=True)
class ImportedConversation:
    """One conversation of an import."""

    session: str  # the name it is kept under
    format: str  # name of the importer
    title: str  # its title; may be empty
    timestamp: str  # when it began, ISO 8601; "" if its format has no times
    added: int  # turns that are new
    existing: int  # turns that were there
    unfinished: int  # questions whose answer may still be written; the next import takes them
    left_out: Mapping[str, int]  # kind of what is not kept of it → how often it comes


@dataclass(frozen=True, slots=True)
class ConversationImport:
    """What an import did, or would do."""

    added: int  # turns that are new
    existing: int  # turns that were there
    unfinished: int  # questions whose answer may still be written
    dry_run: bool  # whether nothing was written
    # where the new turns may be used: projects, ``nowhere``, ``everywhere``
    used_in: tuple[str, ...]
    # each that was read, in the order of the export
    conversations: tuple[ImportedConversation, ...]
    problems: tuple[Problem, ...]  # what could not be read; nothing of it was kept
    # session → kinds of secrets that its new turns seem to hold
    secrets: dict[str, tuple[str, ...]]


def is_of_rows(source: reader.Source) -> bool:
    """Whether a file holds rows of `history_transfer`: an own export, or plain turns as JSONL."""
    try:
        with _text(source) as file:
            first = "\n"
            while first and not first.strip():
                first = file.readline(MOST_FIRST)
        row = json.loads(first) if first.startswith("{") else None
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(row, dict) and bool(row.keys() & {"rec", "user", "assistant"})


def _text(source: reader.Source) -> IO[str]:
    if isinstance(source, reader.Upload):
        return io.TextIOWrapper(io.BytesIO(source.data), encoding="utf-8-sig")
    return source.open(encoding="utf-8-sig")


def import_conversations(
    workspace: Workspace,
    path: reader.Source,
    *,
    form: str = "",
    use_in: Sequence[str] = (),
    dry_run: bool = False,
    progress: PhaseProgress | None = None,
    now: dt.datetime | None = None,
) -> ConversationImport:
    """Append the turns of an export that are not in the journal yet.

    A kill leaves a first part; the same import again adds the rest.

    Args:
        workspace: The data root.
        path: A file, a folder or a ZIP, or the bytes of a file or ZIP.
        form: One of `reader.FORMATS`; "": as the content tells.
        use_in: Projects whose prompts may use the turns, or ``nowhere`` or ``everywhere``; none:
            the project that is named like the folder a coding agent worked in, else nowhere.
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
    use = Use.of(use_in)
    for project in use.projects:
        workspace.require_project(project)
    files = reader.export_files(path, form)
    moment = now or dt.datetime.now().astimezone()
    if dry_run:
        return _imported(_Import(workspace, moment, use, dry_run=True), files, form, progress)
    require_persist(workspace)
    with importing(workspace):
        known, newest = FollowedLogs.load(_followed(workspace)), journal(workspace).newest().seq
        run = _Import(workspace, moment, use)
        done = _imported(run, files, form, progress)
        ids = known.ids.union(run.known)  # what is cleared later does not come back by following
        FollowedLogs(newest, ids, known.files).save(_followed(workspace))
        return done


def follow_logs(workspace: Workspace, *, now: dt.datetime | None = None) -> ConversationImport:
    """Import what was added to the logs below ``paths.agent_logs`` since the last look.

    Logs are only read. One that was rotated or written anew is read again; a log that is gone, or
    a folder that is not there, changes nothing.

    Args:
        workspace: The data root.
        now: The present moment, with a zone.

    Raises:
        Refused: `history.persist` is off: nothing is written.
        ProjectLocked: Another import is under way.
        OperationFailed: Disk full or failing; what was written before stays.
    """
    require_persist(workspace)
    moment = now or dt.datetime.now().astimezone()
    with importing(workspace):
        known = FollowedLogs.load(_followed(workspace))
        states = log_states(log_folders(workspace), moment)
        newest = journal(workspace).newest().seq
        files = []
        for path in known.changed(states):
            try:
                files += reader.export_files(path)
            except UsageError:  # it has just gone
                del states[str(path)]
        run = _Import(workspace, moment, known=(known.seq, known.ids), follows=True)
        done = _imported(run, files)
        for problem in done.problems:
            if problem.unread:
                states.pop(problem.where, None)  # the next look tries it again
        if files:
            FollowedLogs(newest, frozenset(run.known), states).save(_followed(workspace))
        return done


def changed_states(
    workspace: Workspace, *, now: dt.datetime | None = None
) -> dict[str, tuple[int, int, bool]]:
    """Return path → state of the logs that `follow_logs` would read, without reading them."""
    states = log_states(log_folders(workspace), now or dt.datetime.now().astimezone())
    changed = FollowedLogs.load(_followed(workspace)).changed(states)
    return {str(path): states[str(path)] for path in changed}


def log_folders(workspace: Workspace) -> list[Path]:
    """Return the folders that ``paths.agent_logs`` names, whether they exist or not."""
    return [reader.expanded(name) for name in workspace.config.settings.paths.agent_logs]


def _followed(workspace: Workspace) -> Path:
    return workspace.layout.history / "followed_logs.json"


def _imported(
    run: _Import,
    files: Sequence[reader.ExportFile],
    form: str = "",
    progress: PhaseProgress | None = None,
) -> ConversationImport:
    """Read files and keep their new turns."""
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
    rows = [replace(row, added=row.added - run.refused.pop(row.session, 0)) for row in run.rows]
    return ConversationImport(
        added=sum(row.added for row in rows),
        existing=sum(row.existing for row in rows),
        unfinished=sum(row.unfinished for row in rows),
        dry_run=run.dry_run,
        used_in=tuple(sorted(run.used_in)),
        conversations=tuple(rows),
        problems=tuple(run.problems),
        secrets={name: tuple(sorted(kinds)) for name, kinds in run.secrets.items()},
    )


class _Import:
    """The state of one import: what is known, what waits to be written, and what is reported."""

    def __init__(
        self,
        workspace: Workspace,
        now: dt.datetime,
        use: Use = UNSAID,
        *,
        dry_run: bool = False,
        known: tuple[int, frozenset[str]] = (0, frozenset()),
        follows: bool = False,
    ) -> None:
        self.workspace, self.use, self.dry_run, self.now = workspace, use, dry_run, now
        self.follows = follows
        seq, ids = known
        later = journal(workspace).entries(seq + 1)
        self.known = set(ids) | {
            id_digest(e.record.id) for e in later if isinstance(e.record, Turn)
        }
        self.projects = frozenset(workspace.projects())
        self.waiting: list[Turn] = []
        self.rows: list[ImportedConversation] = []
        self.problems: list[Problem] = []
        self.secrets: dict[str, Counter[str]] = {}
        self.refused: Counter[str] = Counter()
        self.used_in: set[str] = set()

    def take(self, where: str, found: Conversation) -> None:
        """Take the new turns of a conversation; a title that holds a secret is not told."""
        found = replace(found, title=redact(found.title, find_secrets(found.title)))
        title = f"{where}, conversation {found.title or found.id!r}"
        self.problems += [Problem(title, what) for what in found.problems]
        counts, began = Counter[str](), ""
        try:
            whole = list(exchanges(found))
        except TooManyBranches:
            self.problems.append(Problem(title, BRANCHES))
            return
        for state, turn in self._turns(found, whole):
            counts[state] += 1
            began = min(filter(None, (began, turn.timestamp)), default="")
            if state == "added":
                self._keep(turn)
        if counts:
            self.rows.append(
                ImportedConversation(
                    found.session, found.format, found.title, began, counts["added"],
                    counts["existing"], counts["unfinished"], found.left_out,
                )
            )  # fmt: skip

    def write(self) -> None:
        """Make what waits durable; a turn that the journal refuses is a problem of its own."""
        waiting, self.waiting = self.waiting, []
        if not waiting or self.dry_run:
            return
        try:
            append_records(self.workspace, waiting)
        except UsageError:  # nothing of it was written
            for turn in waiting:
                self._write_alone(turn)

    def _write_alone(self, turn: Turn) -> None:
        try:
            append_records(self.workspace, [turn])
        except UsageError as error:
            where = f"{turn.session_id}, turn of {turn.timestamp}"
            self.problems.append(Problem(where, error.message))
            self.refused[turn.session_id] += 1

    def _turns(self, found: Conversation, all_of_it: list[Exchange]) -> Iterator[tuple[str, Turn]]:
        covered = kept_before(found, self._is_known)
        for whole in all_of_it:
            exchange = not_kept(found, whole, self._is_known)
            turn = turn_of(found, exchange, now=self.now)
            if not (turn.user_text + turn.assistant_text).strip():
                continue
            if not exchange.is_finished and self._may_grow(found):
                yield "unfinished", turn
            elif self._is_known(turn.id):
                yield "existing", turn
            else:
                turn = self._more(found, exchange, turn, covered)
                if not (turn.user_text + turn.assistant_text).strip():
                    yield "existing", turn
                    continue
                folder = PurePath(found.project).name
                put = self.use.put(turn, folder if folder in self.projects else "")
                self.used_in.update(used_in(put))
                yield "added", put

    def _more(
        self, found: Conversation, exchange: Exchange, turn: Turn, covered: frozenset[str]
    ) -> Turn:
        """Return a turn without what an earlier version kept of it.

        By following, what that version left out does not come: the rest may have been cleared.
        """
        parts = {message.id for message in (exchange.question, *exchange.answer) if message}
        if not parts & covered:
            return turn
        rest = beyond(exchange, covered, texts=not self.follows)
        left = [message for message in (rest.question, *rest.answer) if message]
        if not left or (self.follows and all(message.role_before for message in left)):
            return replace(turn, user_text="", assistant_text="")
        more = turn_of(found, rest, now=self.now)
        return replace(turn, user_text=more.user_text, assistant_text=more.assistant_text)

    def _is_known(self, id_: str) -> bool:
        return id_digest(id_) in self.known

    def _may_grow(self, found: Conversation) -> bool:
        newest = found.newest
        return bool(iso_time(newest)) and (self.now - dt.datetime.fromisoformat(newest) < SETTLED)

    def _keep(self, turn: Turn) -> None:
        self.known.add(id_digest(turn.id))
        for text in (turn.user_text, turn.assistant_text):
            for finding in find_secrets(text):
                self.secrets.setdefault(turn.session_id, Counter())[finding.kind] += 1
        self.waiting.append(turn)
        if len(self.waiting) >= BATCH:
            self.write()
