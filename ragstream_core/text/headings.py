"""Under which headings a place in a text stands: ``Title > Section > Sub``."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

from ragstream_core.text.blocks import Line, LineKind, lines_of

MARKDOWN_TYPES = frozenset({"md", "markdown", "mdown", "mdwn", "mkd", "mkdn", "mdx", "qmd", "rmd"})
RST_TYPES = frozenset({"rst"})
PLAIN_TYPES = frozenset({"txt", "text"})
_LEVELS = {"part": 1, "chapter": 1, "section": 2, "subsection": 3, "subsubsection": 4}

# How headings are written in other markup: their level and their title.
_MARKUP = {
    **dict.fromkeys(
        ("adoc", "asciidoc"), re.compile(r"^(?P<level>={1,6})[ \t]+(?P<title>\S.*)$", re.M)
    ),
    "org": re.compile(r"^(?P<level>\*{1,8})[ \t]+(?P<title>\S.*)$", re.M),
    **dict.fromkeys(
        ("wiki", "mediawiki"),
        re.compile(r"^(?P<level>={1,6})[ \t]*(?P<title>[^=\s].*?)[ \t]*=+[ \t]*$", re.M),
    ),
    "textile": re.compile(r"^h(?P<level>[1-6])\.[ \t]+(?P<title>\S.*)$", re.M),
    **dict.fromkeys(
        ("tex", "latex"),
        re.compile(
            rf"^[ \t]*\\(?P<level>{'|'.join(_LEVELS)})\*?(?:\[[^]\n]*\])?\{{(?P<title>[^}}\n]+)\}}",
            re.M,
        ),
    ),
}
MARKUP_TYPES = frozenset(_MARKUP)
PROSE_TYPES = MARKDOWN_TYPES | RST_TYPES | PLAIN_TYPES | MARKUP_TYPES
SEPARATOR = " > "

# Characters of a title in a path: a paragraph above a line of dashes is a heading as well.
MAX_TITLE = 200
_ATX = re.compile(r" {0,3}(#{1,6})[ \t]*(.*)")
_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1{2,}[ \t]*$")
_SETEXT_LEVELS = {"=": 1, "-": 2}
_FRONT_MATTER = re.compile(
    r"(?P<mark>---|\+\+\+)[ \t]*\r?\n(?P<body>(?:.*\n)*?)(?:(?P=mark)|\.\.\.)[ \t]*(?:\r?\n|$)"
)
_FRONT_TITLE = re.compile(r"^title[ \t]*[:=][ \t]*(?P<title>[^\s>|].*)$", re.M | re.I)
_FRONT_ALIASES = re.compile(
    r"^alias(?:es)?[ \t]*[:=][ \t]*(?P<inline>.*)(?P<below>(?:\n[ \t]*-[ \t].*)*)", re.M | re.I
)
_LISTED = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'|[^,\[\]\n]+")
_FRONT_LINE = re.compile(r"\s*(?:$|#|[-\]})]|\[|\s\S|[\w\"'][^:=\n]{0,100}[:=])")
_PLAIN_TITLE = 80
_NUMBERED = re.compile(
    r"(?P<number>\d{1,3}(?:\.\d{1,3})*\.?|[IVXLC]{1,6}\.|§ ?\d{1,4}[a-z]?)[ \t]+(?=[^\W\d_])"
    r"|(?:chapter|section|part|appendix|annex|article|kapitel|abschnitt|anhang|artikel|chapitre"
    r"|annexe|capítulo|sección|anexo) (?:\d{1,3}|[IVXLC]{1,6}|[A-Z])\b",
    re.IGNORECASE,
)
_SENTENCE_ENDS = ".,;:!?…"


@dataclass(frozen=True, slots=True)
class Heading:
    """One heading.

    Attributes:
        start: Offset of its line.
        end: Offset after it, an underline included.
        level: 1 (title) and up; 0: what front matter calls the whole text.
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
    """Return the headings of a text in a markup that has them, or of plain text, in order.

    Title and aliases in the front matter of Markdown are a heading of level 0 above all.

    Args:
        text: The whole text; fenced blocks of Markdown are skipped.
        file_type: File extension, with or without dot.
    """
    kind = normal_type(file_type)
    if kind in MARKDOWN_TYPES:
        return _markdown(text)
    if kind in PLAIN_TYPES:
        return _plain(text)
    if kind in MARKUP_TYPES:
        return [
            Heading(found.start(), found.end(), _level(found["level"]), found["title"].strip())
            for found in _MARKUP[kind].finditer(text)
        ]
    return _rst(text) if kind in RST_TYPES else []


def _level(mark: str) -> int:
    return _LEVELS.get(mark) or (int(mark) if mark.isdigit() else len(mark))


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


