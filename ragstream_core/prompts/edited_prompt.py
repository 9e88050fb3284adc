"""Reading a finished prompt that a person may have edited: sections, frames, what was broken.

Everything is read from the text itself, by the grammar of `line_owners`; nothing is refused. A
person may write into the own prompt what they like, and is told what that did to its structure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ragstream_core.ports import TokenCounter
from ragstream_core.prompts.frames import frames
from ragstream_core.prompts.line_owners import SECTIONS, owners
from ragstream_core.records import SuperPrompt
from ragstream_core.records.stage_results import TokenBlock, TokenPart, TokenTree
from ragstream_core.text.token_estimates import ScriptTokenCounter

SUPER_PROMPT = "super_prompt"

# The sections that are sent as the System message.
OWN_SECTIONS = ("HARD RULES", "PROJECT MEMORY", "SYSTEM")
BEFORE = "before the first section"
_OWNED = re.compile(rf"(?:{'|'.join(map(re.escape, SECTIONS))})\|?|heading|(?:frame|doc) \d+")


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a finished prompt."""

    name: str  # its heading; empty for what stands before the first one
    # from its heading to the next one, line ends included: joined, the sections are the prompt
    text: str


def is_edited(prompt: SuperPrompt) -> bool:
    """Return whether a person edited the finished text of a prompt."""
    return any(edit.target == SUPER_PROMPT for edit in prompt.extras.edits)


def sections_of(text: str, nonce: str) -> list[Section]:
    """Cut a finished prompt at its headings."""
    heading = re.compile(rf"^## \[{re.escape(nonce)}\] (.+)$", re.MULTILINE)
    found = list(heading.finditer(text))
    starts = [match.start() for match in found]
    head = text[: starts[0] if starts else len(text)]
    cut = [Section("", head)] if head else []
    for match, end in zip(found, [*starts[1:], len(text)], strict=False):
        cut.append(Section(match[1], text[match.start() : end]))
    return cut


def split_system(text: str, nonce: str) -> tuple[str, str]:
    """Split a prompt into what is sent as System and as user message; joined they are the prompt.

    The System part ends where the last of our own leading sections ends. A text that has no such
    section, or nothing behind them, has none: the user message is never empty.
    """
    own: list[Section] = []
    for section in sections_of(text, nonce):
        if section.name not in (*OWN_SECTIONS, "" if not own else None):
            break
        own.append(section)
    system = "".join(section.text for section in own)
    rest = text[len(system) :]
    if not rest.strip() or not any(section.name for section in own):
        return "", text
    return system, rest


def broken_lines(text: str, nonce: str) -> list[str]:
    """Return for people which lines of a prompt have no owner any more, each kind once."""
    found: dict[str, int] = {}
    for number, owner in enumerate(owners(text, nonce), start=1):
        if not _OWNED.fullmatch(owner):
            found.setdefault(owner, number)
    return [f"line {number}: {_WORDS.get(owner, owner)}" for owner, number in found.items()]


_WORDS = {
    "nobody": "text before the first section",
    "unknown heading": "a section that no prompt has",
    "forged mark": "the prompt's mark outside of a heading",
    "misplaced frame": "a quotation begins out of place or out of order",
    "unprefixed line": "a quoted line without its bar",
    "unclosed frame": "a quotation whose end is missing, or has other lines than it says",
}


def still_shown(prompt: SuperPrompt, ids: Iterable[str]) -> set[str]:
    """Return those citation ids whose quotation stands in a prompt: all, unless it was edited."""
    if not is_edited(prompt):
        return set(ids)
    shown = frames(prompt.extras.super_prompt, prompt.extras.fence.nonce)
    return {frame.id for frame in shown} & set(ids)


def text_tokens(text: str, nonce: str, counter: TokenCounter) -> TokenTree:
    """Count a prompt section by section and quotation by quotation, so that all adds up.

    A part counts what the prompt up to its end takes more than up to its start.
    """
    sections, at = [], 0
    for section in sections_of(text, nonce):
        parts = [(name, at + start, at + end) for name, start, end in _places(section.text, nonce)]
        at += len(section.text)
        sections.append((section.name or BEFORE, at, parts))
    places = {end for _, end, _ in sections}.union(
        *(f[1:] for _, _, rows in sections for f in rows)
    )
    upto = _counts_up_to(text, sorted(places - {0}), counter)
    blocks, before = [], 0
    for name, end, rows in sections:
        counted = [TokenPart(source, upto[last] - upto[first]) for source, first, last in rows]
        blocks.append(TokenBlock(name, upto[end] - upto[before], tuple(counted) or None))
        before = end
    return TokenTree(counter.name, upto[before], tuple(blocks))


def _counts_up_to(text: str, ends: Sequence[int], counter: TokenCounter) -> dict[int, int]:
    """Return what a text counts up to each of some places, ascending; 0 up to its start."""
    whole_lines = all(text[end - 1] == "\n" for end in ends[:-1])
    if isinstance(counter, ScriptTokenCounter) and whole_lines:
        counts = counter.up_to(text, ends)
    else:
        counts = [counter.count(text[:end]) for end in ends]
    return dict(zip((0, *ends), (0, *counts), strict=True))


def _places(text: str, nonce: str) -> list[tuple[str, int, int]]:
    """Return the source of each quotation, where it begins, and where the next one does."""
    shown = frames(text, nonce)
    ends = [*(frame.start for frame in shown[1:]), len(text)]
    return [(frame.source, frame.start, end) for frame, end in zip(shown, ends, strict=False)]
