"""Claude.ai's data export: ``conversations.json`` with ``chat_messages`` for each conversation.

Format of 2024 and 2025: messages in their order, ``sender`` human or assistant, ``content`` in
blocks; newer exports name each message's parent, and what browser extensions save its model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ragstream_core.conversations.importers import parts
from ragstream_core.conversations.importers.exchange import Conversation, Message, Role, iso_time
from ragstream_core.records.identity import digest_of

NAME = "claude"

# Blocks whose words are the message's own, or that hold none of anyone.
_SILENT = {"text", "thinking", "redacted_thinking", "token_budget", "flag"}
_ROLES: Mapping[str, Role] = {"human": "user", "user": "user", "assistant": "assistant"}


def is_conversation(row: object) -> bool:
    """Whether a row of an export is a conversation of this format."""
    return isinstance(row, dict) and isinstance(row.get("chat_messages"), list)


def conversation(row: Mapping[str, Any]) -> Conversation:
    """Return a conversation."""
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


def beside_conversations(rows: Iterable[object]) -> str:
    """Return what ``projects.json`` or ``memories.json`` holds; "" if they are not Claude.ai's."""
    projects = documents = instructions = memories = 0
    for row in rows:
        if not isinstance(row, dict):
            continue
        if "prompt_template" in row or isinstance(row.get("docs"), list):
            projects += 1
            documents += len(row["docs"]) if isinstance(row.get("docs"), list) else 0
            instructions += bool(row.get("prompt_template"))
        of_projects = row.get("project_memories")
        memories += bool(row.get("conversations_memory"))
        memories += len(of_projects) if isinstance(of_projects, dict) else 0
    if projects:
        return (
            f"{projects} projects with {documents} documents and {instructions} instructions are "
            "no conversations. To search the documents, save them in a folder and add it: "
            "ragstream project add"
        )
    if memories:
        return (
            f"{memories} texts that Claude.ai remembers of you are no conversation. "
            "To have one of them in every prompt: ragstream memory add"
        )
    return ""


def _message(
    message: Mapping[str, Any], before: str, row: Mapping[str, Any], id_: str, number: int
) -> Message:
    role = _ROLES.get(str(message["sender"]), "none")
    blocks = [part for part in message.get("content") or [] if isinstance(part, dict)]
    texts = [str(b.get("text") or "") for b in blocks if b.get("type") == "text"]
    text = "\n\n".join(filter(None, texts)) or str(message.get("text") or "")
    named, given, left = _files(message)
    for block in blocks:
        more_named, more_given, more_left = _block(block)
        named, given, left = named + more_named, given + more_given, left + more_left
    parent = message.get("parent_message_uuid")
    return Message(
        str(message.get("uuid") or f"{id_} {number}"),
        before if parent is None else str(parent),
        role,
        parts.without_tags(text) if role == "assistant" else text,
        iso_time(message.get("created_at")),
        str(message.get("model") or row.get("model") or "") if role == "assistant" else "",
        tuple(named),
        role == "assistant",
        tuple(given),
        tuple(left),
    )


def _files(message: Mapping[str, Any]) -> tuple[list[str], list[str], list[str]]:
    """Return the names of what was attached, and the texts that came with it, such as a paste."""
    files = [*(message.get("attachments") or []), *(message.get("files") or [])]
    names: dict[str, None] = {}
    given, left = [], []
    for file in files:
        if not isinstance(file, dict):
            continue
        text = str(file.get("extracted_content") or "")
        names[str(file.get("file_name") or ("pasted text" if text else "without a name"))] = None
        if text.strip():
            given.append(parts.cut(text))
            left += ["end of a long pasted text"] if len(text) > parts.MOST_LETTERS else []
    return [f"attachment: {name}" for name in names], given, left


def _block(block: Mapping[str, Any]) -> tuple[list[str], list[str], list[str]]:
    """Return how a block is named, the texts it holds, and the kinds that are not kept."""
    kind, name = str(block.get("type")), str(block.get("name"))
    if kind in _SILENT:
        return [], [], []
    if kind == "tool_use":
        return [f"tool: {name}"], parts.written(name, block.get("input")), []
    if kind == "tool_result":
        content = block.get("content")
        rows = content if isinstance(content, list) else [{"text": content}]
        texts = [r["text"] for r in rows if isinstance(r, dict) and isinstance(r.get("text"), str)]
        return [], *parts.result(name, "\n".join(texts))
    words = block.get("text") or block.get("content")
    unknown = f"block of the kind {kind}"
    return [unknown], [parts.cut(words)] if isinstance(words, str) and words else [], [unknown]
