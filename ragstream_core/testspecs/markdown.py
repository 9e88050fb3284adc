"""A specification as Markdown, and what is read back from one to go on with it.

Layout: title, a line about the sources, the coverage table, then a section a case. A section that
already exists stays byte for byte, whatever a person has written into it. Foreign text stands in
code, where nothing is an image, a link or a heading.
"""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragstream_core.testspecs.requirements import SIGNATURE
from ragstream_core.testspecs.specification import (
    NONE_STATED,
    Coverage,
    Specification,
    TestCase,
    case_json,
)

_TICKS = re.compile(r"`+")
_SPECIAL = re.compile(r"[\\`*_\[\]<>&|~$!#]|(?<=:)/(?=/)")


def inline(text: str) -> str:
    """Return inline code that shows a text on one line, whatever stands in it."""
    flat = "".join(c if c.isprintable() else " " for c in text)
    fence = "`" * (_longest(flat) + 1)
    pad = " " if flat.startswith("`") or flat.endswith("`") or not flat.strip() else ""
    return f"{fence}{pad}{flat or ' '}{pad}{fence}"


def plain(text: str) -> str:
    """Return a text on one line as running text in which no character has a meaning."""
    flat = "".join(c if c.isprintable() else " " for c in text)
    return _SPECIAL.sub(r"\\\g<0>", flat).strip() or "–"


def cell(text: str) -> str:
    """Return inline code for a table: there a bar ends the cell even in code."""
    return inline(text).replace("|", "\\|")


def block(text: str, language: str = "text") -> str:
    """Return a code block that shows a text as it is; its fence is longer than any in it."""
    fence = "`" * max(3, _longest(text) + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _longest(text: str) -> int:
    return max((len(run) for run in _TICKS.findall(text)), default=0)


WORDS_CHARS = 200
_SECTION = re.compile(r"## (?P<id>[A-Za-z0-9._-]{1,100}): ")
_REQUIREMENTS = re.compile(r"^Requirements: (?P<ids>`.*`)$", re.MULTILINE)
_CODE = re.compile(r"(`+)(?: ?)(.+?)(?: ?)\1")
_FENCE = re.compile(r"(?P<ticks>`{3,})(?P<language>[a-z]*)")


@dataclass(frozen=True, slots=True)
class Section:
    """A case that a file has."""

    id: str
    requirements: tuple[str, ...]  # the ids in its line `Requirements`
    text: str  # the section, from its heading to the next


def sections_of(text: str) -> list[Section]:
    """Return the cases of a specification, in order; none if there are none."""
    rows = _rows(text)
    starts = [n for n, (row, kind) in enumerate(rows) if not kind and _SECTION.match(row)]
    found = []
    for start, end in itertools.pairwise([*starts, len(rows)]):
        part = "\n".join(row for row, _ in rows[start:end]).rstrip("\n")
        line = _REQUIREMENTS.search(part)
        ids = [code[2] for code in _CODE.finditer(line["ids"])] if line else []
        name = _SECTION.match(part)
        found.append(Section(name["id"] if name else "", tuple(ids), part))
    return found


def _rows(text: str) -> list[tuple[str, str]]:
    """Return each line with the language of the code block that it stands in, "" outside."""
    rows, open_ = list[tuple[str, str]](), None
    for row in text.split("\n"):
        fence = _FENCE.fullmatch(row)
        if open_ is None:
            rows.append((row, ""))
            open_ = fence
        elif fence is not None and not fence["language"] and row == open_["ticks"]:
            rows.append((row, ""))
            open_ = None
        else:
            rows.append((row, open_["language"] or "text"))
    return rows


def section(case: TestCase, *, embed_json: bool) -> Section:
    """Return a case as Markdown."""
    ids = ", ".join(map(inline, case.requirements))
    lines = [f"## {case.id}: {plain(case.title)}", "", f"Requirements: {ids}"]
    lines += ["", f"Written by: {_writer(case)}", ""]
    lines += [*(f"- Note: {inline(note)}" for note in case.notes), ""] if case.notes else []
    lines += [f"Precondition: {_stated(case.precondition)}", "", "| # | action | expected result |"]
    lines += ["|---|---|---|"]
    lines += [
        f"| {n} | {cell(action)} | {cell(then)} |"
        for n, (action, then) in enumerate(zip(case.actions, case.expected, strict=True), start=1)
    ]
    lines += ["", f"Postcondition: {_stated(case.postcondition)}", "", "Sources, verbatim:", ""]
    cited = operator.attrgetter("place", "marker", "prompt_key")
    for (place, marker, key), group in itertools.groupby(case.sources, key=cited):
        traced = f", prompt {inline(key[:12])}" if key else ""
        lines += [f"{inline(place)} {inline(marker)}{traced}", ""]
        lines += [line for source in group for line in (block(source.quote), "")]
    if embed_json:
        lines += [block(case_json(case), "json"), ""]
    return Section(case.id, case.requirements, "\n".join(lines).rstrip("\n"))


def document(spec: Specification, sections: Sequence[Section]) -> str:
    """Return the whole file."""
    counts = ", ".join(f"{count} {state}" for state, count in spec.counts.items()) or "none"
    lines = [
        SIGNATURE,
        f"# Test specification: {spec.project}",
        "",
        f"Sources: project `{spec.project}`, generation {spec.generation} "
        f"(`{spec.digest[:12]}`). Requirement ids: {inline(spec.pattern)}.",
        "",
        f"Requirements: {counts}.",
        "",
        "| requirement | test cases | defined at | state |",
        "|---|---|---|---|",
        *map(_row, spec.coverage),
        "",
    ]
    return "\n".join([*lines, *(f"{one.text}\n" for one in sections)])


def renumbered(sections: Sequence[Section], made: Mapping[str, Section]) -> list[Section]:
    """Return sections with those that were made again in their places, new ones behind them."""
    stay = [made.get(one.id, one) for one in sections]
    return [*stay, *(one for name, one in made.items() if name not in {s.id for s in sections})]


def _row(row: Coverage) -> str:
    cases = ", ".join(row.cases) or "–"
    words = f": {cell(_cut(row.words))}" if row.words else ""
    place = cell(row.defined) if row.defined else "–"
    return f"| {cell(row.requirement)} | {cases} | {place} | {row.state}{words} |"


def _cut(text: str) -> str:
    return text if len(text) <= WORDS_CHARS else f"{text[: WORDS_CHARS - 1]}…"


def _stated(text: str) -> str:
    return text if text == NONE_STATED else inline(text)


def _writer(case: TestCase) -> str:
    if case.form == "llm":
        return f"language model {inline(case.model)}; check it against its sources"
    return "rules; expected results are the words of the sources"
