"""The conversation journal of a data root: write turns and tags, and read them."""

from __future__ import annotations

import datetime as dt
import functools
import itertools
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_type_hints

from pydantic import TypeAdapter, ValidationError

from ragstream_core.conversations.clearing import cleared_since
from ragstream_core.conversations.edits import apply_edits
from ragstream_core.conversations.journal.journal import Journal
from ragstream_core.conversations.journal.records import (
    FACT_EVENTS,
    FACT_TARGETS,
    RESERVED,
    SOURCES,
    STATUSES,
    Asked,
    Entry,
    Fact,
    TagEdit,
    Turn,
    checked_session,
    session_name,
    uuid7,
)
from ragstream_core.conversations.journal.segments import CURRENT, closed_segments
from ragstream_core.conversations.recent_history import has_session
from ragstream_core.conversations.sessions import HistoryTurn, SessionRow, sessions_of, turn_rows
from ragstream_core.conversations.units import is_summary
from ragstream_core.errors import (
    AddOption,
    InputUnavailable,
    Refused,
    RunCommand,
    RunProgram,
    UsageError,
    quoted,
)
from ragstream_core.platform.data_root import Layout
from ragstream_core.platform.locks import FolderLock

if TYPE_CHECKING:
    from ragstream_core.records.prompt_inputs import PromptInputs
    from ragstream_core.wiring.workspace import Workspace

# What the journal is given; notices of clearing come from the clearing alone.
Written = Turn | TagEdit | Asked | Fact
Given = TypeVar("Given", bound=Written)
IMPORT_WAIT_S = 10.0
_TAG_LETTERS = 64

# Data root and name of conversations that were begun in this process.
_named: deque[tuple[str, str]] = deque(maxlen=1_000)
_naming = threading.Lock()


def journal(workspace: Workspace) -> Journal:
    """Return the journal, one object a workspace: its first append verifies the current segment."""
    folder, known = workspace.layout.logs, workspace.caches.journals
    if folder not in known:
        usual = Layout.of(workspace.data_dir).logs
        if folder.is_relative_to(workspace.layout.doc_raw):
            raise Refused(
                f"paths.logs names {folder}, where documents lie: conversations would be indexed",
                hint="name a folder outside doc_raw, or unset paths.logs",
            )
        if folder != usual and holds_journal(usual) and not holds_journal(folder):
            place = quoted(folder)
            raise Refused(
                f"the conversations lie in {usual}, paths.logs names {folder}",
                hint=(
                    RunProgram(f"mkdir -p {place} && mv {quoted(usual)}/* {place}/"),
                    ", or unset paths.logs",
                ),
            )
    return known.setdefault(folder, Journal(folder))


def holds_journal(folder: Path) -> bool:
    """Say whether a folder holds records of conversations; it may hold debug logs alone."""
    return folder.is_dir() and ((folder / CURRENT).exists() or bool(closed_segments(folder)))


def new_session(workspace: Workspace, now: dt.datetime | None = None) -> str:
    """Return a name for a new conversation that none of the newest records has.

    None was given out in this process before, either: of people who begin at the same moment each
    gets a conversation of their own.
    """
    when = now or dt.datetime.now().astimezone()
    log, root = journal(workspace), str(workspace.data_dir)
    with _naming:
        for nth in itertools.count(1):
            name = session_name(when, nth)
            if (root, name) not in _named and not has_session(log, name):
                break
        _named.append((root, name))
    return name


def append_turn(workspace: Workspace, turn: Turn) -> Entry:
    """Make a turn durable; when this returns it is on the disk."""
    return append_records(workspace, [turn])[0]


def append_records(workspace: Workspace, records: Sequence[Written]) -> list[Entry]:
    """Make several records durable with one sync, in order; see `append_turn`."""
    require_persist(workspace)
    return journal(workspace).append(completed(records))


@contextmanager
def importing(workspace: Workspace) -> Iterator[None]:
    """Keep two imports from adding the same turn twice: what is there is asked for within it."""
    folder = workspace.layout.history / "importing"
    with FolderLock(folder, "an import of conversations").held(wait_s=IMPORT_WAIT_S):
        yield


def completed(records: Sequence[Given]) -> list[Given]:
    """Return records with their ids and times, checked; nothing is written."""
    now = dt.datetime.now().astimezone()
    return [cast("Given", _completed(record, now)) for record in records]  # of the same class


def tag(
    workspace: Workspace, which: str, *, add: Sequence[str] = (), remove: Sequence[str] = ()
) -> tuple[Entry, tuple[str, ...]]:
    """Add and remove tags of a turn by a new record; the turn itself stays as it is."""
    edit = TagEdit("", "", "", _tags(add), _tags(remove))
    if not edit.add and not edit.remove:
        raise UsageError(
            "no tag to add or remove", hint=RunCommand("history tag", "TURN --add GOLD")
        )
    if is_summary(which):
        (entry,) = append_records(workspace, [replace(edit, turn=which)])
        return entry, apply_edits(journal(workspace).entries()).tags(which, ())
    found = next((row for row in show(workspace) if which in (row.id, str(row.seq))), None)
    if found is None or found.turn.status == "unanswered":
        raise UsageError(
            f"no turn {which!r}", hint=(RunCommand("history show"), " lists ids and numbers")
        )
    (entry,) = append_records(workspace, [replace(edit, turn=found.id)])
    return entry, apply_edits([entry]).tags(found.id, found.tags)


