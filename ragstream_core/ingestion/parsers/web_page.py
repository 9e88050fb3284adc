"""HTML as Markdown, as a browser shows it: omitted end tags, merged cells, raised digits, titles.

Also what a Word file becomes on its way to Markdown.
"""

from __future__ import annotations

import contextlib
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator
from itertools import zip_longest
from textwrap import indent
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import markdownify
from bs4 import BeautifulSoup
from bs4.dammit import EncodingDetector
from bs4.element import NavigableString, Tag

from ragstream_core.ingestion.parsers.html_tables import (
    grid_of,
    labelled,
    mend_tables,
    unfold_layouts,
    whole,
)
from ragstream_core.ingestion.parsers.nesting import fenced
from ragstream_core.ingestion.parsers.page_frame import leave_out_frame
from ragstream_core.ingestion.parsers.raised import subscript, superscript
from ragstream_core.ingestion.parsers.tables import markdown_table
from ragstream_core.ingestion.parsers.word_numbers import in_format
from ragstream_core.text.decoding import ASSUMED, codec_of, decode

# What a page means that names an encoding: the WHATWG Encoding Standard, section 4.2.
READ_AS = {
    "ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874",
    "tis-620": "cp874", "shift_jis": "cp932", "gb2312": "gb18030", "gbk": "gb18030",
    "euc_kr": "cp949", "big5": "big5hkscs",
}  # fmt: skip
_PAGE_CODEC = re.compile(
    r"ascii|cp\d+|iso8859-\d+|tis-620|koi8-[ru]|mac-\w+|shift_jis\w*|euc_\w+|gb\w+|big5\w*|johab"
)
_BLOCKS = frozenset(
    ["p", "div", "td", "th", "li", "dt", "dd", "h1", "h2", "h3", "h4", "h5", "h6", "tr", "table",
     "ul", "ol", "dl", "pre", "blockquote", "section", "article", "body", "caption", "figcaption",
     "header", "footer", "main", "nav", "aside", "form", "html", "[document]"]
)  # fmt: skip
_BEGINS_BLOCK = re.compile(r"\||#{1,6} |```|[*+-] |\d+\. |> ")
_TEXT_INPUTS = frozenset(
    ["text", "search", "url", "tel", "email", "number", "date", "time", "month", "week", "color"]
)
_COUNTED = {"a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}
_BETWEEN = {"msup": "^", "msub": "_", "mfrac": "/", "msubsup": "_^"}
_RAISED_LETTERS = 40  # longer ones are an element that nobody closed
_LINE_NUMBERS = frozenset(["linenos", "lineno", "line-number", "line-numbers", "linenumber", "ln"])
_OCTET = re.compile(r"(%[0-9A-Fa-f]{2})")


def read_page(data: bytes, limit: int) -> tuple[str, str]:
    """Return the Markdown of a web page, its title first, and what was left out around its text."""
    page, assumed = decoded_page(data)
    soup = BeautifulSoup(page.replace("\0", ""), "lxml")
    for tag in soup(["script", "style", "template"]):
        if tag.has_attr("shadowrootmode"):  # shown, as what its element holds
            tag.unwrap()
        else:
            tag.decompose()
    head = _head(soup)
    left_out = leave_out_frame(soup)
    text = html_markdown(soup, limit)
    noted = f"menus and other frame left out: {left_out} characters" if left_out else ""
    told = "; ".join(filter(None, [assumed, noted]))
    return "\n\n".join([*_leading(head, soup, text), text]), told


def words_only(html: str) -> BeautifulSoup:
    """Return HTML that comes in another file: no scripts, no title, of pictures their words."""
    soup = BeautifulSoup(html.replace("\0", ""), "lxml")
    for tag in soup(["script", "style", "template", "title"]):
        tag.decompose()
    for picture in soup("img"):  # its address leads nowhere, or counts who reads
        picture.replace_with(str(picture.get("alt") or ""))
    return soup


def html_markdown(soup: BeautifulSoup, limit: int) -> str:
    """Return the Markdown of parsed HTML, which is changed on the way."""
    for change in (
        _write_formulas,
        mend_tables,
        _join_definitions,
        unfold_layouts,
        _write_raised,
        _write_links,
        _number_lists,  # last: an item that stood in a link without an address is of the list now
    ):
        change(soup)
    try:
        return str(_Writer(limit).convert_soup(soup)).strip()
    except RecursionError:  # nested too deep for Markdown; its words count
        return soup.get_text("\n", strip=True)


def decoded_page(data: bytes) -> tuple[str, str]:
    """Return the text of a page, and which encoding was assumed, "" for none.

    It is UTF-8 or as a byte order mark says, as the page itself says, or a guess.
    ISO-2022 alone looks like UTF-8, because it holds ASCII only: there what the page says is first.
    """
    said = EncodingDetector.find_declared_encoding(data, is_html=True) or ""
    codec = codec_of(said.removeprefix("x-"))
    if codec.startswith("iso2022") and b"\x1b" in data:
        return data.decode(codec, "replace"), ""
    marked = "utf-16" if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8-sig"
    with contextlib.suppress(UnicodeError):
        return data.decode(marked), ""
    if _PAGE_CODEC.fullmatch(codec):
        return data.decode(READ_AS.get(codec, codec), "replace"), ""
    text, note = decode(data)
    text = data.decode("cp1252", "replace") if text is None else text
    return text, note * (ASSUMED in note)


def _head(soup: BeautifulSoup) -> list[str]:
    """Take the head out of a page; return its title and its description."""
    title = next((t for t in soup.find_all("title") if t.find_parent("svg") is None), None)
    about = soup.find("meta", attrs={"name": re.compile("^description$", re.IGNORECASE)})
    found = [title.get_text() if title else "", str(about.get("content") or "") if about else ""]
    for tag in soup.find_all("title"):  # that of a drawing is what it stands for
        if tag.parent is not None and tag.parent.name == "svg":
            tag.parent.attrs.setdefault("aria-label", tag.get_text())
        tag.decompose()
    return [" ".join(text.split()) for text in found]


def _leading(head: list[str], soup: BeautifulSoup, text: str) -> Iterator[str]:
    """Yield what stands above a page's text: its title, unless a heading says it, and subject."""
    title, about = head
    headings = [" ".join(tag.get_text(" ").split()) for tag in soup.find_all("h1")]
    if title and not any(title.casefold() in heading.casefold() for heading in headings):
        yield title if headings else f"# {title}"
    if about and about.casefold() != title.casefold() and about not in " ".join(text.split()):
        yield about


def _join_definitions(soup: BeautifulSoup) -> None:
    """Move a ``dd`` out of the ``dd`` before it: no end tag is needed between the two."""
    for inner in soup.find_all(["dd", "dt"]):
        if inner.parent is not None and inner.parent.name in ("dd", "dt"):
            inner.parent.insert_after(inner)


def _number_lists(soup: BeautifulSoup) -> None:
    """Write into each item of a numbered list its number, as its list counts."""
    for listed in soup.find_all("ol"):
        number_format = _COUNTED.get(str(listed.get("type")), "decimal")
        number = whole(listed, "start", 1)
        for item in listed.find_all("li", recursive=False):
            number = whole(item, "value", number)
            item["value"] = in_format(number, number_format)
            number += 1


def _write_formulas(soup: BeautifulSoup) -> None:
    """Write MathML as its own TeX, or with ``^``, ``_`` and ``/``: no exponent joins a number."""
    for formula in soup.find_all("math"):
        source = formula.find("annotation", attrs={"encoding": "application/x-tex"})
        if source is not None:
            formula.replace_with(NavigableString(f"${' '.join(source.get_text().split())}$"))
            continue
        for tag in reversed(formula.find_all(list(_BETWEEN))):
            children: list[Any] = [child for child in tag.children if str(child).strip()]
            held = [child.get_text() for child in children]
            parts = [" ".join(text.split()) for text in held]
            parts = [f"({part})" if re.search(r"[-+/ ]", part[1:]) else part for part in parts]
            signs = ["", *_BETWEEN[tag.name]][: len(parts)]
            pairs = zip_longest(signs, parts, fillvalue=" ")
            tag.name, tag.string = "mrow", "".join(sign + part for sign, part in pairs)


def _write_raised(soup: BeautifulSoup) -> None:
    for tag in soup.find_all(["sup", "sub"]):
        text, before, after = tag.get_text(), _beside(tag, -1), _beside(tag, 1)
        if len(text) > _RAISED_LETTERS or tag.find(list(_BLOCKS)) is not None:
            tag.insert_before("^" if before[-1:].isalnum() else "")
            tag.unwrap()
            continue
        slash: Any = tag.next_sibling
        if str(slash).strip() in ("/", "⁄") and getattr(slash.next_sibling, "name", "") == "sub":
            after = "⁄"
        link = tag.find("a", href=re.compile("^#"))
        if tag.name == "sub":
            written = subscript(text, before, after)
        else:
            written = superscript(text, before, after, is_note=link is not None)
        tag.replace_with(NavigableString(written))


def _beside(tag: Tag, step: int) -> str:
    """Return the text of the same block before (-1) or after (1) a tag; white space counts."""
    node: Any = tag
    while node is not None and node.name not in _BLOCKS:
        for other in node.previous_siblings if step < 0 else node.next_siblings:
            if other.name == "br" or other.name in _BLOCKS:
                return ""
            text = other.get_text() if isinstance(other, Tag) else str(other)
            if text:
                return text[-24:] if step < 0 else text[:24]
        node = node.parent
    return ""


def _write_links(soup: BeautifulSoup) -> None:
    """Leave links to other pages only: no scripts, no data, no marks of headings."""
    for link in soup.find_all("a", href=True):
        try:
            parts = urlsplit(str(link["href"]))
        except ValueError:
            parts = None
        if str(link["href"]).startswith("#") and _is_anchor(link):
            link.decompose()
        elif parts is None or parts.scheme.lower() not in ("", "http", "https", "file"):
            link.unwrap()
        else:
            path = "".join(p if _OCTET.fullmatch(p) else quote(p) for p in _OCTET.split(parts.path))
            link["href"] = urlunsplit(parts._replace(path=path))


def _is_anchor(link: Tag) -> bool:
    """Return whether a link is only the sign beside a heading; a law's § may be a link, too."""
    text = link.get_text().strip()
    return text in ("¶", "#", "🔗") or (text == "§" and "anchor" in (link.get("class") or []))


class _Writer(markdownify.MarkdownConverter):
    """Writes Markdown bottom-up: a table gets the texts of its cells, a definition its terms."""

    def __init__(self, limit: int) -> None:
        super().__init__(heading_style=markdownify.ATX)
        self._limit = limit
        self._texts: dict[int, str] = {}

    def convert_img(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        """Return the picture with its address; without one, or of its bytes, its words alone."""
        words = " ".join(str(el.get("alt") or el.get("title") or "").split())
        sources = [str(el.get(name) or "") for name in ("src", "data-src")]
        source = next((s for s in sources if s and s[:5].lower() != "data:"), "")
        return words if "_inline" in parent_tags or not source else f"![{words}]({source})"

    def convert_input(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        """Return what a field shows."""
        kind = str(el.get("type") or "text").lower()
        if kind == "checkbox":
            return "[x] " if el.has_attr("checked") else "[ ] "
        return str(el.get("value") or "") if kind in _TEXT_INPUTS else ""

    def convert_abbr(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        """Return an abbreviation with what it stands for."""
        full = " ".join(str(el.get("title") or "").split())
        return f"{text} ({full})" if full and text.strip() else text

    def convert_option(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        """Return one of several choices, apart from the next."""
        return f" {text.strip()} "

    def convert_dt(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        """Keep a term for its definitions; one without any is a paragraph."""
        self._texts[id(el)] = term = " ".join(text.split())
        follows = [tag.name for tag in el.find_next_siblings(limit=9)]
        defined = "dd" in follows and set(follows[: follows.index("dd")]) <= {"dt"}
        return "" if defined else f"\n\n{term}\n\n"

    def convert_dd(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        """Return ``term: definition`` as a paragraph of its own, whatever the definition holds."""
        text, terms = text.strip(), list[str]()
        for tag in el.find_previous_siblings():
            if tag.name == "dt":
                terms.insert(0, self._texts.get(id(tag), ""))
            elif terms or tag.name != "dd":
                break
        term = ", ".join(filter(None, terms)).rstrip(":")
        between = ":\n\n" if _BEGINS_BLOCK.match(text) else ": "
        return f"\n\n{term}{between if term and text else ''}{text}\n\n"

    def convert_td(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        """Keep the text of a cell for its table."""
        text = text.strip().removesuffix(";") or _sign(el)
        self._texts[id(el)] = text
        return f" {text} "

    convert_th = convert_caption = convert_td

    def convert_tr(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        """Return a row that stands in no table as its words."""
        return f"{text.strip()}\n"

    def convert_li(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        """Return an item of a list; of a numbered one with the number that the page shows."""
        if "_inline" in parent_tags:
            return f"{text.strip()}; " if text.strip() else ""
        if el.parent is None or el.parent.name != "ol" or not text.strip():
            bulleted: Any = super()  # its types name no such method
            return str(bulleted.convert_li(el, text, parent_tags))
        mark = f"{el['value']}. "
        return f"{mark}{indent(text.strip(), ' ' * len(mark)).lstrip()}\n"

    def convert_table(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        """Return a table with its caption; in a cell of another one each value with its name."""
        if "_inline" in parent_tags:
            return f" {self._inner(el) or ' '.join(text.split())} "
        caption = el.find("caption")
        above = " ".join(self._texts.get(id(caption), "").split()) if caption else ""
        above = f"**{above.strip('*')}**" if above else ""  # so each chunk of the table has it
        pairs = labelled(el)
        if pairs:
            made = "\n".join(self._pair(name, value) for name, value in pairs)
        else:
            made = markdown_table(grid_of(el, self._texts), self._limit)
        return f"\n\n{above}\n\n{made}\n\n"

    def _pair(self, name: Tag, value: Tag) -> str:
        """Return a row of a name and a value; one cell alone is a title of those that follow."""
        label, said = (" ".join(self._texts.get(id(cell), "").split()) for cell in (name, value))
        if name is value:
            return f"\n**{label}**\n" if label and name.name == "th" else label
        return f"- {label.rstrip(':')}: {said}" if label and said else f"- {label or said}"

    def _inner(self, table: Tag) -> str:
        """Return the rows of a table in a cell, "Load: 5, Price: 9; …"; empty: it has one row."""
        first, *rows = grid_of(table, self._texts).rows or [{}]
        named = [
            ", ".join(f"{first.get(c, '').strip()}: {text.strip()}" for c, text in row.items())
            for row in rows
        ]
        return " ".join("; ".join(named).split()) if len(first) > 1 else ""

    def convert_pre(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        """Return what keeps its white space as it is; in a cell or a heading on one line."""
        code = _preformatted(el)
        if not code.strip():
            return ""
        if "_inline" in parent_tags:
            return f" `{' '.join(code.split())}` " if "`" not in code else " ".join(code.split())
        return f"\n\n{fenced(code)}\n\n"

    def convert_summary(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        """Return the title of a part that folds out, and what it holds, as paragraphs."""
        return f" {text} " if "_inline" in parent_tags else f"\n\n{text.strip()}\n\n"

    convert_details = convert_summary


def _sign(cell: Tag) -> str:
    """Return what the sign in a cell without text stands for: a tick, a cross."""
    for name in ("aria-label", "title"):
        sign = cell.find(lambda tag, name=name: tag.has_attr(name))
        if sign is not None:
            return " ".join(str(sign[name]).split())
    return ""


def _preformatted(element: Tag) -> str:
    """Return text line by line without the numbers of its lines."""
    written = ""
    for node in element.descendants:
        if isinstance(node, Tag):
            starts_line = node.name in _BLOCKS and written and not written.endswith("\n")
            written += "\n" if node.name == "br" or starts_line else ""
        elif isinstance(node, NavigableString) and type(node) is NavigableString:
            parent: Any = node.parent
            if not (node.strip().isdigit() and _LINE_NUMBERS & set(parent.get("class") or [])):
                written += node
    return written.strip("\n")
