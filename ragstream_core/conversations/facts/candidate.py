"""What may be remembered, and why it is not: the checks that hold for every form (R-255, R-257).

The patterns for documents look for a secret's shape. Here the mere talk of one is enough: a fact
that is not remembered costs little, and a secret in a memory file goes into every prompt.

Whether a fact says something new is the overlap of its keywords with what is there (R-256):
``overlap(new, old) = |K(new) ∩ K(old)| / |K(new)|``, where ``K`` are the stems of a text's words
without stop words and without the two that stand in every fact. It is 1 if all of the new words
are there already, however many others are.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from ragstream_core.conversations.facts.doubts import HEDGES, doubt, foreign, masked
from ragstream_core.conversations.facts.languages import spoken
from ragstream_core.text.terms import terms

_EVERYWHERE = frozenset(terms("user users company companies"))


def keywords(text: str) -> frozenset[str]:
    """Return the stems that say what a text is about."""
    other = spoken(text)
    return frozenset(terms(text)) - _EVERYWHERE - (other.function if other else frozenset())


def overlap(new: Collection[str], old: Collection[str]) -> float:
    """Return the share of new keywords that are among old ones, in [0, 1]; 1 if none is new."""
    fresh = set(new)
    return len(fresh & set(old)) / len(fresh) if fresh else 1.0


def most_alike(text: str, others: Iterable[str]) -> tuple[float, str]:
    """Return the largest overlap of a text with one of some others, and that other one."""
    mine = keywords(text)
    scored = ((overlap(mine, keywords(other)), other) for other in others)
    return max(scored, key=lambda found: found[0], default=(0.0, ""))


_TALK = re.compile(
    r"\b(?:pass(?:word|wd|phrase|code|key)s?|pwd|pins?(?: ?codes?)?|api[ _-]?keys?|secrets?|"
    r"tokens?|"
    r"credentials?|(?:private|ssh|access|secret|encryption|licen[cs]e|recovery|master|signing)"
    r"[ _-]?(?:keys?|codes?|phrases?)|(?:door|gate|alarm|safe|entry|security|backup)[ _-]?codes?|"
    r"combination|cvv|cvc|iban|bic|routing number|account number|credit ?cards?|card number|"
    r"social security|ssn|passport (?:number|no)|seed phrase|mnemonic|otp|2fa|mfa code|"
    r"log ?in (?:is|with|details)|username|security question|mother'?s maiden|bearer|wallet|keypad|"
    r"padlock|unlock(?:s|ed)? (?:with|by|code)|"
    r"auth(?:entication)? (?:code|string)|session id|client id|sort code|tax (?:id|number)|logins?|"
    r"log(?:ged|ging)? in as|"
    r"\d{3,}\b[^.\n]{0,20}\bcode|"
    r"(?:code|combination|key|number|no)\b[^.\n]{0,20}?\b\d{4,}|keys? (?:is|are|was|=)|"
    r"(?:wi-?fi|wlan|vpn|router|hotspot|network) (?:key|code|login)|"
    r"(?:unlock\w*|opens?|safe|gate|door|vault|alarm|locker|lock)\b[^.\n]{0,40}?\b\d{2,}[-\d]*)\b",
    re.IGNORECASE,
)
_CLOCK = re.compile(
    r"(?<=\b(?:at|by)\s)\d{1,2}(?:[:.h]\d\d)?(?: ?[ap]\.?m\b)?(?![\d:.-]*\d)"
    r"|(?<=[a-z]\s)\d{1,2}[:.]\d\d(?: ?[ap]m)?(?=\s(?:to|until|and|on|every|each)\b)",
    re.IGNORECASE,
)
_ORDINARY = re.compile(
    r"combinations? of (?!(?:the|my|our|a|this) )|(?:login|username|password|token|secret|wallet|"
    r"pin|otp|credential|api key)s? (?:page|screen|form|flow|button|service|system|module|rate|"
    r"field|manager|reset|polic(?:y|ies)|count|counting|budget|limit|provider|pad|rotation|store|"
    r"storage|standard|rule)s?\b",
    re.IGNORECASE,
)
_TELLS = re.compile(r"\d|[=:]|\b(?:is|are|was|were|reads?|says|called|set to)\b", re.IGNORECASE)
_DIGITS = re.compile(r"(?:\d[ -]?){9,}|\b\d+(?:-\d+){3,}\b")
_TOKEN = re.compile(r"[^\s\"'`,;<>(){}\[\]|]{6,}")
_SYMBOL = re.compile(r"\w[!$%@#&*^~+=]+\w|\w[!$#*]$")

# Capitals strewn over a long word.
_SHUFFLED = re.compile(r"(?=.{16,})(?:[^A-Z]*[A-Z][^A-Z]+){5,}")
_LEAST_CHARS = 10
_LEAST_BITS = 3.2


def seems_secret(text: str) -> bool:
    """Return whether a text speaks of a secret, or holds a long number or a word without sense."""
    said = _CLOCK.sub("", text)  # an office that opens at 09:00 is no safe
    if not _TELLS.search(said):
        said = _ORDINARY.sub("", said)
    other = spoken(text)
    talk = _TALK.search(said) or (other and other.secrets.search(said))
    return bool(talk or _DIGITS.search(text) or any(map(_random, _words(text))))


def _words(text: str) -> list[str]:
    return [word.rstrip(".,:;?") for word in _TOKEN.findall(text)]


def _random(word: str) -> bool:
    """Return whether a word looks random: letters and digits mixed, and many different ones."""
    if _SHUFFLED.match(word) or (_SYMBOL.search(word) and letters_and_digits(word)):
        return True
    if "://" in word and "@" not in word:
        return False
    digits = sum(c.isdigit() for c in word)
    mixed = digits >= 2 or not word.replace("-", "").replace("/", "").isalnum()
    shouted = word != word.lower() and word != word.upper()
    looks = letters_and_digits(word) and (mixed or shouted)
    return len(word) >= _LEAST_CHARS and looks and entropy(word) >= _LEAST_BITS


def letters_and_digits(word: str) -> bool:
    """Return whether a word has both."""
    return any(c.isalpha() for c in word) and any(c.isdigit() for c in word)


def entropy(word: str) -> float:
    """Return the Shannon entropy of a word's characters: ``−Σ p·log2 p``, bits, ≥ 0."""
    counts = Counter(word)
    return -sum(n / len(word) * math.log2(n / len(word)) for n in counts.values()) + 0.0


