"""Reads the frames of a finished prompt back: one grammar for all who look for a quotation.

`line_owners` has its own: it is the check, and shares no code with what it checks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from ragstream_core.prompts.fences import PREFIX
from ragstream_core.records.stage_results import Span

BEGINNING = (
    r'<<DOC \d{1,6} (?P<nonce>[0-9a-f]{12,64}) id="(?P<id>[A-Za-z0-9_.-]{1,80})"'
    r' source="(?P<source>[A-Za-z0-9._~/%-]{1,200})"'
)
_HEAD = (
    rf'{BEGINNING} span="(?P<first>\d{{1,12}})-(?P<last>\d{{1,12}})"'
    r' sha256="(?P<sha256>[0-9a-f]{0,12})"(?: mode="(?P<mode>FULL|PACK|CUT|DIFF)")?'
    r" lines=\d{1,9}>>"
)
_FRAME = re.compile(rf"^{_HEAD}$(?P<quoted>(?:\n\|[^\n]*)*)", re.MULTILINE)
_MARK = re.compile(r"## \[([0-9a-f]{12,64})\] .+")


@dataclass(frozen=True, slots=True)
class Frame:
    """A quotation."""

    id: str  # its citation id
    source: str  # path of its document, or a name of ours; cut if it is very long
    span: Span  # characters of the document
    sha256: str  # first digits, of the document's bytes; of a change, of its text. Empty for turns
    mode: str  # ``FULL``, ``PACK``, ``CUT``, ``DIFF`` or empty
    text: str  # what is quoted, without the bars
    start: int  # where its first line begins, in characters of what was read


def mark_of(text: str) -> str:
    """Return the mark of a finished prompt; empty if it does not begin with a heading of ours."""
    first = _MARK.match(text)
    return first[1] if first else ""


def frames(text: str, nonce: str = "") -> list[Frame]:
    """Return the quotations of a prompt, or of a part or a line of one, in order.

    Those of another mark are none; without a mark, those of any. No quoted line can begin as one.
    """
    return [_frame(found) for found in _FRAME.finditer(text) if nonce in ("", found["nonce"])]


def _frame(found: re.Match[str]) -> Frame:
    quoted = [line.removeprefix(PREFIX) for line in found["quoted"].split("\n")[1:]]
    return Frame(
        found["id"],
        unquote(found["source"]),
        (int(found["first"]), int(found["last"])),
        found["sha256"],
        found["mode"] or "",
        "\n".join(quoted),
        found.start(),
    )
