"""Jupyter notebooks as Markdown: texts, code, and what the code printed; no pictures."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from ragstream_core.ingestion.parsers.child import apart
from ragstream_core.ingestion.parsers.engines import Parsed, Refusal
from ragstream_core.ingestion.parsers.nesting import fenced, heading, nested

_TERMINAL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_LANGUAGE = re.compile(r"[\w+#-]{1,20}")
_LARGE_TABLE = 200_000  # letters: a longer one may take too long, and its plain form is there
_OBJECT = re.compile(r"<[^<>]{1,200}>")
_OLD_KEYS = {"html": "text/html", "text": "text/plain", "png": "image/png", "svg": "image/svg+xml",
             "jpeg": "image/jpeg", "latex": "text/latex"}  # fmt: skip


def notebook_markdown(data: bytes, limit: int) -> tuple[str, str]:
    """Return the Markdown of a notebook, and what was left out of it."""
    try:
        book = json.loads(data)
    except (ValueError, RecursionError):
        raise Refusal("not a readable notebook (broken JSON)") from None
    sheets = _dicts(book.get("worksheets")) if isinstance(book, dict) else []
    cells = [cell for holder in [book, *sheets] for cell in _dicts(_of(holder, "cells"))]
    if not cells:
        raise Refusal("holds no cells")
    reader = _Reader(book, limit)
    text = "\n\n".join(part for cell in cells for part in reader.cell(cell) if part.strip())
    return text, f"pictures left out: {reader.pictures}" if reader.pictures else ""


class _Reader:
    def __init__(self, book: Any, limit: int) -> None:
        self.pictures = 0
        self._limit = limit
        said = _of(book, "metadata")
        kernel, language = _of(said, "kernelspec"), _of(said, "language_info")
        language = _of(kernel, "language") or _of(language, "name")
        known = isinstance(language, str) and _LANGUAGE.fullmatch(language)
        self._language = str(language) if known else ""

    def cell(self, cell: dict[str, Any]) -> Iterator[str]:
        """Yield the texts of a cell: its source, and each output of code."""
        kind, source = cell.get("cell_type"), _text(cell.get("source", cell.get("input")))
        if kind == "code":
            yield fenced(source, self._language) if source.strip() else ""
            for output in _dicts(cell.get("outputs")):
                yield self._output(output)
        elif kind == "heading":  # of the oldest version
            level = cell.get("level")
            yield heading(source, level if isinstance(level, int) and level > 0 else 1)
        else:
            yield nested(source, 0)

    def _output(self, output: dict[str, Any]) -> str:
        if output.get("ename") is not None:
            return f"Error: {_text(output['ename'])}: {_text(output.get('evalue'))}"
        forms = output.get("data")
        if not isinstance(forms, dict):
            forms = {_OLD_KEYS.get(key, key): output[key] for key in output}
        is_drawn = any(name.startswith("image/") for name in forms)
        self.pictures += is_drawn
        if "text/markdown" in forms:
            return nested(_text(forms["text/markdown"]), 0)
        html, plain = _text(forms.get("text/html")), _text(forms.get("text/plain"))
        table = self._table(html) if "<table" in html else ""
        if table or (is_drawn and _OBJECT.fullmatch(plain.strip())):
            return table
        shown = _as_shown(plain or _text(forms.get("text/latex")))
        return f"Output:\n\n{fenced(shown)}" if shown.strip() else ""

    def _table(self, html: str) -> str:
        try:
            from ragstream_core.ingestion.parsers.web_page import html_markdown, words_only
        except ImportError:  # the extra is not installed: the plain form says the same
            return ""
        if len(html) < _LARGE_TABLE:
            return html_markdown(words_only(html), self._limit)
        found = apart(lambda: Parsed(((0, html_markdown(words_only(html), self._limit)),), ""))
        return found.pages[0][1] if found.pages else ""


def _as_shown(text: str) -> str:
    """Return what a terminal shows of text: no colours, of a progress bar its last state."""
    lines = _TERMINAL.sub("", text).replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines).strip("\n")


def _of(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, dict) else None


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    lines = value if isinstance(value, list) else [value]
    return "".join(line for line in lines if isinstance(line, str))
