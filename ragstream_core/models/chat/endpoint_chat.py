"""`EndpointChat`: a language model behind an OpenAI-compatible endpoint (OpenAI, Ollama, vLLM, …).

Messages leave this process: to the configured host and nowhere else. With a schema the answer is a
validated value or an error, never something in between; what a small model puts around its JSON is
taken off first. A stream that ends early is a ``partial`` reply.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from ragstream_core.errors import ChatFailed, ChatRefused, RunCommand
from ragstream_core.models.chat.prices import Prices
from ragstream_core.models.chat.responses import (
    StreamedText,
    event_texts,
    failed,
    finish_of,
    json_object,
    model_names,
    text_of,
    usage_of,
    validated,
)
from ragstream_core.platform.endpoint_address import Endpoint
from ragstream_core.platform.http import EndpointClient, Kind, RequestError, Send
from ragstream_core.records.chat import ChatDelta, ChatMessage, ChatReply, ChatUsage
from ragstream_core.text.tokenizer import most_tokens

if TYPE_CHECKING:
    from pydantic import BaseModel

MAX_STRUCTURED_BYTES = 4 << 20
MAX_TEXT_BYTES = 16 << 20

# What Ollama puts behind a name that was pulled without a tag.
LATEST = ":latest"
CUT = {"length": "the model's limit of tokens was reached", "content_filter": "it was filtered"}


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """What a provider may want to know."""

    model: str  # name of the model; empty: the first that the endpoint lists
    endpoint: Endpoint
    prices: Prices  # what its tokens cost
    temperature: float = 0.0  # sampling temperature; negative: not sent
    max_output_tokens: int = 0  # most tokens of an answer; 0: the model's own limit
    script: str = ""  # for `scripted`: a file of answers; may be empty


class EndpointChat:
    """A `ragstream_core.ports.ChatModel` over HTTP."""

    def __init__(self, options: ChatOptions, client: EndpointClient | None = None) -> None:
        endpoint = options.endpoint
        self._options = options
        self._client = client or EndpointClient(endpoint, final=final_kinds(endpoint))
        self._model = options.model

    @property
    def name(self) -> str:
        """The model's name; asks the endpoint for its list if none is set."""
        if not self._model:
            self._model = chosen_model("", self.list_models())
        return self._model

    @property
    def host(self) -> str:
        """``host:port`` that messages are sent to."""
        return self._options.endpoint.host

    @property
    def is_local(self) -> bool:
        """Whether messages stay on this machine."""
        return self._options.endpoint.is_local

    def list_models(self) -> list[str]:
        """Return the names of the endpoint's models, sorted."""
        try:
            answer = self._answer(
                lambda client: client.models.with_streaming_response.list(), MAX_STRUCTURED_BYTES
            )
            return model_names(answer)
        except RequestError as error:
            raise self._failed(error) from None

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        """Return what so many tokens cost in US dollars; None if no price is known."""
        return self._options.prices.cost(self.name, input_tokens, output_tokens)

    def complete(
        self, messages: Sequence[ChatMessage], *, schema: type[BaseModel] | None = None
    ) -> ChatReply:
        """Return the whole answer."""
        body: dict[str, object] = {}
        try:
            body = self._completion(self._request(messages), schema)
            text = text_of(body)
        except RequestError as error:
            problem, usage = self._failed(error), usage_of(body)
            problem.took = self._priced(usage) if usage else None
            raise problem from None
        reply = self._reply(text, messages, body)
        if schema is None:
            return reply
        who = f"the language model at {self.host}"
        return replace(reply, parsed=validated(text, schema, who=who, took=reply.usage))

    def stream(self, messages: Sequence[ChatMessage]) -> Iterator[ChatDelta]:
        """Yield the answer as it comes, the reply last."""
        answer = StreamedText()
        reason = ""
        try:
            for event in self._events(self._request(messages)):
                text = answer.add(event)
                if text:
                    yield ChatDelta(text)
            answer.require_text()
        except RequestError as error:
            if not answer.text.strip():
                raise self._failed(error) from None
            reason = str(error)
        rest = answer.rest()
        if rest:
            yield ChatDelta(rest)
        yield ChatDelta("", self._reply(answer.text, messages, answer.body(), reason=reason))

    def _completion(
        self, request: Mapping[str, object], schema: type[BaseModel] | None
    ) -> dict[str, object]:
        def send(client: Any) -> Any:
            completions = client.chat.completions.with_streaming_response
            if schema is None:
                return completions.create(**request)
            return completions.parse(**request, response_format=schema)

        return self._answer(send, MAX_TEXT_BYTES if schema is None else MAX_STRUCTURED_BYTES)

    def _answer(self, send: Send, most: int) -> dict[str, object]:
        client = self._client
        return json_object(
            client.retry(lambda limit_s: client.body(send, limit_s=limit_s, most=most))
        )

    def _events(self, request: Mapping[str, object]) -> Iterator[dict[str, object]]:
        """Yield the events of a stream; ends only after the mark of its end."""

        def send(client: Any) -> Any:
            return client.chat.completions.with_streaming_response.create(
                **request, stream=True, stream_options={"include_usage": True}
            )

        with closing(self._client.stream(send)) as blocks:
            for data in event_texts(blocks):
                if data == b"[DONE]":
                    return
                yield json_object(data)
        raise RequestError("the stream broke off without the mark of its end", kind="broken")

    def _failed(self, error: RequestError) -> ChatFailed:
        return failed(error, self._options.endpoint)

    def _request(self, messages: Sequence[ChatMessage]) -> dict[str, object]:
        options = self._options
        rows = [{"role": m.role, "content": _encodable(m.text)} for m in messages]
        request: dict[str, object] = {"model": self.name, "messages": rows}
        if options.temperature >= 0:
            request["temperature"] = options.temperature
        if options.max_output_tokens:
            # OpenAI's newer models know only the newer name, other servers only the older one
            newer = options.endpoint.host.startswith("api.openai.com:")
            name = "max_completion_tokens" if newer else "max_tokens"
            request[name] = options.max_output_tokens
        return request

    def _reply(
        self,
        text: str,
        messages: Sequence[ChatMessage],
        body: Mapping[str, object],
        *,
        reason: str = "",
    ) -> ChatReply:
        reason = reason or CUT.get(finish_of(body), "")
        status: Literal["complete", "partial"] = "partial" if reason else "complete"
        answered = body.get("model")
        model = answered if isinstance(answered, str) and answered[:200].isprintable() else ""
        usage = usage_of(body) or ChatUsage(
            sum(most_tokens(m.text) for m in messages), most_tokens(text), reported=False
        )
        return ChatReply(
            text=text,
            status=status,
            model=model[:200] or self.name,
            usage=self._priced(usage),
            reason=reason,
        )

    def _priced(self, usage: ChatUsage) -> ChatUsage:
        cost = self._options.prices.cost(
            self.name, usage.input_tokens, usage.output_tokens, cached_tokens=usage.cached_tokens
        )
        return replace(usage, cost_usd=cost)


def final_kinds(endpoint: Endpoint) -> tuple[Kind, ...]:
    """Return the kinds of failure of a language model after which another attempt is no use.

    A model that needs longer than it may take will need longer again, and be paid twice; one on
    this machine that does not run will not run in a second.
    """
    return ("timeout", "unreachable") if endpoint.is_local else ("timeout",)


def chosen_model(wanted: str, available: Sequence[str]) -> str:
    """Return the model to take: the wanted one, one of its tags, else the first one that chats.

    The same lists give the same choice.
    """
    names = sorted(available)
    itself = [name for name in (wanted, f"{wanted}{LATEST}") if name in names]
    tagged = [name for name in names if wanted and name.partition(":")[0] == wanted]
    chatting = [name for name in names if "embed" not in name.lower()]
    for choice in (itself, tagged, chatting, names):
        if choice:
            return choice[0]
    raise ChatRefused("the endpoint lists no model", hint=RunCommand("models pull"))


def is_there(wanted: str, available: Sequence[str]) -> bool:
    """Return whether an endpoint that lists these models knows a name, bare or with `LATEST`."""
    return wanted in available or f"{wanted}{LATEST}" in available


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
