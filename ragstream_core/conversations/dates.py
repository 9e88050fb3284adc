"""The days that a text names: dates, and words like "last Friday", by the day they were said on.

Rules for English, German, French and Spanish. What leaves open which day is meant, like "on
Friday", "recently" or 3/4/2026, names none.
"""

from __future__ import annotations

import calendar
import datetime as dt
import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

MONTHS = (
    "january|jan|januar|jänner|janvier|enero", "february|feb|februar|février|febrero",
    "march|mar|märz|mars|marzo", "april|apr|avril|abril", "may|mai|mayo",
    "june|jun|juni|juin|junio",
    "july|jul|juli|juillet|julio", "august|aug|août|agosto",
    "september|sept|sep|septembre|septiembre", "october|oct|oktober|octobre|octubre",
    "november|nov|novembre|noviembre", "december|dec|dezember|décembre|diciembre",
)  # fmt: skip
_WEEKDAYS = (
    "monday|mon|montag|lundi|lunes", "tuesday|tues|tue|dienstag|mardi|martes",
    "wednesday|wed|mittwoch|mercredi|miércoles", "thursday|thurs|thu|donnerstag|jeudi|jueves",
    "friday|fri|freitag|vendredi|viernes", "saturday|sat|samstag|sonnabend|samedi|sábado",
    "sunday|sun|sonntag|dimanche|domingo",
)  # fmt: skip
_UNITS = (
    "day|days|tag|tage|tagen|jour|jours|día|días",
    "week|weeks|woche|wochen|semaine|semaines|semana|semanas",
    "weekend|weekends|wochenende|wochenenden|week-end|fin de semana",
    "month|months|monat|monate|monaten|mois|mes|meses",
    "year|years|jahr|jahre|jahren|an|ans|année|années|año|años",
)
DAY, WEEK, WEEKEND, MONTH, YEAR = range(5)

# One to ten, in English, German, French and Spanish.
NUMBERS = (
    "a|an|one|einem|einer|un|une|una", "two|a couple of|zwei|deux|dos", "three|drei|trois|tres",
    "four|vier|quatre|cuatro", "five|fünf|cinq|cinco", "six|sechs|seis", "seven|sieben|siete",
    "eight|acht|huit|ocho", "nine|neun|neuf|nueve", "ten|zehn|dix|diez",
)  # fmt: skip
_NEAR_DAYS = (
    "the day before yesterday|vorgestern|avant-hier|anteayer",
    "yesterday|last night|gestern|hier|ayer|anoche",
    "today|tonight|this morning|heute|aujourd'hui|aujourd’hui|hoy",
    "tomorrow|demain",
)
_STEPS = (
    "last|past|previous|letzte|letzten|letzter|letztes|letztem|vorige|vorigen|voriges|vorigem|"
    "vergangene|vergangenen|vergangenes|vergangenem|dernier|dernière|passé|passée|pasado|pasada",
    "this|diese|diesen|dieser|dieses|diesem|ce|cette|este|esta",
    "next|coming|nächste|nächsten|nächster|nächstes|nächstem|kommende|kommenden|kommendes|"
    "prochain|prochaine|próximo|próxima|que viene",
)
_SIDES = ("before|vor|vor dem|vor der|avant|avant le|antes del|antes de",
          "after|nach|nach dem|nach der|après|après le|después del|después de")  # fmt: skip
_SPANS = (
    "(?:between|from|zwischen|vom|von|entre|du|del) (?:the |dem |le |el )?",
    " (?:and|to|until|till|through|und|bis|bis zum|et|au|y|al) (?:the |dem |le |el )?",
)

# How the parts of the last day of a span are told from those of its first one.
_UNTIL = "_until"
_END = dt.date.max.toordinal()

