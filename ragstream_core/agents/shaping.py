"""A2's forms with a language model: it chooses from the words that the rules know, and from files.

Shaper: intent, domain and deliverable by name. Audit: a topic that the passages' own titles hold,
and eligible files. What it may not decide (a domain that Project Memory settles where the task does
not, a file that is off) stays, and the attempt is a warning.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pydantic import Field

from ragstream_core.agents.asking import Answer, Ask, own, passage, question
from ragstream_core.agents.judging import MAX_CHARS
from ragstream_core.agents.shape import DELIVERABLES, DOMAINS, INTENTS, UNDETERMINED, Shape
from ragstream_core.records import Chunk

MAX_ANCHOR_CHARS = 4_000
"""So much of Project Memory and of the newest turns is shown."""
MAX_FILES = 200
"""So many eligible files are shown to the audit."""
_SHAPE = (
    "You classify what somebody asks for in the text named task, knowing Project Memory and the"
    " newest turns of the conversation (memory, recent) where they are given.\n"
    f"intent: one of {', '.join(INTENTS)}. deliverable: one of {', '.join(DELIVERABLES)}.\n"
    f"domain: one of {', '.join(DOMAINS)}, or {UNDETERMINED}."
)
_AUDIT = (
    "Passages were found for the task. Say whether they show that something else is meant.\n"
    "topic: the one word from the passages' titles (the text named titles) that says what the task"
    " is about, or an empty text. files: those of the text named files that must be looked at as"
    " well and that no passage comes from; usually none."
)


class Shaped(Answer):
    """What is asked for."""

    intent: str = Field(max_length=40, json_schema_extra={"enum": list(INTENTS)})
    domain: str = Field(max_length=40, json_schema_extra={"enum": [*DOMAINS, UNDETERMINED]})
    deliverable: str = Field(max_length=40, json_schema_extra={"enum": list(DELIVERABLES)})


class Audited(Answer):
    """What the passages show."""

    topic: str = Field(max_length=41)
    files: list[str] = Field(max_length=10)


def shaped(ask: Ask, task: str, anchors: tuple[str, str], rules: Shape) -> tuple[Shape | None, str]:
    """Ask what is asked for.

    Args:
        ask: Asks the model.
        task: The person's words.
        anchors: Project Memory, and the newest turns.
        rules: The shape by rules; its artefacts stay.

    Returns:
        The shape and an empty text, or None and why there is none.
    """
    parts = [own("task", task)]
    named = zip(("memory", "recent"), anchors, strict=True)
    parts += [own(name, text[:MAX_ANCHOR_CHARS]) for name, text in named if text.strip()]
    said, missed = ask(question(_SHAPE, parts), Shaped, _unknown_word)
    if said is None:
        return None, missed
    return Shape(said.intent, said.domain, said.deliverable, rules.artefacts), ""


def _unknown_word(said: Shaped) -> str:
    known = (
        said.intent in INTENTS
        and said.deliverable in DELIVERABLES
        and said.domain in (*DOMAINS, UNDETERMINED)
    )
    return "" if known else "it names what is not on the list"


def audited(
    ask: Ask, task: str, chunks: Sequence[Chunk], *, words: Sequence[str], eligible: Sequence[str]
) -> tuple[Audited | None, str]:
    """Ask whether the evidence changes the scope.

    Args:
        ask: Asks the model.
        task: The query pieces.
        chunks: The selected chunks.
        words: The words of their file names and headings.
        eligible: Names of the project's files.

    Returns:
        The answer and an empty text, or None and why there is none.
    """
    parts = [own("task", task), own("titles", " ".join(words))]
    parts.append(own("files", "\n".join(eligible[:MAX_FILES]) or "none"))
    parts += [passage(number, chunk, MAX_CHARS) for number, chunk in enumerate(chunks, start=1)]
    return ask(question(_AUDIT, parts), Audited, lambda said: _not_there(said, words, eligible))


def _not_there(said: Audited, words: Collection[str], eligible: Collection[str]) -> str:
    if said.topic and said.topic.lower() not in words:
        return "it names a topic that no title holds"
    return "" if set(said.files) <= set(eligible) else "it names a file that is not there"
