"""Tasks 1 to 3 of seed 001 §7: format, headers and bodies with exact spans, the segment table.

Nothing is classified while a section is found (Task 1); names get their meaning afterwards, by the
alias table (R-103, C-10).
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any

from ragstream_core.errors import UnknownSetting
from ragstream_core.text.blocks import fence_behind
from ragstream_core.text.sentences import is_filler, trim

CONTENT = ("TASK", "CONTEXT", "PURPOSE", "USER_PROMPT")
META = ("SYSTEM", "AUDIENCE", "FORMAT", "DEPTH", "ROLE", "TONE")
CANONICAL = (*CONTENT, *META)
_NUMBERING = re.compile(r"^\s*\d{1,3}(?:\.\d{1,3}){0,3}[.)]?\s")
_NOT_WORD = re.compile(r"[\W_]+")
_HINT = "compare with the table that ships: ragstream_core/agents/aliases.yaml"


def normalise_header(name: str) -> str:
    """Fold a header: no numbering, no punctuation, lower case, single spaces."""
    return _NOT_WORD.sub(" ", _NUMBERING.sub("", name)).strip().casefold()


@functools.cache
def default_alias_text() -> str:
    """Return the YAML text of the table that ships with the package."""
    return resources.files(__package__).joinpath("aliases.yaml").read_text(encoding="utf-8")


def parse_aliases(text: str) -> dict[str, str]:
    """Read an alias table.

    Args:
        text: YAML: canonical header → list of names.

    Returns:
        Folded name → canonical header; every canonical header also stands for itself.

    Raises:
        UnknownSetting: Not such a table, an unknown canonical header, or a name given twice.
    """
    import yaml

    try:
        data: Any = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UnknownSetting(f"the alias table is not YAML: {error}", hint=_HINT) from None
    if not isinstance(data, dict):
        raise UnknownSetting("the alias table must map headers to lists of names", hint=_HINT)
    table = {normalise_header(name): name for name in CANONICAL}
    for canonical, names in data.items():
        if canonical not in CANONICAL or not isinstance(names, list):
            raise UnknownSetting(f"alias table: {canonical!r} is not a known header", hint=_HINT)
        for name in map(normalise_header, map(str, names)):
            if table.setdefault(name, canonical) != canonical:
                raise UnknownSetting(f"alias table: {name!r} is given twice", hint=_HINT)
    return table


_ATX = re.compile(r" {0,3}(#{1,6})(?=[ \t])")
MAX_NAME = 200
_LABEL = re.compile(
    r"\s{0,3}(?:\*\*|__)?([^\W\d_][\w -]{0,40}?)(?:\*\*|__)?(?::(?:\*\*|__)?(?=\s|$)|：)"
)
_UNDERLINE = re.compile(r" {0,3}(?:={3,}|-{3,})[ \t\r]*$")
_MARKUP = re.compile(
    r"^(?: {0,3}#{1,6} |\s{0,3}(?:```|~~~)|\s{0,3}\*\*[^*\n]{1,60}\*\*"
    r"|[^\s=-][^\n]{0,200}\n {0,3}={3,}[ \t\r]*$)",
    re.MULTILINE,
)
_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_LONE = re.compile("[\ud800-\udfff]")
_STRING = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'""", re.DOTALL)
_GAP = re.compile(r"(?:[ \t\r\n,]|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_OBJECT = re.compile(r"\{\s*[\"'][^\"'\n]{1,60}[\"']\s*:")
_BARE = re.compile(r"[^\W\d][\w-]*")

# Labels that, both together, show what goes in and comes out: no wish for a form.
_EXAMPLE = {"input", "output"}
PREAMBLE = "preamble"

# The level of `Name: text`, below every heading.
LABEL = 9


@dataclass(frozen=True, slots=True)
class Section:
    """A header and its body.

    Attributes:
        name: The header as written; empty for text before the first one.
        canon: Canonical header, or empty if the alias table does not know the name.
        text: The body; for JSON the decoded string.
        span: The body in the raw text; ``raw[span[0]:span[1]] == text`` unless JSON escapes it.
        offsets: For a JSON string, the raw offset of each decoded character and of its end.
        level: Depth of the heading; labels are deepest.
    """

    name: str
    canon: str
    text: str
    span: tuple[int, int]
    offsets: tuple[int, ...] = ()
    level: int = LABEL

    def raw_span(self, start: int, end: int) -> tuple[int, int]:
        """Return where ``text[start:end]`` stands in the raw prompt."""
        if self.offsets:
            return self.offsets[start], self.offsets[end]
        return self.span[0] + start, self.span[0] + end


def detect_format(raw: str) -> str:
    """Return ``json``, ``markdown`` or ``plain`` (Task 1)."""
    stripped = raw.strip()
    if stripped.startswith("{") and stripped.endswith("}") and _json_sections(raw) is not None:
        return "json"
    return "markdown" if _MARKUP.search(raw) else "plain"


def json_fault(raw: str) -> str:
    """Return why a text that looks like a JSON object is none; empty if it does not look so.

    Args:
        raw: A prompt that is not of the format ``json``.
    """
    stripped = raw.strip()
    if not (_OBJECT.match(stripped) and stripped.endswith("}")):
        return ""
    try:
        json.loads(raw)
    except json.JSONDecodeError as error:
        return f"line {error.lineno}, column {error.colno}: {error.msg}"
    except (ValueError, RecursionError):
        return "it is nested too deep or holds a number that is too long"
    return ""


def find_sections(raw: str, aliases: Mapping[str, str]) -> tuple[str, list[Section]]:
    """Find format, headers and bodies.

    Args:
        raw: The prompt.
        aliases: Folded name → canonical header.

    Returns:
        (format, sections in order). Empty bodies are left out.
    """
    kind = detect_format(raw)
    found = _json_sections(raw) if kind == "json" else _text_sections(raw, aliases)
    named = [replace(s, canon=aliases.get(normalise_header(s.name), "")) for s in found or []]
    return kind, [s for s in named if s.text.strip()]


def _decode_string(raw: str, start: int) -> tuple[str, tuple[int, ...], int]:
    """Decode the string whose quote stands at ``start``; one raw offset a character."""
    match = _STRING.match(raw, start)
    if match is None:
        raise ValueError("no string")
    text: list[str] = []
    offsets: list[int] = []
    at = start + 1
    while at < match.end() - 1:
        step = 1 if raw[at] != "\\" else 6 if raw[at + 1] == "u" else 2
        step = 12 if step == 6 and _PAIR.match(raw, at) else step
        shown = raw[at : at + step]
        decoded = shown if step == 1 else "'" if shown == "\\'" else json.loads(f'"{shown}"')
        text.extend(decoded)
        offsets.extend([at] * len(decoded))
        at += step
    return "".join(text), (*offsets, at), match.end()


def _gap(raw: str, at: int) -> int:
    """Return the offset behind blanks, commas and comments."""
    found = _GAP.match(raw, at)
    return found.end() if found else at


def _json_name(raw: str, at: int) -> tuple[str, int]:
    """Return a member's name, quoted or not, and the offset behind it.

    Half of a character, which an escape can write, could not be kept: it is replaced.
    """
    if raw[at] in "\"'":
        name, _, end = _decode_string(raw, at)
        return _LONE.sub("\ufffd", name), end
    bare = _BARE.match(raw, at)
    if bare is None:
        raise ValueError("no name")
    return bare.group(), bare.end()


def _json_value(name: str, raw: str, at: int) -> tuple[Section, int]:
    if raw[at] in "\"'":
        text, offsets, end = _decode_string(raw, at)
        plain = raw[at + 1 : end - 1] == text
        return Section(name, "", text, (at + 1, end - 1), () if plain else offsets), end
    _, end = json.JSONDecoder().raw_decode(raw, at)
    return Section(name, "", raw[at:end], (at, end)), end


def _json_sections(raw: str) -> list[Section] | None:
    """Read the members of a JSON-like object; None if it is not one.

    Commas may be missing or too many, names unquoted, quotes single, lines broken inside a string,
    and comments pass.
    """
    sections: list[Section] = []
    at = _gap(raw, raw.index("{") + 1)
    try:
        while raw[at] != "}":
            name, at = _json_name(raw, at)
            at = _gap(raw, at)
            if raw[at] != ":":
                return None
            section, at = _json_value(name, raw, _gap(raw, at + 1))
            sections.append(section)
            at = _gap(raw, at)
    except (ValueError, IndexError, RecursionError):
        return None
    return sections or None


def _candidates(raw: str) -> Iterator[tuple[str, int, int, int, bool]]:
    """Yield what may be a header, outside of code fences.

    Yields:
        (name, level, its start, the start of its body, whether it is one whatever its name).
    """
    at, taken, fence = 0, 0, ""
    above = ["", ""]  # the two lines above
    for line in raw.split("\n"):
        end, start = at + len(line), at - len(above[1]) - 1
        row = None
        before, fence = fence, fence_behind(line, fence)
        if before or fence:
            pass
        elif match := _ATX.match(line):
            row = (line[match.end() :], len(match[1]), at, end, True)
        elif _UNDERLINE.match(line) and start >= taken and not above[0].strip():
            row = (above[1], 1 if "=" in line else 2, start, end, "=" in line)
        elif match := _LABEL.match(line):
            row = (match[1], LABEL, at, at + match.end(), False)
        if row and normalise_header(row[0]):
            taken = row[3]
            yield (row[0].strip("#*_: \t\r")[:MAX_NAME], *row[1:])
        above = [above[1], line]
        at = end + 1


def _headers(raw: str, aliases: Mapping[str, str]) -> list[tuple[str, int, int, int]]:
    """Return (name, level, header start, body start) of each header."""
    found: list[tuple[str, int, int, int]] = []
    inside = 0
    candidates = list(_candidates(raw))
    labels = {normalise_header(name) for name, level, *_ in candidates if level == LABEL}
    for name, level, start, end, sure in candidates:
        if level == LABEL and labels >= _EXAMPLE and normalise_header(name) in _EXAMPLE:
            continue
        canon = aliases.get(normalise_header(name), "")
        if canon or (sure and (not inside or level <= inside)):
            found.append((name, level, start, end))  # a deeper unknown one belongs to its body …
            inside = (inside or LABEL) if level == LABEL else LABEL if canon in META else level
    return found  # … but nothing belongs to a FORMAT or TONE


def _text_sections(raw: str, aliases: Mapping[str, str]) -> list[Section]:
    headers = _headers(raw, aliases)
    starts = [start for _, _, start, _ in headers] + [len(raw)]
    bodies = [("", LABEL, 0, starts[0])]
    bodies += [
        (name, level, body, starts[i + 1]) for i, (name, level, _, body) in enumerate(headers)
    ]
    sections = []
    for name, level, begin, finish in bodies:
        is_meta = level == LABEL and aliases.get(normalise_header(name), "") in META
        said = _label_end(raw, begin, finish) if is_meta else finish
        for title, first, last in ((name, begin, said), ("", said, finish)):
            start, end = trim(raw, first, last)
            sections.append(Section(title, "", raw[start:end], (start, end), (), level))
    return sections


def _label_end(raw: str, begin: int, finish: int) -> int:
    """Return where a wish such as `Tone: dry` ends: at an empty line, or where something is asked.

    What stands behind it, or is asked there, is the person's question.
    """
    at, said = begin, False
    for line in raw[begin:finish].splitlines(keepends=True):
        if _is_asked(line) or (said and not line.strip()):
            return at
        said, at = said or bool(line.strip()), at + len(line)
    return finish


def _is_asked(line: str) -> bool:
    return line.rstrip(" \t\r\n\"'”»)*_").endswith(("?", "？", "؟"))


def guarantee_task(raw: str, sections: list[Section]) -> tuple[list[Section], str]:
    """Give the prompt a TASK (Task 2): the header, else the first that stands in for it.

    Fallbacks in order: text before the first header (unless it is a greeting), USER_PROMPT,
    PURPOSE, the whole prompt.

    Returns:
        (sections, where TASK came from). A preamble beside a TASK becomes USER_PROMPT.
    """
    if any(s.canon == "TASK" for s in sections):
        return [s if s.name else replace(s, canon="USER_PROMPT") for s in sections], "TASK"
    for rule, fits in (
        (PREAMBLE, lambda s: not s.name and not is_filler(s.text)),
        ("USER_PROMPT", lambda s: s.canon == "USER_PROMPT"),
        ("PURPOSE", lambda s: s.canon == "PURPOSE"),
    ):
        chosen = next((s for s in sections if fits(s)), None)
        if chosen is not None:
            others = [
                s if s.name or s is chosen else replace(s, canon="USER_PROMPT") for s in sections
            ]
            return [replace(s, canon="TASK") if s is chosen else s for s in others], rule
    start, end = trim(raw, 0, len(raw))
    kept = [s for s in sections if s.canon and s.canon not in CONTENT]
    return [Section("", "TASK", raw[start:end], (start, end)), *kept], "whole prompt"
