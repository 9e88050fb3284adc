"""An answer on its way in a thread of its own; nothing here knows Streamlit.

Whoever draws the page looks at the job as often as it likes: a second look starts no second call,
and nobody looking loses nothing. What is kept is kept by core: the question before the call, the
answer right after its last word.
"""

from __future__ import annotations

import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ragstream_core.errors import ChatBroken
from ragstream_core.models.chat.wrapped import WrappedChat

if TYPE_CHECKING:
    from ragstream_core.answers.answer import Answer
    from ragstream_core.ports import ChatModel
    from ragstream_core.records.chat import ChatDelta, ChatMessage
    from ragstream_core.wiring.workspace import Workspace

STOPPED = "you stopped it"
LOOK_S = 0.1
"""Seconds after which a person's *Stop* is noticed while a model is silent."""


class StreamJob(ABC):
    """Makes one answer; a subclass says how and starts it.

    Args:
        workspace: The data root.

    Attributes:
        answer: Once it is there.
        error: Why there is none.
    """

    def __init__(self, workspace: Workspace) -> None:
        self.answer: Answer | None = None
        self.error: Exception | None = None
        self._workspace = workspace
        self._pieces: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ragstream-answer", daemon=True)

    @property
    def running(self) -> bool:
        """Whether it is still on its way."""
        return self._thread.is_alive()

    @property
    def stopped(self) -> bool:
        """Whether a person ended it."""
        return self._stop.is_set()

    @property
    def text(self) -> str:
        """The clean text so far, without markers."""
        return self.answer.text if self.answer else "".join(self._pieces)

    def stop(self) -> None:
        """End it; what came so far is kept as partial."""
        self._stop.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it has ended, at most so many seconds; return whether it has."""
        self._thread.join(seconds)
        return not self.running

    @abstractmethod
    def _make(self) -> tuple[Answer, str]:
        """Return the answer, and the Dagster run in which it is observed; empty for none.

        Raises:
            RagstreamError: There is no answer.
        """

    def _run(self) -> None:
        try:
            self.answer, run_id = self._make()
        except Exception as error:  # the page's error boundary: it is shown there
            self.error = error
            return
        if run_id:
            from ragstream_assets.recorder.recorder import record_answer

            record_answer(self._workspace, self.answer, run_id=run_id)


class StoppableChat(WrappedChat):
    """A language model whose stream a person can end, also while it says nothing.

    Args:
        model: Who is asked.
        stop: Set by whoever ends it.
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
        except Exception as error:  # raised again by whoever reads
            deltas.put(error)
