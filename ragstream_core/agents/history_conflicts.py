"""Older turns against ❖ FILES and against each other: ❖ FILES > newer > older (R-158…R-160).

A fragment of the conversation goes if an injected file holds its text, if it shows that file in
another version, or if a later turn says nearly the same. What differs is a conflict:
both sides and the winner are named.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from ragstream_core.agents.context.quotable import Terms
from ragstream_core.prompts.blocks import HISTORY_PREFIX
from ragstream_core.prompts.render import bare
from ragstream_core.records import Chunk
from ragstream_core.records.stage_results import InjectedFile
from ragstream_core.text.memo import remembered

MIN_FRAGMENT = 40
LINE_CHARS = 12
SHARED_LINES = 0.5
NEARLY_SAME = 0.8
FEWEST_TERMS = 6
_HEADING = re.compile(r"^(?:\[[^]\n]{1,40}\] [^\n]{1,64}?|\A[^\n]{1,64}?): ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ConflictVerdict:
    """Why a fragment of the conversation gives way.

    Attributes:
        rule: ``duplicates_files``, ``conflicts_with_files`` or ``older_turn``.
        reason: One sentence for people.
        winner: Path of the file, or id of the chunk, that stays.
        conflict: Whether the two sides differ.
    """

    rule: str
    reason: str
    winner: str
    conflict: bool


@remembered
def fold(text: str) -> str:
    """Return a text with all white space collapsed: the form in which texts are compared."""
    return " ".join(text.split())


def is_past(chunk: Chunk) -> bool:
    """Return whether a chunk is a fragment of the conversation."""
    return chunk.id.startswith(HISTORY_PREFIX)


def against_files(chunk: Chunk, files: Sequence[InjectedFile]) -> ConflictVerdict | None:
    """Return why an injected file makes a fragment superfluous, or None.

    Args:
        chunk: A fragment of the conversation.
        files: ``extras.files``.
    """
    text = fold(chunk.snippet)
    for file in files:
        path, held = file.path, fold(bare(file.text) if file.numbered else file.text)
        if len(text) >= MIN_FRAGMENT and text in held:
            return ConflictVerdict(
                "duplicates_files", f"{path} holds every line of it", path, False
            )
        names = {path, file.home[1]}
        for version in chunk.meta.get("versions", ()):
            then, now = str(version.get("sha256", "")), file.sha256
            if version.get("path") in names and then and then != now:
                reason = f"it speaks of {path} as it was ({then[:12]}); the file shown is newer"
                return ConflictVerdict("conflicts_with_files", reason, path, True)
        share = _shared_lines(chunk.snippet, held)
        if share == 1.0:
            return ConflictVerdict(
                "duplicates_files", f"{path} holds every line of it", path, False
            )
        if share >= SHARED_LINES:
            reason = f"{share:.0%} of its lines stand in {path}, the others differ"
            return ConflictVerdict("conflicts_with_files", reason, path, True)
    return None


def _shared_lines(text: str, held: str) -> float:
    """Return the share of a fragment's code-like lines that stand in a file, 0 for prose."""
    lines = [fold(line) for line in text.splitlines()[1:]]  # the first names date and speaker
    lines = [line for line in lines if len(line) >= LINE_CHARS]
    if len(lines) < 2:
        return 0.0
    return sum(line in held for line in lines) / len(lines)


def superseded(
    chunks: Iterable[Chunk], terms: Terms, asked: Collection[str] = ()
) -> dict[str, ConflictVerdict]:
    """Return the fragments that a later turn replaces, by id.

    Two fragments of different turns say nearly the same if they share four fifths of the terms
    of the longer one; the later one stays, whatever their ranks. One that holds a word of the
    question which the later one lacks stays too.

    Args:
        chunks: Candidates; those of documents are passed by.
        terms: Stems a text.
        asked: Terms of the question.
    """
    past = sorted(
        (c for c in chunks if is_past(c)), key=lambda c: int(c.meta["turn_id_end"]), reverse=True
    )
    found: dict[str, ConflictVerdict] = {}
    newer: list[tuple[Chunk, frozenset[str]]] = []
    for chunk in past:
        own = frozenset(terms(words_of(chunk.snippet)))
        wanted = own.intersection(asked)
        alike = (c for c, held in newer if wanted <= held and _alike(chunk, own, c, held))
        twin = next(alike, None)
        if twin is None:
            newer.append((chunk, own))
            continue
        same = fold(words_of(twin.snippet)) == fold(words_of(chunk.snippet))
        what = "the same" if same else "nearly the same, in other words"
        reason = f"turn {twin.meta['turn_id_end']} says {what} later"
        found[chunk.id] = ConflictVerdict("older_turn", reason, twin.id, not same)
    return found


def words_of(text: str) -> str:
    """Return the words of turns without the date and speaker before what each of them said.

    Args:
        text: Turns as a prompt shows them, or a fragment of one.
    """
    return _HEADING.sub("", text) or text


def _alike(one: Chunk, own: frozenset[str], other: Chunk, held: frozenset[str]) -> bool:
    if one.meta["turn_id_end"] == other.meta["turn_id_end"] or min(len(own), len(held)) < 1:
        return False
    if min(len(own), len(held)) < FEWEST_TERMS:
        return own == held
    return len(own & held) / max(len(own), len(held)) >= NEARLY_SAME
