"""The numbers that Word prints before paragraphs: of lists, of headings, of articles.

A document holds no number, only which list a paragraph belongs to; counting is left to the reader.
Here each number is written into its paragraph as text, ECMA-376 part 1, section 17.9.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"

# Stands before a number, followed by the digit of its level; no font has a sign for it.
MARK = "\ue5a1"
_LEVELS = 9
_PLACE = re.compile(r"%([1-9])")
_ROMAN = ((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"),
          (40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"))  # fmt: skip
_MOST_ROMAN = 4000


@dataclass(frozen=True, slots=True)
class _Level:
    """How a level of a list is numbered."""

    start: int = 1
    number_format: str = "decimal"
    text: str = ""
    restart: int | None = None
    is_legal: bool = False


class _Place(NamedTuple):
    """Where a paragraph stands in which list."""

    number_id: str
    level: int


@dataclass(slots=True)
class _List:
    """An abstract list: its levels, and how far each was counted."""

    levels: dict[int, _Level]
    counts: dict[int, int] = field(default_factory=dict)


def write_numbers(body: Any, numbering: Any, styles: Any) -> None:
    """Write into each numbered paragraph what Word prints before it."""
    if numbering is None:
        return
    counter = _Counter(numbering, styles)
    for paragraph in body.iter(f"{W}p"):
        if _is_elsewhere(paragraph):
            continue
        if label := counter.label(paragraph):
            place = 1 if paragraph.find(f"{W}pPr") is not None else 0
            paragraph.insert(place, run_of(paragraph, label))


def _is_elsewhere(paragraph: Any) -> bool:
    """Return whether it stands in a text box, or was deleted."""
    if is_in(paragraph, f"{W}txbxContent"):
        return True
    deleted = paragraph.find(f"{W}pPr/{W}rPr/{W}del") is not None
    return deleted and next(paragraph.iter(f"{W}t"), None) is None


def is_in(element: Any, *tags: str) -> bool:
    """Return whether an element stands in another of these tags."""
    return any(True for _ in element.iterancestors(*tags))


def run_of(near: Any, text: str) -> Any:
    """Return a run of text for the document of an element."""
    run = near.makeelement(f"{W}r", {})
    said = run.makeelement(f"{W}t", {"{http://www.w3.org/XML/1998/namespace}space": "preserve"})
    said.text = text
    run.append(said)
    return run


def _value(element: Any, path: str, default: str = "") -> str:
    found = element.find("/".join(W + part for part in path.split("/")))
    return default if found is None else str(found.get(f"{W}val", default))


def _whole(text: str, default: int) -> int:
    return int(text) if re.fullmatch(r"-?\d{1,9}", text) else default


class _Counter:
    """Counts the paragraphs of all lists of a document, in order."""

    def __init__(self, numbering: Any, styles: Any) -> None:
        self._styles = {} if styles is None else {
            style.get(f"{W}styleId"): style for style in styles.iter(f"{W}style")
        }  # fmt: skip
        abstract = {a.get(f"{W}abstractNumId"): a for a in numbering.iter(f"{W}abstractNum")}
        self._numbers = {n.get(f"{W}numId"): n for n in numbering.iter(f"{W}num")}
        self._abstract = abstract
        self._lists: dict[str, _List] = {}
        self._own: dict[str, dict[int, _Level]] = {}
        self._started: set[_Place] = set()

    def label(self, paragraph: Any) -> str:
        """Return the mark, level and number of a paragraph with a blank; "" if it has none."""
        place = self._place(paragraph)
        found = self._list(place.number_id) if place else None
        if place is None or found is None:
            return ""
        levels = found.levels | self._overrides(place.number_id)
        level = levels.get(place.level)
        if level is None:
            return ""
        self._count(found, place, levels)
        if level.number_format == "bullet":
            return f"{MARK}{place.level}- "
        text = _PLACE.sub(lambda m: self._written(m[1], found, levels, level), level.text).strip()
        return f"{MARK}{place.level}{text} " if text else ""

    def _place(self, paragraph: Any) -> _Place | None:
        """Return the list and level that a paragraph or its style names."""
        style = _value(paragraph, "pPr/pStyle")
        number_id, level = _value(paragraph, "pPr/numPr/numId"), _value(paragraph, "pPr/numPr/ilvl")
        for ancestor in self._ancestors(style) if not number_id else ():
            number_id = number_id or _value(ancestor, "pPr/numPr/numId")
            level = level or _value(ancestor, "pPr/numPr/ilvl")
            if number_id:
                level = level or self._level_of_style(number_id, ancestor.get(f"{W}styleId"))
                break
        if number_id in ("", "0"):
            return None
        return _Place(number_id, min(_LEVELS - 1, max(0, _whole(level, 0))))

    def _ancestors(self, style: str) -> Iterator[Any]:
        for _ in range(_LEVELS * 2):  # styles may be based on each other in a circle
            found = self._styles.get(style)
            if found is None:
                return
            yield found
            style = _value(found, "basedOn")

    def _level_of_style(self, number_id: str, style: str) -> str:
        for level in self._level_elements(number_id):
            if _value(level, "pStyle") == style:
                return str(level.get(f"{W}ilvl", "0"))
        return "0"

    def _abstract_id(self, number_id: str) -> str:
        """Return the abstract list of a number; a list may name the style that defines it."""
        for _ in range(_LEVELS):
            number = self._numbers.get(number_id)
            abstract_id = "" if number is None else _value(number, "abstractNumId")
            abstract = self._abstract.get(abstract_id)
            link = "" if abstract is None else _value(abstract, "numStyleLink")
            if not link or link not in self._styles:
                return abstract_id
            number_id = _value(self._styles[link], "pPr/numPr/numId")
        return ""

    def _level_elements(self, number_id: str) -> list[Any]:
        abstract = self._abstract.get(self._abstract_id(number_id))
        return [] if abstract is None else abstract.findall(f"{W}lvl")

    def _list(self, number_id: str) -> _List | None:
        abstract_id = self._abstract_id(number_id)
        if abstract_id not in self._abstract:
            return None
        if abstract_id not in self._lists:
            self._lists[abstract_id] = _List(dict(map(_level, self._level_elements(number_id))))
        return self._lists[abstract_id]

    def _overrides(self, number_id: str) -> dict[int, _Level]:
        """Return the levels that a number defines anew."""
        if number_id not in self._own:
            given = self._numbers[number_id].findall(f"{W}lvlOverride/{W}lvl")
            self._own[number_id] = dict(map(_level, given))
        return self._own[number_id]

    def _start_override(self, place: _Place) -> int | None:
        for given in self._numbers[place.number_id].findall(f"{W}lvlOverride"):
            if given.get(f"{W}ilvl") == str(place.level):
                start = _value(given, "startOverride")
                return _whole(start, 1) if start else None
        return None

    def _count(self, found: _List, place: _Place, levels: dict[int, _Level]) -> None:
        start = None if place in self._started else self._start_override(place)
        self._started.add(place)
        if start is not None:
            found.counts[place.level] = start
        elif place.level in found.counts:
            found.counts[place.level] += 1
        else:
            found.counts[place.level] = levels[place.level].start
        for deeper in [d for d in found.counts if d > place.level]:
            restart = levels[deeper].restart if deeper in levels else None
            if restart is None or (restart and place.level < restart):
                del found.counts[deeper]

    def _written(self, place: str, found: _List, levels: dict[int, _Level], own: _Level) -> str:
        at = int(place) - 1
        level = levels.get(at, _Level())
        number = found.counts.get(at, level.start)
        return in_format(number, "decimal" if own.is_legal else level.number_format)


def _level(element: Any) -> tuple[int, _Level]:
    restart = _value(element, "lvlRestart")
    legal = element.find(f"{W}isLgl")
    return _whole(str(element.get(f"{W}ilvl", "0")), 0), _Level(
        start=_whole(_value(element, "start"), 0 if element.find(f"{W}start") is None else 1),
        number_format=_value(element, "numFmt", "decimal"),
        text=_value(element, "lvlText"),
        restart=_whole(restart, 0) if restart else None,
        is_legal=legal is not None and legal.get(f"{W}val") not in ("0", "false"),
    )


def in_format(number: int, number_format: str) -> str:
    """Return a number in letters, Roman or other digits."""
    if number_format in ("none", "bullet"):
        return ""
    if number_format == "decimalZero":
        return f"{number:02}"
    if number < 1:
        return str(number)
    if number_format.endswith("Letter") and number <= 26 * _LEVELS:
        letters = chr(ord("a") + (number - 1) % 26) * ((number - 1) // 26 + 1)
        return letters.upper() if number_format == "upperLetter" else letters
    if number_format.endswith("Roman") and number < _MOST_ROMAN:
        roman = ""
        for value, sign in _ROMAN:
            roman += sign * (number // value)
            number %= value
        return roman.upper() if number_format == "upperRoman" else roman
    if number_format == "ordinal":
        teen = number % 100 in (11, 12, 13)
        return f"{number}{'th' if teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"
    return str(number)
