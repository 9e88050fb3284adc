"""A day of a Slack channel as people read it: who said what and when, threads together."""

from __future__ import annotations

import datetime
import html
import json
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from ragstream_core.ingestion.parsers.engines import Refusal
from ragstream_core.ingestion.parsers.nesting import fenced, heading, nested

CHATS = ("dms.json", "mpims.json")
LISTS = frozenset({"users.json", "channels.json", "groups.json", "integration_logs.json", *CHATS})

# Keys of their entries, so that no other file of such a name is taken for one.
_OF_LISTS = (
    (b'"team_id"', b'"profile"'),
    (b'"members"', b'"created"'),
    (b'"service_type"', b'"user_id"'),
)
# Subtypes of what Slack writes itself: who joined, left, renamed, pinned.
_SYSTEM = re.compile(
    r"(?:channel|group|im|mpim)_\w+|bot_(?:add|remove|enable|disable)|pinned_item|unpinned_item"
    r"|tombstone|reminder_add|huddle_thread|sh_room_created|joiner_notification\w*|app_conversation_\w+"
)
_TITLE = 120  # letters of a message that stand in a heading
_MARK = re.compile(r"<([^<>\n]+)>")
_EMOJI = re.compile(r"[ \t]*(?<![\w:]):(?:[a-z][a-z0-9_'+-]*|\+1|-1):(?::skin-tone-\d:)?(?![\w:])")
_FENCE = re.compile(r"\s*```[ \t]*\n?(.*?)```\s*", re.DOTALL)


def day_markdown(data: bytes, limit: int) -> tuple[str, str]:
    """Return the Markdown of a day, and how much was left out."""
    frame, _, day = data.partition(b"\0")
    try:
        around, rows = json.loads(frame), json.loads(day)
    except (ValueError, RecursionError):
        raise Refusal("not a readable day of Slack (broken JSON)") from None
    messages = _dicts(rows)
    said = [row for row in messages if not _left_out(row)]
    reader = _Reader({**_own_names(messages), **around["names"]}, around["day"])
    parts = list(reader.threads(said))
    if not parts:
        raise Refusal("no person says anything in it")
    title = heading(f"{around['channel']}, {around['day']} (times in UTC)", 1)
    counts = Counter(kind for row in messages if (kind := _left_out(row)))
    told = ", ".join(f"{kind}: {count}" for kind, count in sorted(counts.items()))
    return "\n\n".join([title, *parts]), f"left out: {told}" if told else ""


def is_day(data: bytes) -> bool:
    """Whether a JSON file is a day of a Slack channel, as its beginning tells."""
    head = data[:20_000]
    return head.lstrip().startswith(b"[") and b'"ts"' in head and b'"message"' in head


def framed(data: bytes, *, channel: str, day: str, names: Mapping[str, str]) -> bytes:
    """Return a day with what only the files beside it tell."""
    frame = {"channel": channel, "day": day, "names": dict(names)}
    return json.dumps(frame).encode() + b"\0" + data


def names_of(users: bytes) -> dict[str, str]:
    """Return the names in a ``users.json`` by id; none if it is broken."""
    rows = _rows(users)
    named = ((str(row.get("id")), _name({**row, **_dict(row.get("profile"))})) for row in rows)
    return {key: name for key, name in named if name}


def _rows(data: bytes) -> list[dict[str, Any]]:
    try:
        return _dicts(json.loads(data))
    except (ValueError, RecursionError):
        return []


def chats_of(lists: bytes, names: Mapping[str, str]) -> dict[str, str]:
    """Return who talks in each chat of a ``dms.json`` or ``mpims.json``, by its folder."""
    return {
        str(row.get("name") or row.get("id")): ", ".join(names.get(who, who) for who in members)
        for row in _rows(lists)
        if (members := [str(who) for who in _list(row.get("members"))])
    }


def is_list(name: str, data: bytes) -> bool:
    """Whether a file is one of the lists of an export, which the days are read with."""
    head = data[:20_000] if name in LISTS else b""
    return any(all(key in head for key in keys) for keys in _OF_LISTS)


def _own_names(messages: list[dict[str, Any]]) -> dict[str, str]:
    named = ((row.get("user"), _name(_dict(row.get("user_profile")))) for row in messages)
    return {str(key): name for key, name in named if key and name}


def _name(profile: Mapping[str, Any]) -> str:
    keys = ("real_name", "display_name", "name")
    return next((str(profile[key]).strip() for key in keys if profile.get(key)), "")


