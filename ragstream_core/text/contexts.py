"""What a place in a text stands in: lines above it without which it does not say what it is about.

The head of its table, the sentence that introduces its list, the keys above its key, the class and
the signature around its line of code. They are lines of the text itself, so that a context with the
chunk behind it reads like the text, with what lies between left out.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import NamedTuple

from ragstream_core.text.blocks import Line, LineKind, lines_of
from ragstream_core.text.code import DATA, is_code, opens_scope
from ragstream_core.text.headings import normal_type

MAX_LINE = 160
MAX_LINES = 8

# Characters of the head of a table.
MAX_HEAD = 400
# What the names in a head are cut to.
NAME_LENGTHS = (60, 40, 24, 16, 12, 8, 5)
_SECTIONED = frozenset({"toml", "ini", "cfg", "conf", "properties"})
_JSON = frozenset({"json", "jsonc"})
_SECTION = re.compile(r"\s*\[{1,2}[^\[\]]+\]{1,2}\s*(?:[#;].*)?$")
_KEY = re.compile(r"(?:- +)*(?:\"[^\"]*\"|'[^']*'|[^\s#:][^:#]{0,100}?):(?:\s|$)")
_TABLE_RULE = re.compile(  # possessive: empty cells can be read in one way only
    r"\s*+\|?[ \t]*+:?-{1,}+:?+[ \t]*+(?:\|[ \t]*+:?+-*+:?+[ \t]*+)*+$"
)
_TABLE_TITLE = re.compile(
    r"\s*(?:\*\*|__|(?:table|tabelle|tableau|tabla|tabella)\b)", re.IGNORECASE
)
_BAR = re.compile(r"(?<!\\)\|")
_SENTENCE = re.compile(r"(?<=[.!?。])\s+")
_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_JSON_KEY = re.compile(r'"((?:\\.|[^"\\]){1,100})":(?: "?([^"{\[,]{1,100}))?')
_TRIPLE = re.compile(r"\"\"\"|'''")
_UNINDENTED = re.compile(r"#|//|/\*|\*|--")


def _is_head(line: str) -> bool:
    return line.count("|") > 1


def _narrowed(head: str, most: int) -> str:
    """Return the head of a table in fewer characters if it can be: as many names, each shorter."""
    if not _is_head(head) or len(head) <= most:
        return head
    names = [name.strip() for name in _BAR.split(head.strip().strip("|"))]
    for longest in NAME_LENGTHS:
        narrow = f"| {' | '.join(_middle_cut(name, longest) for name in names)} |"
        if len(narrow) <= most:
            return narrow
    return head


def _middle_cut(name: str, most: int) -> str:
    """Return a name in at most so many characters: begin and end tell it from the others."""
    return name if len(name) <= most else f"{name[: most // 2]}…{name[1 - (most + 1) // 2 :]}"


class _Row(NamedTuple):
    """A line: its offset, its indentation in columns, and what it says."""

    start: int
    indent: int
    body: str


class Contexts:
    """The contexts of one text, found once and asked often.

    Args:
        text: The whole text.
        file_type: File extension.
    """

    def __init__(self, text: str, *, file_type: str) -> None:
        self._text = text
        kind = normal_type(file_type)
        marks: Iterator[tuple[int, tuple[str, ...]]]
        if kind in _JSON:
            marks = _json_marks(text)
        elif kind in _SECTIONED:
            marks = _section_marks(text)
        elif kind in DATA:
            marks = _nested_marks(text, _yaml_depth, _is_key)
        elif is_code(kind):
            marks = _nested_marks(text, _code_depth, opens_scope)
        else:
            marks = _text_marks(text)
        self._marks = list(marks)
        self._starts = [start for start, _ in self._marks]
        self._inline = kind in _JSON
        self.is_empty = not any(lines for _, lines in self._marks)

    def lines_at(self, offset: int) -> tuple[str, ...]:
        """Return the lines that a place stands in, the outermost first."""
        at = bisect_right(self._starts, offset) - 1
        return self._marks[at][1] if at >= 0 else ()

    def at(self, offset: int, *, measure: Callable[[str], int], most: int) -> str:
        """Return the context of a chunk that starts at an offset; empty: it needs none.

        Args:
            offset: Of a character that is not white space.
            measure: Size of a context in the chunk's unit.
            most: Largest size; the outer lines are left out first, then the end of a long one. Of
                the head of a table the names are cut, so that every column keeps one.
        """
        lines = self.lines_at(offset)[-MAX_LINES:]
        if not lines:
            return ""
        begin = self._text.rfind("\n", 0, offset) + 1
        before = self._text[begin:offset]
        indent = "" if self._inline or before.strip() else before
        said = [_shortened(line) for line in lines]
        while said:
            context = ("" if self._inline else "\n").join(said) + "\n" + indent
            if measure(context) <= most:
                return context
            shorter = _narrowed(said[-1], len(said[-1]) * 2 // 3)
            if shorter != said[-1] and (len(said) == 1 or len(said[-1]) > MAX_LINE):
                said[-1] = shorter
            elif len(said) > 1:
                said = said[1:]
            else:
                said = [said[0][: len(said[0]) * 2 // 3].rstrip()] if len(said[0]) > 12 else []
        return ""


def shown(context: str) -> str:
    """Return a context on one line, for people: ``databases > billing > listen``."""
    if context.startswith(("{", "[", '"')) and context.rstrip()[-1] in "{[,":
        keys = _JSON_KEY.findall(context)
        return " > ".join(f"{key}: {value}" if value else key for key, value in keys)
    parts = [line.strip().strip("|").rstrip(":{[(,").strip() for line in context.split("\n")]
    return " > ".join(" ".join(part.replace("\t", " | ").split()) for part in parts if part)


def _shortened(line: str) -> str:
    if _is_head(line):
        return _narrowed(line, MAX_HEAD)
    return line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 1].rstrip()}…"


def _rows(text: str) -> Iterator[_Row]:
    at = 0
    for line in text.split("\n"):
        body = line.strip()
        if body:
            wide = line.expandtabs(4)
            yield _Row(at, len(wide) - len(wide.lstrip()), body)
        at += len(line) + 1


def _nested_marks(
    text: str,
    depth_of: Callable[[_Row], int | None],
    opens: Callable[[str, str], bool],
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield for each line those above it that it is indented under.

    Args:
        text: The whole text.
        depth_of: How deep a line stands; None: where a line is indented says nothing here.
        opens: Whether a line, with the next one, is said of those that are indented under it.
    """
    rows = list(_rows(text))
    stack: list[tuple[int, str]] = []
    quoted = ""
    for number, row in enumerate(rows):
        depth = None if quoted else depth_of(row)
        quoted = _still_quoted(row.body, quoted)
        if depth is None:
            yield row.start, tuple(line for _, line in stack[-MAX_LINES:])
            continue
        closing = row.body[0] in ")]}{"  # goes on with the line above of the same depth
        while stack and (stack[-1][0] > depth or (stack[-1][0] == depth and not closing)):
            stack.pop()
        yield row.start, tuple(line for _, line in stack[-MAX_LINES:])
        below = rows[number + 1].body if number + 1 < len(rows) else ""
        if not closing and opens(row.body, below):
            end = text.find("\n", row.start)
            stack.append((depth, text[row.start : end if end >= 0 else len(text)].rstrip()))


