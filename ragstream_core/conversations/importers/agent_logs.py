"""Session logs of coding agents: Claude Code (1.0 to 2.1) and Codex (2025 to 0.169), JSONL files.

A line that cannot be read is a problem of its own; a last line without its end is still being
written and is left for the next time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from ragstream_core.conversations.importers.exchange import Conversation, Message, Role, iso_time

CLAUDE_CODE, CODEX = "claude-code", "codex"
_ROLES: Mapping[str, Role] = {"user": "user", "assistant": "assistant"}
_TARGETS = ("file_path", "path", "command", "cmd", "pattern", "url", "query", "description")
_TARGET_LETTERS = 80
_OWN_WORDS = ("<command-", "<local-command", "<environment_context", "<user_instructions",
              "<permissions", "<INSTRUCTIONS", "# AGENTS.md instructions", "<turn_aborted",
              "Caveat: The messages below were generated")  # fmt: skip
"""How texts begin that the program wrote in the user's place."""
_CALLS = {"function_call", "custom_tool_call", "local_shell_call", "web_search_call"}
_ENDS = {"task_complete", "turn_complete", "turn_aborted"}


def format_of(row: object) -> str:
    """Return which agent wrote a line; "" for neither."""
    if not isinstance(row, dict):
        return ""
    if "sessionId" in row or row.get("type") in ("summary", "file-history-snapshot"):
        return CLAUDE_CODE
    if row.get("type") in ("session_meta", "response_item", "turn_context", "event_msg") or (
        {"id", "timestamp", "instructions"} <= row.keys()
    ):
        return CODEX
    return ""


def conversation(lines: Iterable[str], *, name: str) -> Conversation | None:
    """Return the conversation of a log; None if no line is of a known agent.

    Args:
        lines: Of the file, with their ends.
        name: Of the file, without its extension: its id if the log tells none.
    """
    rows, problems, form = [], [], ""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            if line.endswith("\n"):  # else it is still being written
                problems.append(f"line {number} is not JSON")
            continue
        form = form or format_of(row)
        if isinstance(row, dict):
            rows.append(row)
    if not form:
        return None
    read: Callable[..., Conversation] = _claude_code if form == CLAUDE_CODE else _codex
    return read(rows, name, tuple(problems))


def _claude_code(
    rows: list[Mapping[str, Any]], name: str, problems: tuple[str, ...]
) -> Conversation:
    messages: list[Message] = []
    wrong = list(problems)
    title = project = session = ""
    for row in rows:
        title = str(row.get("summary") or row.get("customTitle") or title)
        if "uuid" not in row:
            continue
        session, project = str(row.get("sessionId") or session), str(row.get("cwd") or project)
        try:
            messages.append(_claude_code_message(row))
        except (AttributeError, TypeError, KeyError) as error:
            wrong.append(f"message {row['uuid']} has another form: {error}")
            messages.append(Message(str(row["uuid"]), str(row.get("parentUuid") or ""), "none"))
    return Conversation(
        CLAUDE_CODE, session or name, title or _title(messages), _in_line(rows, messages), "",
        project, tuple(wrong),
    )  # fmt: skip


def _in_line(rows: list[Mapping[str, Any]], messages: list[Message]) -> list[Message]:
    """Hang what follows a message on its last row: each of its tool calls is a row of its own.

    The result of the first call hangs on the first row, and what the model says next may hang on
    that result; it would look like another branch.
    """
    parts: dict[str, list[str]] = {}
    for row in rows:
        message = row.get("message")
        if row.get("type") == "assistant" and "uuid" in row and isinstance(message, dict):
            parts.setdefault(str(message.get("id") or row["uuid"]), []).append(str(row["uuid"]))
    last = {uuid: of_one[-1] for of_one in parts.values() for uuid in of_one}
    before = {uuid: of_one[n] for of_one in parts.values() for n, uuid in enumerate(of_one[1:])}
    return [replace(m, parent=before.get(m.id) or last.get(m.parent, m.parent)) for m in messages]