def show(
    workspace: Workspace, session: str = "", *, tags: Sequence[str] = (), last: int = 0
) -> list[HistoryTurn]:
    """Return turns with their tags of now; see `turn_rows`."""
    return turn_rows(journal(workspace), session, tags=tags, last=last)


def sessions(workspace: Workspace) -> list[SessionRow]:
    """Return the conversations, the newest last, by their own clocks."""
    return sessions_of(show(workspace))


def require_persist(workspace: Workspace) -> None:
    """Refuse to write where the user switched history off."""
    if not workspace.config.settings.history.persist:
        raise Refused(
            "history.persist is off: nothing was written",
            hint="switch history.persist on, then append again",
        )


def require_uncleared(workspace: Workspace, inputs: PromptInputs) -> None:
    """Refuse to keep what may show turns that were cleared after the prompt was pinned."""
    if not inputs.history.seq:
        return
    if cleared_since(journal(workspace), inputs.history.seq):
        raise InputUnavailable(
            "turns were cleared while the prompt was made; it is not kept",
            hint="build the prompt again",
        )


def _completed(record: Written, now: dt.datetime) -> Written:
    """Return a record with its id and time, checked."""
    _require_types(record)
    filled = replace(
        record,
        id=record.id or uuid7(int(now.timestamp() * 1000), os.urandom(10)),
        timestamp=record.timestamp or now.isoformat(timespec="milliseconds"),
    )
    filled = replace(filled, timestamp=_time(filled.timestamp))
    if isinstance(filled, TagEdit):
        return filled
    if isinstance(filled, Fact):
        return _checked_fact(filled)
    checked_session(filled.session_id)
    return _checked(filled) if isinstance(filled, Turn) else filled


def _time(timestamp: str) -> str:
    """Return a time as it was written, or in the usual form: its first letters are the month."""
    try:
        when = dt.datetime.fromisoformat(timestamp)
    except ValueError:
        when = dt.datetime.min
    if when.tzinfo is None:
        raise UsageError(f"not a time with a zone: {timestamp!r}", hint="2026-10-05T14:07:09+02:00")
    usual = when.isoformat()
    return timestamp if timestamp[:16].replace(" ", "T") == usual[:16] else usual


@functools.cache
def _types_of(kind: Any) -> Mapping[str, TypeAdapter[Any]]:
    return {name: TypeAdapter(hint) for name, hint in get_type_hints(kind).items()}


def _require_types(record: Written) -> None:
    """Refuse values of another type than the record's, which would break every later reader."""
    types = _types_of(type(record))  # type: ignore[arg-type]  # mypy takes no class for hashable
    for name, adapter in types.items():
        value = getattr(record, name)
        try:
            adapter.validate_python(value, strict=True)
            adapter.dump_json(value)  # half of a surrogate pair is a text, but has no UTF-8
        except ValidationError as error:
            raise UsageError(f"{name} of a turn: {error.errors()[0]['msg']}") from None
        except ValueError:
            raise UsageError(f"{name} of a turn is not valid Unicode") from None


def _checked_fact(fact: Fact) -> Fact:
    says = fact.event in ("proposed", "edited")
    wrong = (
        (not fact.fact, "a step of no fact"),
        (fact.event not in FACT_EVENTS, f"no step of a fact: {fact.event!r}"),
        (says and fact.target not in FACT_TARGETS, f"no place for facts: {fact.target!r}"),
        (says and not fact.text.strip(), "a fact without a text"),
        (len(fact.text.splitlines()) > 1, "a fact is one line"),
        (not 0.0 <= fact.confidence <= 1.0, f"confidence {fact.confidence} is not in 0…1"),
    )
    _refuse(wrong, RunCommand("memory --help"))
    return fact


def _refuse(wrong: Iterable[tuple[bool, str]], advice: RunCommand) -> None:
    """Raise what is wrong first, if anything is."""
    for is_wrong, message in wrong:
        if is_wrong:
            raise UsageError(message, hint=advice)


def _checked(turn: Turn) -> Turn:
    if not (turn.user_text + turn.assistant_text).strip():
        raise UsageError(
            "a turn needs a question, an answer, or both",
            hint=(AddOption("--user TEXT"), " or ", AddOption("--assistant TEXT")),
        )
    wrong = (
        (turn.source not in SOURCES, f"no source of turns: {turn.source!r}"),
        (turn.status not in STATUSES, f"no status of turns: {turn.status!r}"),
        (not 0.0 <= turn.importance <= 1.0, f"importance {turn.importance} is not in 0…1"),
        (len(turn.speakers) != 2, "a turn has two speakers"),
    )
    _refuse(wrong, RunCommand("history append", "--help"))
    return replace(turn, tags=_tags(turn.tags))


def _tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Return tags without doubles; those with a meaning in capitals."""
    for label in tags:
        if (
            not label.strip()
            or len(label) > _TAG_LETTERS
            or "," in label
            or not label.isprintable()
        ):
            raise UsageError(f"not a tag: {label!r}", hint="up to 64 characters, no comma")
    stripped = (label.strip() for label in tags)
    return tuple(dict.fromkeys(t.upper() if t.upper() in RESERVED else t for t in stripped))
