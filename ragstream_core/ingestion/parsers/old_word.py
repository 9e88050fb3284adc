"""Word files of the format before docx (97 to 2003) as Markdown, [MS-DOC].

Headings, tables, fields as they show, notes; without what is hidden or was deleted.
"""

from __future__ import annotations

import io
import re
from bisect import bisect_right
from collections.abc import Iterator
from struct import unpack_from
from typing import NamedTuple

from olefile import OleFileIO

from ragstream_core.ingestion.parsers.engines import Refusal
from ragstream_core.ingestion.parsers.nesting import heading
from ragstream_core.ingestion.parsers.tables import Grid, markdown_table

_PAGE = 512
_DELETED, _HIDDEN = 0x0800, 0x083C
_IN_TABLE, _ROW_END, _LIST, _ROW = 0x2416, 0x2417, 0x460B, 0xD608
_LAST_HEADING = 9  # styles 1 to 9 are those of headings
_OPERANDS = (1, 1, 2, 4, 2, 2, 0, 3)
_FIELD = re.compile("([\x13\x14\x15])")
_SIGNS = dict.fromkeys((*range(6), 0x08, 0x1F), "") | {
    0x0B: "\n", 0x0C: "\n", 0x0E: "\n", 0x1E: "-", 0xA0: " "
}  # fmt: skip
_STORIES = ("", "Footnotes", "Headers and footers", "", "Comments", "Endnotes", "Text boxes", "")


class _Run(NamedTuple):
    """Bytes of the file that look alike: where they begin, their style, their properties."""

    start: int
    style: int
    sprms: dict[int, int]


class _Runs:
    """The runs of a file, characters or paragraphs."""

    def __init__(self, runs: list[_Run]) -> None:
        self._runs = sorted(runs, key=lambda run: run.start)
        self._starts = [run.start for run in self._runs]

    def at(self, offset: int) -> _Run:
        n = bisect_right(self._starts, offset) - 1
        return self._runs[n] if n >= 0 else _Run(0, 0, {})


def word_markdown(data: bytes, limit: int) -> tuple[str, str]:
    """Return the Markdown of a document."""
    with OleFileIO(io.BytesIO(data)) as package:
        word = package.openstream("WordDocument").read()
        version, flags = unpack_from("<H", word, 2)[0], unpack_from("<H", word, 10)[0]
        if flags & 0x100:
            raise Refusal("is encrypted; save it without a password")
        if version < 0xC1:
            raise Refusal("is of Word 95 or older; save it as docx")
        table = package.openstream("1Table" if flags & 0x200 else "0Table").read()
    paragraphs = _Runs(list(_runs(word, table, 0x102, is_paragraph=True)))
    looks = _Runs(list(_runs(word, table, 0xFA, is_paragraph=False)))
    text, places = _text(word, table, looks)
    parts, at = list[str](), 0
    for title, length in zip(_STORIES, unpack_from("<8i", word, 0x4C), strict=True):
        end = at + max(0, length)
        said = _written(text[at:end], places[at:end], paragraphs, limit)
        if title and said:
            parts.append(heading(title, 2))
            said = "\n\n".join(dict.fromkeys(said.split("\n\n")))
        parts += [said] if said else []
        at = end
    return "\n\n".join(parts), ""


def _text(word: bytes, table: bytes, looks: _Runs) -> tuple[str, list[int]]:
    """Return the characters of all stories, and where each lies; those that are hidden are NUL."""
    at, size = unpack_from("<2I", word, 0x1A2)
    clx, p = table[at : at + size], 0
    while clx[p] == 1:  # properties of a fast save
        p += 3 + int(unpack_from("<H", clx, p + 1)[0])
    count = (unpack_from("<I", clx, p + 1)[0] - 4) // 12
    ends = unpack_from(f"<{count + 1}I", clx, p + 5)
    found, places = list[str](), list[int]()
    for n in range(count):
        offset = unpack_from("<I", clx, p + 5 + 4 * (count + 1) + 8 * n + 2)[0]
        length = min(ends[n + 1] - ends[n], len(word))
        wide = not offset & 0x4000_0000
        start = offset & 0x3FFF_FFFF if wide else (offset & 0x3FFF_FFFF) // 2
        width = 2 if wide else 1
        part = word[start : start + length * width]
        said = part.decode("utf-16-le" if wide else "cp1252", "replace")
        said = said if len(said) == length else said.ljust(length, "\0")[:length]
        where = [start + i * width for i in range(length)]
        sprms = [looks.at(offset).sprms for offset in where]
        gone = [(each.get(_DELETED, 0) | each.get(_HIDDEN, 0)) & 1 for each in sprms]
        found += ("\0" if hide else c for c, hide in zip(said, gone, strict=True))
        places += where
    return "".join(found), places


