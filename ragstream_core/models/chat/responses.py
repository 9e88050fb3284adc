"""Reading the answer of a language model with suspicion, and naming what went wrong.

Nothing of an answer is trusted: not its size, its depth, its end, its types. An error names the
host and what happened; never a key, a text, or the server's own words.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from ragstream_core.errors import (
    ChatBroken,
    ChatBusy,
    ChatFailed,
    ChatRefused,
    ChatTimeout,
    ChatUnreachable,
    Hint,
    RunCommand,
)
from ragstream_core.platform.endpoint_address import Endpoint
from ragstream_core.platform.http import Kind, RequestError
from ragstream_core.records.chat import ChatUsage

if TYPE_CHECKING:
    from pydantic import BaseModel

Schema = TypeVar("Schema", bound="BaseModel")
MAX_TEXT_CHARS = 16 << 20
MAX_TOKENS = 1 << 40
MAX_EVENT_BYTES = 4 << 20
ERRORS: dict[Kind, type[ChatFailed]] = {
    "unreachable": ChatUnreachable,
    "busy": ChatBusy,
    "refused": ChatRefused,
    "timeout": ChatTimeout,
    "broken": ChatBroken,
}
_LIST = RunCommand("models list")
HINTS: dict[int, Hint] = {
    400: "the model may not accept a setting: try provider.temperature=-1, or a shorter prompt",
    401: "set the key: RAGSTREAM_PROVIDER__API_KEY in the environment, or provider.api_key_file",
    403: ("the key may not use this model; ", _LIST, " shows those it may"),
    404: (
        "check provider.base_url and provider.model; ",
        _LIST,
        " shows the models, ",
        RunCommand("models pull"),
        " how to get one",
    ),
    413: "the prompt is too large for this model: lower prompt.budget_tokens",
    429: "wait, or check your account's limits",
}
HINT_OF_KIND: dict[Kind, Hint] = {
    "unreachable": ("check provider.base_url; ", _LIST, " tries it"),
    "busy": "try again later",
    "refused": "check provider.base_url, provider.model and the key",
    "timeout": "raise provider.timeout_s and provider.budget_s, or use a faster model",
    "broken": "try again, or use another model (provider.model)",
}


def failed(error: RequestError, endpoint: Endpoint) -> ChatFailed:
    """Return the error for people that a failed request to a language model means."""
    hint = HINTS.get(error.status) or HINT_OF_KIND[error.kind]
    if error.kind == "unreachable" and endpoint.is_local:
        hint = "start it, e.g. `ollama serve`, or set provider.base_url to where one runs"
    return ERRORS[error.kind](f"the language model at {endpoint.host}: {error}", hint=hint)


def event_texts(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield what follows ``data:`` on each line of an event stream; what is empty says nothing."""
    for line in _lines(blocks):
        data = line.removeprefix(b"data:").strip() if line.startswith(b"data:") else b""
        if data:
            yield data


def _lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    held = bytearray()
    for block in blocks:
        held += block
        if b"\n" not in block and len(held) <= MAX_EVENT_BYTES:
            continue
        *lines, rest = bytes(held).split(b"\n")
        held = bytearray(rest)
        if len(held) > MAX_EVENT_BYTES:
            raise RequestError(f"an event of more than {MAX_EVENT_BYTES >> 20} MiB", kind="broken")
        yield from lines
    yield bytes(held)


def json_object(data: bytes) -> dict[str, object]:
    """Return the JSON object of an answer or an event."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise RequestError("an answer that is not JSON", kind="broken") from None
    if not isinstance(value, dict):
        raise RequestError("an answer that is not a JSON object", kind="broken")
    return value


def model_names(body: Mapping[str, object]) -> list[str]:
    """Return the names in a list of models, sorted, each once."""
    rows = body.get("data")
    if not isinstance(rows, list) or not all(isinstance(r, dict) and "id" in r for r in rows):
        raise RequestError("an answer that is not a list of models", kind="broken")
    return sorted({str(row["id"]) for row in rows})


def text_of(body: Mapping[str, object]) -> str:
    """Return the text of a completion; never empty."""
    message = _choice(body).get("message")
    if not isinstance(message, Mapping):
        raise RequestError("an answer without a message", kind="broken")
    if message.get("refusal"):
        raise RequestError("the model declined to answer", kind="refused")
    text = message.get("content")
    if not isinstance(text, str) or not text.strip():
        raise _empty(finish_of(body))
    return _whole_characters(text)


def finish_of(body: Mapping[str, object]) -> str:
    """Return why the model stopped, as the endpoint says; empty if it does not."""
    finish = _choice(body).get("finish_reason")
    return finish if isinstance(finish, str) else ""


def usage_of(body: Mapping[str, object]) -> ChatUsage | None:
    """Return the tokens that the endpoint counted; None if it did not, or nonsense."""
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
        # a character may come in two halves, one an event
        self._units = codecs.getincrementaldecoder("utf-16-le")("replace")
        self._last: dict[str, object] = {}

    def add(self, event: Mapping[str, object]) -> str:
        """Return the text that an event adds; may be empty."""
        if event.get("error"):
            raise RequestError("the endpoint broke the answer off", kind="broken")
        for name in ("model", "usage"):
            if event.get(name):
                self._last[name] = event[name]
        if finish_of(event):
            self._last["choices"] = [{"finish_reason": finish_of(event)}]
        delta = _choice(event).get("delta")
        content = delta.get("content") if isinstance(delta, Mapping) else None
        if not isinstance(content, str):
            return ""
        self._length += len(content)
        if self._length > MAX_TEXT_CHARS:
            raise RequestError(f"an answer of more than {MAX_TEXT_CHARS >> 20} MiB", kind="broken")
        return self._keep(self._units.decode(content.encode("utf-16-le", "surrogatepass")))

    def rest(self) -> str:
        """Return what was held back; call it once, at the end."""
        return self._keep(self._units.decode(b"", final=True))

    @property
    def text(self) -> str:
        """All of it so far."""
        return "".join(self._parts)

    def body(self) -> dict[str, object]:
        """Return the stream as a completion without its text: model, end, usage."""
        return self._last

    def require_text(self) -> None:
        """Check that there is something."""
        if not self.text.strip():
            raise _empty(finish_of(self._last))

    def _keep(self, text: str) -> str:
        self._parts.append(text)
        return text


def _choice(body: Mapping[str, object]) -> Mapping[str, object]:
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, Mapping) else {}


def _empty(finish: str) -> RequestError:
    if finish == "content_filter":
        return RequestError("the answer was filtered", kind="refused")
    if finish == "length":
        return RequestError("the model's limit of tokens was reached before a word", kind="broken")
    return RequestError("an empty answer", kind="broken")


def _count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= MAX_TOKENS else None


def _whole_characters(text: str) -> str:
    """Join halves of characters and replace what has no other half: it could not be written."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def validated(
    text: str, schema: type[Schema], *, who: str, took: ChatUsage | None = None
) -> Schema:
    """Return the value that an answer holds."""
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
