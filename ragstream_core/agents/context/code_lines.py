"""What of a program can be quoted beside its signatures: values, errors, and what is said of it.

Constants and defaults, what is raised, the fields that a docstring explains, and, with everything
else blanked out, the sentences of docstrings and comments. Blanked text keeps every offset.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

MAX_ROW_LINES = 4
_SCOPE = re.compile(
    r"(\s*)(?:(?:export|default|abstract|public|private|static|pub|async|final)\s+)*"
    r"(class|interface|struct|impl|trait|enum|def|func|fn|function)\s+(\w+)"
)
_TYPES = frozenset(["class", "interface", "struct", "impl", "trait", "enum"])
_VALUE = re.compile(
    r"(\s*)(?:(?:export|public|private|protected|static|final|const|pub|let|var|readonly|constexpr)"
    r"\s+)*[A-Za-z_][\w.]*(?:\s*:\s*[^=\n]{1,80}?)?\s*(?<![!<>=+])=(?![=>])\s*\S"
    r"|(\s*)#define\s+\w+\s+\S"
)
_RAISES = re.compile(r"(\s*)(?:raise|throw)\s+\S")
_QUOTES = re.compile(r"\"\"\"|'''")
_PREFIX = re.compile(r"\s*[rRuU]?$")
_COMMENT = re.compile(r"(\s*(?:#+(?!define|include|\[)|//[/!]?|--|\*(?!/))\s)(?=.*\w\w)")
_FIELD = re.compile(r"(\s*)(\*{0,2}[A-Za-z_][\w.]*)(?:\s\([^)\n]{1,60}\))?:\s+\S")
_LABEL = re.compile(r"\s*\w+:\s*$")
_NOT_LINE = re.compile(r"[^\n]")
_STRING = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'")

# Indents nothing: four plain spaces would make a line of a docstring look like code.
_BLANK = "\u00a0"


class Row(NamedTuple):
    """A row of a program.

    Attributes:
        start: Offset of its first character.
        end: Offset behind its last one.
        path: The class or function that it belongs to; empty: none that is shown.
    """

    start: int
    end: int
    path: str = ""


class Program(NamedTuple):
    """What was read of a program.

    Attributes:
        rows: Values, errors and fields, in order.
        prose: The text with everything blanked out but the sentences of docstrings, and the same
            for comments: a comment directly below a docstring is none of its sentences.
        owners: Offset and name of every class and function, in order.
        notes: Offset of a line → the comment above it and the string below it.
    """

    rows: list[Row]
    prose: tuple[str, str]
    owners: list[tuple[int, str]]
    notes: dict[int, str]

    def owner(self, at: int) -> str:
        """Return the class or function that begins last before an offset; empty: none."""
        return next((name for start, name in reversed(self.owners) if start <= at), "")

    def near(self, at: int) -> str:
        """Return what is said beside the row or signature that begins at an offset."""
        return self.notes.get(at, "")


def read_program(text: str) -> Program:
    """Read a program, or a part of one that begins and ends anywhere.

    Args:
        text: In any of the usual languages.
    """
    lines = list(_lines(text))
    docs = _docstrings(text)
    owners = [
        (start, match[3]) for start, line in lines if (match := _SCOPE.match(line))
        and not _within(start, docs)
    ]  # fmt: skip
    program = Program([], ("", ""), owners, dict(_notes(lines)))
    fields = [f for begin, end in docs for f in _fields(text, begin, end, program.owner(begin))]
    rows = sorted([*_values(lines, docs), *fields])
    return program._replace(rows=rows, prose=_prose(text, lines, docs, fields))


def _lines(text: str, start: int = 0) -> Iterator[tuple[int, str]]:
    """Yield (offset, line) without line ends."""
    for line in text.split("\n"):
        yield start, line
        start += len(line) + 1


def _docstrings(text: str) -> list[tuple[int, int]]:
    """Return the spans inside triple quotes that begin a line; one may be open at either end."""
    marks = list(_QUOTES.finditer(text))
    found, at = [], 0
    if marks and _closes(text, marks[0]):
        found.append((0, marks[0].start()))
        at = 1
    while at < len(marks):
        opener = marks[at]
        begin = text.rfind("\n", 0, opener.start()) + 1
        closer = next((m for m in marks[at + 1 :] if m.group() == opener.group()), None)
        end = closer.start() if closer else len(text)
        if _PREFIX.match(text[begin : opener.start()]):
            found.append((opener.end(), end))
        at = marks.index(closer) + 1 if closer else len(marks)
    return found


def _closes(text: str, mark: re.Match[str]) -> bool:
    """Return whether the first triple quote of a text ends what began before the text."""
    begin = text.rfind("\n", 0, mark.start()) + 1
    rest = text[mark.end() :].split("\n", 1)[0].strip()
    before = text[begin : mark.start()]
    if before.strip():
        return not rest and "=" not in before and "(" not in before
    above = text[:begin].rstrip()
    return not rest and bool(above) and not above.endswith((":", ",", "(", "=", "{"))


def _within(at: int, spans: list[tuple[int, int]]) -> bool:
    return any(begin <= at < end for begin, end in spans)


def _values(lines: list[tuple[int, str]], docs: list[tuple[int, int]]) -> Iterator[Row]:
    """Yield values of modules and classes, and what is raised; locals of functions are none."""
    scopes: list[tuple[int, bool, str]] = []
    for at, (start, line) in enumerate(lines):
        if not line.strip() or _within(start, docs):
            continue
        indent = len(line) - len(line.lstrip())
        scopes = [scope for scope in scopes if scope[0] < indent]
        if scope := _SCOPE.match(line):
            scopes.append((indent, scope[2] in _TYPES, scope[3]))
            continue
        raises = _RAISES.match(line)
        is_value = _VALUE.match(line) and (scopes[-1][1] if scopes else indent == 0)
        last = _closed(lines, at) if raises or is_value else None
        if last is not None:
            end = lines[last][0] + len(lines[last][1].rstrip())
            yield Row(start + indent, end, " ".join(name for _, _, name in scopes))


def _closed(lines: list[tuple[int, str]], at: int) -> int | None:
    """Return the line in which the brackets of a row are closed; None: too far on, or nowhere."""
    depth = 0
    for number in range(at, min(len(lines), at + MAX_ROW_LINES)):
        line = lines[number][1]
        if _QUOTES.search(line):
            return None
        plain = _STRING.sub("", line)
        depth += sum(map(plain.count, "([{")) - sum(map(plain.count, ")]}"))
        if depth <= 0:
            return number
    return None


def _notes(lines: list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yield the offset of each line's first letter with the comment above and the string below."""
    for at, (start, line) in enumerate(lines):
        above = lines[at - 1][1] if at else ""
        below = lines[at + 1][1] if at + 1 < len(lines) else ""
        said = [above] * bool(_COMMENT.match(above)) + [below] * bool(_QUOTES.match(below.strip()))
        if said and line.strip():
            yield start + len(line) - len(line.lstrip()), " ".join(said)


