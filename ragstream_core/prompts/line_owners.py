"""The independent parser: re-reads a finished prompt and says whose each line is.

It shares no code with `fences`; it knows the grammar only. Owners: ``heading``, ``SECTION`` (our
own or the user's words in that section), ``SECTION|`` (a quoted line there), ``frame i``,
``doc i`` (a quoted line inside frame i).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragstream_core.errors import FenceBroken, SwitchOff

# Sections that hold foreign text: there a line that begins with ``|`` is a quotation.
QUOTING_SECTIONS = ("❖ FILES", "S_CTX", "ATTACHMENTS", "RECENT HISTORY (non-authoritative)")
SECTIONS = ("HARD RULES", "PROJECT MEMORY", "SYSTEM", *QUOTING_SECTIONS, "TASK")
_STATES_THE_RULE = "SYSTEM"


def _grammar(nonce: str) -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    return (
        re.compile(rf"## \[{nonce}\] (.+)"),
        re.compile(
            rf'<<DOC (\d{{1,6}}) {nonce} id="[A-Za-z0-9_.-]+" source="[A-Za-z0-9._~/%-]{{1,200}}"'
            r' span="\d+-\d+" sha256="[0-9a-f]{0,12}"'
            r'(?: mode="(?:FULL|PACK|CUT|DIFF)")? lines=(\d{1,9})>>'
        ),
        re.compile(rf"<<END DOC (\d{{1,6}}) {nonce}>>"),
    )


class _Reader:
    """The state of one reading: the section, the open frame, the lines still due in it."""

    def __init__(self, nonce: str) -> None:
        self.nonce = nonce
        self.heading, self.opening, self.closing = _grammar(nonce)
        self.section = ""
        self.frame = 0
        self.frames = 0
        self.due = 0

    def owner(self, line: str) -> str:
        """Return whose the next line is."""
        if self.frame:
            return self._inside(line)
        if match := self.heading.fullmatch(line):
            self.section = match[1]
            return "heading" if match[1] in SECTIONS else "unknown heading"
        if match := self.opening.fullmatch(line):
            return self._open(int(match[1]), int(match[2]))
        if not self.section:
            return "nobody"
        if self.nonce in line.lower() and self.section != _STATES_THE_RULE:
            return "forged mark"
        if self.section in QUOTING_SECTIONS and line.startswith("|"):
            return f"{self.section}|"
        return self.section

    def _open(self, index: int, lines: int) -> str:
        if index != self.frames + 1 or self.section not in QUOTING_SECTIONS:
            return "misplaced frame"
        self.frame = self.frames = index
        self.due = lines
        return f"frame {index}"

    def _inside(self, line: str) -> str:
        if self.due:
            self.due -= 1
            bad = not line.startswith("| ") or self.nonce in line.lower()
            return "unprefixed line" if bad else f"doc {self.frame}"
        match = self.closing.fullmatch(line)
        if match is None or int(match[1]) != self.frame:
            return "unclosed frame"
        index, self.frame = self.frame, 0
        return f"frame {index}"


def owners(prompt_text: str, nonce: str) -> list[str]:
    r"""Say whose each line of a finished prompt is; only ``\n`` ends a line.

    A frame left open at the end adds one more owner, ``unclosed frame``.
    """
    reader = _Reader(nonce)
    result = [reader.owner(line) for line in prompt_text.split("\n")]
    return [*result, "unclosed frame"] if reader.frame else result


def verify(prompt_text: str, nonce: str, expected: Sequence[str]) -> None:
    """Check that each line of a prompt belongs to whom it was given."""
    found = owners(prompt_text, nonce)
    for number, (was, want) in enumerate(zip(found, expected, strict=False), start=1):
        if was != want:
            raise FenceBroken(
                f"line {number} of the prompt belongs to {was!r}, it was given to {want!r}",
                hint=("a source text broke its fence; ", SwitchOff("that file"), " and report it"),
            )
    if len(found) != len(expected):
        raise FenceBroken(
            f"the prompt has {len(found)} lines, {len(expected)} were given",
            hint=("a source text broke its fence; ", SwitchOff("files"), " to find it"),
        )
