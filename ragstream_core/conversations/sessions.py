"""Conversations and their turns as rows for people, and one log a conversation (R-028).

A log, ``session-<id>.log``, holds the journal's own lines of its questions and answers, so every
line can be verified by itself. It is derived: one that is lost or damaged is written again from the
journal.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ragstream_core.conversations.clearing import cleared_since
from ragstream_core.conversations.edits import apply_edits
from ragstream_core.conversations.journal.journal import Journal
from ragstream_core.conversations.journal.records import (
    Asked,
    Cleared,
    Entry,
    Turn,
    checked_session,
    moment_ns,
)
from ragstream_core.conversations.journal.segments import parse_line
from ragstream_core.conversations.use import used_in
from ragstream_core.errors import RunCommand, UsageError
from ragstream_core.platform import sidecar
from ragstream_core.platform.files import make_private_dir, replace_bytes, replace_text
from ragstream_core.records.json_form import Json, report_of

_TITLE_CHARS = 60
_SHOWN = (
    "session_id", "timestamp", "user_text", "assistant_text", "tags", "source", "projects",
    "active_dbs", "importance", "status", "prompt_key", "speakers", "citations", "versions",
    "origin", "origin_turn",
)  # fmt: skip


@dataclass(frozen=True, slots=True, repr=False)
class HistoryTurn:
    """One question with its answer, as it was said, with its tags of now."""

    seq: int  # its number in the journal
    # what the journal has of it, with the tags of now; a question without an answer has the status
    # ``unanswered``
    turn: Turn
    score: float = 0.0  # how well it fits a search, 0 or more; 0 if it was not searched for

    @classmethod
    def of(cls, entry: Entry) -> HistoryTurn:
        """Return a turn as it was kept just now."""
        assert isinstance(entry.record, Turn)
        return cls(entry.seq, entry.record)

    @property
    def id(self) -> str:
        """Its id, which never changes."""
        return self.turn.id

    @property
    def session(self) -> str:
        """The conversation that it belongs to."""
        return self.turn.session_id

    @property
    def user(self) -> str:
        """What was asked."""
        return self.turn.user_text

    @property
    def assistant(self) -> str:
        """What was answered; may be empty."""
        return self.turn.assistant_text

    @property
    def tags(self) -> tuple[str, ...]:
        """Its tags of now."""
        return self.turn.tags

    def to_json(self) -> dict[str, Json]:
        """Return the fields as `ragstream history show --json` prints them."""
        shown = {name: report_of(getattr(self.turn, name)) for name in _SHOWN}
        used = list(used_in(self.turn))
        return {"id": self.id, "seq": self.seq, **shown, "used_in": used}

    def __str__(self) -> str:
        """Return question and answer."""
        return f"{self.user}\n\n{self.assistant}".strip()

    def __repr__(self) -> str:
        """Return number, session and the beginning of the question on one line."""
        return f"HistoryTurn(seq={self.seq}, session={self.session!r}, user={self.user[:40]!r})"


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A conversation."""

    session_id: str  # its name
    turns: int  # how many there are
    first: str  # timestamp of the first one
    last: str  # timestamp of the newest one
    seq: int  # number of the newest one
    tags: dict[str, int]  # how many of them have which tag
    title: str = ""  # what its program called it, else the beginning of its first question


def turn_rows(
    log: Journal, session: str = "", *, tags: Sequence[str] = (), last: int = 0
) -> list[HistoryTurn]:
    """Return turns in the order of the journal, with their current tags; cleared ones never."""
    rows = list(_rows(log, session, set(tags)))
    return rows[-last:] if last else rows


def sessions_of(rows: Iterable[HistoryTurn]) -> list[SessionRow]:
    """Return the conversations of some turns, the one that was newest last, by their clocks."""
    turns: dict[str, list[HistoryTurn]] = {}
    for row in rows:
        turns.setdefault(row.session, []).append(row)
    found = [
        SessionRow(
            name,
            len(own),
            own[0].turn.timestamp,
            own[-1].turn.timestamp,
            own[-1].seq,
            dict(Counter(tag for row in own for tag in row.tags)),
            title_of(own),
        )
        for name, own in turns.items()
    ]
    return sorted(found, key=lambda row: (moment_ns(row.last), row.seq))


def title_of(turns: Sequence[HistoryTurn]) -> str:
    """Return what a conversation is called: by its program, else by its first question."""
    given = (dict(row.turn.imported).get("title", "") for row in reversed(turns))
    asked = (" ".join(row.user.split()) for row in turns)
    title = next(filter(None, given), "") or next(filter(None, asked), "")
    return title if len(title) <= _TITLE_CHARS else f"{title[: _TITLE_CHARS - 2].rstrip()} …"


def session_named(known: Sequence[SessionRow], name: str) -> str:
    """Return the conversation of a name, or of the beginning of one."""
    names = [row.session_id for row in known]
    found = [name] if name in names else [one for one in names if one.startswith(name)]
    if len(found) == 1:
        return found[0]
    what = f"{len(found)} conversations begin with" if found else "there is no conversation"
    hint = ", ".join(found[:5]) if found else (RunCommand("history sessions"), " lists them")
    raise UsageError(f"{what} {name!r}", hint=hint)


