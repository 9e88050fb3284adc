"""PowerPoint files of the format before pptx (97 to 2003) as Markdown, [MS-PPT].

Slides in their order, with titles and notes; a file keeps older states of slides, which are not
read.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from struct import unpack_from
from typing import NamedTuple

from olefile import OleFileIO

from ragstream_core.ingestion.parsers.engines import Refusal
from ragstream_core.ingestion.parsers.nesting import heading

_ENCRYPTED = 0xF3D1C4DF
_SLIDE_ATOM, _PERSIST, _LIST, _KIND, _CHARS, _BYTES = 0x3EF, 0x3F3, 0xFF0, 0xF9F, 0xFA0, 0xFA8
_SLIDES, _NOTES = 0, 2  # which list
_TITLES = (0, 6)
_DEEPEST, _EDITS = 30, 10_000
_SIGNS = {0x0B: "\n", 0x0D: "\n", 0xA0: " "}


class _Record(NamedTuple):
    """A record: its type, which of its type, and where its content lies."""

    kind: int
    instance: int
    start: int
    end: int
    is_container: bool


class _Text(NamedTuple):
    is_title: bool
    said: str


class _Slide(NamedTuple):
    """An entry of a list of slides: where it is kept, its id, and its texts of the outline."""

    persist: int
    slide_id: int
    texts: list[_Text]


def slides_markdown(data: bytes, limit: int) -> tuple[str, str]:
    """Return the Markdown of a presentation, a comment with its number above each slide."""
    with OleFileIO(io.BytesIO(data)) as package:
        user = package.openstream("Current User").read()
        deck = package.openstream("PowerPoint Document").read()
    token, edit = unpack_from("<2I", user, 12)
    if token == _ENCRYPTED:
        raise Refusal("is encrypted; save it without a password")
    places, document = _places(deck, edit)
    begin = places[document]
    lists: dict[int, list[_Slide]] = {_SLIDES: [], _NOTES: []}
    for record in _records(deck, *_content(deck, begin)):
        if record.kind == _LIST and record.instance in lists:
            lists[record.instance] += _slides(deck, record)
    notes = {slide.slide_id: slide for slide in lists[_NOTES]}
    parts = []
    for number, slide in enumerate(lists[_SLIDES], 1):
        own, note_id = _on_slide(deck, places.get(slide.persist))
        said = _written([*slide.texts, *own])
        if note := notes.get(note_id):
            told = _written(
                [*note.texts, *_on_slide(deck, places.get(note.persist))[0]], plain=True
            )
            said += f"\n\n### Notes:\n{told}" if told else ""
        parts.append(f"<!-- Slide number: {number} -->\n{said}")
    return "\n\n".join(parts), ""


def _places(deck: bytes, edit: int) -> tuple[dict[int, int], int]:
    """Return where each object of the newest state lies, and which one is the document."""
    places, document = dict[int, int](), 0
    for _ in range(_EDITS):
        start, _ = _content(deck, edit)
        before, directory, first = unpack_from("<3I", deck, start + 8)
        document = document or first
        at, end = _content(deck, directory)
        while at + 4 <= end:
            head = unpack_from("<I", deck, at)[0]
            count, number = head >> 20, head & 0xFFFFF
            for n, offset in enumerate(unpack_from(f"<{count}I", deck, at + 4)):
                places.setdefault(number + n, offset)
            at += 4 + 4 * count
        if not before or before >= edit:
            break
        edit = before
    return places, document


def _content(deck: bytes, at: int) -> tuple[int, int]:
    start = at + 8
    return start, min(len(deck), start + int(unpack_from("<I", deck, at + 4)[0]))


def _records(deck: bytes, at: int, end: int) -> Iterator[_Record]:
    while at + 8 <= end:
        head, kind = unpack_from("<2H", deck, at)
        start, stop = _content(deck, at)
        yield _Record(kind, head >> 4, start, min(stop, end), head & 0xF == 0xF)
        at = stop


def _slides(deck: bytes, listed: _Record) -> list[_Slide]:
    slides, kind = list[_Slide](), -1
    for record in _records(deck, listed.start, listed.end):
        if record.kind == _PERSIST:
            persist, _, _, slide_id = unpack_from("<4I", deck, record.start)
            slides.append(_Slide(persist, slide_id, []))
            kind = -1
        elif record.kind == _KIND:
            kind = unpack_from("<I", deck, record.start)[0]
        elif slides and (said := _said(deck, record)):
            slides[-1].texts.append(_Text(kind in _TITLES, said))
    return slides


def _said(deck: bytes, record: _Record) -> str:
    part = deck[record.start : record.end]
    if record.kind == _CHARS:
        return part.decode("utf-16-le", "replace").translate(_SIGNS).strip()
    return part.decode("latin-1").translate(_SIGNS).strip() if record.kind == _BYTES else ""


def _on_slide(deck: bytes, place: int | None) -> tuple[list[_Text], int]:
    """Return the texts that are kept with a slide itself, and the id of its notes."""
    texts, notes, kind = list[_Text](), 0, -1
    if place is None:
        return texts, notes
    stack = [(_records(deck, *_content(deck, place)), 1)]
    while stack:
        records, depth = stack[-1]
        record = next(records, None)
        if record is None:
            stack.pop()
        elif record.is_container and depth < _DEEPEST:
            stack.append((_records(deck, record.start, record.end), depth + 1))
        elif record.kind == _SLIDE_ATOM:
            notes = unpack_from("<I", deck, record.start + 16)[0]
        elif record.kind == _KIND:
            kind = unpack_from("<I", deck, record.start)[0]
        elif said := _said(deck, record):
            texts.append(_Text(kind in _TITLES, said))
    return texts, notes


def _written(texts: list[_Text], *, plain: bool = False) -> str:
    said = [text for text in dict.fromkeys(texts) if text.said != "*"]  # a number or date
    return "\n\n".join(
        heading(text.said, 1) if text.is_title and not plain else text.said for text in said
    )