MAX_CHARS = 240
_OWN_SHARE = 0.6
_LEAST_ECHO = 4
_LETTERS = re.compile(r"[^\w]+")
_END = re.compile(r"[.!?](?=\s|$)|\n")
_ASIDE = re.compile(r",?(?: [\w'’-]+){1,4}(?=[,.;!?\n]|$)")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A fact before anybody has agreed to it."""

    target: str  # ``user`` or ``company``
    text: str  # the fact, one standalone sentence
    quote: str  # the user's own words
    confidence: float  # in [0, 1]
    form: str  # ``rules`` or ``llm``
    kind: str = ""  # ``role``, ``preference``, ``company`` or ``workflow``; empty if not said


@dataclass(frozen=True, slots=True)
class TurnText:
    """A turn as the checks see it."""

    user_text: str  # what the user sent, verbatim
    # what the user had before their eyes: earlier answers, what is remembered
    recalled: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """When a fact is sure and new enough."""

    min_confidence: float = 0.7  # least confidence, included
    max_overlap: float = 0.6  # overlap from which a fact is taken for one that is there, included


def objection(
    candidate: Candidate, said: TurnText, limits: Limits, is_secret: Callable[[str], bool]
) -> str:
    """Return why a candidate is not to be remembered, whatever was before; empty: it is."""
    sentence, text = _around(candidate.quote, said.user_text), candidate.text
    if candidate.confidence < limits.min_confidence:
        return f"not sure enough: {candidate.confidence:.2f} of {limits.min_confidence:.2f}"
    if not candidate.quote.strip() or candidate.quote not in said.user_text:
        return "no words of the user stand behind it"
    if any(seems_secret(words) or is_secret(words) for words in (sentence, text)):
        return "it seems to contain a secret"
    if why := foreign(said.user_text) or _in_quotation(candidate.quote, said.user_text):
        return why
    if why := _unsure(sentence, _aside(candidate.quote, said.user_text)):
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
    """Return the overlap with the most alike of other facts, and why that is too much, if so."""
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


def _aside(quote: str, user_text: str) -> str:
    """Return the few words after a quote and a comma, which may take it back: "…, I guess"."""
    aside = _ASIDE.match(user_text, user_text.find(quote) + len(quote))
    return aside[0] if aside else ""


def _unsure(sentence: str, aside: str) -> str:
    """Return why a sentence says less than it seems to; empty: it does not."""
    hedged = "a hedge" if HEDGES.search(f"{sentence}{aside}") else ""
    return doubt(sentence) or doubt(aside.lstrip(", ")) or hedged


def _in_quotation(quote: str, user_text: str) -> str:
    at = user_text.find(quote)
    inside = any(a < at + len(quote) and at < b for a, b in masked(user_text))
    return "it stands in a quotation" if inside else ""


def _is_own(text: str, user_text: str) -> bool:
    """Return whether the words of a fact are the user's."""
    words = keywords(text)
    return len(words & keywords(user_text)) >= _OWN_SHARE * len(words)


def _is_echo(quote: str, recalled: Iterable[str]) -> bool:
    """Return whether a quote stands, but for signs and case, in what the user only read."""
    flat = _flat(quote)
    return len(flat.split()) >= _LEAST_ECHO and any(
        f" {flat} " in f" {_flat(t)} " for t in recalled
    )


def _flat(text: str) -> str:
    return _LETTERS.sub(" ", text.lower()).strip()