def _rows(log: Journal, session: str, tags: set[str]) -> Iterator[HistoryTurn]:
    entries = [e for e in log.entries() if isinstance(e.record, Turn | Asked)]
    folded = apply_edits(log.entries())
    answered = {e.record.asked for e in entries if isinstance(e.record, Turn) and e.record.asked}
    for entry in entries:
        record = entry.record
        if folded.is_hidden(entry.seq) or record.id in answered:
            continue
        turn = _as_turn(record) if isinstance(record, Asked) else record
        if isinstance(turn, Turn) and session in ("", turn.session_id):
            now = folded.tags(turn.id, turn.tags)
            if tags <= set(now):
                yield HistoryTurn(entry.seq, replace(turn, tags=now))


def _as_turn(asked: Asked) -> Turn:
    return Turn(
        asked.id,
        asked.session_id,
        asked.timestamp,
        asked.user_text,
        projects=asked.projects,
        prompt_key=asked.prompt_key,
        status="unanswered",
    )


# How far the files have come, ``seq``, and how many ``files`` with how many ``bytes`` they are.
MARK_NAME = ".sessions.json"


def session_log_name(session: str) -> str:
    """Return the file name of a conversation's log."""
    return f"session-{checked_session(session)}.log"


def write_session_logs(journal: Journal, folder: Path, since: int = 0) -> list[Path]:
    """Bring the logs of all conversations up to the journal; return the files that changed."""
    start = min(since, _mark(folder))
    newest = journal.newest().seq
    if newest == start:
        return []
    lines = None if start == 0 or start > newest else _new_lines(journal, folder, start, newest)
    anew = lines is None
    if lines is None:
        lines = _all_lines(journal, newest)
    changed = _write(folder, lines)
    if anew:
        kept = {session_log_name(session) for session in lines}
        for path in folder.glob("session-*.log"):
            if path.name not in kept:
                path.unlink()
    files, size = _on_disk(folder)
    mark = {"seq": newest, "files": files, "bytes": size}
    replace_text(make_private_dir(folder) / MARK_NAME, json.dumps(mark))
    if cleared_since(journal, newest):  # what was just written may be what was just cleared
        changed += write_session_logs(journal, folder)
    return changed


def _all_lines(journal: Journal, newest: int) -> dict[str, list[bytes]]:
    """Return session → its lines, without what was cleared."""
    hidden = apply_edits(e for e in journal.entries() if isinstance(e.record, Cleared))
    lines: dict[str, list[bytes]] = {}
    for entry, raw in journal.lines(1, newest + 1):
        session = _session(entry)
        if session and not hidden.is_hidden(entry.seq):
            lines.setdefault(session, []).append(raw)
    return lines


def _new_lines(
    journal: Journal, folder: Path, start: int, newest: int
) -> dict[str, list[bytes]] | None:
    """Return session → its old and new lines; None: a file is damaged, or turns were cleared."""
    lines: dict[str, list[bytes]] = {}
    for entry, raw in journal.lines(start + 1, newest + 1):
        if isinstance(entry.record, Cleared):
            return None
        session = _session(entry)
        if session and session not in lines:
            present = _present(folder / session_log_name(session), start)
            if present is None:
                return None
            lines[session] = present
        if session:
            lines[session].append(raw)
    return lines


def _present(path: Path, start: int) -> list[bytes] | None:
    """Return the lines of a file up to a number; None: it is damaged."""
    if not path.exists():
        return []
    kept = []
    for raw in path.read_bytes().splitlines(keepends=True):
        parsed = parse_line(raw)
        if parsed is None:
            return None
        if parsed.seq <= start:
            kept.append(raw)
    return kept


def _session(entry: Entry) -> str:
    """Return the conversation of a question or answer that has a valid name, else ""."""
    record = entry.record
    if not isinstance(record, Turn | Asked):
        return ""
    with contextlib.suppress(UsageError):
        return checked_session(record.session_id)
    return ""


def _write(folder: Path, lines: Mapping[str, list[bytes]]) -> list[Path]:
    changed = []
    for session, raw in lines.items():
        path, data = folder / session_log_name(session), b"".join(raw)
        if not path.exists() or path.read_bytes() != data:
            replace_bytes(path, data, durable=False)
            changed.append(path)
    return changed


def _on_disk(folder: Path) -> tuple[int, int]:
    sizes = [path.stat().st_size for path in folder.glob("session-*.log")]
    return len(sizes), sum(sizes)


def _mark(folder: Path) -> int:
    """Return up to which number the files hold everything; 0 if they are not as they were."""
    mark = sidecar.read(folder / MARK_NAME, dict[str, int]) or {}
    as_written = (mark.get("files"), mark.get("bytes")) == _on_disk(folder)
    return mark.get("seq", 0) if as_written else 0
