"""Conversations kept as Markdown: who speaks stands in a heading or in bold before the words.

Read are ``## User``, ``**Assistant:** words``, ``### ChatGPT said:`` and the like. There is no
standard for it: whatever stands between two such lines is what was said.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ragstream_core.conversations.importers.exchange import Conversation, Message, Role, iso_time

NAME = "markdown"
_USER = "you|user|human|me|prompt|question|q"
_MODEL = "chatgpt|gpt(?:-[\\w.]+)?|assistant|claude|gemini|copilot|ai|model|response|answer|a|llm"
_WHO = rf"(?P<who>{_USER}|{_MODEL})(?:\s+(?:said|wrote))?"
_MARK = re.compile(
    rf"(?:#{{1,6}}\s+(?:\*\*)?{_WHO}(?:\*\*)?\s*:?(?:\*\*)?$"
    rf"|\*\*{_WHO.replace('who', 'bold')}\s*(?::\*\*|\*\*:?)(?:\s+(?P<words>\S.*))?$)",
    re.IGNORECASE,
)
_HEADING = re.compile(r"#\s+(?P<title>\S.*)")
_FENCE = re.compile(r"\s{0,3}(?P<ticks>`{3,}|~{3,})")
_FIELD = re.compile(r"(?P<name>title|date|created|model)\s*:\s*(?P<value>.+)", re.IGNORECASE)
_IS_USER = re.compile(_USER, re.IGNORECASE)


@dataclass
class _Part:
    """Words of one speaker while they are read."""

    role: Role
    lines: list[str]


def conversation(lines: Iterable[str], *, name: str) -> Conversation | None:
    """Return the conversation of a file; None unless both sides speak in it."""
    rows = [line.rstrip("\r\n") for line in lines]
    told, body = _front_matter(rows)
    title = told.get("title", "")
    when = iso_time(told.get("date") or told.get("created") or "")
    parts: list[_Part] = []
    for line, is_code in _marked_code(body):
        mark = None if is_code else _MARK.match(line.rstrip())
        if mark is not None:
            is_user = _IS_USER.fullmatch(mark["who"] or mark["bold"])
            words = [mark["words"]] if mark["words"] else []
            parts.append(_Part("user" if is_user else "assistant", words))
        elif parts:
            parts[-1].lines.append(line)
        elif not title and (heading := _HEADING.match(line)):
            title = heading["title"].strip()
    if len({part.role for part in parts}) < 2:
        return None
    messages = list(_messages(name, parts, when, told.get("model", "")))
    return Conversation(NAME, f"{name} {messages[0].id[:8]}", title or name, messages)


def _messages(name: str, parts: Iterable[_Part], when: str, model: str) -> Iterator[Message]:
    """Yield messages whose ids follow from all words before them, so that more may be added."""
    parent, id_ = "", _digest(name)
    for part in parts:
        text = "\n".join(part.lines).strip()
        id_, is_answer = _digest(f"{id_}\x00{part.role}\x00{text}"), part.role == "assistant"
        written_by = model if is_answer else ""
        yield Message(id_, parent, part.role, text, when, written_by, finished=is_answer)
        parent = id_


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _front_matter(rows: list[str]) -> tuple[dict[str, str], list[str]]:
    """Return what the block between ``---`` at the beginning names, and the lines behind it."""
    if not rows or rows[0].strip() != "---" or "---" not in rows[1:200]:
        return {}, rows
    end = rows.index("---", 1)
    found = [match for row in rows[1:end] if (match := _FIELD.match(row))]
    return {m["name"].lower(): m["value"].strip().strip("\"'") for m in found}, rows[end + 1 :]


def _marked_code(rows: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Yield each line and whether it stands in a fenced block of code: there nobody speaks."""
    fence = ""
    for row in rows:
        found = _FENCE.match(row)
        if fence:
            yield row, True
            is_end = found and found["ticks"].startswith(fence) and not row[found.end() :].strip()
            fence = "" if is_end else fence
        else:
            yield row, bool(found)
            fence = found["ticks"] if found else ""
