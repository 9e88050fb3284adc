"""Which records a clearing takes (R-236), and turns without what names a person (R-196).

What can be told by its form is masked: e-mail addresses, telephone and account numbers, addresses
of machines, names of home folders, and what the caller finds (secrets). A person's name in a
sentence cannot; the words to mask are given.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from unicodedata import normalize

from ragstream_core.conversations.edits import Folded, apply_edits, merged
from ragstream_core.conversations.journal.purge import damage
from ragstream_core.conversations.journal.records import (
    Asked,
    Cleared,
    Entry,
    Fact,
    TagEdit,
    Turn,
    checked_session,
)
from ragstream_core.conversations.journal.segments import torn_files
from ragstream_core.conversations.units import parse_history_chunk_id
from ragstream_core.errors import AddOption, UsageError
from ragstream_core.platform.disk import disk_failure
from ragstream_core.records.identity import sha256_hex

if TYPE_CHECKING:
    from pathlib import Path

    from ragstream_core.conversations.journal.journal import Journal


SESSION = "anonymous-{}"
_LETTER = r"\w\u0300-\u036f"  # accents that are signs of their own belong to a name, too
_WINDOWS_HOME = re.compile(  # of several words at times; a string writes each stroke twice
    rf"(?i:(?<=\\users\\)|(?<=\\users\\\\))[{_LETTER}.-]+(?:(?: [{_LETTER}.-]+){{1,3}}(?=\\))?"
)
_FORMS = (
    ("email", re.compile(rf"[{_LETTER}.+-]{{1,64}}@[\w-]{{1,63}}(?:\.[\w-]{{1,63}}){{1,8}}")),
    ("account", re.compile(r"\b[A-Z]{2}\d{2}(?:[ ]?[A-Z0-9]{4}){3,7}(?:[ ]?[A-Z0-9]{1,3})?\b")),
    ("card", re.compile(r"(?<![\d.])\d{4}(?:[ -]?\d{4}){3}(?![\d.])")),
    ("address", re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])")),
    ("phone", re.compile(r"(?<![\w+/.-])(?:\+|00)[1-9](?:[ ()/-]{0,2}\d){6,14}(?!\d)")),
    ("phone", re.compile(r"(?<![\w/.-])\(?0[1-9]\d{1,4}\)?[ /-](?:[ -]?\d){4,10}(?!\d)")),
    ("home", re.compile(rf"(?:(?<=/home/)|(?<=/Users/))[{_LETTER}.-]+")),
    ("home", _WINDOWS_HOME),
)

# Returns a text with what the caller knows to be secret masked.
Redact = Callable[[str], str]


def masked(text: str, words: Sequence[str] = (), redact: Redact = str) -> tuple[str, Counter[str]]:
    """Return a text with masks such as ``[email]``, and how often each kind was found.

    Words become ``[name]`` where they stand alone, in upper and lower case, whether their accents
    are letters or signs of their own.
    """
    found: Counter[str] = Counter()
    result = redact(text)
    if result != text:
        found["secret"] += result.count("[redacted:") - text.count("[redacted:")
    forms_of = (normalize(form, word.strip()) for word in words for form in ("NFC", "NFD"))
    names = sorted({*filter(None, forms_of)}, key=len, reverse=True)
    forms = list(_FORMS)
    if names:
        any_of = "|".join(map(re.escape, names))
        forms.insert(0, ("name", re.compile(rf"(?<!\w)(?:{any_of})(?!\w)", re.IGNORECASE)))
    for kind, form in forms:
        result, count = form.subn(f"[{kind}]", result)
        found[kind] += count
    return result, +found


def anonymous(turn: Turn, words: Sequence[str] = (), redact: Redact = str) -> Turn:
    """Return a turn of an anonymous conversation: masked, to the day, without what leads back.

    Left out: its id, the prompt that it answers, files, citations and the names of its speakers,
    which are masked in the texts as well.
    """
    spoken = [name for name in turn.speakers if name not in ("user", "assistant")]
    user, said = (
        masked(text, [*words, *spoken], redact)[0] for text in (turn.user_text, turn.assistant_text)
    )
    return replace(
        Turn("", SESSION.format(sha256_hex(turn.session_id)[:8]), "", user, said),
        timestamp=f"{turn.timestamp[:10]}T00:00:00+00:00",
        tags=turn.tags,
        projects=turn.projects,
        active_dbs=turn.active_dbs,
        source=turn.source,
        importance=turn.importance,
        status=turn.status,
        origin=turn.origin,
        used_in=turn.used_in,
    )


_SESSION = re.compile(rb'"session_id":"([^"\\]{1,64})"')
_TIME = re.compile(rb'"timestamp":"([^"\\]{10,40})"')
_TEMPORARY = (".conversation*.tmp", ".session-*.tmp")


@dataclass(frozen=True, slots=True)
class Choice:
    """What is to be cleared; the conditions hold together."""

    session: str = ""  # one conversation; empty: all
    since: dt.datetime | None = None  # from this moment on; None: from the beginning
    until: dt.datetime | None = None  # before this moment; None: to the end
    everything: bool = False  # all of it

    @property
    def reason(self) -> str:
        """What the audit record says: ``all``, ``range`` or ``session``."""
        return "all" if self.everything else "range" if self.since or self.until else "session"

    def takes(self, session: str, timestamp: str) -> bool:
        """Return whether a record of this session and time is chosen; no time is in no range."""
        if self.everything:
            return True
        if self.session and session != self.session:
            return False
        if self.since is None and self.until is None:
            return True
        try:
            when = _moment(timestamp)
        except ValueError:
            return False
        return (self.since is None or when >= self.since) and (
            self.until is None or when < self.until
        )

    def takes_bytes(self, raw: bytes) -> bool:
        """Say the same of bytes that are no whole line: torn off, or damaged."""
        session, when = _SESSION.search(raw), _TIME.search(raw)
        if session is None and not self.everything:
            return False
        return self.takes(
            session[1].decode("utf-8", "replace") if session else "",
            when[1].decode("utf-8", "replace") if when else "",
        )


def choice_of(
    *, session: str = "", since: str = "", until: str = "", everything: bool = False
) -> Choice:
    """Read what is asked to be cleared."""
    given = bool(session or since or until)
    if given == everything:
        raise UsageError(
            "say what to clear: everything, or a session, or a time, or both of these",
            hint=AddOption("--session NAME, --since DATE, --until DATE, or --all alone"),
        )
    return Choice(
        checked_session(session) if session else "",
        _given(since, "since"),
        _given(until, "until"),
        everything,
    )


def _given(text: str, name: str) -> dt.datetime | None:
    try:
        return _moment(text, local=True) if text else None
    except (ValueError, OverflowError):  # of the first or the last day there is, elsewhere
        raise UsageError(
            f"--{name} {text!r} is not a date", hint="2026-10-31, or 2026-10-31T14:30"
        ) from None


def _moment(text: str, *, local: bool = False) -> dt.datetime:
    when = dt.datetime.fromisoformat(text)
    if when.tzinfo is None:
        when = when.astimezone() if local else when.replace(tzinfo=dt.UTC)
    return when


def chosen(entries: Iterable[Entry], choice: Choice) -> list[Entry]:
    """Return the turns and questions that are chosen, with their tags and facts.

    A turn whose answer was given again takes the copies along, in whatever conversation they are.
    """
    found: list[Entry] = []
    ids: set[str] = set()
    for entry in entries:
        record = entry.record
        if isinstance(record, Turn | Asked):
            given_again = isinstance(record, Turn) and record.origin_turn in ids
            if given_again or choice.takes(record.session_id, record.timestamp):
                found.append(entry)
                ids.add(record.id)
        elif isinstance(record, TagEdit | Fact) and (
            choice.everything or record.turn in ids or _tells_of(record.turn, found)
        ):
            found.append(entry)
    return found


def _tells_of(identifier: str, found: Sequence[Entry]) -> bool:
    """Whether an id is that of a summary of one of some turns."""
    try:
        session, first, last, _ = parse_history_chunk_id(identifier)
    except ValueError:
        return False
    return any(
        first <= e.seq <= last and isinstance(e.record, Turn) and e.record.session_id == session
        for e in found
    )


def visible(journal: Journal) -> list[Entry]:
    """Return the records that no notice hides; the notices, too."""
    if not journal.folder.is_dir():
        return []
    hidden = apply_edits(entry for entry in journal.entries() if isinstance(entry.record, Cleared))
    return [
        entry
        for entry in journal.entries()
        if isinstance(entry.record, Cleared) or not hidden.is_hidden(entry.seq)
    ]


def still_there(journal: Journal) -> tuple[list[Entry], tuple[tuple[int, int], ...], Folded]:
    """Return the cleared records that are still in the journal, and what hides them.

    The notices themselves stay for good and are never among them.
    """
    notices = [entry for entry in journal.entries() if isinstance(entry.record, Cleared)]
    folded = apply_edits(notices)
    if not folded.hidden:
        return [], (), folded
    part = journal.entries(folded.hidden[0][0], folded.hidden[-1][1] + 1)
    mine = [e for e in part if folded.is_hidden(e.seq) and not isinstance(e.record, Cleared)]
    lost = [number for number, _ in damage(journal.folder) if folded.is_hidden(number)]
    return mine, merged([*ranges_of(mine), *((n, n) for n in lost)]), folded


def damaged(journal: Journal, choice: Choice) -> list[int]:
    """Return the numbers of damaged lines that are still seen to be of chosen records."""
    return [number for number, raw in damage(journal.folder) if number and choice.takes_bytes(raw)]


def cleared_since(journal: Journal, seq: int) -> bool:
    """Return whether records up to a number were cleared after it; reads the tail only."""
    for entry in journal.backwards():
        if entry.seq <= seq:
            return False
        if isinstance(entry.record, Cleared) and any(a <= seq for a, _ in entry.record.seqs):
            return True
    return False


def ranges_of(entries: Iterable[Entry]) -> tuple[tuple[int, int], ...]:
    """Return the numbers of some entries as disjoint ranges, both ends included, ascending."""
    return merged((entry.seq, entry.seq) for entry in entries)


def drop_fragments(journal: Journal, takes: Callable[[bytes], bool]) -> list[Path]:
    """Remove quarantined bytes that are chosen, and what a killed rewriting left; return files."""
    with journal.locked():
        try:
            torn = [path for path in torn_files(journal.folder) if takes(path.read_bytes())]
            left = (path for form in _TEMPORARY for path in sorted(journal.folder.glob(form)))
            gone = [*left, *torn]
            for path in gone:
                path.unlink()
        except OSError as error:
            raise disk_failure(journal.folder, error) from error
    return gone
