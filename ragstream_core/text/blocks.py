"""What each line of a Markdown text is, and which of its markup can be left out.

Every removal is a span of the source, so a chunk without markup keeps its place in it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_FENCE = re.compile(r"([ \t]{0,12})(`{3,}|~{3,})")
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
        before, fence = fence, fence_behind(body, fence, indent=3)
        if before:
            yield Line(start, end, LineKind.CODE if body.strip() else LineKind.BLANK)
        elif fence:
            yield Line(start, end, LineKind.FENCE)
        else:
            yield Line(start, end, _kind(body))


def is_table_rule(line: str) -> bool:
    """Return whether a line parts the head of a table with several columns from its rows."""
    return "|" in line and "-" in line and _TABLE_RULE.match(line) is not None


def fence_behind(line: str, fence: str, *, indent: int = 12) -> str:
    """Return the fence that is open behind a line; empty: none.

    Args:
        line: The line.
        fence: The one that is open before it. Only a line of as many of its signs closes it.
        indent: So many blanks may stand before a fence; items of lists indent theirs.
    """
    mark = _FENCE.match(line)
    if mark is None or len(mark[1].expandtabs(4)) > indent:
        return fence
    if not fence:
        return mark[2]
    closes = mark[2].startswith(fence) and not line[mark.end() :].strip()
    return "" if closes else fence


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


MARKUP_VERSION = 1

_HEADING_MARK = re.compile(r" {0,3}#{1,6}(?:[ \t]+|$)")
_CLOSING = re.compile(r"[ \t]+#+$")
_QUOTE = re.compile(r"(?: {0,3}>[ \t]?)+")
_BULLET = re.compile(r"\s*[-*+][ \t]+(?:\[[ xX]\][ \t]+)?")
_RULE_MARK = re.compile(r"\s*(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,}|={2,}|-{2,})$")
_TABLE_RULE = re.compile(  # possessive: empty cells can be read in one way only
    r"\s*+\|?[ \t]*+:?-{2,}+:?+[ \t]*+(?:\|[ \t]*+:?+-*+:?+[ \t]*+)*+$"
)
_CELL = re.compile(r"\s*(?<!\\)\|\s*")
_INLINE = re.compile(
    r"(?P<code>(?<!`)(`{1,3})(?!`)(?P<inner>[^`\n]{1,500})\2(?!`))"
    r"|(?P<link>!?\[(?P<label>[^\[\]\n]{0,500})\]\([^()\n]{0,1000}\))"
    r"|(?P<tag></?(?:b|i|u|em|strong|code|kbd|sub|sup|span|p|div|br|hr|a)\b[^<>\n]{0,200}>)"
    r"|(?P<escape>\\(?=[\\`*_{}\[\]()#+.!|<>~-]))"
)
_EMPHASIS = re.compile(  # matched pairs only: the stars of a glob or a formula stay
    r"(`{1,3})[^`\n]{1,500}\1"
    r"|(?<![\w*_~\\])(?P<mark>\*{1,3}|_{1,3}|~~)(?=[\w\"'“(\[`])"
    r"(?P<said>(?:[^\n]|\n(?!\n)){1,300}?)(?<=[\w\"'”)\].,:;!?`…%])(?P=mark)(?![\w*_~])"
)


class Removal(NamedTuple):
    """``text[start:end]`` is markup; ``instead`` stands for it."""

    start: int
    end: int
    instead: str = ""


class Markup:
    """The removals of one text, found once and applied to any part of it."""

    def __init__(self, text: str) -> None:
        """Find the markup; what is inside fenced blocks stays, their fences go."""
        self._text = text
        self._removals = sorted(_removals(text))
        self._ends = [removal.end for removal in self._removals]

    def without(self, start: int, end: int) -> str:
        """Return ``text[start:end]`` without markup, without white space around it."""
        parts, at = [], start
        first = bisect_left(self._ends, start + 1)
        for removal in self._removals[first:]:
            if removal.start >= end:
                break
            if removal.end <= at:
                continue
            parts.append(self._text[at : max(at, removal.start)])
            parts.append(removal.instead if removal.start >= at else "")
            at = min(end, removal.end)
        parts.append(self._text[at:end])
        return "".join(parts).strip()


def _removals(text: str) -> Iterator[Removal]:
    in_fence, block = False, -1
    for line in lines_of(text):
        outside = line.kind in (LineKind.FENCE, LineKind.CODE, LineKind.BLANK) or in_fence
        if block >= 0 and outside:
            yield from _emphasis(text, block, line.start)
        block = -1 if outside else (line.start if block < 0 else block)
        if line.kind is LineKind.FENCE:
            in_fence = True
            yield Removal(line.start, _next_line(text, line.end))
        elif line.kind is LineKind.CODE:
            if in_fence and set(text[line.start : line.end].strip()) <= {"`", "~"}:
                yield Removal(line.start, _next_line(text, line.end))
                in_fence = False
        elif line.kind is not LineKind.BLANK:
            in_fence = False
            yield from _in_line(text, line)
    if block >= 0:
        yield from _emphasis(text, block, len(text))


def _emphasis(text: str, start: int, end: int) -> Iterator[Removal]:
    for match in _EMPHASIS.finditer(text, start, end):
        if match["mark"]:
            yield Removal(*match.span("mark"))
            yield from _emphasis(text, *match.span("said"))
            yield Removal(match.end("said"), match.end())


def _in_line(text: str, line: Line) -> Iterator[Removal]:
    body = text[line.start : line.end]
    if _RULE_MARK.match(body) or ("-" in body and _TABLE_RULE.match(body)):
        yield Removal(line.start, _next_line(text, line.end))
        return
    at = line.start
    for opener in (_QUOTE, _HEADING_MARK, _BULLET):
        match = opener.match(text, at, line.end)
        if match is not None and match.end() > at:
            yield Removal(at, match.end())
            at = match.end()
    end = line.end
    closing = _CLOSING.search(text, at, end) if line.kind is LineKind.HEADING else None
    if closing is not None:
        yield Removal(closing.start(), end)
        end = closing.start()
    if text.startswith("|", at):
        yield from _cells(text, at, end)
    else:
        yield from _inline(text, at, end)


def _cells(text: str, start: int, end: int) -> Iterator[Removal]:
    at = start
    for match in _CELL.finditer(text, start, end):
        yield from _inline(text, at, match.start())
        outer = match.start() == start or match.end() == end
        yield Removal(match.start(), match.end(), "" if outer else "\t")
        at = match.end()
    yield from _inline(text, at, end)


def _inline(text: str, start: int, end: int) -> Iterator[Removal]:
    for match in _INLINE.finditer(text, start, end):
        if match["code"]:
            yield Removal(match.start(), match.start("inner"))
            yield Removal(match.end("inner"), match.end())
        elif match["link"]:
            yield Removal(match.start(), match.start("label"))
            yield from _inline(text, match.start("label"), match.end("label"))
            yield Removal(match.end("label"), match.end())
        else:
            yield Removal(*match.span())


def _next_line(text: str, end: int) -> int:
    at = text.find("\n", end)
    return len(text) if at < 0 else at + 1
