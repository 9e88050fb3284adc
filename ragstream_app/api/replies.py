"""Answers in OpenAI's form: whole, or as the events of a stream."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ragstream_app.api.conversation import sources_text

if TYPE_CHECKING:
    from ragstream_app.api.answering import Answered

PROMPT_HEADER = "X-RAGstream-Prompt"
DONE = b"data: [DONE]\n\n"
MOST_IGNORED = 20

# A JSON object of OpenAI's API.
Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to one request.

    Attributes:
        model: The name that the client asked for.
        sources: Whether the text ends with the list of its sources.
        usage_event: Whether a stream ends with its usage.
        ignored: Names of parameters that had no effect.
        id: Its own.
        created: Seconds since the epoch.
    """

    model: str
    sources: bool
    usage_event: bool = False
    ignored: tuple[str, ...] = ()
    id: str = field(default_factory=lambda: f"chatcmpl-{secrets.token_hex(12)}")
    created: int = field(default_factory=lambda: int(time.time()))

    def whole(self, found: Answered) -> Body:
        """Return a ``chat.completion``."""
        message = {"role": "assistant", "content": found.answer.text + self.tail(found)}
        choice = {
            "index": 0,
            "message": {**message, "refusal": None},
            "logprobs": None,
            "finish_reason": _finish(found),
        }
        return {
            **self._head("chat.completion"),
            "choices": [choice],
            "usage": _usage(found),
            "ragstream": self._told(found),
        }

    def first(self) -> bytes:
        """Return the event that says whose words follow."""
        return self._event({"role": "assistant", "content": "", "refusal": None})

    def piece(self, text: str) -> bytes:
        """Return the event of some words."""
        return self._event({"content": text})

    def end(self, found: Answered) -> bytes:
        """Return the last events."""
        told = {"ragstream": self._told(found)}
        last = self._event({}, finish=_finish(found), more=told)
        if self.usage_event:
            head = self._head("chat.completion.chunk")
            last += event({**head, "choices": [], "usage": _usage(found)})
        return last + DONE

    def tail(self, found: Answered) -> str:
        """Return what follows the answer's text."""
        return sources_text(found.answer.citations) if self.sources else ""

    def _told(self, found: Answered) -> Body:
        """Return what is known of an answer beyond OpenAI's form."""
        known = found.answer.to_json()
        names = (
            "prompt_key",
            "origin",
            "status",
            "citations",
            "model",
            "session",
            "cost",
            "agents",
        )
        return {
            **{name: known[name] for name in names},
            "warnings": list(found.warnings),
            "ignored": list(self.ignored[:MOST_IGNORED]),
        }

    def _head(self, kind: str) -> Body:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}

    def _event(
        self, delta: Body, *, finish: str | None = None, more: Mapping[str, Any] | None = None
    ) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        usage = {"usage": None} if self.usage_event else {}
        head = self._head("chat.completion.chunk")
        return event({**head, "choices": [choice], **usage, **(more or {})})


def _finish(found: Answered) -> str:
    return "length" if found.answer.status == "partial" else "stop"


def _usage(found: Answered) -> Body:
    usage = found.usage
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }


def json_bytes(value: Body) -> bytes:
    """Return JSON in UTF-8, whatever characters a model or a file name is made of."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def event(value: Body) -> bytes:
    """Return an event of a stream."""
    return b"data: %b\n\n" % json_bytes(value)
