"""Answers on their way: to a Super-Prompt that was sent, and to a question of the chat view.

What is kept is kept by core: the question before the call, the answer right after its last word.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING

from ragstream_app.answer_stream import StoppableChat
from ragstream_app.page.jobs.background import BackgroundJob, Report

if TYPE_CHECKING:
    from ragstream_core.answers.answer import Answer, Prepared
    from ragstream_core.ports import ChatModel
    from ragstream_core.prompts.inputs import PromptRequest
    from ragstream_core.services.chat import ChatSession, ChatTurn
    from ragstream_core.wiring.workspace import Workspace


class StreamJob(BackgroundJob["Answer"], ABC):
    """Makes one answer; what came before a stop is kept as partial.

    Args:
        workspace: The data root.
    """

    def __init__(self, workspace: Workspace) -> None:
        super().__init__("the answer", self._answer)
        self._workspace = workspace
        self._pieces: list[str] = []

    @property
    def text(self) -> str:
        """The clean text so far, without markers."""
        return self.result.text if self.result else "".join(self._pieces)

    @abstractmethod
    def _answer(self, _: Report) -> Answer:
        """Make the answer.

        Raises:
            RagstreamError: There is no answer.
        """


class AnswerJob(StreamJob):
    """Asks a model for the answer to a prepared prompt.

    Args:
        workspace: The data root.
        prepared: What is sent.
        allow_secrets: Send it even though it seems to contain secrets.
    """

    def __init__(
        self,
        workspace: Workspace,
        prepared: Prepared,
        *,
        allow_secrets: bool = False,
    ) -> None:
        super().__init__(workspace)
        self._allow_secrets = allow_secrets
        model = prepared.model
        self.prepared = replace(prepared, model=model and StoppableChat(model, self._stop))

    def _answer(self, _: Report) -> Answer:
        from ragstream_core.wiring import answering

        return answering.answer(
            self._workspace,
            self.prepared,
            allow_secrets=self._allow_secrets,
            show=self._pieces.append,
        )


class ChatJob(StreamJob):
    """Answers one question of a chat.

    Args:
        workspace: The data root.
        request: What it is asked with.
        question: Its text.
        model: Who is asked.
        allow_secrets: Send what seems to contain secrets to another machine.

    Attributes:
        origin: Where the answer comes from, once that is known.
        turn: What came of the question; None before, and if there is no answer.
    """

    def __init__(
        self,
        workspace: Workspace,
        request: PromptRequest,
        question: str,
        *,
        model: ChatModel,
        allow_secrets: bool = False,
    ) -> None:
        from ragstream_core.services.chat import ChatSession

        super().__init__(workspace)
        self.question = question
        self.origin = ""
        self.turn: ChatTurn | None = None
        self._allow_secrets = allow_secrets
        self._session: ChatSession = ChatSession(
            workspace, request, model=StoppableChat(model, self._stop)
        )

    @property
    def session(self) -> str:
        """The conversation that it belongs to; empty if it is not kept."""
        return self._session.request.session

    @property
    def secrets(self) -> tuple[str, ...]:
        """Places that seem to hold a secret and would have left this machine."""
        prepared = self._session.prepared
        return prepared.secrets if prepared and self.error and not self._allow_secrets else ()

    def _answer(self, _: Report) -> Answer:
        self.turn = self._session.ask(
            self.question,
            show=self._pieces.append,
            allow_secrets=self._allow_secrets,
            on_origin=self._begins,
        )
        return self.turn.answer

    def _begins(self, origin: str) -> None:
        self.origin = origin
