"""PowerPoint slides, mended before they are converted: raised digits and merged cells."""

from __future__ import annotations

import io
import re
import zipfile
from copy import deepcopy
from typing import Any

from lxml import etree
from markitdown import StreamInfo
from markitdown.converters import PptxConverter

from ragstream_core.ingestion.parsers.raised import subscript, superscript

_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_SLIDE = re.compile(r"ppt/(?:slides|notesSlides)/[^/]+\.xml")
_TYPES = "[Content_Types].xml"
_OTHER_KIND = re.compile(
    rb"application/vnd\.(?:openxmlformats-officedocument\.presentationml\.(?:slideshow|template)"
    rb"|ms-powerpoint\.(?:slideshow|template)\.macroEnabled)\.main\+xml"
)
_KIND = b"application/vnd.openxmlformats-officedocument.presentationml.presentation.main+xml"
_WORTH_IT = re.compile(rb'\bbaseline="-?[1-9]|\b[hv]Merge="|\|')


def slides_markdown(data: bytes, limit: int) -> tuple[str, str]:
    """Return the Markdown of a presentation, a comment with its number above each slide."""
    made = PptxConverter().convert(io.BytesIO(mended_slides(data)), StreamInfo(extension=".pptx"))
    return str(made.markdown), ""


def mended_slides(data: bytes) -> bytes:
    """Return a presentation in which no raised digit joins a number and merged cells hold text."""
    with zipfile.ZipFile(io.BytesIO(data)) as package:
        parts = {name: package.read(name) for name in package.namelist() if _SLIDE.fullmatch(name)}
        mended = {name: _mended(xml) for name, xml in parts.items() if _WORTH_IT.search(xml)}
        types = package.read(_TYPES) if _TYPES in package.namelist() else b""
        if _OTHER_KIND.search(types):  # a slide show or a template holds the same slides
            mended[_TYPES] = _OTHER_KIND.sub(_KIND, types)
        if not mended:
            return data
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as written:
            for name in dict.fromkeys(package.namelist()):
                written.writestr(name, mended.get(name) or package.read(name))
    return out.getvalue()


def _mended(xml: bytes) -> bytes:
    root = etree.fromstring(xml, etree.XMLParser(resolve_entities=False, no_network=True))
    for paragraph in root.iter(f"{_A}p"):
        _write_raised(
            [run for run in paragraph.findall(f"{_A}r") if run.find(f"{_A}t") is not None]
        )
    for table in root.iter(f"{_A}tbl"):
        for text in table.iter(f"{_A}t"):
            text.text = (text.text or "").replace("|", "\\|")
        rows = [row.findall(f"{_A}tc") for row in table.findall(f"{_A}tr")]
        for r, row in enumerate(rows):
            for c, cell in enumerate(row):
                _repeat(cell, row[c - 1] if c else None, rows[r - 1][c:] if r else [])
    return bytes(etree.tostring(root, encoding="utf-8", xml_declaration=True))


def _write_raised(runs: list[Any]) -> None:
    for n, run in enumerate(runs):
        look, text = run.find(f"{_A}rPr"), run.find(f"{_A}t")
        baseline = "" if look is None else look.get("baseline", "")
        if not re.fullmatch(r"-?[1-9]\d*%?", baseline):
            continue
        before = "".join(other.findtext(f"{_A}t") or "" for other in runs[:n])
        after = (runs[n + 1].findtext(f"{_A}t") or "") if n + 1 < len(runs) else ""
        write = subscript if baseline.startswith("-") else superscript
        text.text = write(text.text or "", before, after)


def _repeat(cell: Any, left: Any, above: list[Any]) -> None:
    """Give a cell that is merged into another the text of that one."""
    source = left if cell.get("hMerge") in ("1", "true") else None
    if cell.get("vMerge") in ("1", "true") and above:
        source = above[0]
    own, text = cell.find(f"{_A}txBody"), None if source is None else source.find(f"{_A}txBody")
    if own is not None and text is not None:
        cell.replace(own, deepcopy(text))
