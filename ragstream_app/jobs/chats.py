"""One question of a chat on the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragstream_app.asking import outcome_of
from ragstream_app.jobs.streams import StoppableChat, StreamJob

if TYPE_CHECKING:
    from ragstream_app.asking import Outcome
    from ragstream_core.answering.answer import Answer
    from ragstream_core.build.chatting import ChatOptions, ChatSession, ChatTurn
    from ragstream_core.build.workspace import Workspace
    from ragstream_core.orchestration.inputs import PromptRequest
    from ragstream_core.ports import ChatModel


class ChatJob(StreamJob):
    """Answers one question of a chat.

    Args:
        workspace: The data root.
        options: What it is asked with.
        question: Its text.
        model: Who is asked.
        allow_secrets: Send what seems to contain secrets to another machine.
        group: Groups the Dagster runs of one tab.
    """

    def __init__(
        self,
        workspace: Workspace,
        options: ChatOptions,
        question: str,
        *,
        model: ChatModel,
        allow_secrets: bool = False,
        group: str = "",
    ) -> None:
        from ragstream_core.build.chatting import ChatSession

        super().__init__(workspace)
        self.question = question
        self.origin = ""
        self.turn: ChatTurn | None = None
        self._allow_secrets = allow_secrets
        self._group = group
        self._session: ChatSession = ChatSession(
            workspace, options, build=self._build, model=StoppableChat(model, self._stop)
        )
        self._thread.start()

    @property
    def session(self) -> str:
        """The conversation that it belongs to; empty where it is not kept."""
        return self._session.options.session

    @property
    def secrets(self) -> tuple[str, ...]:
        """Places that seem to hold a secret and would have left this machine."""
        prepared = self._session.prepared
        return prepared.secrets if prepared and self.error and not self._allow_secrets else ()

    def _make(self) -> tuple[Answer, str]:
        """Ask.

        Raises:
            RagstreamError: There is no answer.
        """
        self.turn = self._session.ask(
            self.question,
            show=self._pieces.append,
            allow_secrets=self._allow_secrets,
            on_origin=self._begins,
        )
        return self.turn.answer, self.turn.run_id

    def _begins(self, origin: str) -> None:
        self.origin = origin

    def _build(self, workspace: Workspace, request: PromptRequest) -> Outcome:
        """Make the prompt, recorded as the page's settings say; its run is written behind."""
        from ragstream_assets.recorder import record_prompt

        return outcome_of(record_prompt(workspace, request, session=self._group))
