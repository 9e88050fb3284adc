"""Reading the answer of a language model: completions, event streams and values of a schema.

The answer of a model as a value of a schema, or an error that repeats nothing of it.

What a completion or a stream of events holds, read with suspicion: text, end, usage.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ragstream_core.errors import ChatBroken
from ragstream_core.platform.http import RequestError
from ragstream_core.records.chat import ChatUsage

if TYPE_CHECKING:
    from pydantic import BaseModel


MAX_TEXT_CHARS = 16 << 20
MAX_TOKENS = 1 << 40
_TOKEN = re.compile(r"[^\W\u2e80-\uffff]{1,4}|[\u2e80-\U0010ffff]|[^\w\s]")


def counted(text: str) -> int:
    """Return an estimate of a text's tokens, rather too many: four letters, or one other sign."""
    return sum(1 for _ in _TOKEN.finditer(text))


def text_of(body: Mapping[str, Any]) -> str:
    """Return the text of a completion; never empty.

    Raises:
        Fault: There is none, the model declined, or its limit left only a part of it.
    """
    message = _choice(body).get("message")
    if not isinstance(message, Mapping):
        raise RequestError("an answer without a message", kind="broken")
    if message.get("refusal"):
        raise RequestError("the model declined to answer", kind="refused")
    text = message.get("content")
    if not isinstance(text, str) or not text.strip():
        raise _empty(finish_of(body))
    return _whole_characters(text)


def finish_of(body: Mapping[str, Any]) -> str:
    """Return why the model stopped, as the endpoint says; empty where it does not."""
    finish = _choice(body).get("finish_reason")
    return finish if isinstance(finish, str) else ""


def usage_of(body: Mapping[str, Any]) -> ChatUsage | None:
    """Return the tokens that the endpoint counted; None where it did not, or nonsense."""
    usage = body.get("usage")
    if not isinstance(usage, Mapping):
        return None
    details = usage.get("prompt_tokens_details")
    sent, answered = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    kept = _count(details.get("cached_tokens")) if isinstance(details, Mapping) else 0
    if sent is None or answered is None:
        return None
    return ChatUsage(sent, answered, min(kept or 0, sent))


def bare_json(text: str) -> str:
    """Return the JSON of a text without what small models like to put around it."""
    if text.lstrip()[:1] in ("{", "["):
        return text
    return text[text.find("{") : text.rfind("}") + 1] or text


class StreamedText:
    """Puts the events of one stream together."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self._half = ""
        self._last: dict[str, Any] = {}

    def add(self, event: Mapping[str, Any]) -> str:
        """Return the text that an event adds; may be empty.

        Raises:
            Fault: The event says that the stream failed, or the text is too long.
        """
        if event.get("error"):
            raise RequestError("the endpoint broke the answer off", kind="broken")
        self._note(event)
        delta = _choice(event).get("delta")
        content = delta.get("content") if isinstance(delta, Mapping) else None
        if not isinstance(content, str):
            return ""
        text = self._half + content
        # an emoji may come in two halves
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return self._keep(text[: len(text) - len(self._half)])

    def rest(self) -> str:
        """Return what was held back; call it once, at the end."""
        mended, self._half = _whole_characters(self._half), ""
        self._parts.append(mended)
        return mended

    @property
    def text(self) -> str:
        """All of it so far."""
        return "".join(self._parts)

    def body(self) -> dict[str, Any]:
        """Return the stream as a completion without its text: model, end, usage."""
        return self._last

    def require_text(self) -> None:
        """Check that there is something.

        Raises:
            Fault: There is not.
        """
        if not self.text.strip():
            raise _empty(finish_of(self._last))

    def _note(self, event: Mapping[str, Any]) -> None:
        for name in ("model", "usage"):
            if event.get(name):
                self._last[name] = event[name]
        if finish_of(event):
            self._last["choices"] = [{"finish_reason": finish_of(event)}]

    def _keep(self, text: str) -> str:
        self._length += len(text)
        if self._length > MAX_TEXT_CHARS:
            raise RequestError(f"an answer of more than {MAX_TEXT_CHARS >> 20} MiB", kind="broken")
        mended = _whole_characters(text)
        if mended:
            self._parts.append(mended)
        return mended


def _choice(body: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, Mapping) else {}


def _empty(finish: str) -> RequestError:
    if finish == "content_filter":
        return RequestError("the answer was filtered", kind="refused")
    if finish == "length":
        return RequestError("the model's limit of tokens was reached before a word", kind="broken")
    return RequestError("an empty answer", kind="broken")


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= MAX_TOKENS else None


def _whole_characters(text: str) -> str:
    """Join halves of characters and replace what has no other half: it could not be written."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


Schema = TypeVar("Schema", bound="BaseModel")


def validated(
    text: str, schema: type[Schema], *, who: str, took: ChatUsage | None = None
) -> Schema:
    """Return the value that an answer holds.

    Args:
        text: The answer.
        schema: What it must be.
        who: Who answered, for the message.
        took: What the answer took, for the error.

    Raises:
        ChatBroken: It is no JSON, nested too deep, or does not fit the schema.
    """
    from pydantic import ValidationError

    try:
        return schema.model_validate_json(bare_json(text))
    except (ValidationError, ValueError, RecursionError) as error:
        count = error.error_count() if isinstance(error, ValidationError) else 1
        broken = ChatBroken(
            f"{who}: an answer that does not fit {schema.__name__} (errors: {count})",
            hint="use a model that can follow a schema (provider.model)",
        )
        broken.took = took
        raise broken from None
