"""What the journal says of remembered facts, and the two files that hold them (R-252, R-258).

A fact is ``proposed`` and waits; ``accepted`` and ``rejected`` decide it, ``edited`` changes its
words in every place, and ``undone`` takes the newest of these steps back. Nothing is rewritten: the
steps are folded to how each fact stands now.

`USER_MEMORY.md` and `COMPANY_MEMORY.md` hold one bullet ``- <fact>`` a line. They belong to the
person: a line that no step is about keeps its bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ragstream_core.conversations.edits import apply_edits
from ragstream_core.conversations.journal.journal import Journal
from ragstream_core.conversations.journal.records import Cleared, Entry, Fact
from ragstream_core.errors import RunCommand, UsageError
from ragstream_core.text.plurals import counted

NAMES = {"user": "USER_MEMORY.md", "company": "COMPANY_MEMORY.md"}
BULLET = "- "


def bullets(text: str) -> list[str]:
    """Return the facts of a file, in order; lines that are no bullets hold none."""
    return [line[2:].strip() for line in text.splitlines() if _is_bullet(line)]


def with_lines(text: str, *, add: Iterable[str] = (), drop: Iterable[str] = ()) -> str:
    """Return a file with facts added at its end, if they are not there, and others dropped."""
    gone = set(drop)
    kept = [
        line
        for line in text.splitlines(keepends=True)
        if not (_is_bullet(line) and line[2:].strip() in gone)
    ]
    there = set(bullets("".join(kept)))
    new = [fact for fact in dict.fromkeys(add) if fact not in there]
    if new and kept and not kept[-1].endswith(("\n", "\r")):
        kept[-1] += "\n"
    return "".join([*kept, *(f"{BULLET}{fact}\n" for fact in new)])


def _is_bullet(line: str) -> bool:
    return line.startswith(BULLET) and bool(line[2:].strip())


DECIDED = ("accepted", "rejected")
CANDIDATE = "candidate"
SHORT = 8
_LEAST = 4
_KINDS = (b'"kind":"fact"', b'"kind":"cleared"')


@dataclass(frozen=True, slots=True)
class FactState:
    """How a fact stands."""

    id: str  # its id; `short` names it for people
    seq: int  # number of the record that proposed it
    timestamp: str  # when it was proposed
    turn: str  # id of the turn in which the user said it; empty: written by hand
    target: str  # ``user`` or ``company``
    text: str  # the fact, one line
    quote: str  # the user's own words
    confidence: float  # in [0, 1]
    form: str  # ``rules``, ``llm`` or ``hand``
    status: str = CANDIDATE  # ``candidate``, ``accepted`` or ``rejected``
    steps: tuple[str, ...] = ()  # the steps in force after the proposal, oldest first

    @property
    def short(self) -> str:
        """The last digits of its id: those before them are the time."""
        return self.id[-SHORT:]


def fact_entries(log: Journal) -> list[Entry]:
    """Return the records of facts and the notices of clearing, ascending; the rest stays unread."""
    if not log.folder.is_dir():
        return []
    found = log.backwards(wanted=lambda raw: any(kind in raw for kind in _KINDS))
    return [entry for entry in found if isinstance(entry.record, Fact | Cleared)][::-1]


def fold_facts(entries: Iterable[Entry], *, upto: int | None = None) -> dict[str, FactState]:
    """Return the facts that were not cleared, in the order in which they were proposed."""
    known = [entry for entry in entries if upto is None or entry.seq <= upto]
    hidden = apply_edits(known)
    past: dict[str, list[FactState]] = {}
    for entry in known:
        record = entry.record
        if not isinstance(record, Fact) or hidden.is_hidden(entry.seq):
            continue
        if record.event == "proposed" and record.fact not in past:
            past[record.fact] = [_proposed(entry.seq, record)]
        elif record.fact in past:
            _step(past[record.fact], record)
    return {name: states[-1] for name, states in past.items()}


def find_fact(facts: Iterable[FactState], which: str) -> FactState:
    """Return the one fact with this id, or whose id ends so."""
    found = [f for f in facts if which == f.id or (len(which) >= _LEAST and f.id.endswith(which))]
    if len(found) != 1:
        what = "no fact" if not found else f"{counted(len(found), 'fact')} end with"
        raise UsageError(
            f"{what} {which!r}", hint=(RunCommand("memory candidates", "--all"), " lists them")
        )
    return found[0]


def _proposed(seq: int, record: Fact) -> FactState:
    return FactState(
        record.fact,
        seq,
        record.timestamp,
        record.turn,
        record.target,
        record.text,
        record.quote,
        record.confidence,
        record.form,
    )


def _step(states: list[FactState], record: Fact) -> None:
    now = states[-1]
    if record.event == "undone":
        del states[1 if len(states) == 1 else -1 :]
        return
    steps = (*now.steps, record.event)
    if record.event == "edited":
        states.append(replace(now, text=record.text, target=record.target, steps=steps))
    elif record.event in DECIDED:
        states.append(replace(now, status=record.event, steps=steps))


def lines_of(facts: Iterable[FactState]) -> dict[str, list[str]]:
    """Return target → the texts that are accepted for it, each once, in their order."""
    found: dict[str, list[str]] = {"user": [], "company": []}
    for fact in facts:
        if fact.status == "accepted" and fact.text not in found.setdefault(fact.target, []):
            found[fact.target].append(fact.text)
    return found


def texts_of(entries: Sequence[Entry]) -> set[str]:
    """Return every text that the records of facts among some entries ever gave one."""
    return {e.record.text for e in entries if isinstance(e.record, Fact) and e.record.text}
