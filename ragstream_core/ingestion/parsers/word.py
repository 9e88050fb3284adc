"""A Word file as Markdown: what Word prints, through mammoth.

Before mammoth reads it, what mammoth passes over is written into the document: the numbers of lists
and headings, comments, text boxes, and the text of headers and footers, once each.
"""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
from collections.abc import Iterator
from typing import Any

import mammoth
from bs4 import BeautifulSoup
from bs4.element import NavigableString
from lxml import etree
from markitdown.converter_utils.docx.pre_process import pre_process_docx

from ragstream_core.ingestion.parsers.engines import Refusal
from ragstream_core.ingestion.parsers.raised import superscript
from ragstream_core.ingestion.parsers.web_page import html_markdown
from ragstream_core.ingestion.parsers.word_marks import (
    hoist_boxes,
    new_paragraph,
    settle_changes,
    unread_phrase,
    unwrap_text,
    write_comments,
)
from ragstream_core.ingestion.parsers.word_numbers import MARK, W, is_in, write_numbers

_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_RELATED = "{http://schemas.openxmlformats.org/package/2006/relationships}Relationship"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_UNREAD = ("word/media/", "word/embeddings/", "word/fonts/")
_PAGE_FIELD = re.compile(r"\s*(?:PAGE|NUMPAGES|SECTIONPAGES)\b")
PAGE = "\0"
PAGE_OF_PAGES = re.compile(
    rf"(?:\b(?:page|seite|p[áa]g\w*|blatt|sheet|side|sida|strona|p|s)\.?\s*)?"
    rf"{PAGE}(?:\s*\w{{0,4}}\W{{0,2}}\s*{PAGE})?",
    re.IGNORECASE,
)
_MARKED = re.compile(rf"{MARK}(\d)")
_BARE = re.compile(rf"({MARK}\d\d+)(?= )")
_MOST_INDENTED = 63
_FIGURE = re.compile(r"(?:fig|abb|bild|photo|foto|image|rys)", re.IGNORECASE)
_STYLES = "u => u\np[style-name='caption'] => p.caption:fresh"

Related = dict[str, list[tuple[str, str]]]


def word_markdown(data: bytes, limit: int) -> tuple[str, str]:
    """Return the Markdown of a Word file, and what was left out of it."""
    parts = _parts(data)
    main = next((path for _, path in _related(parts, "").get("officeDocument", ())), "")
    if main not in parts:
        raise Refusal("not a readable Office file (it holds no document)")
    related, document = _related(parts, main), _tree(parts[main])
    numbering, styles = (_part(parts, related, kind) for kind in ("numbering", "styles"))
    unread, changes = unread_phrase(document), settle_changes(document)
    hidden = unwrap_text(document)
    write_numbers(document, numbering, styles)
    _mend(document, styles)
    diagrams = {
        name: _tree(parts[at]) for name, at in related.get("diagramData", ()) if at in parts
    }
    hoist_boxes(document, diagrams)
    comments = _part(parts, related, "comments")
    if comments is not None:
        write_comments(document, comments)
    _write_margins(document, parts, related)
    parts[main] = _bytes(document)
    for kind, root in (("numbering", numbering), ("styles", styles)):
        if root is not None:
            if kind == "numbering":  # the numbers are text now
                del root[:]
            parts[related[kind][0][1]] = _bytes(root)
    for kind in ("footnotes", "endnotes"):
        notes = _part(parts, related, kind)
        if notes is not None:
            changes += settle_changes(notes)
            hidden += unwrap_text(notes)
            parts[related[kind][0][1]] = _bytes(notes)
    soup = BeautifulSoup(_html(parts), "lxml")
    _write_notes(soup)
    _write_captions(soup)
    noted = [f"tracked changes read as accepted: {changes}"] if changes else []
    noted += [f"hidden passages left out: {hidden}"] if hidden else []
    noted += [unread] if unread else []
    return _lists(html_markdown(soup, limit)), "; ".join(noted)


