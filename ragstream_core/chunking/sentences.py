"""Where sentences end: a small set of rules, linear in the length of the text.

A boundary is a full stop that is not part of an abbreviation, an initial, a number or a name with
dots; the end of a paragraph, list item, heading or table row; and every line of a fenced block. A
line break inside wrapped prose is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragstream_core.chunking.lines import Line, LineKind, lines_of

# Possessive, and only at the start of a run of stops: linear whatever the text.
_STOP = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’»)\]*_`]*+(?=\s)|(?<![。！？])[。！？]++[」』”’）]*+")
_SPACE_RUN = re.compile(r"\s*")
_OPENERS = "\"'“‘«([*_`"
_TITLES = "dr mr mrs ms prof st jr sr e.g i.e cf vs approx ca ed eds al inc ltd corp dept est"
_BEFORE_NUMBERS = (
    "no nos fig figs eq eqs sec ch vol pp p jan feb mar apr jun jul aug sep oct nov dec"
)
_ABBREVIATIONS = frozenset(_TITLES.split())
_NUMBERED = frozenset(_BEFORE_NUMBERS.split())
_WRAPPED_FROM = 60
_WRAPPED_LOWER_FROM = 25
_LOOK_BACK = 24


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Return (start, end) of each sentence, in order.

    Args:
        text: Any text; Markdown structure is respected.

    Returns:
        Disjoint spans without white space at their ends; every character that is not white space
        lies in exactly one of them.
    """
    spans: list[tuple[int, int]] = []
    for start, end, prose in _blocks(text):
        spans.extend(_in_block(text, start, end) if prose else [_trimmed(text, start, end)])
    return spans


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    match = _SPACE_RUN.match(text, start, end)
    return (match.end() if match else start), end


def _blocks(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yield (start, end, may hold several sentences): lines, wrapped prose lines joined."""
    start, previous = 0, None
    for line in lines_of(text):
        if previous is not None and not _continues(text, previous, line):
            yield start, previous.end, previous.kind in (LineKind.PROSE, LineKind.ITEM)
            previous = None
        if line.kind is LineKind.BLANK:
            continue
        if previous is None:
            start = line.start
        previous = line
    if previous is not None:
        yield start, previous.end, previous.kind in (LineKind.PROSE, LineKind.ITEM)


def _continues(text: str, previous: Line, line: Line) -> bool:
    if line.kind is not LineKind.PROSE or previous.kind not in (LineKind.PROSE, LineKind.ITEM):
        return False
    if text[previous.end - 1] in ":;|>":
        return False
    length = previous.end - previous.start
    first = _trimmed(text, line.start, line.end)[0]
    return length >= _WRAPPED_FROM or (length >= _WRAPPED_LOWER_FROM and text[first].islower())


def _in_block(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    begin = _trimmed(text, start, end)[0]
    for match in _STOP.finditer(text, begin, end):
        if not _ends_sentence(text, begin, match, end):
            continue
        yield begin, match.end()
        begin = _trimmed(text, match.end(), end)[0]
    if begin < end:
        yield begin, end


def _ends_sentence(text: str, begin: int, stop: re.Match[str], end: int) -> bool:
    if stop.start() <= begin:  # dots at the very start belong to what follows
        return False
    if stop.group()[0] != ".":
        return True
    following = _trimmed(text, stop.end(), end)[0]
    while following < end and text[following] in _OPENERS:
        following += 1
    if following < end and text[following].islower():
        return False
    before = text[max(begin, stop.start() - _LOOK_BACK) : stop.start()]
    word = before.split()[-1].lstrip(_OPENERS) if before.split() else ""
    if word.isdigit() and stop.start() - len(word) <= begin:
        return False  # "1." opens a list item
    letters = word.split(".")
    if word != "I" and all(len(part) == 1 and part.isupper() for part in letters):
        return False  # an initial, or several: "J.", "U.S."
    if word.lower() in _NUMBERED and following < end and text[following].isdigit():
        return False
    return word.lower() not in _ABBREVIATIONS
