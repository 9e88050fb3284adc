"""Files of comma-separated values, however their values are parted, as Markdown tables."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Sequence

from ragstream_core.ingestion.junk import without_junk
from ragstream_core.ingestion.parsers.engines import decoded, listed, too_long
from ragstream_core.ingestion.parsers.islands import sheet_tables
from ragstream_core.ingestion.parsers.tables import Grid, Row

_PARTED_BY = ("\t", ";", ",", "|")
_SAMPLE = 200  # lines by which it is told what parts the values
_MOST_LINES = 500  # of one record: a quote that is open for longer never closes
_LONG_CELL = 4_000
_NAMED = 10  # lines
_LEAST = 0.5  # of the lines have as many values


def delimited_markdown(data: bytes, limit: int) -> tuple[str, str]:
    """Return the tables of a ``csv`` or ``tsv`` file, and what is to be noted.

    No type is guessed: every value is written as in the file. A quote that never closes is a
    character like any other.
    """
    text = decoded(data)
    if len(text) > limit:  # before it is cut into lines
        raise too_long(limit)
    lines = text.replace("\r\n", "\n").split("\n")
    said = lines[0].strip().lower()
    is_said = said.startswith("sep=") and len(said) == len("sep=;")  # as Excel writes it
    lines = lines[is_said:]
    mark, width = _told_apart(lines)
    csv.field_size_limit(limit)
    records = _Records(lines, mark, width)
    grid = Grid([_row(cells) for cells in records.read()])
    tables = sheet_tables(grid, limit)
    torn = listed(records.torn, _NAMED)
    notes = [
        "no row names the columns" if tables.without_names else "",
        f"quotes that never close, in lines: {torn}" if torn else "",
        f"rows longer or shorter than most: {records.ragged}" if records.ragged else "",
    ]
    return tables.text, "; ".join(filter(None, notes))


def _row(cells: Sequence[str]) -> Row:
    return {
        n: without_junk(text, long_lines=True)[0] if len(text) > _LONG_CELL else text
        for n, text in enumerate(cells)
        if text
    }


def _told_apart(lines: Sequence[str]) -> tuple[str, int]:
    """Return what parts the values, and how many values most lines have.

    It is what parts most lines into as many values; of several the one that makes more.
    """
    sample = [line + "\n" for line in lines[:_SAMPLE] if line.strip()]
    best, found = (_LEAST, 1), ","
    for mark in _PARTED_BY:
        widths = Counter(map(len, _reader(iter(sample), mark)))
        width, count = max(widths.items(), key=lambda row: (row[0] > 1, row[1]), default=(1, 0))
        share = round(count / max(1, sum(widths.values())), 1)
        if width > 1 and (share, width) > best:
            best, found = (share, width), mark
    return found, best[1]


def _reader(lines: Iterator[str], mark: str, *, quotes: bool = True) -> Iterator[list[str]]:
    spaced = mark != "\t"
    if quotes:
        return csv.reader(lines, delimiter=mark, skipinitialspace=spaced)
    return csv.reader(lines, delimiter=mark, skipinitialspace=spaced, quoting=csv.QUOTE_NONE)


class _Records:
    """The records of a file, in order; also an iterator of the lines that a reader takes.

    Attributes:
        torn: Numbers of the lines in which a quote is open that never closes.
        ragged: How many records have more or fewer values than most.
    """

    def __init__(self, lines: Sequence[str], mark: str, width: int) -> None:
        self._lines, self._mark, self._width = lines, mark, width
        self._start = self._at = 0
        self.torn = list[int]()
        self.ragged = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if self._at == len(self._lines) or self._at - self._start > _MOST_LINES:
            raise StopIteration
        self._at += 1
        return f"{self._lines[self._at - 1]}\n"

    def read(self) -> Iterator[list[str]]:
        """Yield the values of each record; none for an empty line."""
        reader = _reader(self, self._mark)
        while self._start < len(self._lines):
            cells = next(reader, [])
            if self._at - self._start > 1 and self._is_torn(cells):
                self.torn.append(self._start + 1)
                self._at = self._start + 1
                line = iter([self._lines[self._start]])
                cells = next(_reader(line, self._mark, quotes=False), [])
            self.ragged += len(cells) > 1 and len(cells) != self._width
            self._start = self._at
            yield cells

    def _is_torn(self, cells: Sequence[str]) -> bool:
        """Return whether a record of several lines is none: its quote belongs to its first line."""
        taken = self._lines[self._start : self._at]
        quotes = sum(line.count('"') for line in taken)
        return quotes % 2 == 1 or len(taken) > _MOST_LINES or len(cells) != self._width
