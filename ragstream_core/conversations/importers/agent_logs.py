"""Session logs of coding agents: Claude Code (1.0 to 2.1) and Codex (2025 to 0.169), JSONL files.

A line that cannot be read is a problem of its own; a last line without its end is still being
written and is left for the next time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ragstream_core.conversations.importers import agent_words, parts
from ragstream_core.conversations.importers.bounded_json import TooMuch
from ragstream_core.conversations.importers.exchange import Conversation, Message, Role, iso_time
from ragstream_core.records.identity import digest_of

CLAUDE_CODE, CODEX = "claude-code", "codex"
_ROLES: Mapping[str, Role] = {"user": "user", "assistant": "assistant"}
_CALLS = {"function_call", "custom_tool_call", "local_shell_call", "web_search_call"}

# Calls that ask the person, and that show a plan to the person.
_ASKS, _PLANS = {"AskUserQuestion"}, {"ExitPlanMode", "exit_plan_mode"}
_SYNTHETIC = "<synthetic>"

# Messages of one log.
MOST_MESSAGES = 200_000
# Lines that are looked at for the agent that wrote them.
_MOST_HEAD = 1000
_TARGETS_BEFORE = (
    "file_path", "path", "command", "cmd", "pattern", "url", "query", "description"
)  # fmt: skip
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


def conversation(lines: Iterable[str | TooMuch], *, name: str) -> Conversation | None:
    """Return the conversation of a log; None if no line is of a known agent."""
    problems: list[str] = []
    rows = _rows(lines, problems)
    log: _ClaudeCode | _Codex | None = None
    waiting = []
    for number, row in rows:
        if log is None:
            waiting.append((number, row))
            form = format_of(row)
            if not form and len(waiting) < _MOST_HEAD:
                continue
            if not form:
                return None
            log = _ClaudeCode(name) if form == CLAUDE_CODE else _Codex(name)
        else:
            waiting = [(number, row)]
        for at, found in waiting:
            log.take(at, found, problems)
        if len(log.messages) > MOST_MESSAGES:
            problems.append(f"holds more than {MOST_MESSAGES:,} messages: line {number} and what "
                            "follows is not read")  # fmt: skip
            break
    return log.conversation(tuple(problems)) if log else None


def _rows(
    lines: Iterable[str | TooMuch], problems: list[str]
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(lines, 1):
        if isinstance(line, TooMuch):
            problems.append(f"line {number} {line}: it is left out")
            continue
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except RecursionError:
            problems.append(f"line {number} is nested too deep: it is left out")
        except ValueError:
            if line.endswith("\n"):  # else it is still being written
                problems.append(f"line {number} is not JSON")
        else:
            if isinstance(row, dict):
                yield number, row


class _ClaudeCode:
    """What a log of Claude Code tells, line by line."""

    def __init__(self, name: str) -> None:
        self.messages: list[Message] = []
        self._session, self._title, self._project = name, "", ""
        self._parts: dict[str, list[str]] = {}  # id of a message of the model → its rows
        self._queued: dict[str, list[str]] = {}  # words typed while the agent worked → ids
        self._without_row: set[str] = set()  # ids of what was said without a row of its own
        self._unsent: set[str] = set()  # those of them that are no other row's words either
        self._questions: set[str] = set()  # calls that ask the person

    def take(self, number: int, row: Mapping[str, Any], problems: list[str]) -> None:
        """Take one line."""
        self._title = str(row.get("summary") or row.get("customTitle") or self._title)
        if row.get("type") == "queue-operation":
            self._queue(row)
        if "uuid" not in row:
            return
        self._session = str(row.get("sessionId") or self._session)
        self._project = str(row.get("cwd") or self._project)
        id_, parent = str(row["uuid"]), str(row.get("parentUuid") or "")
        try:
            found = self._message(row)
        except (AttributeError, TypeError, KeyError) as error:
            problems.append(f"message {id_} on line {number} has another form: {error}")
            found = Message(id_, parent, "none")
        self._sent(found)
        self.messages.append(found)
        if said := self._in_a_result(row):
            self._say(f"{id_} said", said, found.timestamp)
        message = row.get("message")
        if row.get("type") == "assistant" and isinstance(message, dict):
            self._parts.setdefault(str(message.get("id") or id_), []).append(id_)

    def conversation(self, problems: tuple[str, ...]) -> Conversation:
        """Return what all lines together tell."""
        messages = self._in_line()
        return Conversation(
            CLAUDE_CODE, self._session, self._title or _title(messages), messages, "",
            self._project, problems,
        )  # fmt: skip

    def _queue(self, row: Mapping[str, Any]) -> None:
        """Take what happened to a message typed while the agent worked.

        What is sent comes once more, in a row of its own; what was taken back was never asked.
        """
        text = agent_words.typed(_text(row.get("content")))
        if row.get("operation") == "enqueue" and text:
            when = iso_time(row.get("timestamp"))
            id_ = f"queued {digest_of([when, text])[:32]}"
            self._queued.setdefault(text, []).append(id_)
            self._say(id_, text, when)
        elif row.get("operation") == "popAll":
            self._unsent.difference_update(*self._queued.values())
            self._queued.clear()

    def _say(self, id_: str, text: str, when: str) -> None:
        """Take what a person said that has no row of its own."""
        self._without_row.add(id_)
        self._unsent.add(id_)
        self.messages.append(Message(id_, "", "user", text, when, role_before="none"))

    def _sent(self, found: Message) -> None:
        """Drop what was queued of a message that has a row of its own."""
        if found.role == "user" and (waiting := self._queued.get(found.text)):
            self._unsent.discard(waiting.pop(0))

    def _in_line(self) -> list[Message]:
        """Hang what follows a message on its last row: each of its tool calls is a row of its own.

        The result of the first call hangs on the first row, and what the model says next may hang
        on that result; it would look like another branch. What a person said without a row of its
        own stands before what is said next.
        """
        several = self._parts.values()
        last = {uuid: of_one[-1] for of_one in several for uuid in of_one}
        before = {uuid: of_one[n] for of_one in several for n, uuid in enumerate(of_one[1:])}
        found: list[Message] = []
        waiting: list[Message] = []
        parent = ""
        for message in self.messages:
            if message.id in self._without_row:
                waiting += [message] if message.id in self._unsent else []
                continue
            parent = before.get(message.id) or last.get(message.parent, message.parent)
            if message.role != "none" and message.id not in before:
                parent = _hang(waiting, parent, found)
                waiting = []
            found.append(replace(message, parent=parent))
        _hang(waiting, found[-1].id if found else "", found)
        return found

    def _message(self, row: Mapping[str, Any]) -> Message:
        id_ = str(row["uuid"])
        parent = str(row.get("parentUuid") or row.get("logicalParentUuid") or "")
        nothing = Message(id_, parent, "none", timestamp=iso_time(row.get("timestamp")))
        if row.get("isMeta") or row.get("isSidechain") or row.get("isCompactSummary"):
            return nothing
        if row.get("type") == "attachment":
            return self._attached(row["attachment"], nothing)
        if row.get("type") not in ("user", "assistant"):
            return nothing
        content = row["message"].get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        if row["type"] == "assistant":
            return self._answer(row["message"], blocks, nothing)
        return self._question(row, blocks, nothing)

    def _attached(self, attachment: Mapping[str, Any], nothing: Message) -> Message:
        """Return what was typed while the agent worked, as it was sent."""
        if attachment.get("type") != "queued_command":
            return nothing
        if attachment.get("commandMode") not in (None, "prompt"):
            return nothing
        text = agent_words.typed(_text(attachment.get("prompt")))
        return replace(nothing, role="user", text=text, role_before="none") if text else nothing

    def _answer(self, message: Mapping[str, Any], blocks: list[Any], nothing: Message) -> Message:
        text = _text(blocks)
        calls = [b for b in blocks if b.get("type") == "tool_use"]
        named = tuple(parts.named_call(b.get("name"), b.get("input")) for b in calls)
        self._questions |= {str(b.get("id")) for b in calls if b.get("name") in _ASKS}
        plans = [str(b["input"].get("plan") or "") for b in calls if b.get("name") in _PLANS]
        model = str(message.get("model") or "")
        found = replace(
            nothing, role="assistant", text=text, model=model, named=named,
            given=tuple(parts.cut(plan) for plan in plans if plan),
            finished=message.get("stop_reason") in ("end_turn", "stop_sequence"),
        )  # fmt: skip
        if model == _SYNTHETIC and not named:  # "No response requested.", errors of the service
            return replace(found, role="none", role_before="assistant", finished=False)
        return found

    def _question(self, row: Mapping[str, Any], blocks: list[Any], nothing: Message) -> Message:
        texts = [str(b.get("text") or "") for b in blocks if b.get("type") == "text"]
        text = "\n\n".join(filter(None, map(agent_words.typed, texts)))
        shown = [b["type"] for b in blocks if b.get("type") in ("image", "document")]
        named = tuple(f"attachment: {kind}" for kind in shown)
        before: Role = "user"
        if agent_words.was_left_out("\n\n".join(filter(None, texts))) and not named:
            before = "none"
        role: Role = "user" if text or named else "none"
        old = before if before != role else None
        words = text if role == "user" else "\n\n".join(texts)
        return replace(nothing, role=role, text=words, named=named, role_before=old)

    def _in_a_result(self, row: Mapping[str, Any]) -> str:
        """Return what a person answered to a call: a choice, or why they refused it."""
        about, message = row.get("toolUseResult"), row.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        chosen = about.get("answers") if isinstance(about, dict) else None
        said = []
        for block in content if isinstance(content, list) else []:
            if not isinstance(block, dict) or block.get("type") != "tool_result":
                continue
            if isinstance(chosen, dict) and str(block.get("tool_use_id")) in self._questions:
                said += [f"{question}\n{answer}" for question, answer in chosen.items()]
            said.append(agent_words.answered(_text(block.get("content"))))
        return "\n\n".join(filter(None, said))


def _hang(waiting: list[Message], parent: str, found: list[Message]) -> str:
    """Hang messages one on the other behind a parent; return the id of the last one."""
    for message in waiting:
        found.append(replace(message, parent=parent))
        parent = message.id
    return parent


class _Codex:
    """What a log of Codex tells, line by line."""

    def __init__(self, name: str) -> None:
        self.messages: list[Message] = []
        self._session, self._project, self._model = name, "", ""
        self._counted = 0  # messages that earlier versions kept: a part of the ids

    def take(self, number: int, row: Mapping[str, Any], problems: list[str]) -> None:
        """Take one line."""
        try:
            self._take(row)
        except (AttributeError, TypeError, KeyError) as error:
            problems.append(f"line {number} has another form: {error}")

    def conversation(self, problems: tuple[str, ...]) -> Conversation:
        """Return what all lines together tell."""
        return Conversation(
            CODEX, self._session, _title(self.messages), self.messages, "", self._project, problems
        )

    def _take(self, row: Mapping[str, Any]) -> None:
        body = row.get("payload", row)
        kind = row.get("type") if "payload" in row else body.get("type", "session_meta")
        if kind == "session_meta":
            self._session = str(body.get("id") or self._session)
            self._project = str(body.get("cwd") or self._project)
        elif kind == "turn_context":
            self._model = str(body.get("model") or self._model)
        elif kind == "event_msg" and body.get("type") in _ENDS:
            self._end()
        elif kind not in ("event_msg", "compacted"):
            found = self._message(row, body)
            self.messages += [found] if found else []

    def _end(self) -> None:
        """Mark the answer that has ended."""
        for at in reversed(range(len(self.messages))):
            if (role := self.messages[at].role) != "none":
                self.messages[at] = replace(self.messages[at], finished=role == "assistant")
                return

    def _message(self, row: Mapping[str, Any], body: Mapping[str, Any]) -> Message | None:
        kind, role = body.get("type"), _ROLES.get(str(body.get("role")))
        words, text, named, known_by = "", "", [], ""
        if kind in _CALLS:
            given = body.get("arguments") or body.get("input") or body.get("action")
            name = body.get("name") or kind
            named, role = [parts.named_call(name, given)], "assistant"
            known_by = str([_call_before(name, given)])
        elif kind == "message" and role:
            texts = [part for part in body["content"] if isinstance(part, dict)]
            words = "\n".join(str(part["text"]) for part in texts if part.get("text"))
            named = ["attachment: image" for part in texts if part.get("type") == "input_image"]
            known_by, text = str(named), words
            if role == "user":
                typed = (agent_words.typed(str(part.get("text") or "")) for part in texts)
                text = "\n".join(filter(None, typed))
        if not role or not (words or named):
            return None
        left_out = role == "user" and not named and agent_words.was_left_out(words)
        if left_out and not text:
            return None
        before: Role | None = None
        if role == "user" and not (text or named):
            text, role, before = words, "none", "user"
        elif left_out:
            before = "none"
        stamp = str(row.get("timestamp") or body.get("timestamp") or "")
        said = f"{self._session}\x00{self._counted}\x00{stamp}\x00{words}\x00{known_by}"
        self._counted += not left_out
        return Message(
            hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:32],
            self.messages[-1].id if self.messages else "",
            role,
            text,
            iso_time(stamp),
            self._model if role == "assistant" else "",
            tuple(named),
            role_before=before,
        )


def _call_before(name: object, given: object) -> str:
    """Return how earlier versions named a call: the ids of messages follow from that."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            given = {"command": given}
    target = ""
    if isinstance(given, dict):
        target = next((str(given[key]) for key in _TARGETS_BEFORE if given.get(key)), "")
    first = " ".join(target.split())
    return f"tool: {name} {first if len(first) <= 80 else first[:79] + '…'}".rstrip()


def _text(content: object) -> str:
    """Return the texts of a message's content, of whatever form."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = [b.get("text") for b in blocks if isinstance(b, dict) and b.get("type") == "text"]
    return "\n\n".join(text for text in texts if isinstance(text, str) and text)


def _title(messages: list[Message]) -> str:
    first = next((m.text for m in messages if m.role == "user" and m.text.strip()), "")
    return " ".join(first[:1000].split())[:60]
