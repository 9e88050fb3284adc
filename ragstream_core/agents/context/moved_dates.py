"""Sentences that give one event another day, later: "starts on 20 April", then "New date: 4 May".

Two sentences are about one event where the later one says that a day has moved, and names nothing
that the earlier one, its headings or the question do not name; or where both say of one subject
that it starts, ends or is due, in documents of two days. What names nothing ("New date: 4 May")
is about what its headings name. The words are data (``moved_dates.yaml``). A document's day stands
in its text, its heads or its name; modification times are not part of what a prompt is made from.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import NamedTuple

from ragstream_core.agents.context.coverage import VAGUE, Piece, Weights, coverage
from ragstream_core.agents.context.quotable import Quote, Terms, quotes_of
from ragstream_core.conversations.dates import MONTHS, without_other_words
from ragstream_core.records import Chunk
from ragstream_core.text.task_words import small_words

TABLE = "moved_dates.yaml"

# Least share of a question's words that a sentence with its headings holds.
SPEAKS = 0.5
MOST_PAIRS = 4
LEAST_SUBJECT = 2
_MONTH_OF = {name: n for n, names in enumerate(MONTHS, start=1) for name in names.split("|")}
_MONTH = "|".join(sorted(_MONTH_OF, key=len, reverse=True))
_YEAR = r"(?:19|20)\d\d"
_DAY = re.compile(
    rf"(?<![\w.-])(?:(?P<iso_year>{_YEAR})-(?P<iso_month>\d\d)-(?P<iso_day>\d\d)"
    rf"|(?P<day>\d{{1,2}})(?:st|nd|rd|th|er|\.)?(?: of| de)? (?P<month>{_MONTH})\b"
    rf"(?:\.?,? (?:de |del )?(?P<year>{_YEAR}))?"
    rf"|(?P<month_first>{_MONTH})\.? (?P<day_last>\d{{1,2}})(?:st|nd|rd|th)?\b"
    rf"(?:,? (?P<year_last>{_YEAR}))?"
    rf"|(?P<day_dot>\d{{1,2}})\.(?P<month_dot>\d{{1,2}})\.(?P<year_dot>{_YEAR})?)(?![\w-])",
    re.IGNORECASE,
)
_PATH_DAY = re.compile(rf"(?<!\d)({_YEAR})[-_.]?(\d\d)[-_.]?(\d\d)(?!\d)")
_HEAD_LINE = re.compile(
    r"^\W{0,4}(?:date|dated|datum|fecha|stand|decided|updated|last updated|aktualisiert|published)"
    r"\W{1,6}([^\n]{4,40})$",
    re.MULTILINE | re.IGNORECASE,
)
_TITLE = re.compile(r"\A\s*#{1,2} ([^\n]{1,200})$", re.MULTILINE)
_PARTS = re.compile(r"[;,]")
_WORD = re.compile(r"[^\W\d_][\w-]+")


class Day(NamedTuple):
    """A day; ``year`` is 0 where the text has none."""

    month: int
    day: int
    year: int = 0

    def is_other(self, other: Day) -> bool:
        """Whether two days cannot be one."""
        years = self.year and other.year and self.year != other.year
        return bool(years) or (self.month, self.day) != (other.month, other.day)

    @property
    def told(self) -> str:
        """In figures, as far as it is known."""
        return f"{self.year:04}-{self.month:02}-{self.day:02}" if self.year else ""


class Moved(NamedTuple):
    """Two sentences that give one event two days.

    Attributes:
        old: The one that was said first.
        new: The one that was said later.
        old_told: The day of the older document, in figures; may be empty.
        new_told: The day of the newer one; may be empty.
        piece_ids: The query pieces that the older one speaks to.
    """

    old: Quote
    new: Quote
    old_told: str
    new_told: str
    piece_ids: tuple[str, ...]

    @property
    def conflict(self) -> str:
        """Say it in a sentence for people."""
        first, later = (f" ({day})" if day else "" for day in (self.old_told, self.new_told))
        return (
            f"Passages disagree: “{self.old.text}”{first} against “{self.new.text}”{later}"
            f" (newer: {self.new.source})"
        )


class _Said(NamedTuple):
    """A sentence with a day, read."""

    quote: Quote
    day: Day
    old_days: tuple[Day, ...]
    before: frozenset[str]
    subject: frozenset[str]
    kind: str
    is_planned: bool
    moves: bool
    again: bool
    told: Day | None


@functools.lru_cache(maxsize=1)
def _rules() -> Mapping[str, re.Pattern[str]]:
    import yaml

    text = (resources.files(__package__) / TABLE).read_text(encoding="utf-8")
    rows: Mapping[str, Mapping[str, Sequence[str]]] = yaml.safe_load(text)
    found = {}
    for kind in next(iter(rows.values())):
        forms = sorted((f for row in rows.values() for f in row[kind]), key=len, reverse=True)
        end = r"(?:\W{1,3}(?:on|am|the|den|dem|le|el))?\W{0,3}$" if kind == "old" else r"(?!\w)"
        found[kind] = re.compile(rf"(?<!\w)(?:{'|'.join(forms)}){end}", re.IGNORECASE)
    return found


def _day_of(match: re.Match[str]) -> Day | None:
    parts = match.groupdict()
    name = (parts["month"] or parts["month_first"] or "").lower()
    month = _MONTH_OF.get(name) or int(parts["iso_month"] or parts["month_dot"] or 0)
    day = int(parts["iso_day"] or parts["day"] or parts["day_last"] or parts["day_dot"])
    years = (parts[name] for name in ("iso_year", "year", "year_last", "year_dot"))
    year = int(next(filter(None, years), 0))
    return Day(month, day, year) if 1 <= month <= 12 and 1 <= day <= 31 else None


def days_in(text: str) -> list[tuple[tuple[int, int], Day]]:
    """Return the days that a text names in figures or by a month's name, with their spans.

    Args:
        text: In English, German, French or Spanish.
    """
    found = ((m.span(), _day_of(m)) for m in _DAY.finditer(without_other_words(text)))
    return [(span, day) for span, day in found if day is not None]


def told_on(source: str, texts: Sequence[str]) -> Day | None:
    """Return the day of a document, with its year: of its title, its head or its name.

    Args:
        source: Its path.
        texts: Its headings and passages, the most telling first.
    """
    for text in texts:
        for line in (*_TITLE.findall(text), *_HEAD_LINE.findall(text)):
            for _, day in days_in(line):
                if day.year:
                    return day
    named = _PATH_DAY.search(source)
    if named and 1 <= int(named[2]) <= 12 and 1 <= int(named[3]) <= 31:
        return Day(int(named[2]), int(named[3]), int(named[1]))
    return None


def _clauses(text: str) -> Iterator[tuple[str, list[tuple[tuple[int, int], Day]]]]:
    """Yield the clauses of a sentence that name a day, with these days."""
    days = days_in(text)
    hidden = list(text)
    for (start, end), _ in days:
        hidden[start:end] = "\x00" * (end - start)
    plain = "".join(hidden)
    cuts = [m.span() for rule in (_PARTS, _rules()["clause"]) for m in rule.finditer(plain)]
    begin = 0
    for start, end in [*sorted(cuts), (len(text), len(text))]:
        mine = [((a - begin, b - begin), day) for (a, b), day in days if begin <= a and b <= start]
        if mine:
            yield text[begin:start], mine
        begin = max(begin, end)


def _stems(text: str, terms: Terms) -> frozenset[str]:
    """Return the stems of what names the subject of a clause: no day, and nothing said of it."""
    bare = _DAY.sub(" ", text)
    for name in ("moved", "starts", "ends", "due", "held", "fillers"):
        bare = _rules()[name].sub(" ", bare)
    small = small_words(text)
    words = [w for w in _WORD.findall(bare) if w.lower() not in small]
    return frozenset(stem for word in words for stem in terms(word))


def _read(quote: Quote, told: Day | None, terms: Terms) -> _Said | None:
    """Read the first clause of a sentence that names one day as it is to be; None: none does."""
    rules = _rules()
    for clause, days in _clauses(quote.text):
        old = [day for (start, _), day in days if rules["old"].search(clause[:start])]
        new = [row for row in days if row[1] not in old]
        moves = rules["moved"].search(clause) is not None or bool(old)
        if len(new) != 1 or (old and not rules["moved"].search(clause) and len(days) > 1):
            continue  # "from 4 to 8 May" is a span of days
        (start, _), day = new[0]
        kind = next((k for k in ("starts", "ends", "due") if rules[k].search(clause)), "")
        planned = bool(kind) or moves or rules["held"].search(clause) is not None
        again = rules["again"].search(clause) is not None
        before, subject = _stems(clause[:start], terms), _stems(clause, terms)
        return _Said(quote, day, tuple(old), before, subject, kind, planned, moves, again, told)
    return None


def _names(text: str, terms: Terms) -> frozenset[str]:
    words = _WORD.findall(text)[1:]
    return frozenset(s for w in words if w[0].isupper() for s in terms(w))


def _is_moved(old: _Said, new: _Said, piece: Piece, terms: Terms) -> bool:
    """Return whether a sentence that moves a day moves the day of another one."""
    if old.again and old.day not in new.old_days:
        return False  # the next meeting was another one then
    if new.kind != old.kind and (new.kind or old.kind == "ends"):
        return False
    mine = old.quote.held | old.quote.context
    other = new.quote.held | new.quote.context
    asked = frozenset(piece.terms) - VAGUE
    if new.subject:
        named = _names(piece.text, terms) & old.quote.held
        own = new.subject <= mine | asked and not new.subject.isdisjoint(old.quote.held)
        return own and named <= other
    return old.is_planned and not asked.isdisjoint(old.quote.held & other)


def _is_said_anew(old: _Said, new: _Said) -> bool:
    """Return whether two documents of two days say of one subject when it starts, or ends."""
    if not old.kind or old.kind != new.kind or old.again or new.again:
        return False
    if old.told is None or new.told is None or old.told == new.told:
        return False
    shared = new.subject & old.subject
    return (
        len(shared) >= LEAST_SUBJECT
        and new.subject <= old.quote.held
        and old.before <= new.quote.held | new.quote.context
    )


def _order(one: _Said, two: _Said) -> tuple[_Said, _Said] | None:
    """Return two sentences, the one said first before the other; None: nobody says which it is."""
    if one.told and two.told and one.told != two.told:
        rows = sorted((one, two), key=lambda said: (said.told.year, *said.told[:2]) if said.told
                      else (0, 0, 0))  # fmt: skip
        return rows[0], rows[1]
    if one.moves != two.moves and one.quote.source != two.quote.source:
        return (two, one) if one.moves else (one, two)
    return None


def moved_dates(
    kept: Sequence[Chunk], chunks: Sequence[Chunk], pieces: Sequence[Piece], terms: Terms
) -> list[Moved]:
    """Return the days that kept passages name and that another passage gives anew.

    Args:
        kept: The passages of documents that are to be shown, in rank order.
        chunks: All passages of documents that were found, best first.
        pieces: What is asked, in the person's own words.
        terms: Stems a text.
    """
    shown = {chunk.id for chunk in kept}
    if not any(chunk.id in shown and _DAY.search(chunk.snippet) for chunk in chunks):
        return []
    quotes = [q for rank, c in enumerate(chunks) if _DAY.search(c.snippet)
              for q in quotes_of(c, rank, terms)]  # fmt: skip
    weight = Weights.of(quotes, frozenset(t for piece in pieces for t in piece.terms))
    read = _all_read(quotes, chunks, terms)
    found: dict[tuple[str, str], Moved] = {}
    for old in (said for said in read if said.quote.chunk_id in shown):
        for piece in (piece for piece in pieces if _speaks(piece, old.quote, weight)):
            for new in (new for new in read if _gives_anew(old, new, piece, terms)):
                key = (old.quote.text, new.quote.text)
                ids = (*found[key].piece_ids, piece.id) if key in found else (piece.id,)
                found[key] = Moved(old.quote, new.quote, _told(old), _told(new), ids)
    return list(found.values())[:MOST_PAIRS]


def _all_read(quotes: Sequence[Quote], chunks: Sequence[Chunk], terms: Terms) -> list[_Said]:
    """Read the sentences that give a day; a row of a table has its own subject."""
    texts: dict[str, list[str]] = {}
    for chunk in chunks:
        texts.setdefault(chunk.source, []).append(chunk.snippet)
    told = {source: told_on(source, rows) for source, rows in texts.items()}
    found = []
    for quote in quotes:
        under = [day for _, day in days_in(quote.heading) if day.year]
        if quote.is_said and not quote.quoted and "|" not in quote.text:
            found.append(_read(quote, under[-1] if under else told[quote.source], terms))
    return [said for said in found if said is not None]


def _gives_anew(old: _Said, new: _Said, piece: Piece, terms: Terms) -> bool:
    if not old.day.is_other(new.day) or _order(old, new) != (old, new):
        return False
    return (new.moves and _is_moved(old, new, piece, terms)) or _is_said_anew(old, new)


def _told(said: _Said) -> str:
    return said.told.told if said.told else ""


def _speaks(piece: Piece, quote: Quote, weight: Weights) -> bool:
    if quote.held.isdisjoint(frozenset(piece.terms) - VAGUE):
        return False
    return coverage(piece, quote.held, quote.context, weight) >= SPEAKS
