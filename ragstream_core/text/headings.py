"""Under which headings a place in a text stands: ``Title > Section > Sub``."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

from ragstream_core.text.blocks import Line, LineKind, lines_of

MARKDOWN_TYPES = frozenset({"md", "markdown", "mdx"})
RST_TYPES = frozenset({"rst"})
SEPARATOR = " > "
MAX_TITLE = 200
"""Characters of a title in a path: a paragraph above a line of dashes is a heading as well."""
_ATX = re.compile(r" {0,3}(#{1,6})[ \t]*(.*)")
_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1{2,}[ \t]*$")
_SETEXT_LEVELS = {"=": 1, "-": 2}


@dataclass(frozen=True, slots=True)
class Heading:
    """One heading.

    Attributes:
        start: Offset of its line.
        end: Offset after it, an underline included.
        level: 1 (title) and up.
        title: Its text without markup of the heading itself.
    """

    start: int
    end: int
    level: int
    title: str


def normal_type(file_type: str) -> str:
    """Return a file type without dot, in lower case (``.MD`` → ``md``)."""
    return file_type.lower().removeprefix(".")


def find_headings(text: str, *, file_type: str) -> list[Heading]:
    """Return the headings of a Markdown or reStructuredText text, in order; else none.

    Args:
        text: The whole text; fenced blocks are skipped.
        file_type: File extension, with or without dot.
    """
    kind = normal_type(file_type)
    if kind in MARKDOWN_TYPES:
        return _markdown(text)
    return _rst(text) if kind in RST_TYPES else []


class HeadingIndex:
    """Heading paths of one text, found once and asked often."""

    def __init__(self, text: str, *, file_type: str) -> None:
        """Find the headings of a text (`find_headings`)."""
        self.headings = find_headings(text, file_type=file_type)
        self._starts = [heading.start for heading in self.headings]
        self._paths: list[str] = []
        stack: list[Heading] = []
        for heading in self.headings:
            while stack and stack[-1].level >= heading.level:
                stack.pop()
            stack.append(heading)
            self._paths.append(SEPARATOR.join(_shortened(h.title) for h in stack if h.title))

    def path_at(self, offset: int) -> str:
        """Return the heading path that an offset stands under; empty before the first heading.

        A heading stands under itself.
        """
        at = bisect_right(self._starts, offset) - 1
        return self._paths[at] if at >= 0 else ""


def _shortened(title: str) -> str:
    return title if len(title) <= MAX_TITLE else title[: MAX_TITLE - 1].rstrip() + "…"


def heading_path(text: str, start: int, *, file_type: str = "md") -> str:
    """Return the heading path of one place (`HeadingIndex` where several are asked for)."""
    return HeadingIndex(text, file_type=file_type).path_at(start)


def _markdown(text: str) -> list[Heading]:
    found: list[Heading] = []
    previous: Line | None = None
    front_matter = text.startswith("---\n")
    for line in lines_of(text):
        body = text[line.start : line.end]
        if front_matter:
            front_matter = not (line.start > 0 and body == "---")
            previous = None
            continue
        if line.kind is LineKind.HEADING and (atx := _ATX.match(body)):
            title = atx[2].rstrip()
            closed = title.rstrip("#")
            title = closed if not closed or closed[-1] in " \t" else title
            found.append(Heading(line.start, line.end, len(atx[1]), title.strip()))
        elif previous is not None and (level := _setext_level(body)):
            title = text[previous.start : previous.end].strip()
            found.append(Heading(previous.start, line.end, level, title))
        previous = line if line.kind is LineKind.PROSE else None
    return found


def _setext_level(body: str) -> int:
    adornment = _ADORNMENT.match(body)
    return _SETEXT_LEVELS.get(adornment[1], 0) if adornment else 0


def _rst(text: str) -> list[Heading]:
    found: list[Heading] = []
    styles: list[tuple[str, bool]] = []  # in order of appearance: that order is the level
    lines = list(lines_of(text))
    for at in range(1, len(lines)):
        title, line = lines[at - 1], lines[at]
        mark = _ADORNMENT.match(text, line.start, line.end)
        too_short = line.end - line.start < title.end - title.start
        if not mark or too_short or title.kind is LineKind.BLANK or _adorns(text, title):
            continue
        above = lines[at - 2] if at > 1 and _adorns(text, lines[at - 2]) == mark[1] else None
        style = (mark[1], above is not None)
        if style not in styles:
            styles.append(style)
        start = above.start if above else title.start
        body = text[title.start : title.end].strip()
        found.append(Heading(start, line.end, styles.index(style) + 1, body))
    return found


def _adorns(text: str, line: Line) -> str:
    mark = _ADORNMENT.match(text, line.start, line.end)
    return mark[1] if mark else ""
