"""FULL and PACK: how a file is shown in ❖ FILES.

PACK keeps the first and the last lines and every signature between them, and says which lines are
missing, so that a reader can ask for them.
"""

from __future__ import annotations

import re

HEAD_LINES = 30
TAIL_LINES = 15
MAX_SIGNATURES = 160
MAX_LINE_CHARS = 240

_NUMBER = re.compile(r"^ *\d+  ")
_PYTHON = re.compile(r"\s*(?:async def|def|class) |@\w|[A-Z][A-Z0-9_]* ?[:=]|(?:from|import) ")
_MARKDOWN = re.compile(r"#{1,6} ")
_JSON = re.compile(r'\s{0,4}"[^"\n]{1,120}"\s{0,4}:')
_YAML = re.compile(r"\s{0,2}[\w.\"'-]{1,80}:(?:\s|$)")
_GENERIC = re.compile(
    r"\s{0,4}(?:(?:export|default|public|private|protected|static|final|abstract|pub|async|const)"
    r" {1,4}){0,4}(?:function|class|interface|fn|func|struct|enum|type|trait|impl|def|module|"
    r"namespace|CREATE|create)\b|\[[\w.\"-]{1,80}\]$"
)
_BY_SUFFIX = {
    "py": _PYTHON, "pyi": _PYTHON, "md": _MARKDOWN, "markdown": _MARKDOWN, "mdx": _MARKDOWN,
    "json": _JSON, "yml": _YAML, "yaml": _YAML, "diff": re.compile(r"@@ |[+-]{3} "),
}  # fmt: skip


def number_lines(text: str) -> str:
    """Put right-aligned 1-based line numbers before the lines of a text."""
    lines = text.split("\n")
    width = len(str(len(lines)))
    return "\n".join(f"{n:>{width}}  {line}" for n, line in enumerate(lines, start=1))


def bare(shown: str) -> str:
    """Return a text as it was before its lines got numbers."""
    return "\n".join(_NUMBER.sub("", line) for line in shown.split("\n"))


def shows(shown: str, text: str) -> bool:
    """Say whether a numbered text, whole or packed, has every line of another that is not blank."""
    lines = {line.strip() for line in bare(shown).split("\n")}
    return all(line.strip() in lines for line in text.split("\n") if line.strip())


def signature_lines(lines: list[str], path: str) -> list[int]:
    """Return the 0-based numbers of the lines that declare something, by the file's type."""
    pattern = _BY_SUFFIX.get(path.rsplit(".", 1)[-1].lower(), _GENERIC)
    return [i for i, line in enumerate(lines) if pattern.match(line[:MAX_LINE_CHARS])]


def _short(line: str) -> str:
    extra = len(line) - MAX_LINE_CHARS
    return f"{line[:MAX_LINE_CHARS]} … [{extra} more characters]" if extra > 0 else line


def _kept(lines: list[str], path: str) -> list[int]:
    last = len(lines)
    ends = {*range(min(HEAD_LINES, last)), *range(max(0, last - TAIL_LINES), last)}
    between = [i for i in signature_lines(lines, path) if i not in ends]
    between.sort(key=lambda i: len(lines[i]) - len(lines[i].lstrip()))  # the outer ones first
    kept = ends.union(between[:MAX_SIGNATURES])
    # a mark is no shorter than the one line that it would stand for
    return [i for i in range(last) if i in kept or {i - 1, i + 1} <= kept]


def pack(text: str, path: str, *, line_numbers: bool = True) -> str:
    """Shorten a large file to head, signatures and tail.

    Args:
        text: The whole file.
        path: Its path; the suffix chooses what a signature is (Python, Markdown, JSON, YAML, else
            a generic pattern).
        line_numbers: Whether kept lines carry their number.

    Returns:
        Kept lines in file order; each gap is one line ``… n lines omitted (a-b) …``.
    """
    lines = text.split("\n")
    width = len(str(len(lines)))
    result: list[str] = []
    before = -1
    for i in [*_kept(lines, path), len(lines)]:
        if i - before > 1:
            gap = i - before - 1
            result.append(f"… {gap} lines omitted ({before + 2}-{i}) …")
        if i < len(lines):
            number = f"{i + 1:>{width}}  " if line_numbers else ""
            result.append(number + _short(lines[i]))
        before = i
    return "\n".join(result)
