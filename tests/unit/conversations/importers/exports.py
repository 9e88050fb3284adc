"""Exports written by hand from what is published about each format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

T0 = 1_717_243_200.0  # 2024-06-01T12:00:00Z


def node(
    id_: str, parent: str | None, role: str = "", text: str = "", **more: Any
) -> dict[str, Any]:
    """A node of ChatGPT's tree; without a role it holds no message."""
    message = {
        "id": id_,
        "author": {"role": role, "name": more.pop("name", None), "metadata": {}},
        "create_time": T0 + more.pop("at", 0),
        "content": more.pop("content", {"content_type": "text", "parts": [text]}),
        "status": "finished_successfully",
        "end_turn": more.pop("end_turn", role == "assistant"),
        "weight": 1.0,
        "metadata": more.pop("metadata", {}),
        "recipient": more.pop("recipient", "all"),
    }
    return {
        "id": id_,
        "message": message if role else None,
        "parent": parent,
        "children": [],
        **more,
    }


def chatgpt(*nodes: dict[str, Any], title: str = "Locks", id_: str = "c-1") -> dict[str, Any]:
    """A conversation whose last node is the current one."""
    return {
        "title": title,
        "create_time": T0,
        "update_time": T0 + 99,
        "mapping": {n["id"]: n for n in nodes},
        "current_node": nodes[-1]["id"],
        "conversation_id": id_,
        "gizmo_id": None,
        "default_model_slug": "gpt-4o",
    }


def two_turns(id_: str = "c-1", title: str = "Locks") -> dict[str, Any]:
    """A conversation of ChatGPT with two questions."""
    model = {"model_slug": "gpt-4o"}
    return chatgpt(
        node(f"{id_}r", None),
        node(f"{id_}q1", f"{id_}r", "user", "How is the file locked?"),
        node(f"{id_}a1", f"{id_}q1", "assistant", "By flock.", at=5, metadata=model),
        node(f"{id_}q2", f"{id_}a1", "user", "And on NFS?", at=10),
        node(f"{id_}a2", f"{id_}q2", "assistant", "Not at all.", at=15, metadata=model),
        title=title,
        id_=id_,
    )


def claude_ai() -> dict[str, Any]:
    """A conversation of Claude.ai with an attachment and a tool."""
    return {
        "uuid": "u-1",
        "name": "Pumps",
        "created_at": "2025-03-01T09:00:00.000000Z",
        "updated_at": "2025-03-01T09:05:00.000000Z",
        "account": {"uuid": "me"},
        "chat_messages": [
            {"uuid": "m1", "sender": "human", "text": "What does the sheet say?",
             "content": [{"type": "text", "text": "What does the sheet say?"}],
             "created_at": "2025-03-01T09:00:00Z",
             "attachments": [{"file_name": "pump.pdf", "file_size": 9, "extracted_content": "…"}],
             "files": [{"file_name": "pump.pdf"}]},
            {"uuid": "m2", "sender": "assistant", "text": "",
             "content": [{"type": "thinking", "thinking": "hm"},
                         {"type": "tool_use", "name": "web_search", "input": {"query": "pump"}},
                         {"type": "tool_result", "content": []},
                         {"type": "text", "text": "At most 6 bar."}],
             "created_at": "2025-03-01T09:00:09Z", "attachments": [], "files": []},
        ],
    }  # fmt: skip


def gemini(
    prompt: str = "What is a catalog?", time: str = "2025-06-08T12:37:50.123Z"
) -> dict[str, Any]:
    """An entry of Gemini's activity."""
    return {
        "header": "Gemini Apps",
        "title": f"Prompted {prompt}",
        "time": time,
        "products": ["Gemini Apps"],
        "activityControls": ["Gemini Apps Activity"],
        "safeHtmlItem": [
            {"html": "<p>A <b>list</b>:</p><ul><li>of rows</li><li>of files</li></ul>"}
        ],
    }


def claude_code(*rows: dict[str, Any]) -> list[dict[str, Any]]:
    """A log of Claude Code: each row stands behind the one before it unless it says otherwise."""
    found, before = [], None
    for number, row in enumerate(rows, 1):
        row = {"uuid": f"cc{number}", "parentUuid": before, "sessionId": "s-1", "version": "2.0.76",
               "cwd": "/home/me/pumps", "gitBranch": "main", "isSidechain": False,
               "timestamp": f"2025-11-05T10:00:{number:02}.000Z", **row}  # fmt: skip
        found.append(row)
        before = row["uuid"]
    return found


def user(text: Any, **more: Any) -> dict[str, Any]:
    return {"type": "user", "message": {"role": "user", "content": text}, **more}


def agent(*blocks: dict[str, Any], stop: str | None = "end_turn", **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "model": "claude-opus-4", "content": list(blocks),
               "stop_reason": stop}  # fmt: skip
    return {"type": "assistant", "message": message, **more}


def words(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def tool(name: str, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": "t", "name": name, "input": given}


def codex(*payloads: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """A log of Codex: (type, payload) a line, behind its first."""
    head = ("session_meta", {"id": "019a", "cwd": "/home/me/pumps", "cli_version": "0.65.0"})
    return [
        {"timestamp": f"2025-12-08T00:{n:02}:00.000Z", "type": kind, "payload": payload}
        for n, (kind, payload) in enumerate((head, *payloads))
    ]


def item(role: str, text: str) -> tuple[str, dict[str, Any]]:
    kind = "input_text" if role == "user" else "output_text"
    return "response_item", {"type": "message", "role": role,
                             "content": [{"type": kind, "text": text}]}  # fmt: skip


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_json(path: Path, rows: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows), encoding="utf-8")
    return path
