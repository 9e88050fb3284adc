"""ChatGPT's data export: ``conversations.json``, a tree of messages for each conversation.

Format of 2023 to 2025: ``mapping`` holds nodes with ``message``, ``parent`` and ``children``, and
``current_node`` names the end of the branch that is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ragstream_core.conversations.importers import parts
from ragstream_core.conversations.importers.exchange import Conversation, Message, Role, iso_time

NAME = "chatgpt"
_HIDDEN = {"user_editable_context", "model_editable_context", "thoughts", "reasoning_recap"}
_SPOKEN = "audio_transcription"
_FINISHED = {"finished_successfully", "finished_partial_completion"}


def is_conversation(row: object) -> bool:
    """Whether a row of an export is a conversation of this format."""
    return isinstance(row, dict) and isinstance(row.get("mapping"), dict)


def conversation(row: Mapping[str, Any]) -> Conversation:
    """Return a conversation with all its branches."""
    messages, problems = [], []
    for id_, node in row["mapping"].items():
        if not isinstance(node, dict):
            problems.append(f"node {id_!r} is no object")
            continue
        try:
            messages.append(_message(str(id_), node, row["mapping"]))
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


def _message(id_: str, node: Mapping[str, Any], mapping: Mapping[str, Any]) -> Message:
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
        return _tool(Message(id_, parent, "assistant", timestamp=when), author, content, mapping)
    recipient = str(message.get("recipient") or "all")
    if role == "assistant" and recipient != "all":
        given = tuple(parts.written(recipient, _words(content)))
        return Message(
            id_, parent, role, timestamp=when, given=given, role_before="none" if given else None
        )
    text, named, left = _content(kind, content)
    files = [f"attachment: {_named(file)}" for file in about.get("attachments") or []]
    ends = bool(message.get("end_turn")) or (
        message.get("end_turn") is None and message.get("status") in _FINISHED
    )
    model = str(about.get("model_slug") or "")
    finished = role == "assistant" and ends
    named = [*files, *left] if files else named
    return Message(
        id_, parent, role, text, when, model, tuple(named), finished, left_out=tuple(left)
    )


def _tool(
    message: Message,
    author: Mapping[str, Any],
    content: Mapping[str, Any],
    mapping: Mapping[str, Any],
) -> Message:
    """Return what a tool answered; the text a picture was made of is told by its call."""
    name = str(author.get("name"))
    given, left = parts.result(name, _words(content))
    before = (mapping.get(message.parent) or {}).get("message") or {}
    if not _words(before.get("content") or {}):
        given += [text for part in content.get("parts") or [] if (text := _picture(part))]
    return replace(message, named=(f"tool: {name}",), given=tuple(given), left_out=tuple(left))


def _picture(part: Any) -> str:
    about = part.get("metadata") if isinstance(part, dict) else None
    made = about.get("dalle") if isinstance(about, dict) else None
    prompt = made.get("prompt") if isinstance(made, dict) else None
    return f"Picture asked for: {prompt}" if prompt else ""


def _content(kind: str, content: Mapping[str, Any]) -> tuple[str, list[str], list[str]]:
    """Return the words of a message, what else it holds, and the kinds that are not known."""
    if kind in ("text", "multimodal_text"):
        return _parts(content.get("parts") or [])
    if kind == "code":
        return parts.fenced(str(content.get("text") or "")), [], []
    if kind == "system_error":
        return "", [f"error: {content.get('name')}"], []
    unknown = f"content of the kind {kind}"
    return parts.cut(_words(content)), [unknown], [unknown]


def _words(content: Mapping[str, Any]) -> str:
    """Return whatever text a message's content has."""
    given = content.get("parts")
    text = _parts(given)[0] if isinstance(given, list) else ""
    texts = (text, content.get("text"), content.get("result"))
    return next((found for found in texts if isinstance(found, str) and found), "")


def _parts(given: list[Any]) -> tuple[str, list[str], list[str]]:
    """Return the texts of a message's parts, what else they are, and the kinds not known."""
    texts, named, left = [], [], []
    for part in given:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict):
            kind = str(part.get("content_type", "part"))
            if isinstance(part.get("text"), str):
                texts.append(part["text"])
            if kind != _SPOKEN:
                named.append(kind.removesuffix("_asset_pointer").replace("_", " "))
                left += [] if kind.endswith("_asset_pointer") else [f"part of the kind {kind}"]
        elif part is not None:
            left.append(f"part that is no text: {type(part).__name__}")
    return "\n".join(filter(None, texts)), named, left


def _named(file: Any) -> str:
    return str(file.get("name") or file.get("id") or "without a name")