def _still_quoted(body: str, quoted: str) -> str:
    """Return the triple quotes that are open behind a line; empty: none are."""
    for mark in _TRIPLE.findall(body):
        if not quoted:
            quoted = mark
        elif quoted == mark:
            quoted = ""
    return quoted


def _yaml_depth(row: _Row) -> int | None:
    if row.body.startswith("#"):
        return None
    return 2 * row.indent + row.body.startswith("- ")  # "- name: a" may stand below its key


def _code_depth(row: _Row) -> int | None:
    return None if _UNINDENTED.match(row.body) else row.indent


def _is_key(body: str, _: str) -> bool:
    return _KEY.match(body) is not None


def _section_marks(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    for row in _rows(text):
        if _SECTION.match(row.body):
            yield row.start, ()
            yield row.start + len(row.body), (row.body,)


def _json_marks(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the brackets that are open behind each one, with their keys.

    An object of a list begins with its first pair, which mostly names it.
    """
    stack: list[str] = []
    before: deque[str] = deque(maxlen=4)
    for token in _TOKEN.finditer(text):
        said = token.group()
        is_mark = True
        if said in ("{", "["):
            keyed = len(before) > 1 and before[-1] == ":"
            stack.append(f"{before[-2]}: {said}" if keyed else said)
        elif said in ("}", "]"):
            stack[-1:] = []
        elif said == "," and stack and stack[-1] == "{" and _is_first_pair(before):
            stack[-1] = f"{{{before[1]}: {before[3]}, "
        else:
            is_mark = False
        before.append(said)
        if is_mark:
            inner = stack[-MAX_LINES:]  # a stranger's brackets may be thousands deep
            named = any(part not in ("{", "[") for part in inner)
            yield token.end(), tuple(inner) if named else ()


def _is_first_pair(before: Sequence[str]) -> bool:
    """Return whether four tokens are a bracket with the first pair behind it."""
    return len(before) == 4 and before[0] == "{" and before[2] == ":"


def _text_marks(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the heads of tables and what introduces lists, where each begins and ends."""
    lines = [
        line for line in lines_of(text)
        if line.kind not in (LineKind.FENCE, LineKind.CODE)
    ]  # fmt: skip
    at = 0
    while at < len(lines):
        if head := _table_head(text, lines, at):
            at += 1
            yield lines[at].start, head
            while at < len(lines) and "|" in text[lines[at].start : lines[at].end]:
                at += 1
            yield (lines[at].start if at < len(lines) else len(text)), ()
        elif lines[at].kind is LineKind.ITEM and (lead := _lead(text, lines, at)):
            at = yield from _list_marks(text, lines, at, lead)
        else:
            at += 1


def _table_head(text: str, lines: Sequence[Line], at: int) -> tuple[str, ...]:
    """Return title and head of the table that a line is the head of; empty: it is of none."""
    head = text[lines[at].start : lines[at].end]
    if at + 1 >= len(lines) or "|" not in head or not any(c.isalnum() for c in head):
        return ()
    rule = text[lines[at + 1].start : lines[at + 1].end]
    if "|" not in rule or not _TABLE_RULE.match(rule):
        return ()
    above = at - 1
    while above >= 0 and above > at - 3 and lines[above].kind is LineKind.BLANK:
        above -= 1
    title = text[lines[above].start : lines[above].end].strip() if above >= 0 else ""
    is_title = _TABLE_TITLE.match(title) and len(title) <= MAX_LINE
    return (title, head.strip()) if is_title else (head.strip(),)


def _lead(text: str, lines: Sequence[Line], at: int) -> str:
    """Return the sentence that ends in a colon above a list; empty: there is none."""
    last = at - 1
    if last >= 0 and lines[last].kind is LineKind.BLANK:
        last -= 1
    if last < 0 or lines[last].kind is not LineKind.PROSE:
        return ""
    first = last
    while first > 0 and first > last - 3 and lines[first - 1].kind is LineKind.PROSE:
        first -= 1
    said = " ".join(text[lines[first].start : lines[last].end].split())
    return _SENTENCE.split(said)[-1] if said.endswith((":", "：")) else ""


def _list_marks(
    text: str, lines: Sequence[Line], at: int, lead: str
) -> Generator[tuple[int, tuple[str, ...]], None, int]:
    """Yield for each item of a list its introduction, and the items that it is indented under.

    Returns:
        The number of the line behind the list.
    """
    stack: list[tuple[int, str]] = []
    after_blank = False
    while at < len(lines):
        line = lines[at]
        body = text[line.start : line.end]
        indent = len(body) - len(body.lstrip())
        if line.kind is LineKind.ITEM:
            while stack and stack[-1][0] >= indent:
                stack.pop()
            yield line.start, (lead, *(item for _, item in stack[-MAX_LINES:]))
            stack.append((indent, body.rstrip()))
        elif line.kind is not LineKind.BLANK and (
            line.kind is LineKind.HEADING or (after_blank and not indent)
        ):
            break
        after_blank = line.kind is LineKind.BLANK
        at += 1
    yield (lines[at].start if at < len(lines) else len(text)), ()
    return at
