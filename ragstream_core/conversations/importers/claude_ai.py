"""Claude.ai's data export: ``conversations.json`` with ``chat_messages`` for each conversation.

Format of 2024 and 2025: messages in their order, ``sender`` human or assistant, ``content`` in
blocks; newer exports name each message's parent, and what browser extensions save its model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragstream_core.conversations.importers.exchange import Conversation, Message, Role, iso_time
from ragstream_core.records.identity import digest_of

NAME = "claude"
_ROLES: Mapping[str, Role] = {"human": "user", "user": "user", "assistant": "assistant"}


def is_conversation(row: object) -> bool:
    """Whether a row of an export is a conversation of this format."""
    return isinstance(row, dict) and isinstance(row.get("chat_messages"), list)


def conversation(row: Mapping[str, Any]) -> Conversation:
    """Return a conversation.

    Args:
        row: A member of ``conversations.json``.
    """
    messages: list[Message] = []
    problems = []
    id_, before = str(row.get("uuid") or row.get("id") or ""), ""
    # without an id the words tell conversations apart, as far as they are the same
    id_ = id_ or f"unnamed {digest_of(row['chat_messages'][:2])[:32]}"
    for number, message in enumerate(row["chat_messages"], 1):
        try:
            found = _message(message, before, row, id_, number)
        except (AttributeError, TypeError, KeyError) as error:
            problems.append(f"message {number} has another form: {error}")
            continue
        messages.append(found)
        before = found.id
    project = row.get("project")
    return Conversation(
        NAME,
        id_,
        str(row.get("name") or row.get("title") or ""),
        messages,
        str(row.get("current_leaf_message_uuid") or ""),
        str(project.get("name", "")) if isinstance(project, dict) else "",
        tuple(problems),
    )


def _message(
    message: Mapping[str, Any], before: str, row: Mapping[str, Any], id_: str, number: int
) -> Message:
    role = _ROLES.get(str(message["sender"]), "none")
    blocks = [part for part in message.get("content") or [] if isinstance(part, dict)]
    texts = [str(b.get("text") or "") for b in blocks if b.get("type") == "text"]
    text = "\n\n".join(filter(None, texts)) or str(message.get("text") or "")
    files = [*(message.get("attachments") or []), *(message.get("files") or [])]
    names = dict.fromkeys(
        str(file.get("file_name") or "without a name") for file in files if isinstance(file, dict)
    )
    named = [f"attachment: {name}" for name in names]
    named += [f"tool: {b.get('name')}" for b in blocks if b.get("type") == "tool_use"]
    parent = message.get("parent_message_uuid")
    return Message(
        str(message.get("uuid") or f"{id_} {number}"),
        before if parent is None else str(parent),
        role,
        text,
        iso_time(message.get("created_at")),
        str(message.get("model") or row.get("model") or "") if role == "assistant" else "",
        tuple(named),
        role == "assistant",
    )
