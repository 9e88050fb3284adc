"""The blocks of a text: runs of lines that are prose, an item, a row, a heading, code or markup."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from ragstream_core.text.blocks import fence_behind, is_table_rule

# Of a numbered heading in running text: its characters and words, and the words below it.
MAX_TITLE, MAX_TITLE_WORDS, MIN_BELOW = 50, 6, 6
# What marks a line of a quotation, as in mails; not a prompt of Python.
QUOTED = re.compile(r"^ {0,3}(?!>>>)(?:>[ \t]?)+", re.MULTILINE)
_HEADING = re.compile(r" {0,3}#{1,6}(?:\s|$)")
_UNDERLINE = re.compile(r"\s{0,3}([=~^\"*#+-])\1{2,200}\s*$")
_MARKUP = re.compile(r"\s{0,12}(?:</?[A-Za-z][^>\n]{0,400}>|:::|<!--|\.\. \w|import \w+ from )")
_HTML_ROW = re.compile(r"\s{0,12}<tr[\s>]", re.IGNORECASE)
_ITEM = re.compile(r"\s{0,12}(?:[-*+•]|\d{1,3}[.)])\s{1,8}(?:\[[ xX]\] )?")
_DEFINITION = re.compile(r" {0,3}: {1,8}(?=\S)")
_HTML_TAGS = "p|dd|dt|dl|li|ul|ol|div|blockquote|details|summary|section|article"
_HTML_BEGIN = re.compile(
    rf"\s{{0,12}}(?:<(?:{_HTML_TAGS})(?:\s[^<>\n]{{0,200}})?>\s*)+", re.IGNORECASE
)
_HTML_END = re.compile(rf"(?:\s*</(?:{_HTML_TAGS})>)+\s*$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Block:
    """A run of lines of one kind.

    Attributes:
        kind: ``prose``, ``item``, ``row``, ``heading``, ``code`` or ``markup``.
        start: Offset of its first character; behind the bullet for an item.
        end: Offset behind its last character, the line end not included.
    """

    kind: str
    start: int
    end: int


class _Role(NamedTuple):
    """What a line is to the blocks of its text.

    Attributes:
        kind: Of the block it begins or goes on with; "" if it is empty.
        indent: How many of its characters stand before that block.
        begins: Whether it begins a block.
        ends: Whether it ends the block.
        trail: How many of its characters stand behind that block.
    """

    kind: str
    indent: int = 0
    begins: bool = False
    ends: bool = False
    trail: int = 0


_EMPTY = _Role("", ends=True)
_WITHIN = {kind: _Role(kind) for kind in ("prose", "item")}
_OPENED = _Role("markup", begins=True)
_LINES = {kind: _Role(kind, begins=True, ends=True) for kind in ("heading", "markup", "code")}


def blocks(text: str) -> list[Block]:
    """Cut a text into blocks, in order; empty lines belong to none."""
    kinds: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    kind, lines, at = "", 0, 0  # of the open block; without a kind none is open
    fence, quoted, in_table, inside = "", False, False, 0
    lines_below = [*text.split("\n")[1:], ""]
    for whole, below in zip(text.split("\n"), lines_below, strict=True):
        mark = None if fence else QUOTED.match(whole)
        line = whole[mark.end() :] if mark else whole
        if mark and not quoted:
            kind = ""  # a quotation begins a block
        quoted, at = mark is not None, at + len(whole) - len(line)
        before, fence = fence, fence_behind(line, fence)
        in_table = "|" in line and (in_table or is_table_rule(below))
        inside = _inside(line, inside)
        role = _fenced(before, fence) if before or fence else _role(line, kind, lines, inside)
        if in_table and role.kind in ("prose", "item", "markup"):  # without bars around it
            role = _Role("row", len(line) - len(line.lstrip()), begins=True, ends=True)
        end = at + len(line.rstrip()) - role.trail
        if role.kind == kind == "item" and lines == 1 and _heads(text, starts[-1], ends[-1], line):
            kinds[-1], role = "heading", _Role("prose", begins=True)
        if role.begins:
            kinds.append(role.kind)
            starts.append(at + role.indent)
            ends.append(end)
            lines = 1
        elif role.kind:
            kinds[-1], ends[-1] = role.kind, end
            lines += 1
        kind = "" if role.ends else role.kind
        at += len(line) + 1
    rows = zip(kinds, starts, ends, strict=True)
    return [Block(*row) for row in rows if row[1] < row[2]]


def _fenced(before: str, behind: str) -> _Role:
    """Return what a line is by the fences that are open before and behind it."""
    return _Role("code", begins=not before, ends=not behind)


def _inside(line: str, inside: int) -> int:
    """Return how far the text of the open item or definition is indented; 0: none is open."""
    if line[:1].isalpha():
        return 0  # most lines
    if not line.strip():
        return inside
    if opened := _ITEM.match(line) or _DEFINITION.match(line):
        return opened.end()
    return inside if inside and _depth(line) >= min(inside, 2) else 0


def _depth(line: str) -> int:
    """Return how far a line is indented; a tab goes on to the next of every four columns."""
    line = line.expandtabs(4) if "\t" in line else line
    return len(line) - len(line.lstrip(" "))


def _role(line: str, kind: str, lines: int, inside: int) -> _Role:
    """Return what a line is, behind a number of lines of an open block of some kind."""
    if not line.strip():
        return _EMPTY
    if kind == "prose" and lines == 1 and _UNDERLINE.match(line):
        return _Role("heading", ends=True)
    if "<" in line and (found := _html_role(line, kind)):
        return found
    return _text_role(line, kind, inside)


def _html_role(line: str, kind: str) -> _Role | None:
    """Return what a line with the text of an HTML paragraph or item is; None: it is none."""
    begin = _HTML_BEGIN.match(line)
    if begin and begin.end() == len(line):
        return _OPENED  # what follows is its text, however far it is indented
    end = _HTML_END.search(line) if "</" in line else None
    at, last = begin.end() if begin else 0, end.start() if end else len(line.rstrip())
    begins = begin is not None and line[at : at + 1] not in ("", "<")
    if at >= last or not (begins or (end and kind in ("prose", "markup"))):
        return None
    indent = at if begins else len(line) - len(line.lstrip())
    trail = len(line.rstrip()) - last
    return _Role(
        "prose", indent, begins=begins or kind != "prose", ends=end is not None, trail=trail
    )


def _text_role(line: str, kind: str, inside: int) -> _Role:
    indent = len(line) - len(line.lstrip())
    if kind == "row" or _HTML_ROW.match(line):  # a row of HTML may have many lines
        return _Role("row", indent, begins=kind != "row", ends="</tr" in line.lower())
    if _HEADING.match(line):
        return _LINES["heading"]
    if _MARKUP.match(line) or _UNDERLINE.match(line):
        return _LINES["markup"]
    if line[indent] == "|":
        return _Role("row", indent, begins=True, ends=True)
    if item := _ITEM.match(line):
        return _Role("item", item.end(), begins=True)
    if kind in _WITHIN:
        return _WITHIN[kind]
    if indent and not kind and _depth(line) >= inside + 4:
        return _LINES["code"]
    return _Role("prose", indent, begins=True)


def _heads(text: str, start: int, end: int, line: str) -> bool:
    """Return whether an item is a numbered heading of the line below, as a PDF's text has it.

    A few words without an end, a number before them, and a whole line that begins anew below.
    """
    title, number = text[start:end], text[text.rfind("\n", 0, start) + 1 : start].strip()
    return (
        number[:1].isdigit()
        and title[:1].isupper()
        and title[-1].isalnum()
        and len(title) <= MAX_TITLE
        and len(title.split()) <= MAX_TITLE_WORDS
        and line[:1].isupper()
        and len(line.split()) >= MIN_BELOW
    )
