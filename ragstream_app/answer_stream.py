"""A language model whose answer a person can stop, on the page and in a chat of the terminal."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ragstream_core.errors import ChatBroken
from ragstream_core.models.chat.wrapped import WrappedChat

if TYPE_CHECKING:
    from ragstream_core.ports import ChatModel
    from ragstream_core.records.chat import ChatDelta, ChatMessage

STOPPED = "you stopped it"

# Seconds after which a person's *Stop* is noticed while a model is silent.
LOOK_S = 0.1


class StoppableChat(WrappedChat):
    """A language model whose stream a person can end, also while it says nothing.

    Args:
        model: Who is asked.
        stop: Set to end it.
    """

    def __init__(self, model: ChatModel, stop: threading.Event) -> None:
        super().__init__(model)
        self._stop = stop

    def stream(self, messages: Sequence[ChatMessage]) -> Iterator[ChatDelta]:
        """Yield the answer as it comes, until its end or until it is stopped.

        Raises:
            ChatFailed: It failed before its first word.
            ChatBroken: It was stopped.
        """
        deltas: queue.SimpleQueue[ChatDelta | Exception | None] = queue.SimpleQueue()
        threading.Thread(target=self._pump, args=(messages, deltas), daemon=True).start()
        while not self._stop.is_set():
            try:
                found = deltas.get(timeout=LOOK_S)
            except queue.Empty:
                continue
            if found is None:
                return
            if isinstance(found, Exception):
                raise found
            yield found
        raise ChatBroken(STOPPED)

    def _pump(
        self,
        messages: Sequence[ChatMessage],
        deltas: queue.SimpleQueue[ChatDelta | Exception | None],
    ) -> None:
        """Hand on what comes; one that was stopped is closed with its next word."""
        try:
            for delta in self._model.stream(messages):
                deltas.put(delta)
                if self._stop.is_set():
                    break
            deltas.put(None)
        except Exception as error:  # raised again by the reader
            deltas.put(error)
