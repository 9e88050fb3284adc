"""ChatGPT's data export: ``conversations.json``, a tree of messages for each conversation.

Format of 2023 to 2025: ``mapping`` holds nodes with ``message``, ``parent`` and ``children``, and
``current_node`` names the end of the branch that is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragstream_core.conversations.importers.exchange import Conversation, Message, Role, iso_time

NAME = "chatgpt"
_HIDDEN = {"user_editable_context", "model_editable_context", "thoughts", "reasoning_recap"}
_FINISHED = {"finished_successfully", "finished_partial_completion"}


def is_conversation(row: object) -> bool:
    """Whether a row of an export is a conversation of this format."""
    return isinstance(row, dict) and isinstance(row.get("mapping"), dict)


def conversation(row: Mapping[str, Any]) -> Conversation:
    """Return a conversation with all its branches.

    Args:
        row: A member of ``conversations.json``.
    """
    messages, problems = [], []
    for id_, node in row["mapping"].items():
        if not isinstance(node, dict):
            problems.append(f"node {id_!r} is no object")
            continue
        try:
            messages.append(_message(str(id_), node))
        except (AttributeError, TypeError, KeyError) as error:
            problems.append(f"message {id_!r} has another form: {error}")
            messages.append(Message(str(id_), str(node.get("parent") or ""), "none"))
    return Conversation(
        NAME,
        str(row.get("conversation_id") or row.get("id") or f"{row.get('create_time')}"),
        str(row.get("title") or ""),
        messages,
        str(row.get("current_node") or ""),
        str(row.get("conversation_template_id") or row.get("gizmo_id") or ""),
        tuple(problems),
    )


def _message(id_: str, node: Mapping[str, Any]) -> Message:
    parent, message = str(node.get("parent") or ""), node.get("message")
    if not message:
        return Message(id_, parent, "none")
    author, about = message["author"], message.get("metadata") or {}
    content = message.get("content") or {}
    when = iso_time(message.get("create_time"))
    kind = str(content.get("content_type", "text"))
    hidden = about.get("is_visually_hidden_from_conversation") or message.get("weight") == 0
    role: Role = author["role"] if author["role"] in ("user", "assistant") else "none"
    if hidden or kind in _HIDDEN:
        return Message(id_, parent, "none", timestamp=when)
    if author["role"] == "tool":
        return Message(
            id_, parent, "assistant", timestamp=when, named=(f"tool: {author.get('name')}",)
        )
    named = [f"attachment: {_named(file)}" for file in about.get("attachments") or []]
    recipient = str(message.get("recipient") or "all")
    text = ""
    if role == "assistant" and recipient != "all":
        return Message(id_, parent, role, timestamp=when)  # the tool's own message names it
    if kind in ("text", "multimodal_text"):
        text, shown = _parts(content.get("parts") or [])
        named += shown if not named else []
    elif kind == "code":
        text = f"```\n{content.get('text', '')}\n```"
    elif kind == "system_error":
        named.append(f"error: {content.get('name')}")
    else:
        named.append(f"content of the kind {kind}")
    ends = bool(message.get("end_turn")) or (
        message.get("end_turn") is None and message.get("status") in _FINISHED
    )
    model = str(about.get("model_slug") or "")
    return Message(id_, parent, role, text, when, model, tuple(named), role == "assistant" and ends)


def _parts(parts: list[Any]) -> tuple[str, list[str]]:
    """Return the texts of a message's parts, and what else they are."""
    texts, named = [], []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict):
            kind = str(part.get("content_type", "part"))
            if kind == "audio_transcription":
                texts.append(str(part.get("text", "")))
            else:
                named.append(kind.removesuffix("_asset_pointer").replace("_", " "))
    return "\n".join(filter(None, texts)), named


def _named(file: Any) -> str:
    return str(file.get("name") or file.get("id") or "without a name")
