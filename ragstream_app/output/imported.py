"""What an import of conversations did, or would do, in the words of all faces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ragstream_app.output.words import printable
from ragstream_core.conversations.use import EVERYWHERE, NOWHERE
from ragstream_core.text import plurals

if TYPE_CHECKING:
    from ragstream_core.services.import_conversations import (
        ConversationImport,
        ImportedConversation,
    )

SHOWN_PROBLEMS = 20


def counted(row: ImportedConversation) -> str:
    """Return how many turns of a conversation are new, known and not answered yet."""
    counts = f"{row.added} new" + (f", {row.existing} known" if row.existing else "")
    return counts + (f", {row.unfinished} not answered yet" if row.unfinished else "")


def summed_up(done: ConversationImport) -> str:
    """Return the numbers of an import in one line."""
    would = "would be added" if done.dry_run else "added"
    conversations = sum(bool(row.added) for row in done.conversations)
    return (
        f"{plurals.counted(done.added, 'turn')} of "
        f"{plurals.counted(conversations, 'conversation')} {would}, "
        f"{done.existing:,} existed already"
    )


def used(words: Sequence[str]) -> str:
    """Return where new turns are used, and how that is changed.

    Args:
        words: As `ConversationImport.used_in`.
    """
    projects = [word for word in words if word not in (NOWHERE, EVERYWHERE)]
    if EVERYWHERE in words:
        return "used by the prompts of every project"
    if NOWHERE not in words:
        return f"used by the prompts of {', '.join(projects)}"
    some = f"used by the prompts of {', '.join(projects)}; the others " if projects else "used "
    return (
        f"{some}in no project's prompts until you bring them into one: "
        "ragstream history adopt PROJECT --session NAME"
    )


def problems(done: ConversationImport, *, rest: str) -> Iterator[str]:
    """Yield what could not be read, a line each.

    Args:
        done: The import.
        rest: Where all of them are, if there are more than are shown.
    """
    for problem in done.problems[:SHOWN_PROBLEMS]:
        yield f"not read: {printable(problem.where)}: {printable(problem.what)}"
    if len(done.problems) > SHOWN_PROBLEMS:
        yield f"and {len(done.problems) - SHOWN_PROBLEMS} more{rest}"


def left_out(done: ConversationImport, *, rest: str) -> Iterator[str]:
    """Yield which parts of new turns are not kept, a line a conversation.

    Args:
        done: The import.
        rest: Where all of them are, if there are more than are shown.
    """
    rows = [row for row in done.conversations if row.added and row.left_out]
    for row in rows[:SHOWN_PROBLEMS]:
        kinds = ", ".join(f"{count} × {kind}" for kind, count in row.left_out.items())
        yield f"not kept of {printable(row.title or row.session)}: {printable(kinds)}"
    if len(rows) > SHOWN_PROBLEMS:
        yield f"and parts of {len(rows) - SHOWN_PROBLEMS} more conversations{rest}"


def unfinished(done: ConversationImport) -> str:
    """Return how many questions wait for their answer; empty for none."""
    if not done.unfinished:
        return ""
    waiting = plurals.counted(done.unfinished, "question")
    return f"{waiting} may still be answered; the next import takes the answers"
