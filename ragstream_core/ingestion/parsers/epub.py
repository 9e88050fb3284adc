"""E-books (EPUB) as Markdown: their chapters in the order of the book, each under its heading."""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import unquote

from lxml import etree

from ragstream_core.ingestion.parsers.engines import Refusal, too_long
from ragstream_core.ingestion.parsers.nesting import heading, nested
from ragstream_core.ingestion.parsers.web_page import decoded_page, html_markdown, words_only

_PAGE_ENDS = (".xhtml", ".html", ".htm")
_FONTS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
_DOCTYPE = re.compile(r"<!DOCTYPE[^>\[]{0,1000}(?:\[[^\]]*\]\s*)?>", re.IGNORECASE)
_BROKEN = (KeyError, zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError)
_EMPTY = re.compile(r"<([a-zA-Z][\w-]*)(\s[^<>]*)?/>")
_VOID = frozenset(
    ["br", "hr", "img", "input", "meta", "link", "col", "area", "base", "wbr", "source", "param"]
)
_ANY_HEADING = re.compile(r"#{1,6} ", re.MULTILINE)


def book_markdown(data: bytes, limit: int) -> tuple[str, str]:
    """Return the Markdown of a book, and what was left out of it.

    A book whose list of chapters is missing or broken is read in the order of its file names.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as package:
        book = _Book(package)
        title, authors = book.said("title"), book.said("creator")
        made = [heading(", ".join(title), 1)] if title else []
        made += [", ".join(authors)] if authors else []
        level, size, missing = len(title[:1]), 0, 0
        for path in book.chapters():
            page = book.read(path)
            if page is None:
                missing += 1
                continue
            text = _chapter(page, limit)
            size += len(text)
            if size > limit:
                raise too_long(limit)
            label = book.labels.get(path, "")
            if label and text and not _ANY_HEADING.search(text):
                text = f"{heading(label, 1)}\n\n{text}"
            made.append(nested(text, level))
    noted = f"chapters that are missing or broken: {missing}" if missing else ""
    if not size and missing:
        raise Refusal(noted)
    return ("\n\n".join(made) if size else ""), noted


class _Book:
    """What a package says of itself.

    Attributes:
        names: The files that it holds.
        labels: By path of a chapter what the table of contents calls it.
    """

    def __init__(self, package: zipfile.ZipFile) -> None:
        self._package = package
        self.names = set(package.namelist())
        self._refuse_protected()
        roots = [e.get("full-path", "") for e in self._named("META-INF/container.xml", "rootfile")]
        path = next((path for path in roots if path in self.names), "")
        self._folder, self._root = posixpath.dirname(path), self._tree(path)
        self._items = {e.get("id"): e for e in _called(self._root, "item")}
        self.labels = dict(reversed(list(self._contents())))

    def read(self, path: str) -> bytes | None:
        """Return a file of the book; None where it is missing or broken."""
        try:
            return self._package.read(path)
        except _BROKEN:
            return None

    def said(self, name: str) -> list[str]:
        """Return what the book says of itself, e.g. its ``title``."""
        texts = (" ".join("".join(e.itertext()).split()) for e in _called(self._root, name))
        return [text for text in texts if text]

    def chapters(self) -> Iterable[str]:
        """Return the paths of the chapters in order; its table of contents is none."""
        named = [self._items.get(e.get("idref")) for e in _called(self._root, "itemref")]
        paths = [self._path(item) for item in named if item is not None and _is_chapter(item)]
        pages = sorted(name for name in self.names if name.lower().endswith(_PAGE_ENDS))
        return dict.fromkeys(paths) if self.names & set(paths) else pages

    def _contents(self) -> Iterator[tuple[str, str]]:
        for item in self._items.values():
            path = self._path(item)
            if "nav" in item.get("properties", "").split():
                found = [(e.get("href", ""), e) for e in self._named(path, "a")]
            elif item.get("media-type") == "application/x-dtbncx+xml":
                points = list(self._named(path, "navPoint"))
                held = [(_called(e, "content"), _called(e, "text")) for e in points]
                pairs = [pair for both in held for pair in zip(*both, strict=False)]
                found = [(content.get("src", ""), label) for content, label in pairs]
            else:
                continue
            for target, label in found:
                words = " ".join("".join(label.itertext()).split())
                yield self._joined(posixpath.dirname(path), target), words

    def _path(self, item: Any) -> str:
        return self._joined(self._folder, item.get("href", ""))

    @staticmethod
    def _joined(folder: str, target: str) -> str:
        return posixpath.normpath(posixpath.join(folder, unquote(target.partition("#")[0])))

    def _refuse_protected(self) -> None:
        for data in self._named("META-INF/encryption.xml", "EncryptedData"):
            methods = [e.get("Algorithm") for e in _called(data, "EncryptionMethod")]
            if not set(methods) <= set(_FONTS):
                raise Refusal("is protected against copying (DRM)")

    def _named(self, path: str, name: str) -> Iterator[Any]:
        return _called(self._tree(path), name)

    def _tree(self, path: str) -> Any:
        parser = etree.XMLParser(resolve_entities=False, no_network=True, recover=True)
        try:
            return etree.fromstring(self.read(path) or b"", parser)
        except etree.XMLSyntaxError:  # nothing in it is XML
            return None


def _called(root: Any, name: str) -> Iterator[Any]:
    """Yield the elements of a name, whatever its namespace."""
    return iter(()) if root is None else root.iter(f"{{*}}{name}")


def _is_chapter(item: Any) -> bool:
    is_page = item.get("href", "").lower().endswith(_PAGE_ENDS)
    is_page = is_page or item.get("media-type", "").endswith("html")
    return is_page and "nav" not in item.get("properties", "").split()


def _chapter(data: bytes, limit: int) -> str:
    """Return the Markdown of a chapter; its ``title`` is mostly that of the book."""
    text = decoded_page(data)[0]
    at = text.find("<!")
    if doctype := _DOCTYPE.match(text, max(at, 0)):
        text = text[:at] + text[doctype.end() :]
    return html_markdown(words_only(_EMPTY.sub(_closed, text)), limit)


def _closed(empty: re.Match[str]) -> str:
    """Return an empty element of XML as HTML writes it: a script without end hides the rest."""
    name = empty[1]
    return empty[0] if name.lower() in _VOID else f"<{name}{empty[2] or ''}></{name}>"
