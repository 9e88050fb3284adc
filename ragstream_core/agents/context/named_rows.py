"""Rows of tables that a question names: those that hold what it says as whole cells.

"When was ST-0457 installed?" means the row of ST-0457, however alike the others are. Of rows that
hold more of what is said and rows that hold less the former are meant; what many rows hold, such as
a town, names none of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from ragstream_core.agents.context.shown import SEPARATED, cells_of, readable
from ragstream_core.text.memo import remembered
from ragstream_core.text.terms import folded, is_stop_word

# Rows of a table that hold the same of what is said; of more none is meant.
MOST_ALIKE = 3
_WORD = re.compile(r"\w+")
_LEAST = 3  # letters of a cell; fewer only with a digit

# What is spelt like an id, a code, a long number or a date.
_TELLING = re.compile(r"\d.*[^\W\d]|[^\W\d].*\d|\d{5}|\d[-./:]\d|^0\d")


@remembered
def rows_in(text: str) -> list[tuple[str, ...]]:
    """Return the cells of each line of a text that is a row of a table."""
    return [cells for line in text.split("\n") if len(cells := row_cells(line)) > 1]


def row_cells(line: str) -> tuple[str, ...]:
    """Return the values of a row as they are compared; none: it is no row."""
    bare = line.strip()
    if SEPARATED in bare and bare[:1] != "|":
        parts = (readable(part).partition(": ") for part in bare.split(SEPARATED))
        cells = [value or name for name, _, value in parts]
    elif bare[:1] in ("|", "<") or "\t" in bare or " | " in bare:
        cells = cells_of(bare)
    else:
        return ()
    return tuple(folded(cell).casefold() for cell in cells)


def meant(asked: str, rows: Sequence[Sequence[str]], sources: Sequence[str]) -> list[bool]:
    """Return of each row whether a question names it."""
    said = folded(" ".join(asked.split())).casefold()
    words = frozenset(_WORD.findall(said))
    held = [_places(row, said, words) for row in rows]
    tables = [(source, len(row)) for source, row in zip(sources, rows, strict=True)]
    alike = Counter(row for row in zip(held, tables, strict=True) if row[0])
    different = set(held)
    most = {places for places in different if not any(places < other for other in different)}
    return [
        places in most and 0 < alike[places, table] <= MOST_ALIKE
        for places, table in zip(held, tables, strict=True)
    ]


def _places(row: Sequence[str], said: str, words: frozenset[str]) -> frozenset[int]:
    """Return which characters of a question stand in a row as whole cells; none: it names no row.

    Two cells do, or one that is an id, a date or has several words.
    """
    places, cells = set[int](), 0
    is_telling = False
    for cell in row:
        if (at := _place(cell, said, words)) >= 0:
            places.update(range(at, at + len(cell)))
            cells += 1
            is_telling = is_telling or " " in cell or _TELLING.search(cell) is not None
    return frozenset(places) if is_telling or cells > 1 else frozenset()


def _place(cell: str, said: str, words: frozenset[str]) -> int:
    """Return where a cell stands in a question, as whole words; -1: it does not."""
    first = _WORD.search(cell)
    if first is None or first[0] not in words or is_stop_word(cell):
        return -1
    if len(cell) < _LEAST and not any(map(str.isdigit, cell)):
        return -1
    found = re.search(rf"(?<!\w){re.escape(cell)}(?!\w)", said)
    return found.start() if found else -1
