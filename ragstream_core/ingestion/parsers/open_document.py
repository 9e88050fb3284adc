"""OpenDocument files (LibreOffice): texts, presentations and sheets as Markdown."""

from __future__ import annotations

import contextlib
import io
import re
import zipfile
from collections import Counter
from collections.abc import Iterator
from html import escape
from typing import Any

from bs4 import BeautifulSoup
from lxml import etree

from ragstream_core.ingestion.parsers.engines import Refusal, too_long
from ragstream_core.ingestion.parsers.islands import Sheet, workbook_markdown
from ragstream_core.ingestion.parsers.tables import Grid, Merged, Row
from ragstream_core.ingestion.parsers.web_page import html_markdown
from ragstream_core.ingestion.parsers.word import PAGE, PAGE_OF_PAGES

_NAMESPACE = re.compile(r"\{urn:oasis:names:tc:opendocument:xmlns:([a-z-]+):[\w.-]+\}")
_LEFT_OUT = frozenset(
    ["text:tracked-changes", "text:table-of-content", "office:annotation", "office:forms",
     "office:scripts", "office:event-listeners", "text:note-citation", "text:page-number",
     "text:page-count", "table:covered-table-cell", "presentation:header-decl",
     "presentation:footer-decl", "presentation:date-time-decl"]
)  # fmt: skip
_PAGE_FIELDS = [f"{{*}}{name}" for name in ("page-number", "page-count")]
_PAGE_MARK = "\ue000"  # XML holds no PAGE
_BLOCKS = {
    "text:list-item": "li", "text:list-header": "li", "table:table": "table",
    "table:table-row": "tr", "drawing:text-box": "div", "text:section": "div",
}  # fmt: skip
_SIGNS = {"text:s": " ", "text:tab": " ", "text:line-break": "<br>"}
_NUMBER = re.compile(r"[-+]?(?:0|[1-9][\d.,'\s]*)(?:[.,]\d+)?")
_MOST_REPEATED, _MOST_BLANK_ROWS = 1_000, 2


def text_markdown(data: bytes, limit: int) -> tuple[str, str]:
    """Return the Markdown of a text or a presentation, and what was left out of it.

    Changes that somebody tracked are read as accepted, as in Word files.
    """
    content, styles = _parts(data)
    writer = _Writer(content, styles)
    slides = list(content.iter(_tag("drawing", "page")))
    if slides:
        made = [
            f"<!-- Slide number: {number} -->\n{writer.markdown(slide, limit)}"
            for number, slide in enumerate(slides, 1)
        ]
    else:
        made = [*_margin_lines(styles, "header"), writer.markdown(content, limit)]
        made += _margin_lines(styles, "footer")
    counts = {
        "comments": sum(1 for _ in content.iter(_tag("office", "annotation"))),
        "embedded objects": sum(1 for _ in content.iter(_tag("drawing", "object"))),
    }
    left_out = [f"{name} left out: {count}" for name, count in counts.items() if count]
    return "\n\n".join(made), "; ".join(left_out)


def sheets_markdown(data: bytes, limit: int) -> tuple[str, str]:
    """Return a heading and a table for each sheet that holds something, and what is to be noted."""
    return workbook_markdown(_sheets(data, limit), limit)


def _tag(namespace: str, name: str) -> str:
    return f"{{urn:oasis:names:tc:opendocument:xmlns:{namespace}:1.0}}{name}"


def _parts(data: bytes) -> tuple[Any, Any]:
    """Return the trees of the content and of the styles; the latter may be None."""
    with _package(data) as package:
        parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True)
        content = etree.fromstring(package.read("content.xml"), parser)
        styles = package.read("styles.xml") if "styles.xml" in package.namelist() else b""
    try:
        return content, etree.fromstring(styles, parser)
    except etree.XMLSyntaxError:
        return content, None