def _parts(data: bytes) -> dict[str, bytes]:
    """Return the files of a package that hold text."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as package:
            names = [name for name in package.namelist() if not name.startswith(_UNREAD)]
            return {name: package.read(name) for name in names}
    except zipfile.BadZipFile:  # names spelled in two ways, which this mends
        with zipfile.ZipFile(pre_process_docx(io.BytesIO(data))) as package:
            return {name: package.read(name) for name in package.namelist()}


def _tree(part: bytes) -> Any:
    return etree.fromstring(part, etree.XMLParser(resolve_entities=False, no_network=True))


def _bytes(root: Any) -> bytes:
    return bytes(etree.tostring(root, encoding="utf-8", xml_declaration=True))


def _related(parts: dict[str, bytes], source: str) -> Related:
    """Return what a part names, by kind: (id, path) of each."""
    folder, name = posixpath.split(source)
    listing = parts.get(posixpath.join(folder, "_rels", f"{name}.rels"))
    found: Related = {}
    for related in () if listing is None else _tree(listing).iter(_RELATED):
        path = posixpath.normpath(posixpath.join("/", folder, related.get("Target", "")))[1:]
        kind = related.get("Type", "").rpartition("/")[2]
        found.setdefault(kind, []).append((related.get("Id", ""), path))
    return found


def _part(parts: dict[str, bytes], related: Related, kind: str) -> Any:
    path = related.get(kind, [("", "")])[0][1]
    return _tree(parts[path]) if path in parts else None


def _mend(document: Any, styles: Any) -> None:
    """Write in the form that mammoth reads what it reads in one form only, or stumbles over."""
    raised = dict[str, str]()
    for style in [] if styles is None else styles.findall(f"{W}style"):
        if style.get(f"{W}styleId") is None:
            styles.remove(style)
            continue
        style.set(f"{W}type", style.get(f"{W}type", "paragraph"))
        aligned = style.find(f"{W}rPr/{W}vertAlign")
        if style.get(f"{W}type") == "character" and aligned is not None:
            raised[style.get(f"{W}styleId")] = aligned.get(f"{W}val", "")
    for named in document.iter(f"{W}rStyle"):
        look = named.getparent()
        is_note = any(look.getparent().find(W + note) is not None
                      for note in ("footnoteReference", "endnoteReference"))  # fmt: skip
        if named.get(f"{W}val") in raised and look.find(f"{W}vertAlign") is None and not is_note:
            look.append(_made(document, "vertAlign", raised[named.get(f"{W}val")]))
    for strike in list(document.iter(f"{W}dstrike")):
        strike.tag = f"{W}strike"
    for before in list(document.iter(f"{W}gridBefore")):
        _indent_row(document, before)


def _indent_row(document: Any, before: Any) -> None:
    """Give a row that begins further right the cells that it skips."""
    row, count = before.getparent().getparent(), before.get(f"{W}val", "")
    if count.isdigit() and 0 < int(count) <= _MOST_INDENTED:
        cell, look = _made(document, "tc"), _made(document, "tcPr")
        look.append(_made(document, "gridSpan", count))
        cell.extend([look, _made(document, "p")])
        row.insert(row.index(before.getparent()) + 1, cell)


def _made(document: Any, name: str, value: str = "") -> Any:
    return document.makeelement(W + name, {f"{W}val": value} if value else {})


def _write_margins(document: Any, parts: dict[str, bytes], related: Related) -> None:
    """Write each text of a header above the document, and each of a footer below it, once."""
    body = document.find(f"{W}body")
    settings = _part(parts, related, "settings")
    even = settings is not None and settings.find(f"{W}evenAndOddHeaders") is not None
    seen = set[str]()
    for kind in ("header", "footer"):
        paths, lines = dict(related.get(kind, ())), list[str]()
        for section in document.iter(f"{W}sectPr"):
            printed = {"default"} | ({"even"} if even else set())
            printed |= {"first"} if section.find(f"{W}titlePg") is not None else set()
            for named in section.findall(f"{W}{kind}Reference"):
                path = paths.get(named.get(f"{_R}id"), "")
                if named.get(f"{W}type", "default") in printed and path in parts:
                    lines += _margin_lines(_tree(parts[path]))
        new = [line for line in dict.fromkeys(lines) if line.casefold() not in seen]
        seen |= {line.casefold() for line in new}
        at = 0 if kind == "header" else len(body)
        body[at:at] = [new_paragraph(document, line) for line in new]


def _margin_lines(root: Any) -> Iterator[str]:
    """Yield the lines of a header: a paragraph, or a row of a table; without page numbers."""
    for block in root.iter(f"{W}p", f"{W}tr"):
        if is_in(block, f"{W}tr", _FALLBACK):
            continue
        is_row = block.tag == f"{W}tr"
        paragraphs = block.iter(f"{W}p") if is_row else [block]
        texts = [" ".join(PAGE_OF_PAGES.sub("", _own_text(p)).split()) for p in paragraphs]
        line = " | ".join(filter(None, texts)).strip(" ,;-–|/·•")
        if any(letter.isalnum() for letter in line):
            yield line


def _own_text(paragraph: Any) -> str:
    """Return the text of a paragraph, not of one in a box within; ``PAGE`` for a page's number."""
    written, fields = "", list[str]()
    for element in paragraph.iter():
        if next(element.iterancestors(f"{W}p"), None) is not paragraph:
            continue
        name = str(element.tag).removeprefix(W)
        if name == "fldChar" and element.get(f"{W}fldCharType") == "begin":
            fields.append("")
        elif name == "fldChar" and element.get(f"{W}fldCharType") == "end" and fields:
            written += PAGE if _PAGE_FIELD.match(fields.pop()) else ""
        elif name == "instrText" and fields:
            fields[-1] += element.text or ""
        elif name == "fldSimple" and _PAGE_FIELD.match(element.get(f"{W}instr", "")):
            written += PAGE
        elif name == "t" and not _is_page(element, fields):
            aligned = element.getparent().find(f"{W}rPr/{W}vertAlign")
            is_raised = aligned is not None and aligned.get(f"{W}val") == "superscript"
            text = element.text or ""
            written += superscript(text, written) if is_raised else text
        elif name in ("tab", "br", "cr"):
            written += " "
    return written


