"""What may be remembered, and why it is not: the checks that hold for every form (R-255, R-257)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ragstream_core.memory.facts.alike import keywords, most_alike
from ragstream_core.memory.facts.doubts import doubt, foreign, masked
from ragstream_core.memory.facts.secrecy import seems_secret

MAX_CHARS = 240
_OWN_SHARE = 0.6
_LEAST_ECHO = 4
_LETTERS = re.compile(r"[^\w]+")
_END = re.compile(r"[.!?](?=\s|$)|\n")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A fact before anybody has agreed to it.

    Attributes:
        target: ``user`` or ``company``.
        text: The fact, one standalone sentence.
        quote: The user's own words.
        confidence: In [0, 1].
        form: ``rules`` or ``llm``.
        kind: ``role``, ``preference``, ``company`` or ``workflow``; empty where nobody said.
    """

    target: str
    text: str
    quote: str
    confidence: float
    form: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Said:
    """A turn as the checks see it.

    Attributes:
        user_text: What the user sent, verbatim.
        recalled: What the user had before their eyes: earlier answers, what is remembered.
    """

    user_text: str
    recalled: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """When a fact is sure and new enough.

    Attributes:
        min_confidence: Least confidence, included.
        max_overlap: Overlap from which a fact is taken for one that is there, included.
    """

    min_confidence: float = 0.7
    max_overlap: float = 0.6


def objection(
    candidate: Candidate, said: Said, limits: Limits, is_secret: Callable[[str], bool]
) -> str:
    """Say why a candidate is not to be remembered, whatever was remembered before; empty: it is.

    Args:
        candidate: Of either form.
        said: The turn.
        limits: The least confidence.
        is_secret: Says whether a text seems to contain a secret.
    """
    sentence, text = _around(candidate.quote, said.user_text), candidate.text
    if candidate.confidence < limits.min_confidence:
        return f"not sure enough: {candidate.confidence:.2f} of {limits.min_confidence:.2f}"
    if not candidate.quote.strip() or candidate.quote not in said.user_text:
        return "no words of the user stand behind it"
    if any(seems_secret(words) or is_secret(words) for words in (sentence, text)):
        return "it seems to contain a secret"
    if why := foreign(said.user_text) or _in_quotation(candidate.quote, said.user_text):
        return why
    if why := doubt(sentence):
        return f"no plain statement: {why}"
    if (
        not text.strip()
        or len(text) > MAX_CHARS
        or not text.isprintable()  # one line, and no sign that plays with a screen
        or not keywords(text)
    ):
        return "too vague or too long"
    if not _is_own(text, said.user_text):
        return "the user did not say so"
    if _is_echo(candidate.quote, said.recalled):
        return "it was recalled, not said"
    return ""


def repetition(text: str, others: Iterable[str], limits: Limits) -> tuple[float, str]:
    """Return the overlap with the most alike of other facts, and why that is too much or nothing.

    Args:
        text: A fact.
        others: What the target's file holds, and what was proposed for it before.
        limits: The largest overlap.
    """
    share, other = most_alike(text, others)
    return share, f"nearly the same as: {other}" if share >= limits.max_overlap else ""


def _around(quote: str, user_text: str) -> str:
    """Return the sentence that holds a quote, up to the quote's end."""
    at = user_text.find(quote)
    if at < 0:
        return quote
    before = [match.end() for match in _END.finditer(user_text, 0, at)]
    begin = before[-1] if before else 0
    return user_text[begin : at + len(quote)].strip()


def _in_quotation(quote: str, user_text: str) -> str:
    at = user_text.find(quote)
    inside = any(a < at + len(quote) and at < b for a, b in masked(user_text))
    return "it stands in a quotation" if inside else ""


def _is_own(text: str, user_text: str) -> bool:
    """Say whether the words of a fact are the user's."""
    words = keywords(text)
    return len(words & keywords(user_text)) >= _OWN_SHARE * len(words)


def _is_echo(quote: str, recalled: Iterable[str]) -> bool:
    """Say whether a quote stands, but for signs and case, in what the user only read."""
    flat = _flat(quote)
    return len(flat.split()) >= _LEAST_ECHO and any(
        f" {flat} " in f" {_flat(t)} " for t in recalled
    )


def _flat(text: str) -> str:
    return _LETTERS.sub(" ", text.lower()).strip()