@contextlib.contextmanager
def _package(data: bytes) -> Iterator[zipfile.ZipFile]:
    with zipfile.ZipFile(io.BytesIO(data)) as package:
        names = set(package.namelist())
        if "content.xml" not in names:
            raise Refusal("not a readable OpenDocument file (it holds no content)")
        listing = package.read("META-INF/manifest.xml") if "META-INF/manifest.xml" in names else b""
        if b"encryption-data" in listing:
            raise Refusal("encrypted")
        try:
            yield package
        except etree.XMLSyntaxError:
            broken = "its XML is broken or nested too deep"
            raise Refusal(f"not a readable OpenDocument file ({broken})") from None


def _margin_lines(styles: Any, kind: str) -> list[str]:
    """Return each line of the headers or footers once, without page numbers."""
    lines = list[str]()
    for margin in () if styles is None else styles.iter(f"{{*}}{kind}", f"{{*}}{kind}-first"):
        for number in margin.iter(*_PAGE_FIELDS):
            number.text = _PAGE_MARK
        for paragraph in margin.iter(_tag("text", "p")):
            text = "".join(paragraph.itertext()).replace(_PAGE_MARK, PAGE)
            lines.append(" ".join(PAGE_OF_PAGES.sub("", text).split()).strip(" ,;-–|/·•"))
    return [line for line in dict.fromkeys(lines) if any(map(str.isalnum, line))]


