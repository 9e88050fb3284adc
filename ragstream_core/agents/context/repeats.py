"""Whether a passage repeats another one: everything that it says stands there, in one run.

White space, emphasis, bullets, the depth of a heading and the full stop at a sentence's end may
differ, and it may say less; any other word, number or sign that it adds makes it no repeat, and so
does another order, or a gap: *it* behind a gap would mean something else. Lines of programs, data
and blocks of code are compared as they stand.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

from ragstream_core.agents.context.data_lines import kind_of_passage
from ragstream_core.agents.context.windows import CLOSED
from ragstream_core.prompts.blocks import HISTORY_PREFIX
from ragstream_core.records import Chunk
from ragstream_core.text.marked_blocks import blocks
from ragstream_core.text.memo import remembered
from ragstream_core.text.sentences import sentences_in

MOST_MORE = 1.25
_EMPHASIS = re.compile(r"(?<![\w*])(\*{1,3})(?=[^\s*])([^*\n]{1,200}?)(?<=\S)\1(?![\w*])")
_QUOTES = str.maketrans("“”„‘’", '"""\'\'')


def repeats(chunk: Chunk, other: Chunk) -> bool:
    """Return whether all that a chunk says stands in another one, in one run and as it says it.

    Args:
        chunk: The one that might not be shown.
        other: The one that is.
    """
    return _within(_said_by(chunk), _said_by(other))


def _within(said: str, other: str) -> bool:
    return said in other and bool(said.strip())


def shown_once(kept: Sequence[Chunk]) -> tuple[list[Chunk], dict[str, str]]:
    """Leave out passages that another one repeats; turns of the conversation all stay.

    A better ranked passage stands for a worse one. A worse one that says a little more than a
    better one takes its place: at most a quarter more, since a passage is no repeat of a chapter.

    Args:
        kept: In rank order.

    Returns:
        What is left, and for each one that is not the id of the one that says the same; a chain of
        them ends at one that is left.
    """
    said = {chunk.id: _said_by(chunk) for chunk in kept}
    if _no_repeat(list(said.values())):
        return list(kept), {}
    left: list[Chunk] = []
    same: dict[str, str] = {}
    for chunk in kept:
        if chunk.id.startswith(HISTORY_PREFIX):
            left.append(chunk)
            continue
        others = [one for one in left if not one.id.startswith(HISTORY_PREFIX)]
        holder = next((one for one in others if _within(said[chunk.id], said[one.id])), None)
        if holder is not None:
            same[chunk.id] = holder.id
            continue
        within = [
            one
            for one in others
            if len(chunk.in_context) <= MOST_MORE * len(one.in_context)
            and _within(said[one.id], said[chunk.id])
        ]
        same |= {one.id: chunk.id for one in within}
        place = left.index(within[0]) if within else len(left)
        left.insert(place, chunk)
        left = [one for one in left if one not in within]
    return left, same


def _no_repeat(said: Sequence[str]) -> bool:
    """Return whether each of some texts has a line that no other one has: most passages do."""
    lines = list(map(_lines, said))
    held = Counter(chain.from_iterable(lines))
    return all(1 in map(held.__getitem__, mine) for mine in lines)


@remembered
def _lines(said: str) -> frozenset[str]:
    return frozenset(said.split("\n")) - {""}


def _said_by(chunk: Chunk) -> str:
    is_data = kind_of_passage(chunk.source, chunk.in_context)
    return _as_it_stands(chunk.in_context) if is_data else _said(chunk.in_context)


@remembered
def _as_it_stands(text: str) -> str:
    return _joined(text.split("\n"))


@remembered
def _said(text: str) -> str:
    return _joined(list(_units(text)))


def _joined(units: list[str]) -> str:
    """Return texts as one in which each stands between line ends; empty ones are left out."""
    kept = [unit.rstrip() for unit in units]
    return "\n" + "".join(f"{unit}\n" for unit in kept if unit)


def _units(text: str) -> Iterator[str]:
    """Yield what is said, one line each: headings, sentences, rows, lines of code."""
    for block in blocks(text):
        if block.kind in ("code", "markup"):
            yield from text[block.start : block.end].split("\n")
        elif block.kind == "row":
            yield "|".join(
                " ".join(cell.split()) for cell in text[block.start : block.end].split("|")
            )
        elif block.kind == "heading":
            yield _plain(text[block.start : block.end].split("\n")[0].strip("# \t"))
        else:
            yield _number(text, block.start)
            spans = sentences_in(text, block.start, block.end)
            yield from map(_plain, _sentences([text[start:end] for start, end in spans]))


def _sentences(parts: Sequence[str]) -> Iterator[str]:
    """Yield sentences of which short lines are parts: a line's end alone ends none."""
    held: list[str] = []
    for part in parts:
        held.append(part)
        if CLOSED.search(part):
            yield " ".join(held)
            held = []
    yield " ".join(held)


def _number(text: str, start: int) -> str:
    """Return the number in front of an item; empty if there is a bullet, or nothing."""
    mark = text[text.rfind("\n", 0, start) + 1 : start].strip()
    return mark if any(c.isalnum() for c in mark) else ""


def _plain(sentence: str) -> str:
    bare = _EMPHASIS.sub(r"\2", sentence).translate(_QUOTES)
    return " ".join(bare.split()).rstrip(".…")
