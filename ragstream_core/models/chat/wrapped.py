"""`WrappedChat`: a language model that passes every call to another one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import BaseModel

    from ragstream_core.ports import ChatModel
    from ragstream_core.records.chat import ChatDelta, ChatMessage, ChatReply


class WrappedChat:
    """A `ragstream_core.ports.ChatModel`; a subclass overrides what it changes."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model

    @property
    def name(self) -> str:
        """The model's name."""
        return self._model.name

    @property
    def host(self) -> str:
        """``host:port`` that everything is sent to; empty if nothing is sent."""
        return self._model.host

    @property
    def is_local(self) -> bool:
        """Whether what is sent stays on this machine."""
        return self._model.is_local

    def list_models(self) -> list[str]:
        """Return the models that the endpoint has, sorted."""
        return self._model.list_models()

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        """Return what so many tokens cost in US dollars, 0 if it is free, None if not known."""
        return self._model.price(input_tokens, output_tokens)

    def complete(
        self, messages: Sequence[ChatMessage], *, schema: type[BaseModel] | None = None
    ) -> ChatReply:
        """Return the whole answer."""
        return self._model.complete(messages, schema=schema)

    def stream(self, messages: Sequence[ChatMessage]) -> Iterator[ChatDelta]:
        """Yield the answer as it comes, the reply last."""
        return self._model.stream(messages)