class _Writer:
    """Writes the elements of OpenDocument as those of HTML."""

    def __init__(self, content: Any, styles: Any) -> None:
        self._titles = {"Title"}
        self._raised = dict[str, str]()
        self._numbered = dict[str, dict[str, bool]]()  # list style: level: is it numbered?
        self._counted = dict[str, int]()  # the last number of a list style and level
        self._notes = list[str]()
        for root in (styles, content):
            if root is not None:
                self._read_styles(root)

    def _read_styles(self, root: Any) -> None:
        for style in root.iter(_tag("style", "style")):
            name = style.get(_tag("style", "name"), "")
            if style.get(_tag("style", "parent-style-name")) in self._titles:
                self._titles.add(name)
            for look in style.iter(_tag("style", "text-properties")):
                position = look.get(_tag("style", "text-position"), "").split(" ")[0]
                if position and position not in ("0%", "normal"):
                    is_lowered = position == "sub" or position.startswith("-")
                    self._raised[name] = "sub" if is_lowered else "sup"
        for style in root.iter(_tag("text", "list-style")):
            levels = {
                str(e.get(_tag("text", "level"))): str(e.tag).endswith("level-style-number")
                for e in style
                if isinstance(e.tag, str)
            }
            self._numbered[style.get(_tag("style", "name"), "")] = levels

    def markdown(self, root: Any, limit: int) -> str:
        """Return the Markdown of an element, its notes last."""
        self._notes.clear()
        html = "".join(self._inside(root, ""))
        html += "".join(f"<div>{note}</div>" for note in self._notes)
        return html_markdown(BeautifulSoup(html, "lxml"), limit)

    def _inside(self, element: Any, listed: str) -> Iterator[str]:
        """Yield the content of an element; ``listed``: style and level of the list it is in."""
        yield escape(element.text or "")
        for child in element:
            if isinstance(child.tag, str):
                yield from self._written(child, listed)
            yield escape(child.tail or "")

    def _written(self, element: Any, listed: str) -> Iterator[str]:
        name = _NAMESPACE.sub(r"\1:", element.tag)
        if name in _LEFT_OUT:
            return
        if name in ("text:h", "text:p"):
            yield from self._paragraph(element, name, listed)
        elif name == "text:list":
            yield from self._list(element, listed)
        elif name in ("table:table-cell", "text:span", "text:a"):
            yield from self._wrapped(element, name, listed)
        elif name == "text:note":
            yield self._note(element, listed)
        elif name == "presentation:notes":
            notes = "".join(self._inside(element, ""))
            yield f"<h3>Notes:</h3>{notes}" if re.sub("<[^>]*>", "", notes).strip() else ""
        elif name in _SIGNS:
            yield _SIGNS[name]
        elif name in ("svg-compatible:title", "svg-compatible:desc"):  # of a picture
            yield f" {escape(element.text or '')} "
        elif name in _BLOCKS:
            tag = _BLOCKS[name]
            yield f"<{tag}>{''.join(self._inside(element, listed))}</{tag}>"
        else:
            yield from self._inside(element, listed)

    def _paragraph(self, element: Any, name: str, listed: str) -> Iterator[str]:
        level = min(6, _whole(element.get(_tag("text", "outline-level"))))
        holder = next(element.iterancestors(_tag("drawing", "frame")), None)
        placed = "" if holder is None else holder.get(_tag("presentation", "class"), "")
        is_title = element.get(_tag("text", "style-name")) in self._titles or placed == "title"
        tag = f"h{level}" if name == "text:h" else "h1" if is_title else "p"
        text = "".join(self._inside(element, listed))
        if any(letter.isalnum() for letter in text) or tag == "p":
            yield f"<{tag}>{text}</{tag}>"

    def _list(self, element: Any, listed: str) -> Iterator[str]:
        style, _, level = listed.partition("\0")
        style = element.get(_tag("text", "style-name")) or style
        level = str(int(level or 0) + 1)
        inner = f"{style}\0{level}"
        if not self._numbered.get(style, {}).get(level):
            yield f"<ul>{''.join(self._inside(element, inner))}</ul>"
            return
        goes_on = element.get(_tag("text", "continue-numbering")) == "true"
        goes_on = goes_on or element.get(_tag("text", "continue-list")) is not None
        items = element.findall(_tag("text", "list-item"))
        said = items[0].get(_tag("text", "start-value")) if items else None
        first = self._counted.get(inner, 0) + 1 if goes_on and not said else _whole(said)
        self._counted[inner] = first + len(items) - 1
        yield f"<ol start={first}>{''.join(self._inside(element, inner))}</ol>"

    def _wrapped(self, element: Any, name: str, listed: str) -> Iterator[str]:
        text = "".join(self._inside(element, listed))
        if name == "text:a":
            target = element.get("{http://www.w3.org/1999/xlink}href", "")
            yield f'<a href="{escape(target)}">{text}</a>'
        elif name == "text:span":
            tag = self._raised.get(element.get(_tag("text", "style-name"), ""))
            yield f"<{tag}>{text}</{tag}>" if tag and text else text
        else:
            columns = _whole(element.get(_tag("table", "number-columns-spanned")))
            rows = _whole(element.get(_tag("table", "number-rows-spanned")))
            cell = f'<td colspan="{columns}" rowspan="{rows}">{text}</td>'
            count = _whole(element.get(_tag("table", "number-columns-repeated")))
            yield cell * min(_MOST_REPEATED if text else 1, count)

    def _note(self, element: Any, listed: str) -> str:
        mark = "".join(element.findtext(_tag("text", "note-citation")) or "*")
        text = "".join(self._inside(element, listed))
        self._notes.append(f"<p>[{escape(mark)}] </p>{text}".replace(" </p><p>", " ", 1))
        return f" [{escape(mark)}]"


