"""What of data and code can be quoted as it stands: pairs of JSON and YAML, signatures, rows.

A pair is named by the keys above it, a method by its class. What cannot be told apart from prose
without knowing the file's kind is looked for only if that is known: by the file's ending, or by
the word behind a fence. A chunk may begin and end anywhere; what is cut by its border is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import NamedTuple

from ragstream_core.prompts.render import signature_lines
from ragstream_core.text.code import BY_LINES, GRAMMARS

MAX_CHARS = 300
MAX_SIGNATURE_LINES = 8
_KINDS = {
    "yml": "yaml", "jsonc": "json", "python": "py", "javascript": "js", "typescript": "ts",
    "rust": "rs", "golang": "go", "ruby": "rb", "kotlin": "kt", "csharp": "cs", "bash": "sh",
}  # fmt: skip
SHELLS = frozenset(("", "sh", "bash", "shell", "console", "zsh", "powershell", "text"))
_COMMAND = re.compile(r"(\s*)(?:\$ |> )?[a-z][\w.-]{1,30}(?: [^\s=({;:,]\S*)(?: \S+)*$")
_NO_COMMAND = re.compile(
    r"[.:;,]$|[(){};]|^\s*(?:from|import|return|if|for|while|def|class)\s| [=:] "
)
_CODE = frozenset((*GRAMMARS, *BY_LINES, "py", "js", "ts"))
_TOKEN = re.compile(
    r'"(?:\\.|[^"\\\n])*"|[{}\[\],:]|-?\d[\d.eE+-]*|\b(?:true|false|null)\b|[^\s{}\[\],:"]+'
)
_PAIR = re.compile(r"(\s*)((?:- )*)([\w\"'][\w .\"'/-]{0,80}?):(?:[ \t]+(\S.*?))?[ \t]*$")
_DASH = re.compile(r"(\s*)- (?!.*:(?:\s|$))\S")
_FOLDED = re.compile(r"[|>][+-]?\d?$|[&*!]")
_NO_SIGNATURE = re.compile(r"\s*(?:from |import |@|\[|(?:unsafe )?impl\b)")
_OPENED = re.compile(r"(?<![=:,(\s])\s*\{$")
_CLASS = re.compile(
    r"(\s*)(?:export |abstract |public |pub )*"
    r"(?:class|interface|struct|impl|trait)(?:<[^>\n]{0,80}>)? (\w+)"
)
_DAY = re.compile(r"(?:^|/)\d{4}-\d\d-\d\d\.json$", re.IGNORECASE)
_BEGINS_JSON = re.compile(r"\s*(?:[\[\]{}\",]|[\d.eE+-]+\s*[,\]}]|(?:true|false|null)\b)")


class Line(NamedTuple):
    """What can be quoted.

    Attributes:
        start: Offset of its first character.
        end: Offset behind its last one.
        path: What it belongs to: keys, or a class; empty: nothing.
    """

    start: int
    end: int
    path: str = ""


def data_kind(name: str) -> str:
    """Return the kind of data of a file's ending or of a fence's word; empty: it is none.

    Args:
        name: Such as ``yml``, ``json``, ``Python``.
    """
    kind = _KINDS.get(name.lower(), name.lower())
    return kind if kind in ("json", "yaml") or kind in _CODE else ""


def kind_of_passage(path: str, text: str) -> str:
    """Return the kind of data that a passage is; empty: it is prose.

    Args:
        path: Of its file.
        text: The passage. That of a channel's day, ``2024-05-01.json``, is no JSON (`slack`).
    """
    kind = data_kind(path.rsplit(".", 1)[-1])
    is_prose = kind == "json" and _DAY.search(path) and not _BEGINS_JSON.match(text)
    return "" if is_prose else kind


def data_lines(text: str, kind: str) -> list[Line]:
    """Return the pairs or signatures of a text, in order.

    Args:
        text: The whole text.
        kind: From `data_kind`.
    """
    found = _json(text) if kind == "json" else _yaml(text) if kind == "yaml" else _code(text, kind)
    return [line for line in found if line.end - line.start <= MAX_CHARS]


def _json(text: str) -> Iterator[Line]:
    """Yield ``"key": value`` with a simple value or a list of them."""
    tokens = [match for match in _TOKEN.finditer(text)]
    stack: list[str] = []
    for at, token in enumerate(tokens):
        said = token.group()
        if said in "{[":
            is_value = at > 1 and tokens[at - 1].group() == ":"
            stack.append(tokens[at - 2].group().strip('"') if is_value else "")
        elif said in "}]" and stack:
            stack.pop()
        elif said[0] == '"' and len(said) > 2 and at + 3 < len(tokens):
            value, behind = tokens[at + 2], tokens[at + 3].group()
            if tokens[at + 1].group() != ":":
                continue
            path = " ".join(key for key in stack if key)
            if value.group() == "[" and (last := _flat(tokens, at + 3)):
                yield Line(token.start(), last, path)
            elif value.group() not in "{}[],:" and behind in (",", "}"):
                yield Line(token.start(), value.end(), path)


def _flat(tokens: list[re.Match[str]], at: int) -> int:
    """Return where a list of simple values ends; 0: it holds more, or is cut, or is empty."""
    first = at
    while at < len(tokens) and tokens[at].group() not in "{}[:":
        if tokens[at].group() == "]":
            return tokens[at].end() if at > first else 0
        at += 1
    return 0


def _yaml(text: str) -> Iterator[Line]:
    """Yield ``key: value``, and a key with its list of simple values."""
    rows = list(_lines(text))
    above: list[tuple[int, str]] = []
    for at, (start, line) in enumerate(rows):
        match = _PAIR.match(line)
        if not match:
            continue
        indent, key, value = len(match[1]) + len(match[2]), match[3].strip("\"'"), match[4] or ""
        above = [(depth, name) for depth, name in above if depth < indent]
        path, end = " ".join(name for _, name in above), start + len(line.rstrip())
        if not value:
            above.append((indent, key))
            items = [row for row in _items(rows[at + 1 :], indent)]
            if items:
                yield Line(start + match.start(3), items[-1], path)
        elif not _FOLDED.match(value):
            yield Line(start + match.start(3), end, path)


def _items(rows: list[tuple[int, str]], indent: int) -> Iterator[int]:
    for start, line in rows:
        dash = _DASH.match(line)
        if not dash or len(dash[1]) < indent:
            return
        yield start + len(line.rstrip())


def _code(text: str, kind: str) -> Iterator[Line]:
    """Yield signatures: what is declared, to the end of its head, without the brace behind it."""
    rows = list(_lines(text))
    lines = [line for _, line in rows]
    owners: list[tuple[int, str]] = []
    for at in signature_lines(lines, f"x.{kind}"):
        start, line = rows[at]
        indent = len(line) - len(line.lstrip())
        owners = [(depth, name) for depth, name in owners if depth < indent]
        last = None if _NO_SIGNATURE.match(line) else _head_end(lines, at)
        if last is not None:
            end = rows[last][0] + len(_OPENED.sub("", lines[last].rstrip()))
            yield Line(start + indent, end, " ".join(name for _, name in owners))
        if owner := _CLASS.match(line):
            owners.append((len(owner[1]), owner[2]))


def _head_end(lines: list[str], at: int) -> int | None:
    """Return the line in which the brackets of a head are closed; None: in none that is there."""
    depth = 0
    for number in range(at, min(len(lines), at + MAX_SIGNATURE_LINES)):
        plain = re.sub(r"\"[^\"]*\"|'[^']*'", "", lines[number])
        depth += sum(plain.count(c) for c in "([") - sum(plain.count(c) for c in ")]")
        if depth <= 0:
            return number
    return None


def command_lines(text: str) -> list[Line]:
    """Return the lines of a block of code that are commands: a program and its arguments.

    Args:
        text: A block without a word that says what it is, or with that of a shell.
    """
    return [
        Line(start + len(match[1]), start + len(line.rstrip()))
        for start, line in _lines(text)
        if (match := _COMMAND.match(line.rstrip())) and not _NO_COMMAND.search(line.rstrip())
    ]


def table_rows(text: str, head: str = "") -> list[tuple[Line, str]]:
    """Return the rows of tables whose cells are parted by tabs, each with its table's head.

    A table is two lines or more with as many tabs each. Its first line is its head where the
    others hold digits and it does not; the head is no row.

    Args:
        text: The whole text.
        head: Of the table that the text begins in the middle of; empty: it does not.
    """
    found: list[tuple[Line, str]] = []
    runs = groupby(_lines(text), key=lambda row: _tabs(row[1]))
    for tabs, run in runs:
        rows = list(run)
        if not tabs or len(rows) < 2:
            continue
        (_, first), rest = rows[0], rows[1:]
        goes_on = rows[0][0] == 0 and tabs == _tabs(head)
        heads = (
            not goes_on
            and not any(c.isdigit() for c in first)
            and all(any(c.isdigit() for c in line) for _, line in rest)
        )
        names = head if goes_on else first if heads else ""
        for start, line in rest if heads else rows:
            found.append((Line(start, start + len(line.rstrip())), names))
    return found


def _tabs(line: str) -> int:
    """Return how many tabs part the cells of a line; 0: it is no row."""
    cells = line.rstrip().split("\t")
    return len(cells) - 1 if all(cell.strip() for cell in cells) else 0


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield (offset, line) without line ends."""
    ends = [-1, *(m.start() for m in re.finditer("\n", text)), len(text)]
    return ((a + 1, text[a + 1 : b]) for a, b in pairwise(ends))