def _fields(text: str, begin: int, end: int, owner: str) -> Iterator[Row]:
    """Yield ``name: what it is`` of a docstring, with the deeper lines below it."""
    row: tuple[int, int, int] | None = None
    for start, line in _lines(text[begin:end], begin):
        match, body = _FIELD.match(line), line.strip()
        indent = len(line) - len(line.lstrip())
        if row and body and indent > row[1]:
            row = (row[0], row[1], start + len(line.rstrip()))
        else:
            if row:
                yield Row(row[0], row[2], owner)
            named = match and start > begin and indent
            row = (start + indent, indent, start + len(line.rstrip())) if named else None
    if row and end < len(text):
        yield Row(row[0], row[2], owner)


def _prose(
    text: str, lines: list[tuple[int, str]], docs: list[tuple[int, int]], fields: list[Row]
) -> tuple[str, str]:
    """Blank out what is no sentence of a docstring, or of a comment; every offset stays."""
    said, noted = list(_NOT_LINE.sub(_BLANK, text)), list(_NOT_LINE.sub(_BLANK, text))
    for start, line in lines:
        end = start + len(line)
        span = next(((a, b) for a, b in docs if a < end and start < b), None)
        if span and not _LABEL.match(line):
            a, b = max(start, span[0]), min(end, span[1])
            lead = len(text[a:b]) - len(text[a:b].lstrip())
            said[a + lead : b] = text[a + lead : b]
        elif not span and (mark := _COMMENT.match(line)):
            noted[start + mark.end() : end] = line[mark.end() :]
    for row in fields:
        said[row.start : row.end] = _NOT_LINE.sub(_BLANK, text[row.start : row.end])
    return "".join(said), "".join(noted)
