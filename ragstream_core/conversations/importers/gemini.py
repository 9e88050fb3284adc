"""Gemini's activity from Google Takeout: ``My Activity.json``, one entry a prompt, newest first.

Takeout keeps no conversations, so the prompts of one day (UTC) are one. Entries without a prompt
(feedback, settings) are no turns. Format of 2024 and 2025; the form as HTML is not read.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from html import unescape
from typing import Any

from ragstream_core.conversations.importers.exchange import Conversation, Message, iso_time

NAME = "gemini"
_PRODUCT = re.compile(r"\b(?:Gemini|Bard)\b")
_VERB = re.compile(r"^(?:Prompted|Asked|Said|Eingegebener Prompt:|Prompt eingegeben:)\s+")
_TAG = re.compile(r"<(?:!--|(?P<end>/?)(?P<name>[A-Za-z][A-Za-z0-9]*))[^<>]*>")
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
    """Yield the conversation of each day, oldest first."""
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
    parts: list[str] = []
    verbatim, at = 0, 0
    for tag in _TAG.finditer(html):
        parts.append(_data(html[at : tag.start()], bool(verbatim)))
        at, name, is_end = tag.end(), tag["name"].lower(), bool(tag["end"])
        if name == "pre" and (verbatim or not is_end):
            verbatim += -1 if is_end else 1
            parts.append("\n```\n")
        elif name == "li" and not is_end:
            parts.append("\n- ")
        elif name in _BLOCKS:
            parts.append("\n")
    parts.append(_data(html[at:], bool(verbatim)))
    lines = [line.rstrip() for line in "".join(parts).split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _data(text: str, verbatim: bool) -> str:
    return unescape(text if verbatim else re.sub(r"\s+", " ", text))
