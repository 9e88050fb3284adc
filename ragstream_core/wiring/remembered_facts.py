"""`FactMemory`: facts waiting, accepted and rejected, and the steps that people take (R-252…R-259).

Every step is a new record of the journal; the files follow. A fact that nobody accepted stands in
no prompt.
"""

from __future__ import annotations

import datetime as dt
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from ragstream_core.conversations.facts.candidate import MAX_CHARS, seems_secret
from ragstream_core.conversations.facts.records import (
    CANDIDATE,
    NAMES,
    FactState,
    bullets,
    fact_entries,
    find_fact,
    fold_facts,
)
from ragstream_core.conversations.journal.records import FACT_TARGETS, Fact, uuid7
from ragstream_core.errors import AddOption, Refused, RunCommand, UsageError
from ragstream_core.ingestion.secrets import find_secrets
from ragstream_core.prompts.fences import one_line
from ragstream_core.wiring import remembered_facts_files
from ragstream_core.wiring.journal import completed, journal, require_persist

if TYPE_CHECKING:
    from ragstream_core.wiring.workspace import Workspace

HAND = "hand"


def new_id() -> str:
    """Return an id for a fact."""
    return uuid7(int(dt.datetime.now().timestamp() * 1000), os.urandom(10))


def is_secret(text: str) -> bool:
    """Say whether a text seems to hold a secret, by the patterns for documents and by its words."""
    return bool(find_secrets(text)) or seems_secret(text)


class RememberedLine(NamedTuple):
    """A line of a memory file, with the fact that it is."""

    target: str  # ``user`` or ``company``
    text: str  # the line
    id: str = ""  # of the fact; empty for a line that a person wrote into the file
    turn: str = ""  # id of the turn in which it was said; may be empty
    quote: str = ""  # the user's own words; may be empty
    form: str = HAND  # who made it: ``rules``, ``llm`` or ``hand``


@dataclass(frozen=True)
class FactMemory:
    """What is remembered in one data root."""

    workspace: Workspace  # the data root

    def facts(self) -> list[FactState]:
        """Return every fact that was not cleared, the oldest first, as it stands now."""
        return list(fold_facts(fact_entries(journal(self.workspace))).values())

    def candidates(self) -> list[FactState]:
        """Return the facts that wait for a decision, the oldest first."""
        return [fact for fact in self.facts() if fact.status == CANDIDATE]

    def remembered(self) -> list[RememberedLine]:
        """Return the bullets of both files, in order; the files are brought up to date first."""
        remembered_facts_files.sync(self.workspace)
        known = {(f.target, f.text): f for f in self.facts() if f.status == "accepted"}
        rows = []
        for target in NAMES:
            for text in bullets(remembered_facts_files.read(self.workspace, target)):
                fact = known.get((target, text))
                said = (fact.id, fact.turn, fact.quote, fact.form) if fact else ()
                rows.append(RememberedLine(target, text, *said))
        return rows

    def accept(self, which: str) -> FactState:
        """Remember a fact from now on: its line stands in the file when this returns."""
        return self._step(which, "accepted")

    def reject(self, which: str) -> FactState:
        """Remember a fact no longer, and never propose it again; see `accept`."""
        return self._step(which, "rejected")

    def edit(self, which: str, text: str, *, target: str = "") -> FactState:
        """Change a fact's words, and perhaps whom it is about; it stays what it is otherwise."""
        return self._step(which, "edited", text=checked_text(text), target=checked_target(target))

    def undo(self, which: str) -> FactState:
        """Take the newest step of a fact back; the fact itself stays, waiting at last."""
        return self._step(which, "undone")

    def add(self, text: str, target: str) -> FactState:
        """Remember what a person writes by hand."""
        fact, said = new_id(), checked_text(text)
        there = remembered_facts_files.read(self.workspace, checked_target(target) or "user")
        if said in bullets(there):
            raise UsageError("this fact is remembered already", hint=RunCommand("memory show"))
        proposed = Fact("", fact, "", "", "proposed", target, said, confidence=1.0, form=HAND)
        require_persist(self.workspace)
        accepted = Fact("", fact, "", "", "accepted")
        journal(self.workspace).append(completed([proposed, accepted]))
        remembered_facts_files.sync(self.workspace)
        return find_fact(self.facts(), fact)

    def remove(self, which: str) -> str:
        """Forget one remembered line: a fact by its id, or any bullet by its words."""
        rows = self.remembered()
        named = [row for row in rows if row.text == which.strip() and not row.id]
        if named:
            require_persist(self.workspace)
            remembered_facts_files.drop_line(self.workspace, named[0].target, named[0].text)
            return named[0].text
        spoken = [row.id for row in rows if row.text == which.strip()]
        standing = [fact for fact in self.facts() if fact.id in {row.id for row in rows}]
        try:
            return self.reject(spoken[0] if spoken else find_fact(standing, which).id).text
        except UsageError as error:
            hint = (RunCommand("memory show"), " lists what is remembered")
            raise UsageError(f"nothing to forget: {error.message}", hint=hint) from None

    def _step(self, which: str, event: str, *, text: str = "", target: str = "") -> FactState:
        """Record one step, decided on what the journal holds at that moment."""
        taken = ""

        def make() -> list[Fact]:
            """Return the step."""
            nonlocal taken
            fact = find_fact(self.facts(), which)
            if why := _useless(fact, event, text, target or fact.target):
                raise UsageError(f"fact {fact.short} {why}", hint=RunCommand("memory candidates"))
            if event == "accepted" and is_secret(fact.text):
                raise Refused(f"fact {fact.short} seems to contain a secret; it is not remembered")
            taken = fact.id
            step = Fact("", fact.id, fact.turn, "", event)
            if event == "edited":
                step = replace(step, text=text, target=target or fact.target)
            return completed([step])

        require_persist(self.workspace)
        journal(self.workspace).append_made(make)
        remembered_facts_files.sync(self.workspace)
        return find_fact(self.facts(), taken)


def checked_text(text: str) -> str:
    """Return a fact as one line."""
    said = one_line(text).removeprefix("- ").strip()
    if not said or len(said) > MAX_CHARS:
        raise UsageError(
            f"a fact is one line of up to {MAX_CHARS} characters, not {len(said)}",
            hint=RunCommand("memory add", '"The user works in Lisbon." --target user'),
        )
    if is_secret(said):
        raise Refused(
            "this fact seems to contain a secret; every prompt would show it",
            hint="leave the secret out",
        )
    return said


def checked_target(target: str) -> str:
    """Return a target, which may be empty."""
    if target not in ("", *FACT_TARGETS):
        raise UsageError(
            f"no place for facts: {target!r}", hint=AddOption("--target user, or company")
        )
    return target


def _useless(fact: FactState, event: str, text: str, target: str) -> str:
    """Say why a step changes nothing; empty: it does."""
    if event == "undone":
        return "" if fact.steps else "was only proposed: there is nothing to undo"
    if event == "edited":
        return "says so already" if (fact.text, fact.target) == (text, target) else ""
    return f"is {event} already" if fact.status == event else ""