def _is_page(element: Any, fields: list[str]) -> bool:
    simple = [field.get(f"{W}instr", "") for field in element.iterancestors(f"{W}fldSimple")]
    return any(_PAGE_FIELD.match(instruction) for instruction in [*fields, *simple])


def _html(parts: dict[str, bytes]) -> str:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as package:
        for name, part in parts.items():
            package.writestr(name, part)
    out.seek(0)
    words_only = mammoth.images.img_element(lambda _: {"src": ""})
    made = mammoth.convert_to_html(out, style_map=_STYLES, convert_image=words_only)
    return str(made.value)


def _write_notes(soup: BeautifulSoup) -> None:
    """Begin each note with its mark, [1], as where it is referred to; mammoth lists them last."""
    for note in reversed(soup.find_all("li", id=re.compile("(?:foot|end)note-"))):
        number = 1 + len(note.find_previous_siblings("li"))
        for back in note.find_all("a", href=re.compile("#(?:foot|end)note-ref-")):
            back.decompose()
        first = note.find("p") or note
        first.insert(0, NavigableString(f"[{number}] "))
        note.name = "div"
        if note.parent is not None:
            note.parent.name = "div"


def _write_captions(soup: BeautifulSoup) -> None:
    """Make the caption above or below a table its caption."""
    for caption in soup.find_all("p", class_="caption"):
        if _FIGURE.match(caption.get_text().strip()):
            continue
        tables = [caption.find_next_sibling(), caption.find_previous_sibling()]
        table = next((tag for tag in tables if tag is not None and tag.name == "table"), None)
        if table is not None and table.find("caption", recursive=False) is None:
            caption.name = "caption"
            table.insert(0, caption.extract())


def _lists(text: str) -> str:
    """Return Markdown whose numbered paragraphs are lists: without blank lines, deeper ones in.

    A number alone gets a full stop, so that it counts nothing: "3. pumps", not "3 pumps".
    """
    made, top = list[str](), None
    for block in re.split(r"\n{2,}", text):
        marked = _MARKED.match(block)
        level = int(marked[1]) if marked else 0
        goes_on = marked is not None and top is not None
        top = (min(top, level) if top is not None else level) if marked else None
        indent = " " * (3 * (level - (top or 0)))
        made += ["" if not made else "\n" if goes_on else "\n\n", indent]
        made.append(_MARKED.sub("", _BARE.sub(r"\1.", block) if marked else block))
    return "".join(made)