def titled(title: str, path: str) -> str:
    """Return a heading path below a title, which comes once.

    Args:
        title: What the whole text is called; "" adds nothing.
        path: The heading path, or "".
    """
    says_so = f"{path} ".casefold().startswith(f"{title} ".casefold())
    return path if not title or says_so else SEPARATOR.join(filter(None, (title, path)))


def _shortened(title: str) -> str:
    return title if len(title) <= MAX_TITLE else title[: MAX_TITLE - 1].rstrip() + "…"


def heading_path(text: str, start: int, *, file_type: str = "md") -> str:
    """Return the heading path of one place (`HeadingIndex` where several are asked for)."""
    return HeadingIndex(text, file_type=file_type).path_at(start)


def _markdown(text: str) -> list[Heading]:
    found: list[Heading] = []
    previous: Line | None = None
    behind = front_matter_end(text)
    for line in lines_of(text):
        body = text[line.start : line.end]
        if line.start < behind:
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
    first = found[0].title if found and found[0].level == 1 else ""
    called = _called(text[:behind], first)
    return [Heading(0, 0, 0, called), *found] if called else found


def _called(front: str, first: str) -> str:
    """Return what front matter calls its text: ``Title (alias, alias)``; "" if nothing new.

    Args:
        front: The front matter.
        first: The title that the text begins with.
    """
    found = _FRONT_TITLE.search(front)
    title = _plain_value(found["title"]) if found else ""
    if title.casefold() == first.casefold():
        title = ""
    aliases = list[str]()
    if listed := _FRONT_ALIASES.search(front):
        below = [line.strip().removeprefix("-") for line in listed["below"].splitlines()]
        values = map(_plain_value, [*_LISTED.findall(listed["inline"]), *below])
        aliases = [value for value in values if value and not value.startswith("/")]  # an address
    also = ", ".join(aliases)
    return f"{title} ({also})" if title and also else title or also


def _plain_value(value: str) -> str:
    return value.strip().strip("\"'").strip()


def front_matter_end(text: str) -> int:
    """Return where the front matter of a Markdown text ends; 0: it has none."""
    found = _FRONT_MATTER.match(text)
    if found is None:
        return 0
    lines = found["body"].splitlines()
    return found.end() if all(_FRONT_LINE.match(line) for line in lines) else 0


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


def _plain(text: str) -> list[Heading]:
    """Return the titles of a plain text: underlined, numbered, or in capitals on a line alone.

    A title is short, has white space above, no sign at its end, and text of another kind below:
    the lines of a numbered list are no titles.
    """
    lines = [line for line in lines_of(text) if line.kind is not LineKind.BLANK]
    found: list[Heading] = []
    for at, line in enumerate(lines):
        below = lines[at + 1] if at + 1 < len(lines) else None
        above = lines[at - 1] if at else None
        if below is None or not _stands_apart(text, above, line):
            continue
        title = text[line.start : line.end].strip()
        if not 1 < len(title) <= _PLAIN_TITLE or not any(c.isalpha() for c in title):
            continue
        mark = _ADORNMENT.match(text, below.start, below.end)
        touches = text.count("\n", line.end, below.start) == 1
        if mark and touches and below.end - below.start >= len(title) // 2:
            level = _SETEXT_LEVELS.get(mark[1], 2)
            found.append(Heading(line.start, below.end, level, title))
        elif level := _plain_level(
            title,
            text[below.start : below.end].strip(),
            text[above.start : above.end].strip() if above else "",
            touches=touches,
        ):
            found.append(Heading(line.start, line.end, level, title))
    return found


def _stands_apart(text: str, above: Line | None, line: Line) -> bool:
    """Return whether a line begins the text, or has an empty or a drawn line above."""
    if above is None or text.count("\n", above.end, line.start) > 1:
        return True
    return bool(_adorns(text, above))


def _plain_level(title: str, below: str, above: str, *, touches: bool) -> int:
    """Return the level of a numbered title or of one in capitals; 0: the line is no title.

    Args:
        title: The line.
        below: The next line that says something.
        above: The one before.
        touches: Whether no empty line is between title and the line below.
    """
    if title[-1] in _SENTENCE_ENDS or len(title.split()) > 12:
        return 0
    capitals = title.isupper() and sum(c.isalpha() for c in title) > 3
    numbered = _NUMBERED.match(title)
    number = (numbered["number"] or "").rstrip(".") if numbered else ""
    listed = _is_listed(number, below) or _is_listed(number, above)
    if numbered and (capitals or not touches) and not listed:
        return 1 + (number.count(".") + 1 if number[:1].isdigit() else 1)
    return 2 if capitals and not numbered else 0


def _is_listed(number: str, other: str) -> bool:
    """Return whether a line beside a numbered one is numbered like it: both are of a list."""
    beside = _NUMBERED.match(other)
    own = (beside["number"] or "").rstrip(".") if beside else ""
    return beside is not None and own.count(".") == number.count(".")
