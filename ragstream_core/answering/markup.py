"""What in an answer is a citation or an echo of the prompt's frames, and what only looks so.

Three forms, more leniently than `prompting.citations` reads them, since a model writes them:
``[source: …]`` closed on its line, a bracket that holds an issued id alone, ``<<DOC …>>``. Every
pattern is bounded and holds no quantifier inside another, so deciding costs the same everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from enum import Enum
from typing import NamedTuple

from ragstream_core.prompting.fences import BREAK

_SOURCE = re.compile(r"\[[ \t]{0,8}source[ \t]{0,8}:", re.IGNORECASE)
_SOURCE_REST = re.compile(r"[^\[\]\n]{0,500}")
_FRAME = re.compile(r"<<(?:END )?DOC \d{1,6} ")
_FRAME_REST = re.compile(r"[^<>\n]{0,600}")
_BARE = re.compile(r'\[ ?(?:(?:chunk|id) ?[:=]? ?)?"?(?P<id>[0-9a-f]{8,24})"? ?\]', re.IGNORECASE)
_BEGINNING = re.compile(
    r"\[[ \t]{0,8}(?:s(?:o(?:u(?:r(?:c(?:e[ \t]{0,8})?)?)?)?)?)?"
    r"|<(?:<(?:E(?:N(?:D(?: )?)?)?|(?:END )?(?:D(?:O(?:C(?: \d{0,6})?)?)?)?)?)?",
    re.IGNORECASE,
)
_BARE_BEGINNING = re.compile(
    r'\[ ?(?:(?:c(?:h(?:u(?:n(?:k)?)?)?)?|i(?:d)?)? ?[:=]? ?)?"?[0-9a-f]{0,24}"? ?', re.IGNORECASE
)
_START = re.compile(r"\[|<<|<\Z")


class Verdict(Enum):
    """What stands at a place: ``OPEN`` says that more text is needed to tell."""

    MARKER = "marker"
    TEXT = "text"
    BROKEN = "broken"
    OPEN = "open"


class Found(NamedTuple):
    """One closed marker: ``text[start:end]``."""

    start: int
    end: int
    text: str


def next_start(text: str, at: int) -> int:
    """Return where a marker may begin, at or behind ``at``; the length of the text for nowhere."""
    match = _START.search(text, at)
    return match.start() if match else len(text)


def decide(text: str, at: int, issued: Collection[str] = ()) -> tuple[Verdict, int]:
    """Say what stands at a place where `next_start` points.

    Args:
        text: The text as far as it is known.
        at: The place.
        issued: Citation ids of the prompt; a bracket around one of them alone is a marker.

    Returns:
        The verdict, and the end of a marker. ``BROKEN`` is a beginning that is never closed.
    """
    square = text[at] == "["
    opening = (_SOURCE if square else _FRAME).match(text, at)
    if opening:
        rest = (_SOURCE_REST if square else _FRAME_REST).match(text, opening.end())
        end = rest.end() if rest else opening.end()
        closing = "]" if square else ">>"
        if text.startswith(closing, end):
            return Verdict.MARKER, end + len(closing)
        return (Verdict.OPEN if closing.startswith(text[end:]) else Verdict.BROKEN), at
    if square and issued:
        bare = _BARE.match(text, at)
        if bare:
            known = bare["id"].lower() in issued
            return (Verdict.MARKER, bare.end()) if known else (Verdict.TEXT, at)
    return (Verdict.OPEN if may_become_marker(text[at : at + 64]) else Verdict.TEXT), at


def is_opened(text: str, at: int) -> bool:
    """Say whether a marker was opened at a place, closed or not."""
    return bool(_SOURCE.match(text, at) or _FRAME.match(text, at))


def may_become_marker(text: str) -> bool:
    """Say whether a text, to its end, is how a marker begins."""
    return bool(_BEGINNING.fullmatch(text) or _BARE_BEGINNING.fullmatch(text))


def defused(text: str) -> str:
    """Put a visible ``·`` behind the bracket where a text ends like the beginning of a marker."""
    for bracket in ("[", "<<", "<"):
        at = text.rfind(bracket)
        if at >= 0 and may_become_marker(text[at:]):
            return f"{text[: at + 1]}{BREAK}{text[at + 1 :]}"
    return text


def markers(text: str, issued: Collection[str] = ()) -> Iterator[Found]:
    """Yield the closed markers of a whole text, in order."""
    at = next_start(text, 0)
    while at < len(text):
        verdict, end = decide(text, at, issued)
        if verdict is Verdict.MARKER:
            yield Found(at, end, text[at:end])
        at = next_start(text, end if verdict is Verdict.MARKER else at + 1)
