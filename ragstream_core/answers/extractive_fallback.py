"""`ExtractiveFallback`: a language model, or the extract of a prompt if no model can be asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from ragstream_core.answers.extract import EXTRACT
from ragstream_core.errors import ChatFailed, ChatRefused, ChatUnreachable
from ragstream_core.models.chat.wrapped import WrappedChat
from ragstream_core.records.chat import ChatDelta, ChatReply, ChatUsage

if TYPE_CHECKING:
    from ragstream_core.ports import ChatModel
    from ragstream_core.records.chat import ChatMessage


class ExtractiveFallback(WrappedChat):
    """A language model, or the extract if it cannot be reached at all.

    Any other failure is that of the model: what was asked wrongly, or too often, is no reason to
    pretend that no model was there.

    Args:
        model: Who is asked.
        extract: Makes the extract, told why; "" if there is none, then the failure stays.
        begun: Called once before the first words, told whether they are the extract.

    Attributes:
        seconds: How long the stream took, from its call to its end.
    """

    def __init__(
        self,
        model: ChatModel,
        extract: Callable[[str], str],
        begun: Callable[[bool], object] = lambda _: None,
    ) -> None:
        super().__init__(model)
        self._extract = extract
        self._begun = begun
        self.seconds = 0.0

    @property
    def name(self) -> str:
        """The model's name; `EXTRACT` if no model can be asked for it."""
        try:
            return self._model.name
        except ChatFailed as error:
            if not self._unreachable(error):
                raise
            return EXTRACT

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        """As the model's; 0 if there is none."""
        return 0.0 if self.name == EXTRACT else super().price(input_tokens, output_tokens)

    def stream(self, messages: Sequence[ChatMessage]) -> Iterator[ChatDelta]:
        """Yield the model's answer, or the extract.

        Raises:
            ChatFailed: There is neither.
        """
        began, begun = time.perf_counter(), False
        try:
            for delta in self._model.stream(messages):
                if not begun:
                    self._begun(False)
                begun = True
                yield delta
        except ChatFailed as error:
            text = "" if begun or not self._unreachable(error) else self._extract(error.message)
            if not text:
                raise
            self._begun(True)
            yield ChatDelta(text)
            yield ChatDelta("", ChatReply(text, "complete", EXTRACT, ChatUsage(0, 0, cost_usd=0.0)))
        finally:
            self.seconds = time.perf_counter() - began

    def _unreachable(self, error: ChatFailed) -> bool:
        """Whether nothing answers at the address, or no model is there."""
        if isinstance(error, ChatUnreachable):
            return True
        try:
            return isinstance(error, ChatRefused) and not self._model.list_models()
        except ChatFailed:
            return False
