"""`ScriptedChat`: a language model that says what it was told to; for tests and trials.

A script is a YAML list. The first entry whose ``when`` stands in the last message answers, as it is
written; one with ``once: true`` does so a single time.

- when: capital              # empty or missing: any message
  say: Paris [a3f1c92b].     # a text, or a mapping, which is said as JSON
- when: budget
  fail: busy                 # unreachable, busy, refused, timeout or broken
- say: half a sen
  cut: true                  # the stream breaks off here
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_core.errors import ChatBroken, UnknownSetting
from ragstream_core.models.chat.responses import ERRORS, validated
from ragstream_core.records.chat import ChatDelta, ChatMessage, ChatReply, ChatUsage
from ragstream_core.text.tokenizer import most_tokens

if TYPE_CHECKING:
    from pydantic import BaseModel

MAX_SCRIPT_BYTES = 1_000_000

# Characters of one delta: a citation marker never comes in one piece.
PIECE = 3
KEYS = frozenset({"when", "say", "fail", "cut", "once"})


class ScriptedChat:
    """A `ragstream_core.ports.ChatModel` that follows a script and sends nothing."""

    name = "scripted"
    host = ""
    is_local = True

    def __init__(self, script: str = "", entries: Sequence[Mapping[str, object]] = ()) -> None:
        self._entries: list[Mapping[str, Any]] = [
            *entries,
            *(_loaded(Path(script)) if script else ()),
        ]
        self._used: set[int] = set()
        self.asked: list[tuple[ChatMessage, ...]] = []

    def list_models(self) -> list[str]:
        """Return its one name."""
        return [self.name]

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        """Return 0: it is free."""
        return 0.0

    def complete(
        self, messages: Sequence[ChatMessage], *, schema: type[BaseModel] | None = None
    ) -> ChatReply:
        """Return what the script says."""
        entry = self._entry(messages)
        text = _said(entry)
        reply = self._reply(text, messages, cut=bool(entry.get("cut")))
        if schema is None:
            return reply
        parsed = validated(text, schema, who=self.name, took=reply.usage)
        return replace(reply, parsed=parsed)

    def stream(self, messages: Sequence[ChatMessage]) -> Iterator[ChatDelta]:
        """Yield what the script says in pieces of `PIECE` characters, the reply last."""
        entry = self._entry(messages)
        text = _said(entry)
        for start in range(0, len(text), PIECE):
            yield ChatDelta(text[start : start + PIECE])
        yield ChatDelta("", self._reply(text, messages, cut=bool(entry.get("cut"))))

    def _entry(self, messages: Sequence[ChatMessage]) -> Mapping[str, Any]:
        self.asked.append(tuple(messages))
        last = messages[-1].text if messages else ""
        for number, entry in enumerate(self._entries):
            if number in self._used or str(entry.get("when") or "") not in last:
                continue
            if entry.get("once"):
                self._used.add(number)
            if entry.get("fail"):
                raise ERRORS[entry["fail"]](f"the script says: {entry['fail']}")
            return entry
        raise ChatBroken("the script has no answer for this", hint="add an entry without `when`")

    def _reply(self, text: str, messages: Sequence[ChatMessage], *, cut: bool) -> ChatReply:
        sent = sum(most_tokens(message.text) for message in messages)
        return ChatReply(
            text=text,
            status="partial" if cut else "complete",
            model=self.name,
            usage=ChatUsage(sent, most_tokens(text), cost_usd=0.0),
            reason="the script breaks off here" if cut else "",
        )


def _said(entry: Mapping[str, object]) -> str:
    said = entry.get("say", "")
    text = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
    if not text.strip():
        raise ChatBroken("the language model: an empty answer")
    return text


def _loaded(path: Path) -> list[Mapping[str, Any]]:
    import yaml

    try:
        if path.stat().st_size > MAX_SCRIPT_BYTES:
            raise UnknownSetting(f"{path}: a script of more than {MAX_SCRIPT_BYTES} bytes")
        entries = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        raise UnknownSetting(f"{path}: the script cannot be read as YAML") from None
    listed = entries if isinstance(entries, list) else [entries]
    for number, entry in enumerate(listed, start=1):
        if not isinstance(entry, dict) or not entry.keys() <= KEYS:
            keys = ", ".join(sorted(KEYS))
            raise UnknownSetting(f"{path}: entry {number} may hold {keys} and nothing else")
        if entry.get("fail") and entry["fail"] not in ERRORS:
            raise UnknownSetting(f"{path}: entry {number} can fail as {', '.join(ERRORS)}")
    return listed
