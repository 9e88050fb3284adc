"""Look for facts in turns: analyze → deduplicate → write (R-252).

Dagster shows the three steps as three ops, everything else calls `remember`. What is found waits as
a candidate until a person accepts it.
"""

from __future__ import annotations

import shlex
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ragstream_core.agents.llm_call import own, question
from ragstream_core.conversations.edits import apply_edits, visible_turns
from ragstream_core.conversations.facts.candidate import (
    Candidate,
    Limits,
    TurnText,
    most_alike,
    objection,
    repetition,
)
from ragstream_core.conversations.facts.llm_form import TASK, candidate_of, decisions
from ragstream_core.conversations.facts.records import (
    NAMES,
    FactState,
    bullets,
    fact_entries,
    fold_facts,
)
from ragstream_core.conversations.facts.rules import candidates
from ragstream_core.conversations.journal.records import HIDDEN, Cleared, Entry, Fact, TagEdit, Turn
from ragstream_core.errors import ChatFailed, RagstreamError, UsageError
from ragstream_core.text.plurals import counted
from ragstream_core.wiring import models, remembered_facts_files
from ragstream_core.wiring.journal import completed, journal, require_persist
from ragstream_core.wiring.llm_stages import Guarded
from ragstream_core.wiring.remembered_facts import is_secret, new_id

if TYPE_CHECKING:
    from ragstream_core.records.identity import Json
    from ragstream_core.wiring.workspace import Workspace


THREAD = "ragstream-facts"
_LOOKED_AT = 4 << 20
_RECALLED = 20