# Years from one 29 February to the next, at most.
_LEAP = 8
_DAY_OF_MAY = (
    r"(?:the )?(?:\d{1,2}(?:st|nd|rd|th)?(?: of)? (?:may|march|mar)"
    r"|(?:may|march|mar) \d{1,2}(?:st|nd|rd|th)?)"
)
_NO_DAYS = re.compile(
    # English days have a capital: "this may help", "we march 3 miles", "I sat next to Bob";
    # or stand as in "on 5 may", unless a verb may follow: "the tests on 5 may fail".
    r"(?P<day>\b(?:on|by|until|till|since|before|after|from|between) "
    r"(?:(?:the )?\d{1,2}(?:st|nd|rd|th)? (?:and|or|to|until|till) )?"
    rf"{_DAY_OF_MAY}(?: (?:and|or|to|until|till) {_DAY_OF_MAY})*"
    r"\b(?!,? (?!(?:and|at|in|or|to|did|was|were|we|i|he|she|they|you|with)\b)\w)"
    r"(?! (?:and|or) (?:may|might|can|could|must|should|will|would|not)\b))"
    r"|\b(?:may|march|mar|mon|wed|sat|sun)\b"
    r"(?!\.?,? (?:of |de |del )?(?:\d{1,2}(?:st|nd|rd|th)?,? ?)?(?:19|20)\d\d\b)"
    r"|\bMon(?= (?:derni|pass|proch))"  # French: mine
)
_HERE = re.compile(r"(?<![-\w])hier\b", re.IGNORECASE)
_GERMAN = re.compile(
    r"\b(?:ist|sind|war|der|die|das|dem|den|ein|eine|und|nicht|wie|was|wo|ich|wir|steht)\b",
    re.IGNORECASE,
)


class Days(NamedTuple):
    """Days that follow each other, numbered as `datetime.date.toordinal` does."""

    first: int  # the first one
    last: int  # the last one, ≥ ``first``

    def meets(self, other: Days) -> bool:
        """Whether a day lies in both."""
        return self.first <= other.last and other.first <= self.last


# Returns the day on which a text was said; called only if something is counted from it.
Said = Callable[[], dt.date]


@dataclass(frozen=True, slots=True)
class _From:
    """What days are counted from; see `days_named`."""

    said: Said
    nearest: bool


def days_named(text: str, said: Said, nearest: bool = False) -> list[Days]:
    """Return the days that a text names; those of one rule follow the order of the text."""
    found: list[Days] = []
    if not _hint().search(text.lower()):
        return found
    base, text = _From(said, nearest), without_other_words(text).lower()
    for pattern, days in _rules():

        def taken(match: re.Match[str], days: _Rule = days) -> str:
            try:
                named = days(match, base)
            except (ValueError, OverflowError):  # 31 April; before the first year
                return match[0]
            if named.first >= 1 and named.last <= _END:
                found.append(named)
            return _blank(match)  # so no other rule reads it

        text = pattern.sub(taken, text)
    return found


def without_other_words(text: str) -> str:
    """Return a text with blanks for words that are written like a day and are none."""
    text = _NO_DAYS.sub(lambda match: match["day"] or _blank(match), text)
    return _HERE.sub(_blank, text) if _GERMAN.search(text) else text


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


_Rule = Callable[["re.Match[str]", _From], Days]


@functools.cache
def _numbers(table: tuple[str, ...]) -> dict[str, int]:
    return {word: number for number, words in enumerate(table) for word in words.split("|")}


def _any(table: tuple[str, ...]) -> str:
    return "(?:" + "|".join(sorted(_numbers(table), key=len, reverse=True)) + ")"


def _number(table: tuple[str, ...], word: str) -> int:
    return _numbers(table)[word]


@functools.cache
def _hint() -> re.Pattern[str]:
    """Return what every text has that names a day, tried first because most have none of it."""
    tables = MONTHS, _NEAR_DAYS, _STEPS, ("ago|vor|y a|hace",)
    return re.compile(r"\b(?:(?:19|20)\d\d|" + "|".join(map(_any, tables)) + r")\b")