def _runs(word: bytes, table: bytes, fib: int, *, is_paragraph: bool) -> Iterator[_Run]:
    """Yield the runs that the pages of formatting tell of."""
    at, size = unpack_from("<2I", word, fib)
    count = (size - 4) // 8
    for page in unpack_from(f"<{count}I", table, at + 4 * (count + 1)):
        rows = word[page * _PAGE : (page + 1) * _PAGE]
        runs = rows[_PAGE - 1]
        starts = unpack_from(f"<{runs + 1}I", rows)
        for n in range(runs):
            entry = 4 * (runs + 1) + n * (13 if is_paragraph else 1)
            p, style = rows[entry] * 2, 0
            if not p:
                yield _Run(starts[n], 0, {})
                continue
            length = rows[p]
            if is_paragraph:
                length = rows[p] * 2 - 1 if rows[p] else rows[p + 1] * 2
                p += 0 if rows[p] else 1
                style = unpack_from("<H", rows, p + 1)[0]
            begin = p + 3 if is_paragraph else p + 1
            yield _Run(starts[n], style, _sprms(rows[begin : p + 1 + length]))


def _sprms(grpprl: bytes) -> dict[int, int]:
    found, p = dict[int, int](), 0
    while p + 2 < len(grpprl):
        sprm = unpack_from("<H", grpprl, p)[0]
        size = _OPERANDS[sprm >> 13]
        if not size:
            size = grpprl[p + 2] + 1
            if sprm == _ROW:  # of a row of a table: its size has two bytes
                size = unpack_from("<H", grpprl, p + 2)[0] + 1
        found[sprm] = grpprl[p + 2]
        p += 2 + size
    return found


def _written(text: str, places: list[int], paragraphs: _Runs, limit: int) -> str:
    """Return the Markdown of a story."""
    parts, rows, row, cell = list[str](), list[dict[int, str]](), list[str](), list[str]()
    begin = 0
    for mark in re.finditer("[\r\x07]", text):
        said, begin = _shown(text[begin : mark.start()]), mark.end()
        look = paragraphs.at(places[mark.start()])
        if look.sprms.get(_ROW_END):
            rows.append(dict(enumerate(row)))
            row = []
        elif look.sprms.get(_IN_TABLE):
            cell.append(said)
            if mark[0] == "\x07":
                row.append(" ".join(cell))
                cell = []
        else:
            parts += [markdown_table(Grid(rows), limit)] if rows else []
            rows = []
            parts += [_paragraph(said, look)] if said else []
    parts += [markdown_table(Grid(rows), limit)] if rows else []
    return _joined(parts)


def _joined(parts: list[str]) -> str:
    """Return paragraphs with empty lines between them, none between the items of a list."""
    made = ""
    for part in filter(None, parts):
        close = part.startswith("- ") and made.rpartition("\n")[2].startswith("- ")
        made += ("\n" if close else "\n\n" if made else "") + part
    return made


def _paragraph(said: str, look: _Run) -> str:
    if 1 <= look.style <= _LAST_HEADING:
        return heading(said, look.style)
    return f"- {said}" if look.sprms.get(_LIST) else said


def _shown(text: str) -> str:
    """Return the words of a paragraph; of a field what it shows, not what it was made by."""
    shown, fields = "", list[bool]()
    for part in _FIELD.split(text):
        if part == "\x13":
            fields.append(False)
        elif part == "\x14" and fields:
            fields[-1] = True
        elif part == "\x15" and fields:
            fields.pop()
        elif all(fields):
            shown += part
    return shown.translate(_SIGNS).strip()