@dataclass(frozen=True, slots=True)
class FoundFact:
    """One fact that was found in a turn, and what became of it."""

    turn: str  # id of the turn
    seq: int  # its number
    candidate: Candidate  # the fact
    # largest overlap with what is there, in [0, 1]; 0 before it was looked for
    overlap: float = 0.0
    why: str = ""  # why it is not written; empty: it is, or may be
    fact: str = ""  # its id once it is written
    advice: str = ""  # what to run where it is the news of something that is there; mostly empty

    def to_json(self) -> dict[str, Json]:
        """Return the documented JSON form."""
        fact = self.candidate
        return {
            "id": self.fact, "turn": self.turn, "seq": self.seq, "target": fact.target,
            "text": fact.text, "quote": fact.quote, "confidence": fact.confidence,
            "form": fact.form, "overlap": round(self.overlap, 4), "skipped": self.why,
            "advice": self.advice,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Analysis:
    """What analysing turns gave."""

    found: tuple[FoundFact, ...] = ()  # in the order of the journal
    turns: int = 0  # how many turns were read
    notes: tuple[str, ...] = ()  # why the form that asks a model was not taken

    @property
    def writable(self) -> bool:
        """Whether anything of it may be written."""
        return any(not row.why for row in self.found)


def _limits(workspace: Workspace) -> Limits:
    """Return the limits of the settings."""
    facts = workspace.config.settings.facts
    return Limits(facts.min_confidence, facts.max_overlap)


def analyze(
    workspace: Workspace, *, since: int = 0, upto: int = 0, session: str = "", form: str = ""
) -> Analysis:
    """Find facts in turns; nothing is written."""
    log = journal(workspace)
    if not log.folder.is_dir():
        return Analysis()
    marks = apply_edits(e for e in log.entries() if isinstance(e.record, Cleared | TagEdit))
    wanted = (
        (entry, turn)
        for entry, turn, tags in visible_turns(log.entries(), marks)
        if session in ("", turn.session_id) and HIDDEN.isdisjoint(tags)
    )
    return _analysed(workspace, wanted, since=since, upto=upto, form=form)


def newest_turns(workspace: Workspace) -> list[tuple[Entry, Turn]]:
    """Return the newest turn, behind those before it in its conversation; a tail is looked at."""
    near = list(journal(workspace).backwards(max_bytes=_LOOKED_AT))[::-1]
    marks = apply_edits(e for e in near if isinstance(e.record, Cleared | TagEdit))
    found = [(e, t) for e, t, tags in visible_turns(near, marks) if HIDDEN.isdisjoint(tags)]
    return [(e, t) for e, t in found if t.session_id == found[-1][1].session_id]


def remember(workspace: Workspace, analysis: Analysis, *, dry_run: bool = False) -> list[FoundFact]:
    """Drop what already exists and write the rest; return everything that was found."""
    found = deduplicate(workspace, analysis.found)
    return found if dry_run else write(workspace, found)


def deduplicate(workspace: Workspace, found: Sequence[FoundFact]) -> list[FoundFact]:
    """Mark what the target's file holds, or was proposed for it before, whatever became of it."""
    return _fresh(workspace, found, fact_entries(journal(workspace)))


def write(workspace: Workspace, found: Sequence[FoundFact]) -> list[FoundFact]:
    """Propose what is left, in the journal; where `facts.accept` is auto, accept it as well.

    What is new is decided again while other writers are kept out, and a turn that was cleared
    meanwhile gives nothing.
    """
    require_persist(workspace)
    written: list[FoundFact] = list(found)

    def make() -> list[Fact]:
        entries = fact_entries(journal(workspace))
        cleared = apply_edits(entries)
        written[:] = [
            replace(row, why="the turn was cleared") if cleared.is_hidden(row.seq) else row
            for row in _fresh(workspace, found, entries)
        ]
        written[:] = [row if row.why else replace(row, fact=new_id()) for row in written]
        new = (row for row in written if not row.why)
        return completed([record for row in new for record in _records(workspace, row)])

    if any(not row.why for row in found):
        journal(workspace).append_made(make)
        remembered_facts_files.sync(workspace)
    return written


def after_turn(workspace: Workspace) -> tuple[str, ...]:
    """Look for facts in the turn that was just kept; return what people should know.

    Called behind an answer: it never fails one. A language model is asked in a thread of its own,
    so that nobody waits for it; a process ends when that has, and what is to be known of it is told
    behind the next turn.
    """
    if workspace.config.settings.facts.form != "llm":
        return _learnt(workspace)
    late = workspace.caches.late_facts
    told = [late.popleft() for _ in range(len(late))]

    def learn() -> None:
        late.extend(_learnt(workspace))

    threading.Thread(target=learn, name=THREAD, daemon=False).start()
    return tuple(dict.fromkeys(told))


def _learnt(workspace: Workspace) -> tuple[str, ...]:
    try:
        turns = newest_turns(workspace)
        analysis = _analysed(workspace, turns, since=turns[-1][0].seq - 1 if turns else 0)
        found = remember(workspace, analysis) if analysis.writable else []
    except (RagstreamError, OSError) as error:
        return (f"no facts were taken from this turn: {error}",)
    ask = workspace.config.settings.facts.accept == "ask"
    waiting = sum(bool(row.fact) for row in found) if ask else 0
    told = (
        [f"{counted(waiting, 'fact')} to look at: ragstream memory candidates"] if waiting else []
    )
    changed = [f"{row.why}; if that changed: {row.advice}" for row in found if row.advice]
    return (*analysis.notes, *told, *changed)


def _analysed(
    workspace: Workspace,
    turns: Iterable[tuple[Entry, Turn]],
    *,
    since: int = 0,
    upto: int = 0,
    form: str = "",
) -> Analysis:
    wanted = form or workspace.config.settings.facts.form
    texts = (remembered_facts_files.read(workspace, target) for target in NAMES)
    remembered = tuple(fact for text in texts for fact in bullets(text))
    answers: dict[str, list[str]] = {}
    found: list[FoundFact] = []
    notes: list[str] = []
    count = 0
    for entry, turn in turns:
        past = answers.setdefault(turn.session_id, [])
        if since < entry.seq and (not upto or entry.seq <= upto) and turn.speakers[0] == "user":
            count += 1
            made, note = _proposals(workspace, turn.user_text, wanted)
            notes += [note] if note else []
            said = TurnText(turn.user_text, (*past[-_RECALLED:], *remembered))
            for fact in made:
                why = objection(fact, said, _limits(workspace), is_secret)
                found.append(FoundFact(turn.id, entry.seq, fact, why=why))
        past.append(turn.assistant_text)
    return Analysis(tuple(found), count, tuple(dict.fromkeys(notes)))


def _proposals(workspace: Workspace, user_text: str, form: str) -> tuple[list[Candidate], str]:
    """Return what the form proposes, and why it is the rules' if it asks a model.

    A message that seems to hold a secret is not sent to a model on another machine. The answer is
    kept nowhere.
    """
    if form != "llm":
        return candidates(user_text), ""
    try:
        model = Guarded(models.chat_model(workspace.config))
        reply = model.complete(question(TASK, [own("message", user_text)]))
    except (ChatFailed, UsageError) as error:
        return candidates(user_text), f"facts by rules: {error.message}"
    found = decisions(reply.text)
    if found is None:
        return candidates(user_text), f"facts by rules: {model.name} answered without JSON"
    return [fact for decision in found if (fact := candidate_of(decision)) is not None], ""


def _fresh(
    workspace: Workspace, found: Sequence[FoundFact], entries: Sequence[Entry]
) -> list[FoundFact]:
    hidden = apply_edits(entries)
    there = {t: bullets(remembered_facts_files.read(workspace, t)) for t in NAMES}
    for entry in entries:
        record = entry.record
        if isinstance(record, Fact) and record.text and not hidden.is_hidden(entry.seq):
            there[record.target].append(record.text)
    result = []
    for row in found:
        fact = row.candidate
        if not row.why:
            share, why = repetition(fact.text, there[fact.target], _limits(workspace))
            advice = (
                _advice(workspace, fact, there[fact.target], entries) if why and share < 1 else ""
            )
            row = replace(row, overlap=share, why=why, advice=advice)
            there[fact.target] += [] if why else [fact.text]
        result.append(row)
    return result


def _advice(
    workspace: Workspace, fact: Candidate, there: Sequence[str], entries: Sequence[Entry]
) -> str:
    """Return the command that makes a changed fact of one that is as good as there."""
    _, old = most_alike(fact.text, there)
    named = [e.record.fact for e in entries if isinstance(e.record, Fact) and e.record.text == old]
    known: FactState | None = fold_facts(entries).get(named[-1]) if named else None
    new = shlex.quote(fact.text)
    added = f"ragstream memory add {new} --target {fact.target}"
    if known is None:
        by_hand = old in bullets(remembered_facts_files.read(workspace, fact.target))
        removed = f"ragstream memory remove {shlex.quote(old)}"
        return f"{removed}; {added}" if by_hand else "ragstream memory candidates"
    return added if known.status == "rejected" else f"ragstream memory edit {known.short} {new}"


def _records(workspace: Workspace, row: FoundFact) -> list[Fact]:
    fact = row.candidate
    proposed = Fact(
        "", row.fact, row.turn, "", "proposed", fact.target, fact.text,
        fact.quote, fact.confidence, fact.form,
    )  # fmt: skip
    if workspace.config.settings.facts.accept != "auto":
        return [proposed]
    return [proposed, Fact("", row.fact, row.turn, "", "accepted")]