@functools.cache
def _rules() -> tuple[tuple[re.Pattern[str], _Rule], ...]:
    """Return the rules, those that read more before those that read less.

    A group of a number, "month2", is another place of the same part.
    """
    month, unit, weekday, step = map(_any, (MONTHS, _UNITS, _WEEKDAYS, _STEPS))
    year, count = r"(?:19|20)\d\d", rf"(?:\d{{1,3}}|{_any(NUMBERS)})"
    date, until = _date_form(month, year), _date_form(month, year, _UNTIL)
    first = rf"(?:{date}|(?P<bare>\d{{1,2}})(?:st|nd|rd|th|er|\.)?)"
    thing = rf"(?:(?P<unit>{unit})|(?P<weekday>{weekday}))"
    forms = (
        (rf"(?:(?P<count>{count}) )?{thing} (?P<side>{_any(_SIDES)}) (?:the )?{date}", _off_date),
        (_SPANS[0] + first + _SPANS[1] + until, _between),
        (date, _date),
        (rf"(?P<count>{count}) (?P<unit>{unit}) ago"
         rf"|(?:vor|il y a|hace) (?P<count2>{count}) (?P<unit2>{unit})", _ago),
        (rf"(?P<month>{month}),? (?:of |de |del )?(?P<year>{year})", _month),
        (rf"(?P<step>{step}) (?!an\b)(?:{thing}|(?P<month>{month}))"  # diese an Bob
         rf"|(?!an (?!derni|pass|proch))(?:(?P<unit2>{unit})|(?P<weekday2>{weekday}))"
         rf" (?P<step2>{step})", _stepped),
        (f"(?P<word>{_any(_NEAR_DAYS)})", _near_day),
        (rf"(?:in|during|since|of|im|seit|en|depuis|desde) (?P<month>{month})", _month),
        (rf"(?:in|during|since|im jahr|en|depuis|desde) (?P<year>{year})", _year),
    )  # fmt: skip
    return tuple((re.compile(rf"\b(?:{form})\b"), days) for form, days in forms)


def _date_form(month: str, year: str, which: str = "") -> str:
    """Return a date as a rule reads it; its groups are named for the day that it is of a span."""
    return (
        rf"(?:(?P<iso{which}>{year}-\d\d-\d\d)"
        r"(?:t\d\d(?::?\d\d){0,2}(?:[.,]\d{1,9})?(?:z|[+-]\d\d(?::?\d\d)?)?)?"
        rf"|(?P<day{which}>\d{{1,2}})(?:st|nd|rd|th|er|\.)?(?: of| de)? (?P<month{which}>{month})"
        rf"\.?(?:,? (?:de |del )?(?P<year{which}>{year}))?"
        rf"|(?P<month2{which}>{month})\.? (?P<day2{which}>\d{{1,2}})(?:st|nd|rd|th)?"
        rf"(?:,? ?(?P<year2{which}>{year}))?)"
    )


def _part(match: re.Match[str], name: str, which: str = "") -> str:
    parts = match.groupdict()
    return parts.get(f"{name}{which}") or parts.get(f"{name}2{which}") or ""


def _off_date(match: re.Match[str], base: _From) -> Days:
    """Two weeks before 5 May 2026; the Friday after it."""
    date = _date_of(match, base)
    sign = 1 if _number(_SIDES, match["side"]) else -1
    if match["weekday"]:
        return _weekday(date, _number(_WEEKDAYS, match["weekday"]), sign)
    unit = _number(_UNITS, match["unit"])
    if match["count"]:
        return _moved(date, unit, sign * _count(match["count"]))
    return _unit_of(date, unit, sign)


def _date(match: re.Match[str], base: _From) -> Days:
    day = _date_of(match, base).toordinal()
    return Days(day, day)


def _between(match: re.Match[str], base: _From) -> Days:
    """Return the days from one to another: the 3rd to 9 May; what one leaves out the other says."""
    if match["bare"]:
        last = _date_of(match, base, _UNTIL)
        first = last.replace(day=int(match["bare"]))
    elif match["iso"] or _part(match, "year"):
        first = _date_of(match, base)
        last = _date_of(match, _From(lambda: first, nearest=False), _UNTIL)
        if last < first and not (match[f"iso{_UNTIL}"] or _part(match, "year", _UNTIL)):
            last = last.replace(year=last.year + 1)
    else:
        last = _date_of(match, base, _UNTIL)
        first = _date_of(match, _From(lambda: last, nearest=False))
    if last < first:
        raise ValueError("it ends before it begins")
    return Days(first.toordinal(), last.toordinal())