def _left_out(row: Mapping[str, Any]) -> str:
    """Return the kind of what no person said, or ""."""
    subtype = str(row.get("subtype") or "")
    if subtype == "bot_message" or row.get("bot_profile"):
        return "messages of bots"
    if row.get("type") != "message" or _SYSTEM.fullmatch(subtype):
        return "notices of joins and the like"
    return ""


class _Reader:
    """Writes messages with the names of people."""

    def __init__(self, names: Mapping[str, str], day: str) -> None:
        self._names, self._day = names, day

    def threads(self, messages: list[dict[str, Any]]) -> Iterator[str]:
        """Yield each message as an item of a list, and the beginning of a thread as its heading."""
        first = {row.get("ts"): row for row in messages}
        replies: dict[Any, list[dict[str, Any]]] = {}
        for row in messages:
            root = row.get("thread_ts") or row.get("ts")
            replies.setdefault(root if isinstance(root, str) else None, []).append(row)
        in_thread = False
        for root, rows in replies.items():
            rows.sort(key=lambda row: _seconds(row.get("ts")))
            if root not in first:
                yield heading(f"Replies to what was said on {_moment(root, '%Y-%m-%d, %H:%M')}", 2)
            elif len(rows) > 1:
                begin = self._message(first[root]).partition("\n")[0]
                yield heading(textwrap.shorten(begin, _TITLE, placeholder=" …"), 2)
            elif in_thread:
                yield heading("Other messages", 2)
            in_thread = len(rows) > 1 or root not in first
            said = [self._message(row).replace("\n", "\n  ") for row in rows]
            yield from (f"- {message}" for message in said if message)

    def _message(self, row: Mapping[str, Any]) -> str:
        parts = [self._text(str(row.get("text") or "") or _of_blocks(row.get("blocks")))]
        for shown in _dicts(row.get("attachments")):
            if not shown.get("from_url"):  # a preview of a page that the message links to
                parts += [self._text(str(shown.get(key) or "")) for key in ("title", "text")]
        files = [str(f.get("title") or f.get("name") or "") for f in _dicts(row.get("files"))]
        parts += [f"[file: {' '.join(name.split())}]" for name in files if name]
        said = "\n\n".join(filter(None, parts))
        if not said:
            return ""
        user = str(row.get("user") or "")
        name = self._names.get(user) or str(row.get("username") or user or "somebody")
        gap = "\n\n" if said.startswith(("`", "~")) else " "
        by = f"{' '.join(name.split())} ({_moment(row.get('ts'), '%H:%M')})"
        return nested(f"{by}:{gap}{said}", 1)

    def _text(self, text: str) -> str:
        text = html.unescape(_MARK.sub(self._mark, _EMOJI.sub("", text)))
        text = _FENCE.sub(lambda found: f"\n\n{fenced(found[1].strip(chr(10)))}\n\n", text)
        return text.strip()

    def _mark(self, found: re.Match[str]) -> str:
        """Return a mention or link as Slack shows it."""
        target, _, label = found[1].partition("|")
        if target.startswith("@"):
            return f"@{self._names.get(target[1:]) or label or target[1:]}"
        if target.startswith("#"):
            return f"#{label or target[1:]}"
        if target.startswith("!"):
            return label or f"@{target[1:].partition('^')[0]}"
        address = target.removeprefix("mailto:")
        return f"{label} ({address})" if label and label not in address else address


def _of_blocks(value: Any) -> str:
    """Return the words of blocks, where a message has no text of its own."""
    found, left = list[str](), [value]
    while left:
        one = left.pop()
        if isinstance(one, list):
            left += reversed(one)
        elif isinstance(one, dict):
            found += [one["text"]] if isinstance(one.get("text"), str) else []
            found += [f"<@{one['user_id']}>"] if isinstance(one.get("user_id"), str) else []
            left += reversed([inner for inner in one.values() if isinstance(inner, dict | list)])
    return "".join(found)


def _moment(ts: Any, form: str) -> str:
    try:
        return datetime.datetime.fromtimestamp(_seconds(ts), datetime.UTC).strftime(form)
    except (ValueError, OverflowError, OSError):
        return "?"


def _seconds(ts: Any) -> float:
    try:
        return float(ts)
    except (TypeError, ValueError):
        return 0.0


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in _list(value) if isinstance(each, dict)]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
