"""The records of the journal, their ids (UUIDv7) and their JSON form (R-219, C-50).

A record is immutable and never rewritten: an edit of tags is a record of its own, and so is the
notice that turns were cleared. Order is ``seq``, never a clock; time and chance come in as
arguments.
"""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from ragstream_core.errors import IntegrityError, UsageError


def uuid7(ms: int, chance: bytes) -> str:
    """Return a UUIDv7 (RFC 9562): 48 bits of time, then chance."""
    if len(chance) != 10:
        raise ValueError(f"10 random bytes are needed, not {len(chance)}")
    value = (ms & (1 << 48) - 1) << 80 | int.from_bytes(chance, "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    return str(uuid.UUID(int=value & ~(0x3 << 62) | 0x2 << 62))


def uuid7_at(timestamp: str, chance: bytes) -> str:
    """Return a UUIDv7 of a time as it was written; that of 1970 for what is no time, or before."""
    try:
        ms = max(0, int(dt.datetime.fromisoformat(timestamp).timestamp() * 1000))
    except (ValueError, OverflowError):
        ms = 0
    return uuid7(ms, chance)


def session_name(now: dt.datetime, nth: int = 1) -> str:
    """Return the name of a new conversation, ``YYYYMMDD-HHMMSS``, with a number from the 2nd on."""
    name = now.strftime("%Y%m%d-%H%M%S")
    return name if nth < 2 else f"{name}-{nth}"


SOURCES = ("chat", "file", "external")
STATUSES = ("complete", "partial")
FACT_EVENTS = ("proposed", "accepted", "rejected", "edited", "undone")
FACT_TARGETS = ("user", "company")
GOLD, SILVER, BLUE = LEVELS = ("GOLD", "SILVER", "BLUE")

# Tags of turns that no prompt uses, and of those that are not in the index either.
INACTIVE, NO_VECTORS = "INACTIVE", "NO-VECTORS"
# Tags that mean something.
RESERVED = (*LEVELS, INACTIVE, NO_VECTORS)
# A turn with one of these is told of nowhere unless a person looks at it.
HIDDEN = frozenset({BLUE, INACTIVE})
# Where a turn may be used that belongs to its projects alone.
OWN_PROJECTS = "projects"
# What stands for the project where rows of the history are listed; no project can be named so.
HISTORY = "~history"
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_LAST_NS = (1 << 63) - 1
_SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def checked_session(name: str) -> str:
    """Return a session's name if it is one: 1–64 of ``A-Za-z0-9._-``, the first no punctuation."""
    if not _SESSION.fullmatch(name) or ".." in name or name == "current":
        raise UsageError(
            f"not a session name: {name!r}",
            hint="use letters, digits, '.', '_' and '-' (64); `current` is taken",
        )
    return name


def moment_ns(text: str) -> int:
    """Return an ISO date or time in ns since the epoch; no zone is UTC.

    Times before 1678 and after 2262 are the earliest and the latest that 64 bits hold.
    """
    when = dt.datetime.fromisoformat(text)
    when = when if when.tzinfo else when.replace(tzinfo=dt.UTC)
    found = (when - _EPOCH) // dt.timedelta(microseconds=1) * 1000
    return max(-_LAST_NS, min(found, _LAST_NS))


def project_tag(project: str) -> str:
    """Return the tag that brings a turn into a project, like a label it was written with."""
    return f"project:{project}"


@dataclass(frozen=True, slots=True)
class Turn:
    """One exchange, verbatim."""

    id: str  # UUIDv7
    session_id: str  # the conversation it belongs to
    timestamp: str  # ISO 8601 with a zone; for people and recency, never for the order
    user_text: str  # what was asked
    assistant_text: str = ""  # what was answered; may be empty
    tags: tuple[str, ...] = ()  # labels at the time of writing; later ones are `TagEdit` records
    projects: tuple[str, ...] = ()  # project labels active in this turn
    active_dbs: tuple[str, ...] = ()  # names of the indexes used
    source: str = "chat"  # ``chat``, ``file`` or ``external``
    importance: float = 0.0  # in [0, 1]
    # files the turn speaks of: ``{"path", "sha256", "mtime"}``
    versions: tuple[Mapping[str, Any], ...] = ()
    prompt_key: str = ""  # the prompt that it answers; may be empty
    asked: str = ""  # id of the `Asked` record that it completes; may be empty
    status: str = "complete"  # ``complete``, or ``partial`` if the answer broke off
    speakers: tuple[str, str] = ("user", "assistant")  # names of the two sides
    # checked markers of the answer: ``{"id", "source", "known"}``
    citations: tuple[Mapping[str, Any], ...] = ()
    scope: str = ""  # under what its answer may serve a later question; empty: it never does
    # empty for a model's or a person's words; ``cached`` if an earlier answer was given again,
    # ``extract`` if no model could be reached, ``refused`` if the material did not answer; see
    # `non_answers`
    origin: str = ""
    origin_turn: str = ""  # id of the turn whose answer was given again
    # what another program's export says of it, as (name, value): ``format``, ``conversation``,
    # ``title``, ``message``, ``model``, ``project``, ``branch``
    imported: tuple[tuple[str, str], ...] = ()
    # `OWN_PROJECTS`: by prompts of the projects that it is labelled with or adopted into, and in
    # its own conversation; empty: by those of all, as all turns were once
    used_in: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked, written before the call; alone it shows as unanswered and never enters G."""

    id: str
    session_id: str
    timestamp: str
    user_text: str
    projects: tuple[str, ...] = ()
    prompt_key: str = ""


@dataclass(frozen=True, slots=True)
class TagEdit:
    """Tags added to and removed from one turn."""

    id: str
    turn: str
    timestamp: str
    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fact:
    """One step in the life of a remembered fact; the newest step says how it stands."""

    id: str  # UUIDv7 of this record
    fact: str  # id of the fact, the same in all of its records
    turn: str  # id of the turn in which the user said it; empty: written by hand
    timestamp: str  # when
    event: str  # one of `FACT_EVENTS`; ``undone`` takes the step before it back
    target: str = ""  # ``user`` or ``company``; with ``proposed`` and ``edited`` only
    text: str = ""  # the fact, one line; likewise
    # the user's own words, verbatim in the turn; with ``proposed`` only, as what follows
    quote: str = ""
    confidence: float = 0.0  # in [0, 1]
    form: str = ""  # who made it out of the turn: ``rules``, ``llm`` or ``hand``


@dataclass(frozen=True, slots=True)
class Cleared:
    """Notice that turns were cleared on command; holds no text.

    Written first, it hides the turns at once; it stays as the audit record when they are gone.
    """

    id: str  # UUIDv7
    timestamp: str  # when
    # cleared ``(first, last)`` ranges of ``seq``, ascending, both included
    seqs: tuple[tuple[int, int], ...]
    reason: str  # ``session``, ``range`` or ``all``
    archived: bool = False  # whether a copy was put aside outside of retrieval
    turns: int = 0  # how many turns


Record = Turn | Asked | TagEdit | Fact | Cleared
KINDS: dict[str, type[Turn] | type[Asked] | type[TagEdit] | type[Fact] | type[Cleared]] = {
    "turn": Turn,
    "asked": Asked,
    "tag": TagEdit,
    "fact": Fact,
    "cleared": Cleared,
}


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the journal."""

    seq: int = 0  # number of the last record included; 0 before the first
    chain: str = "0" * 32  # hash of that record's line, 32 hex digits; covers everything before it
    segment: str = ""  # file name of the segment it lies in; a hint
    offset: int = 0  # byte behind its line in that file; a hint


@dataclass(frozen=True, slots=True)
class Entry:
    """One verified line."""

    seq: int  # its number, ≥ 1; strictly ascending
    record: Record  # what it says
    chain: str  # hash of the line, 32 hex digits
    segment: str  # name of the file it lies in
    offset: int  # first byte of the line
    size: int  # bytes of the line

    @property
    def position(self) -> Position:
        """The place behind this record."""
        return Position(self.seq, self.chain, self.segment, self.offset + self.size)


def record_json(record: Record) -> dict[str, Any]:
    """Return the JSON form of a record; fields with their default value are left out."""
    kind = next(name for name, cls in KINDS.items() if isinstance(record, cls))
    row: dict[str, Any] = {"kind": kind}
    for field in fields(record):
        value = getattr(record, field.name)
        if value != field.default:
            row[field.name] = (
                [list(v) if isinstance(v, tuple) else v for v in value]
                if isinstance(value, tuple)
                else value
            )
    return row


def record_from(row: Mapping[str, object]) -> Record:
    """Rebuild a record from its JSON form."""
    data = dict(row)
    cls = KINDS.get(str(data.pop("kind", "")))
    if cls is None:
        raise IntegrityError(f"unknown kind of journal record: {row.get('kind')!r}")
    values: dict[str, Any] = {
        name: tuple(tuple(v) if isinstance(v, list) else v for v in value)
        if isinstance(value, list)
        else value
        for name, value in data.items()
    }
    try:
        return cls(**values)
    except TypeError as error:
        raise IntegrityError(f"not a journal record: {error}") from None
