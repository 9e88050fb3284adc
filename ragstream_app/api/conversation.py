"""What the messages of a client ask: a question, the conversation before it, and who answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragstream_app.api.errors import ApiError
from ragstream_core.settings.values import MAX_VOICE_CHARS

if TYPE_CHECKING:
    from ragstream_app.api.forms import Message
    from ragstream_core.answers.citations import Citation

SOURCES = "Sources:"

# Of a question: no budget holds more, and to find that out takes a worker minutes.
MOST_CHARS = 200_000
_SOURCES = re.compile(rf"\n\n{SOURCES}\n(?:- [^\n]*(?:\n|\Z))+\Z")


@dataclass(frozen=True, slots=True)
class Asked:
    """What a client asks.

    Attributes:
        question: The last message of the user.
        pairs: What was asked and answered before, oldest first.
        system: Who answers; empty: not said.
        warnings: What of the messages has no effect.
    """

    question: str
    pairs: tuple[tuple[str, str], ...]
    system: str = ""
    warnings: tuple[str, ...] = ()


def asked_in(messages: Sequence[Message]) -> Asked:
    """Return what messages ask.

    System and developer messages say who answers: they become `prompt.system`, or are left out
    with a warning if they are longer than a setting may be.

    Args:
        messages: At least one.

    Raises:
        ApiError: The last one that is no system message is not the user's, it is empty, or no
            prompt can hold it.
    """
    said = [message for message in messages if message.role in ("user", "assistant")]
    if not said or said[-1].role != "user":
        whose = "the assistant's" if said else "a system message"
        raise _wrong(f"the last one is {whose}; the question is the last one, of the user")
    question = said[-1].words
    if not question.strip():
        raise _wrong("the last one is empty")
    if len(question) > MOST_CHARS:
        raise _wrong(
            f"the question has {len(question):,} characters, at most {MOST_CHARS:,}: put long "
            "texts into the project, as files",
            "context_length_exceeded",
        )
    system = "\n".join(m.words.strip() for m in messages if m.role in ("system", "developer"))
    system = system.strip()
    if len(system) > MAX_VOICE_CHARS:
        warning = (
            f"the system message is left out: {len(system):,} characters, at most {MAX_VOICE_CHARS}"
        )
        return Asked(question, _pairs(said[:-1]), "", (warning,))
    return Asked(question, _pairs(said[:-1]), system)


def _wrong(what: str, code: str = "invalid_value") -> ApiError:
    return ApiError(400, f"messages: {what}", code=code, param="messages")


def sources_text(citations: Sequence[Citation]) -> str:
    """Return the list of sources that ends an answer, "" for none.

    Args:
        citations: Of the answer, checked.
    """
    lines = list(dict.fromkeys(f"- {_source(citation)}" for citation in citations))
    return "\n".join(["", "", SOURCES, *lines]) if lines else ""


def _source(citation: Citation) -> str:
    where = " ".join(f"{citation.where(', page ')} [{citation.id}]".split())
    return where if citation.verified else f"{where}, not verified: {citation.reason}"


def _pairs(said: Sequence[Message]) -> tuple[tuple[str, str], ...]:
    """Return messages as pairs; several of one side in a row are one."""
    pairs: list[tuple[str, str]] = []
    for message in said:
        words = message.words
        if message.role == "assistant":
            words = _SOURCES.sub("", words)
            asked, answered = pairs.pop() if pairs else ("", "")
            pairs.append((asked, _joined(answered, words)))
        elif pairs and not pairs[-1][1]:
            pairs.append((_joined(pairs.pop()[0], words), ""))
        else:
            pairs.append((words, ""))
    return tuple(pair for pair in pairs if any(text.strip() for text in pair))


def _joined(first: str, second: str) -> str:
    return f"{first}\n\n{second}" if first and second else first or second
