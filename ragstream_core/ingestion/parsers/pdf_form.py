"""What somebody filled into a PDF: values of its form, ticks, and text typed on top of a page.

A page's own text holds none of it. Each value goes beside its label. Scripts are not run.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from ragstream_core.ingestion.parsers.pdf_layout import Piece
from ragstream_core.ingestion.parsers.pdf_page import Stretch, stretch, turned

# More fields of one page are not looked at.
MAX_FIELDS = 5_000

_HIDDEN = 2 | 32  # flags of an annotation: hidden, not shown
_PASSWORD = 1 << 13  # flag of a field
_FAR, _ELSEWHERE, _NONE = 200.0, 1_000.0, 10_000.0  # points; the last two only rank
_CONTROLS = re.compile(r"[\x00-\x1f]+")


class Field(NamedTuple):
    """A value and its place; ``tick``: it is a box that belongs to the words after it."""

    text: str
    place: Stretch
    tick: bool


def fields_of(page: Any, form: Any) -> list[Field]:
    """Return what is filled in on a page, in the order of the file."""
    import pypdfium2.raw as pdfium

    found, place = list[Field](), turned(page)
    for number in range(min(pdfium.FPDFPage_GetAnnotCount(page), MAX_FIELDS)):
        annotation = pdfium.FPDFPage_GetAnnot(page, number)
        if not annotation:
            continue
        try:
            text, tick = _value(annotation, form)
            box = pdfium.FS_RECTF()
            if text and pdfium.FPDFAnnot_GetRect(annotation, box):
                corners = (box.left, box.bottom, box.right, box.top)
                found.append(Field(text, stretch(corners, place), tick))
        finally:
            pdfium.FPDFPage_CloseAnnot(annotation)
    return found


def _value(annotation: Any, form: Any) -> tuple[str, bool]:
    """Return what an annotation says, and whether it is a box to tick."""
    import pypdfium2.raw as pdfium

    kind = pdfium.FPDFAnnot_GetSubtype(annotation)
    if pdfium.FPDFAnnot_GetFlags(annotation) & _HIDDEN:
        return "", False
    if kind == pdfium.FPDF_ANNOT_FREETEXT:
        return _string(partial(pdfium.FPDFAnnot_GetStringValue, annotation, b"Contents")), False
    if kind != pdfium.FPDF_ANNOT_WIDGET or form is None:
        return "", False
    field = pdfium.FPDFAnnot_GetFormFieldType(form, annotation)
    if field in (pdfium.FPDF_FORMFIELD_CHECKBOX, pdfium.FPDF_FORMFIELD_RADIOBUTTON):
        return ("[x]" if pdfium.FPDFAnnot_IsChecked(form, annotation) else "[ ]"), True
    if field in (pdfium.FPDF_FORMFIELD_COMBOBOX, pdfium.FPDF_FORMFIELD_LISTBOX):
        chosen = ", ".join(_chosen(annotation, form))
        if chosen:
            return chosen, False
    elif field != pdfium.FPDF_FORMFIELD_TEXTFIELD:
        return "", False
    if pdfium.FPDFAnnot_GetFormFieldFlags(form, annotation) & _PASSWORD:
        return "", False
    return _string(partial(pdfium.FPDFAnnot_GetFormFieldValue, form, annotation)), False


def _chosen(annotation: Any, form: Any) -> Iterator[str]:
    import pypdfium2.raw as pdfium

    for number in range(min(pdfium.FPDFAnnot_GetOptionCount(form, annotation), MAX_FIELDS)):
        if pdfium.FPDFAnnot_IsOptionSelected(form, annotation, number):
            yield _string(partial(pdfium.FPDFAnnot_GetOptionLabel, form, annotation, number))


def _string(asked: Callable[..., int]) -> str:
    """Return a string that pdfium writes into a buffer, on one line."""
    import pypdfium2.raw as pdfium

    size = asked(None, 0)
    if size <= 2:
        return ""
    buffer = ctypes.create_string_buffer(size)
    asked(ctypes.cast(buffer, ctypes.POINTER(pdfium.FPDF_WCHAR)), size)
    return _CONTROLS.sub(" ", buffer.raw.decode("utf-16-le", "replace").rstrip("\0")).strip()


def with_fields(pieces: Sequence[Piece], fields: Sequence[Field]) -> list[Piece]:
    """Return the pieces of a page with what is filled in beside its labels.

    A tick goes before the words after its box; a value after the words before its field, or above
    it. Where there are none it becomes a line of its own.
    """
    found = list(pieces)
    for field in fields:
        ranks = [(_distance(piece, field), number) for number, piece in enumerate(found)]
        distance, number = min(ranks, default=(_NONE, 0))
        if distance >= _NONE:
            line = found[-1].line + 1 if found else 0
            found.append(Piece(len(found), line, "\n", field.text, *field.place))
            continue
        label = found[number]
        before = field.tick and label.left >= field.place.left
        found[number] = label._replace(
            text=f"{field.text} {label.text}" if before else f"{label.text} {field.text}",
            left=min(label.left, field.place.left),
            right=max(label.right, field.place.right),
        )
    return found


def _distance(piece: Piece, field: Field) -> float:
    """Return how far away words are, in points, if they may be the label of a field."""
    place = field.place
    shared = min(piece.top, place.top) - max(piece.bottom, place.bottom)
    beside = shared * 2 >= min(piece.height, place.height)
    if beside and field.tick and piece.left >= place.left:
        return max(0.0, piece.left - place.right)
    if beside and piece.left < place.left:
        away = place.left - piece.right
        return away + _ELSEWHERE if away < _FAR else _NONE
    over = piece.left < place.right and place.left < piece.right
    if over and not field.tick and 0 <= piece.bottom - place.top <= piece.height * 2:
        return 2 * _ELSEWHERE
    return _NONE
