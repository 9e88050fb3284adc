"""`ChatCalls`: the requests of one endpoint's Chat Completions, and what may come back.

Nothing of an answer is trusted: not its size, its depth, its end, its types. A failure becomes an
error of ours that names the host and what happened; never a key, a text, or the server's own words.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ragstream_core.errors import (
    ChatBroken,
    ChatBusy,
    ChatFailed,
    ChatRefused,
    ChatTimeout,
    ChatUnreachable,
)
from ragstream_core.platform.endpoint import Endpoint
from ragstream_core.platform.http import (
    Kind,
    RequestError,
    RetryClock,
    RetryPolicy,
    Send,
    StreamingRequest,
    whole,
)

if TYPE_CHECKING:
    from pydantic import BaseModel

MAX_STRUCTURED_BYTES = 4 << 20
MAX_TEXT_BYTES = 16 << 20
MAX_EVENT_BYTES = 4 << 20
ERRORS: dict[Kind, type[ChatFailed]] = {
    "unreachable": ChatUnreachable,
    "busy": ChatBusy,
    "refused": ChatRefused,
    "timeout": ChatTimeout,
    "broken": ChatBroken,
}
HINTS = {
    400: "the model may not accept a setting: try provider.temperature=-1, or a shorter prompt",
    401: "set the key: RAGSTREAM_PROVIDER__API_KEY in the environment, or provider.api_key_file",
    403: "the key may not use this model; `ragstream models list` shows those it may",
    404: "check provider.base_url and provider.model; `ragstream models list` shows the models, "
    "`ragstream models pull` how to get one",
    413: "the prompt is too large for this model: lower prompt.budget_tokens",
    429: "wait, or check your account's limits",
}
HINT_OF_KIND: dict[Kind, str] = {
    "unreachable": "check provider.base_url; `ragstream models list` tries it",
    "busy": "try again later",
    "refused": "check provider.base_url, provider.model and the key",
    "timeout": "raise provider.timeout_s and provider.budget_s, or use a faster model",
    "broken": "try again, or use another model (provider.model)",
}


class ChatCalls:
    """Makes requests to one endpoint.

    Args:
        endpoint: Where it is.
        pace: Time and chance.
    """

    def __init__(self, endpoint: Endpoint, *, pace: RetryClock | None = None) -> None:
        self.endpoint = endpoint
        # A model that needs longer than it may take will need longer again, and be paid twice; one
        # on this machine that does not run will not run in a second.
        hopeless: tuple[Kind, ...] = (
            ("timeout", "unreachable") if endpoint.is_local else ("timeout",)
        )
        self._attempts = RetryPolicy(endpoint, pace=pace, hopeless=hopeless)

    def models(self) -> list[str]:
        """Return the names of the endpoint's models, sorted.

        Raises:
            ChatFailed: They cannot be had.
        """
        body = self._whole(lambda client: client.models.with_streaming_response.list())
        try:
            return sorted({str(row["id"]) for row in _object(body)["data"]})
        except (RequestError, KeyError, TypeError):
            fault = RequestError("an answer that is not a list of models", kind="broken")
            raise self.failed(fault) from None

    def completion(
        self, request: Mapping[str, Any], *, schema: type[BaseModel] | None = None
    ) -> dict[str, Any]:
        """Return one completion as the endpoint's JSON.

        Args:
            request: ``model``, ``messages`` and options.
            schema: Sent along; the answer is not checked against it here.

        Raises:
            ChatFailed: It cannot be had within the budget, is too large or no JSON object.
        """

        def send(client: Any) -> Any:
            completions = client.chat.completions.with_streaming_response
            if schema is None:
                return completions.create(**request)
            return completions.parse(**request, response_format=schema)

        body = self._whole(send, most=MAX_TEXT_BYTES if schema is None else MAX_STRUCTURED_BYTES)
        try:
            return _object(body)
        except RequestError as fault:
            raise self.failed(fault) from None

    def events(self, request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the events of a stream; ends only after the mark of its end.

        Raises:
            Fault: The stream failed; before its first event or after.
        """
        now, endpoint = self._attempts.pace.now, self.endpoint
        end = now() + endpoint.budget_s
        wire, first = self._attempts.run(lambda limit_s: self._open(request, limit_s), insist=True)

        def blocks() -> Iterator[bytes]:
            block = first
            while block:
                yield block
                block = wire.block(min(endpoint.timeout_s, end - now()))

        try:
            for data in _event_texts(blocks()):
                if data == b"[DONE]":
                    return
                yield _object(data)
            raise RequestError("the stream broke off without the mark of its end", kind="broken")
        finally:
            wire.close()

    def failed(self, fault: RequestError) -> ChatFailed:
        """Return the error that a fault is for people."""
        host = self.endpoint.host
        hint = HINTS.get(fault.status) or HINT_OF_KIND[fault.kind]
        if fault.kind == "unreachable" and self.endpoint.is_local:
            hint = "start it, e.g. `ollama serve`, or set provider.base_url to where one runs"
        return ERRORS[fault.kind](f"the language model at {host}: {fault.what}", hint=hint)

    def _open(self, request: Mapping[str, Any], limit_s: float) -> tuple[StreamingRequest, bytes]:
        def send(client: Any) -> Any:
            return client.chat.completions.with_streaming_response.create(
                **request, stream=True, stream_options={"include_usage": True}
            )

        wire = StreamingRequest(self.endpoint, send, limit_s=limit_s)
        try:
            return wire, wire.block(limit_s)
        except BaseException:
            wire.close()
            raise

    def _whole(self, send: Send, *, most: int = MAX_STRUCTURED_BYTES) -> bytes:
        now = self._attempts.pace.now
        try:
            return self._attempts.run(
                lambda limit_s: whole(self.endpoint, send, limit_s=limit_s, most=most, now=now)
            )
        except RequestError as fault:
            raise self.failed(fault) from None


def _event_texts(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield what follows ``data:`` on each line of an event stream."""
    mark = b"data:"
    held = bytearray()
    for block in blocks:
        held += block
        if b"\n" not in block and len(held) <= MAX_EVENT_BYTES:
            continue
        *lines, rest = bytes(held).split(b"\n")
        held = bytearray(rest)
        if len(held) > MAX_EVENT_BYTES:
            raise RequestError(f"an event of more than {MAX_EVENT_BYTES >> 20} MiB", kind="broken")
        for line in lines:
            if line.startswith(mark):
                yield line.removeprefix(mark).strip()
    if held.startswith(mark):
        yield bytes(held).removeprefix(mark).strip()


def _object(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise RequestError("an answer that is not JSON", kind="broken") from None
    if not isinstance(value, dict):
        raise RequestError("an answer that is not a JSON object", kind="broken")
    return value
