"""The loop of a chat: a line is a question or a command, an error is a message, and it goes on."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ragstream_app.answer_stream import StoppableChat
from ragstream_app.cli.chat import commands
from ragstream_app.output.chat_entries import ChatEntry
from ragstream_core.errors import ChatFailed

if TYPE_CHECKING:
    from ragstream_app.cli.chat.screens import Screen
    from ragstream_core.prompts.inputs import PromptRequest
    from ragstream_core.wiring.workspace import Workspace

QUIT = "/quit"


@dataclass(slots=True)
class ChatRepl:
    """One chat.

    Attributes:
        workspace: The data root.
        request: What the next question is asked with, its text apart.
        screen: Where it is shown.
        model_name: Who answers; empty: the model of the settings.
        allow_secrets: Send what seems to contain secrets to another machine.
        said: What was asked and answered, in order.
        failures: Questions without a whole answer.
    """

    workspace: Workspace
    request: PromptRequest
    screen: Screen
    model_name: str = ""
    allow_secrets: bool = False
    said: list[ChatEntry] = field(default_factory=list)
    failures: int = 0

    def run(self, lines: Iterable[str]) -> None:
        """Take lines, questions and commands, until the last one or ``/quit``."""
        for line in lines:
            text = line.strip()
            if text == QUIT:
                break
            if text:
                self.take(text)

    def take(self, text: str) -> None:
        """Answer a question or carry a command out; an error is shown.

        Raises:
            BrokenPipeError: Nobody reads any more, so no further question is asked.
        """
        try:
            if text.startswith("/"):
                self.screen.told(text.split()[0], commands.carried_out(self, text))
            else:
                self.ask(text)
        except BrokenPipeError:
            raise
        except Exception as error:  # the chat's error boundary: the conversation goes on
            self.failures += not text.startswith("/")
            self.screen.failed(text, error)

    def ask(self, text: str) -> None:
        """Answer a question; Ctrl-C ends the answer, and what came of it is kept as partial.

        Args:
            text: The question.

        Raises:
            RagstreamError: There is no answer; the question is kept where it was sent.
        """
        from ragstream_core.services.chat import ChatSession, with_model

        stop = threading.Event()
        space, request = with_model(self.workspace, self.request, self.model_name)
        session = ChatSession(space, request, model=self.model(stop))
        try:
            with interruptible(stop), self.screen.answering() as hearing:
                turn = session.ask(
                    text,
                    show=hearing.words,
                    on_origin=hearing.origin,
                    allow_secrets=self.allow_secrets,
                )
        except ChatFailed:
            if session.prepared and session.prepared.session:
                self.screen.aside("the question is kept without an answer")
            raise
        finally:  # a question that failed has begun the conversation all the same
            self.request = replace(self.request, session=session.request.session)
        self.said.append(ChatEntry(text, turn))
        self.failures += turn.answer.status == "partial"
        self.screen.answered(self.said[-1])

    def model(self, stop: threading.Event) -> StoppableChat:
        """Return the model of the chat, to be ended by an event; nothing is contacted.

        Args:
            stop: Ends its stream.

        Raises:
            RagstreamError: The provider's settings are wrong.
        """
        from ragstream_core.wiring.models import chat_model

        named = {"provider.model": self.model_name} if self.model_name else {}
        return StoppableChat(chat_model(self.workspace.with_settings(named).config), stop)


@contextmanager
def interruptible(stop: threading.Event) -> Iterator[None]:
    """Have Ctrl-C set an event; a second one raises, as it does everywhere else.

    Args:
        stop: Set by the first one.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupted(number: int, frame: object) -> None:
        """Set the event.

        Raises:
            KeyboardInterrupt: It is set already.
        """
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
