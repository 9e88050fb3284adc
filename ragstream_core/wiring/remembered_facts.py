"""`FactMemory`: facts waiting, accepted and rejected, and the steps that people take (R-252…R-259).

Every step is a new record of the journal; the files follow. A fact that nobody accepted stands in
no prompt.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Sequence
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
    from ragstream_core.conversations.journal.records import Entry
    from ragstream_core.wiring.workspace import Workspace

HAND = "hand"


def new_id() -> str:
    """Return an id for a fact."""
    return uuid7(int(dt.datetime.now().timestamp() * 1000), os.urandom(10))


def is_secret(text: str) -> bool:
    """Say whether a text seems to hold a secret, by the patterns for documents and by its words."""
    return bool(find_secrets(text)) or seems_secret(text)


class RememberedLine(NamedTuple):
    """A line of a memory file, with the fact that it is.

    Attributes:
        target: ``user`` or ``company``.
        text: The line.
        id: Of the fact; empty for a line that a person wrote into the file.
        turn: Id of the turn in which it was said; may be empty.
        quote: The user's own words; may be empty.
        form: Who made it: ``rules``, ``llm`` or ``hand``.
    """

    target: str
    text: str
    id: str = ""
    turn: str = ""
    quote: str = ""
    form: str = HAND


@dataclass(frozen=True)
class FactMemory:
    """What is remembered in one data root.

    Attributes:
        workspace: The data root.
    """

    workspace: Workspace

    def facts(self) -> list[FactState]:
        """Return every fact that was not cleared, the oldest first, as it stands now.

        Raises:
            IntegrityError: A newer version of the program wrote the journal.
        """
        return list(fold_facts(fact_entries(journal(self.workspace))).values())

    def candidates(self) -> list[FactState]:
        """Return the facts that wait for a decision, the oldest first.

        Raises:
            IntegrityError: A newer version of the program wrote the journal.
        """
        return [fact for fact in self.facts() if fact.status == CANDIDATE]

    def remembered(self) -> list[RememberedLine]:
        """Return the bullets of both files, in their order; the files are brought up to date first.

        Raises:
            RagstreamError: The journal or a file cannot be read, or a file not be written.
        """
        remembered_facts_files.sync(self.workspace)
        known = {(f.target, f.text): f for f in self.facts() if f.status == "accepted"}
        rows = []
        for target in NAMES:
            for text in bullets(remembered_facts_files.read(self.workspace, target)):
                fact = known.get((target, text))
                row = RememberedLine(target, text)
                if fact:
                    row = RememberedLine(target, text, fact.id, fact.turn, fact.quote, fact.form)
                rows.append(row)
        return rows

    def accept(self, which: str) -> FactState:
        """Remember a fact from now on: its line stands in the file when this returns.

        Args:
            which: Its id, or the last digits of it.

        Raises:
            UsageError: No such fact, or it is accepted already.
            Refused: `history.persist` is off, or an edit put a secret into it.
            OperationFailed: Disk full or failing; what the journal has the next look makes good.
        """
        return self._step(which, "accepted")

    def reject(self, which: str) -> FactState:
        """Remember a fact no longer, and never propose it again; see `accept`.

        Raises:
            UsageError: No such fact, or it is rejected already.
            Refused: `history.persist` is off.
            OperationFailed: Disk full or failing.
        """
        return self._step(which, "rejected")

    def edit(self, which: str, text: str, *, target: str = "") -> FactState:
        """Change a fact's words, and perhaps whom it is about; it stays what it is otherwise.

        Args:
            which: Its id, or the last digits of it.
            text: One line.
            target: ``user`` or ``company``; default: as it was.

        Raises:
            UsageError: No such fact, or no such text.
            Refused: `history.persist` is off, or the text seems to contain a secret.
            OperationFailed: Disk full or failing.
        """
        return self._step(which, "edited", text=checked_text(text), target=checked_target(target))

    def undo(self, which: str) -> FactState:
        """Take the newest step of a fact back; the fact itself stays, waiting at last.

        Raises:
            UsageError: No such fact, or nothing was done to it.
            Refused: `history.persist` is off.
            OperationFailed: Disk full or failing.
        """
        return self._step(which, "undone")

    def add(self, text: str, target: str) -> FactState:
        """Remember what a person writes by hand.

        Args:
            text: One line.
            target: ``user`` or ``company``.

        Raises:
            UsageError: No such text or target, or it stands there already.
            Refused: `history.persist` is off, or the text seems to contain a secret.
            OperationFailed: Disk full or failing.
        """
        fact, said = new_id(), checked_text(text)
        if said in bullets(
            remembered_facts_files.read(self.workspace, checked_target(target) or "user")
        ):
            raise UsageError("this fact is remembered already", hint=RunCommand("memory show"))
        proposed = Fact("", fact, "", "", "proposed", target, said, confidence=1.0, form=HAND)
        self._append([proposed, Fact("", fact, "", "", "accepted")])
        return find_fact(self.facts(), fact)

    def remove(self, which: str) -> str:
        """Forget one remembered line: a fact by its id, or any bullet by its words.

        Returns:
            The line that went.

        Raises:
            UsageError: Nothing like it is remembered.
            Refused: `history.persist` is off.
            OperationFailed: Disk full or failing.
        """
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
            """Return the step.

            Raises:
                UsageError: No such fact, or the step means nothing to it.
                Refused: It seems to contain a secret.
            """
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
            return [filled for filled in completed([step]) if isinstance(filled, Fact)]

        require_persist(self.workspace)
        journal(self.workspace).append_made(make)
        remembered_facts_files.sync(self.workspace)
        return find_fact(self.facts(), taken)

    def _append(self, records: Sequence[Fact]) -> list[Entry]:
        require_persist(self.workspace)
        entries = journal(self.workspace).append(completed(records))
        remembered_facts_files.sync(self.workspace)
        return entries


def checked_text(text: str) -> str:
    """Return a fact as one line.

    Raises:
        UsageError: It is empty or too long.
        Refused: It seems to contain a secret.
    """
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
    """Return a target, which may be empty.

    Raises:
        UsageError: It is neither ``user`` nor ``company``.
    """
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
