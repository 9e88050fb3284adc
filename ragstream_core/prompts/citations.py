"""Citations: the marker an answer carries, the header of a hit, and one parser for all three forms.

Answer marker ``[source: <filename>, chunk: <short id>]``; context header ``[source: path#chunk |
score: N.NNN]``; attachment fence ``<<DOC i N id="…" source="…" …>>``. Parsing is linear: no
quantifier stands inside another.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ragstream_core.prompts import frames
from ragstream_core.prompts.fences import safe_name

_ANSWER = re.compile(
    r"\[source: ?(?P<source>[^\[\],|\n]{1,400}), ?chunk: ?(?P<id>[A-Za-z0-9_.-]{1,80})\]"
)
_HEADER = re.compile(
    r"\[source: ?(?P<source>[^\[\]|#\n]{1,400})#(?P<id>[A-Za-z0-9_.-]{1,80})"
    r" \| score: ?(?P<score>-?\d{1,4}\.\d{1,6})\]"
)
_FENCE = re.compile(frames.BEGINNING)
_FORMS = (("answer", _ANSWER), ("header", _HEADER), ("fence", _FENCE))


@dataclass(frozen=True, slots=True)
class Marker:
    """One citation found in a text."""

    form: str  # ``answer``, ``header`` or ``fence``
    source: str  # file name or path as written
    id: str  # the id as written
    span: tuple[int, int]  # character offsets of the marker in the text


def shown_name(source: str) -> str:
    """Return the file name of a path as a marker shows it: percent-encoded."""
    return safe_name(source.rsplit("/", 1)[-1])


def answer_marker(source: str, short_id: str) -> str:
    """Return ``[source: <filename>, chunk: <short id>]``; the file name is percent-encoded."""
    return f"[source: {shown_name(source)}, chunk: {short_id}]"


def parse_markers(text: str) -> list[Marker]:
    """Find all citations of a text in any of the three forms, in order of appearance."""
    found = [
        Marker(form, match["source"].strip(), match["id"], match.span())
        for form, pattern in _FORMS
        for match in pattern.finditer(text)
    ]
    return sorted(found, key=lambda marker: marker.span)
