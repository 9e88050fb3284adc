"""Sentences that say one thing of one subject with two values.

Two sentences disagree if they share most words, name the same subjects (K-10 and K-20 are two, so
are "the catalog service" and "the billing service") and differ in a value: 20 euros and 35 euros,
five and seven, 20 April and 4 May. Half a minute and 30 seconds are one value.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from difflib import SequenceMatcher
from typing import NamedTuple

from ragstream_core.agents.context.moved_dates import told_on
from ragstream_core.agents.context.quotable import Quote
from ragstream_core.agents.context.supersession import Replaced
from ragstream_core.conversations.dates import MONTHS, NUMBERS
from ragstream_core.text.headings import SEPARATOR
from ragstream_core.text.terms import stems

SIMILAR = 0.6
_NUMBER = re.compile(
    r"(?<![\w.,-])(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+|,\d{1,2}(?![\d,]))?(?![\w-])"
)
_UNITED = re.compile(r"(\d+(?:[.,]\d+)?)([A-Za-zµ%°]{1,4})(?![\w-])")
_NAME = re.compile(r"(?<!\w)(?=[\w-]*\d)(?=[\w-]*[^\W\d_])[\w-]+(?!\w)")
_VERSION = re.compile(r"v\d+", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+")

# Without "one": "one of them" counts nothing; nor "elf" and "once", which are English words.
_WORDS_OF_NUMBERS = {
    word: str(n)
    for n, words in enumerate([*NUMBERS[1:], "eleven|onze", "twelve|zwölf|douze|doce"], start=2)
    for word in words.split("|")
} | {"sept": "7"}
_SPELT = re.compile(rf"\b(?:{'|'.join(_WORDS_OF_NUMBERS)})\b(?!(?<=sept)\.? ?\d)", re.IGNORECASE)
_SECONDS = {
    "ms|millisecond|millisekunde": 0.001, "s|sec|second|sekunde|seconde|segundo": 1.0,
    "min|minute|minuto": 60.0, "h|hour|stunde|heure|hora": 3600.0,
    "day|tage|jour|día": 86400.0, "week|woche|semaine|semana": 604800.0,
}  # fmt: skip
_MONTHS = {"month|monat|mois|mes": 1.0, "year|jahr|année|año": 12.0}
_TIMES = {
    "thousand|tausend": 1e3,
    "million|millionen|millón|millones": 1e6,
    "billion|milliarde|milliard": 1e9,
}
_WEIGHTS = {"mg": 1e-6, "g": 1e-3, "kg": 1.0, "t": 1e3}
_LENGTHS = {"mm": 1e-3, "cm": 1e-2, "m": 1.0, "km": 1e3}
_SCALES = {
    unit: (kind, factor)
    for kind, table in (
        ("time", _SECONDS), ("months", _MONTHS), ("weight", _WEIGHTS), ("length", _LENGTHS),
        ("", _TIMES),
    )
    for units, factor in table.items()
    for unit in units.split("|")
}  # fmt: skip
_PLURALS = ("", "s", "e", "n", "en", "es")
_SETS = frozenset(
    [
        "is",
        "was",
        "are",
        "were",
        "be",
        "set",
        "raised",
        "lowered",
        "changed",
        "now",
        "new",
        "old",
        "date",
    ]
)


_NO_SUBJECTS = _SETS | _WORDS_OF_NUMBERS.keys() | _SCALES.keys() | {f"{unit}s" for unit in _SCALES}


_MONTH_OF = {name: n for n, names in enumerate(MONTHS, start=1) for name in names.split("|")}
_MONTH = "|".join(sorted(_MONTH_OF, key=len, reverse=True))
_DAY = re.compile(
    rf"\b(?:(?P<day>\d{{1,2}})(?:st|nd|rd|th|\.)?(?: of| de)? (?P<month>{_MONTH})"
    rf"|(?P<month_first>{_MONTH}) (?P<day_last>\d{{1,2}})(?:st|nd|rd|th)?)\b",
    re.IGNORECASE,
)


@functools.lru_cache(maxsize=20_000)
def _with_plain_days(text: str) -> str:
    """Write a day as one number, its month before its day: 20 April is 420."""
    return _DAY.sub(_day_number, text)


def _day_number(match: re.Match[str]) -> str:
    month = _MONTH_OF[(match["month"] or match["month_first"]).lower()]
    return f"{month}{int(match['day'] or match['day_last']):02}"


class _Value(NamedTuple):
    amount: str
    kind: str
    after: str


@functools.lru_cache(maxsize=20_000)
def values_of(text: str) -> tuple[_Value, ...]:
    """Return the values of a sentence in order; names like K-10 are none.

    Args:
        text: The sentence.
    """
    spelt = _SPELT.sub(lambda m: _WORDS_OF_NUMBERS[m[0].lower()], _with_plain_days(text))
    spelt = _UNITED.sub(r"\1 \2", spelt)
    found = []
    for match in _NUMBER.finditer(spelt):
        unit = _WORD.match(spelt[match.end() :].lstrip(" -"))
        kind, factor = _scale(unit[0].lower() if unit else "")
        amount = f"{_number(match[0]) * factor:.15g}"
        before = _WORD.findall(spelt[: match.start()])
        found.append(_Value(amount, kind, before[-1].lower() if before else ""))
    return tuple(found)


def _scale(word: str) -> tuple[str, float]:
    """Return what a word behind a number measures, and how much of it; plurals count as one."""
    forms = (word.removesuffix(ending) for ending in _PLURALS)
    return next((_SCALES[form] for form in forms if form in _SCALES), ("", 1.0))


def _number(digits: str) -> float:
    """Return a number: the commas of 1,000,000 part thousands, that of 1,5 is a point."""
    parts = digits.split(",")
    return float(".".join(parts) if len(parts) == 2 and len(parts[1]) < 3 else "".join(parts))


@functools.lru_cache(maxsize=20_000)
def _names(text: str) -> frozenset[str]:
    bare = _UNITED.sub(" ", text)
    return frozenset(m.lower() for m in _NAME.findall(bare) if not _VERSION.fullmatch(m))


@functools.lru_cache(maxsize=20_000)
def _words(terms: frozenset[str]) -> frozenset[str]:
    return frozenset(t for t in terms if t.isalpha() and t not in _no_words())


@functools.cache
def _no_words() -> frozenset[str]:
    """Return the terms that a value is made of."""
    said = [*_WORDS_OF_NUMBERS, *_SCALES, *_MONTH_OF, *_SETS]
    return frozenset([*said, *stems(" ".join(said))])


def _two_subjects(left: str, right: str) -> bool:
    """Return whether one word of a sentence or heading stands for another: catalog, billing."""
    one, two = ([w.lower() for w in _WORD.findall(_with_plain_days(t))] for t in (left, right))
    for tag, a, b, c, d in SequenceMatcher(None, one, two, autojunk=False).get_opcodes():
        if tag != "replace":
            continue
        mine, other = one[a:b], two[c:d]
        mine = [w for w in mine if w not in _NO_SUBJECTS and not _is_form_of_one(w, other)]
        other = [w for w in other if w not in _NO_SUBJECTS and not _is_form_of_one(w, one[a:b])]
        if mine and other:
            return True
    return False


def _is_form_of_one(word: str, others: list[str]) -> bool:
    return any(word.startswith(other) or other.startswith(word) for other in others)


def _other_value(left: str, right: str) -> bool:
    mine, other = values_of(left), values_of(right)
    if len(mine) != len(other):
        return not {v.amount for v in mine} & {v.amount for v in other}
    unlike = [(a, b) for a, b in zip(mine, other, strict=True) if a.amount != b.amount]
    if not unlike or any(a.kind != b.kind for a, b in unlike):
        return False
    labels = len(mine) > 1 and unlike[0][0] is mine[0]
    # "service 1 … 5" and "service 2 … 7" are two services: the first number is a name of one
    return not (labels and mine[0].after not in _SETS and _is_label(mine[0], left))


def _is_label(value: _Value, text: str) -> bool:
    return bool(re.search(rf"\b{re.escape(value.after)} {re.escape(value.amount)} [a-z]+ ", text,
                          re.IGNORECASE)) and value.kind == "" and len(value.after) > 3  # fmt: skip


def disagree(left: Quote, right: Quote) -> bool:
    """Return whether two sentences give one subject two values.

    Args:
        left: A sentence.
        right: Another one, perhaps of the same file.
    """
    if left.text == right.text or "|" in left.text or "|" in right.text:
        return False  # rows of a table have their own subjects
    mine, other = _words(left.held), _words(right.held)
    if len(mine & other) < SIMILAR * max(1, len(mine | other)):
        return False
    if not _other_value(left.text, right.text):
        return False
    above, over = _headings(left, right)
    if _names(f"{above} {left.text}") != _names(f"{over} {right.text}"):
        return False
    one, two = set(_WORD.findall(above.lower())), set(_WORD.findall(over.lower()))
    apart = bool(one & two) and _two_subjects(above, over)
    return not apart and not _two_subjects(left.text, right.text)


def _headings(left: Quote, right: Quote) -> tuple[str, str]:
    """Return the headings that may part two subjects: of one document those that differ.

    Of two documents the last ones: their titles differ anyway.
    """
    mine, other = left.heading.split(SEPARATOR), right.heading.split(SEPARATOR)
    if left.source != right.source:
        return mine[-1], other[-1]
    same = 0
    while same < min(len(mine), len(other)) and mine[same] == other[same]:
        same += 1
    return SEPARATOR.join(mine[same:]), SEPARATOR.join(other[same:])


def newer_of(left: Quote, right: Quote, replaced: Mapping[str, Replaced]) -> str:
    """Say which of two sentences is newer, where their documents say it; else nothing.

    Args:
        left: A sentence.
        right: The one that disagrees.
        replaced: The superseded documents.
    """
    for old, new in ((left, right), (right, left)):
        if old.source in replaced and new.source not in replaced:
            return f" (newer: {new.source})"
    one, two = _told(left), _told(right)
    if one and two and one[: len(two)] != two[: len(one)]:
        return f" (newer: {(left if one > two else right).source})"
    return ""


def _told(quote: Quote) -> tuple[int, ...]:
    """Return the day of a sentence or its document, or its year alone; empty: none is said."""
    day = told_on(quote.source, [f"# {quote.heading}\n"])
    if day is not None:
        return day.year, day.month, day.day
    found = re.findall(r"\b(?:19|20)\d\d\b", quote.heading) or re.findall(
        r"(?<!\d)(?:19|20)\d\d(?!\d)", quote.source
    )
    return (int(found[-1]),) if found else ()
