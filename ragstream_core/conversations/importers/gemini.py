"""Gemini's activity from Google Takeout: ``My Activity.json``, one entry a prompt, newest first.

Takeout keeps no conversations, so the prompts of one day (UTC) are one. Entries without a prompt
(feedback, settings) are no turns. Format of 2024 and 2025; the form as HTML is not read.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

from ragstream_core.conversations.importers.exchange import Conversation, Message, iso_time

NAME = "gemini"
_PRODUCT = re.compile(r"\b(?:Gemini|Bard)\b")
_VERB = re.compile(r"^(?:Prompted|Asked|Said|Eingegebener Prompt:|Prompt eingegeben:)\s+")
_BLOCKS = {"p", "div", "br", "ul", "ol", "table", "tr", "pre", "h1", "h2", "h3", "h4", "h5", "h6"}


def is_entry(row: object) -> bool:
    """Whether a row of an export is an entry of this format."""
    return isinstance(row, dict) and "header" in row and "title" in row and "time" in row


def problem_of(row: Mapping[str, Any]) -> str:
    """Return what is wrong with an entry; "" if it can be read."""
    if not iso_time(row["time"]):
        return f"has no time that is known: {str(row['time'])[:40]!r}"
    try:
        _answer(row)
        list(row.get("attachedFiles") or [])
    except (TypeError, AttributeError, AssertionError) as error:
        return f"has another form: {error}"
    return ""


def conversations(rows: Iterable[Mapping[str, Any]]) -> Iterator[Conversation]:
    """Yield the conversation of each day, oldest first.

    Args:
        rows: Entries without a problem, in any order.
    """
    days: dict[str, list[tuple[str, Message, Message]]] = {}
    for row in rows:
        answer, when = _answer(row), iso_time(row["time"])
        title = str(row["title"])
        if _PRODUCT.search(str(row["header"])) and (answer or _VERB.match(title)):
            question = _VERB.sub("", title)
            id_ = hashlib.sha256(f"{row['time']} {question}".encode()).hexdigest()[:32]
            files = row.get("attachedFiles") or []
            asked = Message(
                id_, "", "user", question, when, named=tuple(f"attachment: {f}" for f in files)
            )
            told = Message(f"{id_}a", id_, "assistant", answer, when, finished=True)
            days.setdefault(when[:10], []).append((when, asked, told))
    for day, found in sorted(days.items()):
        messages: list[Message] = []
        for _, asked, told in sorted(found, key=lambda row: row[0]):
            parent = messages[-1].id if messages else ""
            messages.append(replace(asked, parent=parent))
            messages.append(told)
        yield Conversation(NAME, f"gemini {day}", day, messages)


def _answer(row: Mapping[str, Any]) -> str:
    items = row.get("safeHtmlItem")
    html = [str(i.get("html", "")) for i in items or [] if isinstance(i, dict)]
    return "\n\n".join(filter(None, (plain_text(text) for text in html)))


def plain_text(html: str) -> str:
    """Return the words of an HTML fragment: a block a line, list items with a dash."""
    reader = _Words()
    reader.feed(html)
    reader.close()
    lines = [line.rstrip() for line in "".join(reader.parts).split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


class _Words(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._verbatim = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._verbatim += tag == "pre"
        if tag == "li":
            self.parts.append("\n- ")
        elif tag in _BLOCKS:
            self.parts.append("\n```\n" if tag == "pre" else "\n")

    def handle_endtag(self, tag: str) -> None:
        if tag == "pre" and self._verbatim:
            self._verbatim -= 1
            self.parts.append("\n```\n")
        elif tag in _BLOCKS:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        self.parts.append(data if self._verbatim else re.sub(r"\s+", " ", data))