def _claude_code_message(row: Mapping[str, Any]) -> Message:
    id_, parent = str(row["uuid"]), str(row.get("parentUuid") or row.get("logicalParentUuid") or "")
    when = iso_time(row.get("timestamp"))
    skipped = row.get("isMeta") or row.get("isSidechain") or row.get("isCompactSummary")
    if row.get("type") not in ("user", "assistant") or skipped:
        return Message(id_, parent, "none", timestamp=when)
    message = row["message"]
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    texts = [str(b.get("text") or "") for b in blocks if b.get("type") == "text"]
    text = "\n\n".join(filter(None, texts))
    named = [_call(b.get("name"), b.get("input")) for b in blocks if b.get("type") == "tool_use"]
    named += [f"attachment: {b['type']}" for b in blocks if b.get("type") in ("image", "document")]
    role: Role = row["type"]
    if role == "user" and (not text.strip() or text.lstrip().startswith(_OWN_WORDS)) and not named:
        return Message(id_, parent, "none", timestamp=when)  # a tool's result, a command's output
    ended = role == "assistant" and message.get("stop_reason") in ("end_turn", "stop_sequence")
    model = str(message.get("model") or "") if role == "assistant" else ""
    return Message(id_, parent, role, text, when, model, tuple(named), ended)


def _codex(rows: list[Mapping[str, Any]], name: str, problems: tuple[str, ...]) -> Conversation:
    messages: list[Message] = []
    wrong = list(problems)
    session, project, model = name, "", ""
    for number, row in enumerate(rows, 1):
        body = row.get("payload", row)
        kind = row.get("type") if "payload" in row else body.get("type", "session_meta")
        try:
            if kind == "session_meta":
                session = str(body.get("id") or session)
                project = str(body.get("cwd") or project)
            elif kind == "turn_context":
                model = str(body.get("model") or model)
            elif kind == "event_msg" and body.get("type") in _ENDS and messages:
                last = messages[-1]
                messages[-1] = replace(last, finished=last.role == "assistant")
            elif kind not in ("event_msg", "compacted"):
                found = _codex_message(row, body, session, model, messages)
                messages += [found] if found else []
        except (AttributeError, TypeError, KeyError) as error:
            wrong.append(f"record {number} has another form: {error}")
    return Conversation(CODEX, session, _title(messages), messages, "", project, tuple(wrong))


def _codex_message(
    row: Mapping[str, Any],
    body: Mapping[str, Any],
    session: str,
    model: str,
    before: list[Message],
) -> Message | None:
    kind, role = body.get("type"), _ROLES.get(str(body.get("role")))
    text, named = "", []
    if kind in _CALLS:
        given = body.get("arguments") or body.get("input") or body.get("action")
        named, role = [_call(body.get("name") or kind, given)], "assistant"
    elif kind == "message" and role:
        parts = [part for part in body["content"] if isinstance(part, dict)]
        text = "\n".join(str(part["text"]) for part in parts if part.get("text"))
        named = ["attachment: image" for part in parts if part.get("type") == "input_image"]
        if role == "user" and text.lstrip().startswith(_OWN_WORDS):
            return None
    if not role or not (text or named):
        return None
    stamp = str(row.get("timestamp") or body.get("timestamp") or "")
    said = f"{session}\x00{len(before)}\x00{stamp}\x00{text}\x00{named}"
    return Message(
        hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:32],
        before[-1].id if before else "",
        role,
        text,
        iso_time(stamp),
        model if role == "assistant" else "",
        tuple(named),
    )


def _call(name: object, given: object) -> str:
    """Return how a tool call is named: the tool, and what it was called on."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            given = {"command": given}
    target = ""
    if isinstance(given, dict):
        target = next((str(given[key]) for key in _TARGETS if given.get(key)), "")
    first = " ".join(target.split())
    cut = first if len(first) <= _TARGET_LETTERS else first[: _TARGET_LETTERS - 1] + "…"
    return f"tool: {name} {cut}".rstrip()


def _title(messages: list[Message]) -> str:
    first = next((m.text for m in messages if m.role == "user" and m.text.strip()), "")
    return " ".join(first.split())[:60]