def _sheets(data: bytes, limit: int) -> Iterator[Sheet]:
    """Yield each sheet, and what is to be noted of it; row by row, as it is read."""
    wanted = [_tag("table", name) for name in ("table", "table-row", "table-column")]
    wanted.append(_tag("style", "table-properties"))
    is_table, hidden = wanted[0], set[str]()
    grid, counts, size = Grid(), Counter[str](), 0
    with _package(data) as package, package.open("content.xml") as content:
        for event, element in etree.iterparse(
            content, events=("start", "end"), tag=wanted, resolve_entities=False, no_network=True,
            huge_tree=True,
        ):  # fmt: skip
            if next(element.iterancestors(_tag("table", "table-cell")), None) is not None:
                continue  # a table in a cell
            if event == "start":
                if element.tag == is_table:
                    grid, counts = Grid(), Counter[str]()
                continue
            if element.tag == wanted[1]:
                size += _read_row(element, grid, counts)
                if size > limit:
                    raise too_long(limit)
                _forget(element)
            elif element.tag == wanted[2]:
                repeated = _whole(element.get(_tag("table", "number-columns-repeated")))
                counts["columns"] += repeated * _is_hidden(element)
            elif element.tag == is_table:
                counts["sheets"] += element.get(_tag("table", "style-name")) in hidden
                yield element.get(_tag("table", "name"), "Sheet"), grid, counts
                _forget(element)
            elif element.get(_tag("table", "display")) == "false":
                hidden.add(element.getparent().get(_tag("style", "name")))


def _forget(element: Any) -> None:
    """Drop what an element holds, and what stands before it."""
    element.clear()
    while element.getprevious() is not None:
        del element.getparent()[0]


def _is_hidden(element: Any) -> bool:
    return str(element.get(_tag("table", "visibility"), "visible")) != "visible"


def _read_row(row: Any, grid: Grid, counts: Counter[str]) -> int:
    """Read the cells of a row, each with its note; return how much text they hold."""
    cells, column = Row(), 0
    for cell in row:
        if cell.tag not in (_tag("table", "table-cell"), _tag("table", "covered-table-cell")):
            continue
        text, is_computed = _shown(cell)
        counts["formulas"] += not is_computed
        for note in cell.findall(_tag("office", "annotation")):
            said = " ".join(" ".join(p.itertext()) for p in note.iter(_tag("text", "p")))
            text = f"{text} [note: {said}]".strip()
        repeated = _whole(cell.get(_tag("table", "number-columns-repeated")))
        if text:
            cells |= dict.fromkeys(range(column, column + min(repeated, _MOST_REPEATED)), text)
        height = _whole(cell.get(_tag("table", "number-rows-spanned")))
        width = _whole(cell.get(_tag("table", "number-columns-spanned")))
        if height > 1 or width > 1:
            grid.merged.append(Merged(len(grid.rows), column, height, width))
        column += repeated
    times = _whole(row.get(_tag("table", "number-rows-repeated")))
    times = min(times, _MOST_REPEATED) if cells else min(times, _MOST_BLANK_ROWS)
    counts["rows"] += times * _is_hidden(row) * bool(cells)
    grid.rows += [dict(cells) for _ in range(times)]
    return sum(map(len, cells.values())) * times


def _shown(cell: Any) -> tuple[str, bool]:
    """Return the text of a cell as the sheet shows it, a date as 2026-01-05, a number whole.

    The second value says whether its formula, if it has one, was computed.
    """
    paragraphs = ("".join(p.itertext()).strip() for p in cell.findall(_tag("text", "p")))
    text = " ".join(filter(None, paragraphs))
    kind = cell.get(_tag("office", "value-type"), "")
    formula = cell.get(_tag("table", "formula"))
    if formula and not kind and not text:
        return f"{formula.partition(':')[2] or formula} (not computed)", False
    if kind == "boolean":
        return cell.get(_tag("office", "boolean-value"), text).upper(), True
    if kind == "date":
        return cell.get(_tag("office", "date-value"), text).replace("T", " "), True
    value = cell.get(_tag("office", "value"), "")
    if kind == "float" and value and (not text or _NUMBER.fullmatch(text)):
        return value.removesuffix(".0"), True
    return text or cell.get(_tag("office", "string-value"), ""), True


def _whole(text: str | None) -> int:
    """Return a number of 1 to 999,999 that an attribute holds; 1 where it holds none."""
    return max(1, int(text)) if text and re.fullmatch(r"\d{1,6}", text) else 1
