"""The lines of a text and what kind each is: fences, headings, list items, tables, prose."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_ITEM = re.compile(r"(?:[-*+•]|\(?\d{1,9}[.)]|\(?[A-Za-z][.)])[ \t]")
_RULE = re.compile(r"([-=~^*_+#`:.'\"])\1{2,}[ \t]*$")


class LineKind(Enum):
    """What a line is, as far as boundaries are concerned."""

    BLANK = "blank"
    FENCE = "fence"
    CODE = "code"
    HEADING = "heading"
    ITEM = "item"
    BLOCK = "block"
    PROSE = "prose"


@dataclass(frozen=True, slots=True)
class Line:
    """One line.

    Attributes:
        start: Offset of its first character.
        end: Offset after its last character that is not white space (``start`` if blank).
        kind: What it is; a fenced block is one ``FENCE`` and then ``CODE`` to its end.
    """

    start: int
    end: int
    kind: LineKind


def lines_of(text: str) -> Iterator[Line]:
    """Yield the lines of a text in order; linear time."""
    fence = ""
    for match in _LINE.finditer(text):
        start, body = match.start(), match.group().rstrip()
        end = start + len(body)
        opener = _FENCE.match(body)
        if fence:
            closes = opener and opener[1][0] == fence[0] and len(opener[1]) >= len(fence)
            fence = "" if closes and opener and not body[opener.end() :].strip() else fence
            yield Line(start, end, LineKind.CODE if body.strip() else LineKind.BLANK)
        elif opener:
            fence = opener[1]
            yield Line(start, end, LineKind.FENCE)
        else:
            yield Line(start, end, _kind(body))


def _kind(body: str) -> LineKind:
    stripped = body.lstrip()
    if not stripped:
        return LineKind.BLANK
    if _HEADING.match(body):
        return LineKind.HEADING
    if _ITEM.match(stripped):
        return LineKind.ITEM
    if stripped[0] in "|<>" or _RULE.match(stripped):
        return LineKind.BLOCK
    return LineKind.PROSE