def _date_of(match: re.Match[str], base: _From, which: str = "") -> dt.date:
    if iso := match[f"iso{which}"]:
        return dt.date.fromisoformat(iso)
    month, day = _number(MONTHS, _part(match, "month", which)) + 1, int(_part(match, "day", which))
    if year := _part(match, "year", which):
        return dt.date(int(year), month, day)
    return _of_no_year(month, day, base)


def _of_no_year(month: int, day: int, base: _From) -> dt.date:
    today = base.said()
    years = range(max(today.year - _LEAP, 1), min(today.year + _LEAP, 9999) + 1)
    dates = [
        dt.date(year, month, day)
        for year in years
        if 1 <= day <= calendar.monthrange(year, month)[1]
    ]
    if base.nearest:
        return min(dates, key=lambda date: abs(date - today))
    return max(date for date in dates if date <= today)


def _ago(match: re.Match[str], base: _From) -> Days:
    unit = _number(_UNITS, _part(match, "unit"))
    return _moved(base.said(), unit, -_count(_part(match, "count")))


def _count(text: str) -> int:
    return int(text) if text.isdigit() else _number(NUMBERS, text) + 1


def _moved(base: dt.date, unit: int, by: int) -> Days:
    """Return so many days, weeks, months or years off; what is longer than a day is rough."""
    if unit in (WEEK, WEEKEND):
        middle = base.toordinal() + 7 * by
        return Days(middle - 3, middle + 3)
    if unit == DAY:
        return Days(base.toordinal() + by, base.toordinal() + by)
    return _unit_of(base, unit, by)


def _unit_of(base: dt.date, unit: int, by: int) -> Days:
    """Return the day, week, weekend, month or year so many of them after that of a day."""
    day = base.toordinal()
    monday = day - base.weekday() + 7 * by
    if unit == DAY:
        return Days(day + by, day + by)
    if unit in (WEEK, WEEKEND):
        return Days(monday + 5 * (unit == WEEKEND), monday + 6)
    if unit == YEAR:
        return Days(*(dt.date(base.year + by, *end).toordinal() for end in ((1, 1), (12, 31))))
    months = base.year * 12 + base.month - 1 + by
    return _month_of(months // 12, months % 12 + 1)


def _month_of(year: int, month: int) -> Days:
    first = dt.date(year, month, 1).toordinal()
    return Days(first, first + calendar.monthrange(year, month)[1] - 1)


def _month(match: re.Match[str], base: _From) -> Days:
    month, parts = _number(MONTHS, match["month"]) + 1, match.groupdict()
    if year := parts.get("year"):
        return _month_of(int(year), month)
    today = base.said()
    back = (today.month - month) % 12
    return _unit_of(today, MONTH, 12 - back if base.nearest and back > 6 else -back)


def _year(match: re.Match[str], base: _From) -> Days:
    return _unit_of(dt.date(int(match["year"]), 1, 1), YEAR, 0)


def _stepped(match: re.Match[str], base: _From) -> Days:
    """Last week, this month, vendredi dernier."""
    by, today = _number(_STEPS, _part(match, "step")) - 1, base.said()
    if weekday := _part(match, "weekday"):
        return _weekday(today, _number(_WEEKDAYS, weekday), by)
    if match["month"]:
        month = _number(MONTHS, match["month"]) + 1
        past, ahead = month >= today.month, month <= today.month
        return _month_of(today.year + (-past if by < 0 else ahead if by else 0), month)
    return _unit_of(today, _number(_UNITS, _part(match, "unit")), by)


def _weekday(base: dt.date, weekday: int, by: int) -> Days:
    """Return the nearest such day before or after a day; for 0 that of its week."""
    apart = (weekday - base.weekday()) % 7
    step = apart or 7 if by > 0 else apart - 7 if by else weekday - base.weekday()
    return Days(base.toordinal() + step, base.toordinal() + step)


def _near_day(match: re.Match[str], base: _From) -> Days:
    day = base.said().toordinal() + _number(_NEAR_DAYS, match["word"]) - 2
    return Days(day, day)
