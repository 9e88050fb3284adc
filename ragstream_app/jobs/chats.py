"""One question of a chat in a thread of its own; nothing here knows Streamlit.

Whoever draws the page looks at the job as often as it likes. What is kept is kept by core: the
question before the call, the answer right after its last word.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ragstream_app.asking import outcome_of
from ragstream_app.jobs.answers import StoppableChat

if TYPE_CHECKING:
    from ragstream_app.asking import Outcome
    from ragstream_core.build.chatting import ChatOptions, ChatSession, ChatTurn
    from ragstream_core.build.workspace import Workspace
    from ragstream_core.orchestration.inputs import PromptRequest
    from ragstream_core.ports import ChatModel


class ChatJob:
    """Answers one question of a chat.

    Args:
        workspace: The data root.
        options: What it is asked with.
        question: Its text.
        model: Who is asked.
        allow_secrets: Send what seems to hold secrets to another machine.
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

        self.question = question
        self.origin = ""
        self.turn: ChatTurn | None = None
        self.error: Exception | None = None
        self._workspace = workspace
        self._allow_secrets = allow_secrets
        self._group = group
        self._pieces: list[str] = []
        self._stop = threading.Event()
        self._session: ChatSession = ChatSession(
            workspace, options, build=self._build, model=StoppableChat(model, self._stop)
        )
        self._thread = threading.Thread(target=self._run, name="ragstream-chat", daemon=True)
        self._thread.start()

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
        return self.turn.answer.text if self.turn else "".join(self._pieces)

    @property
    def session(self) -> str:
        """The conversation that it belongs to; empty where it is not kept."""
        return self._session.options.session

    @property
    def secrets(self) -> tuple[str, ...]:
        """Places that seem to hold a secret and would have left this machine."""
        prepared = self._session.prepared
        return prepared.secrets if prepared and self.error and not self._allow_secrets else ()

    def stop(self) -> None:
        """End it; what came so far is kept as partial."""
        self._stop.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it has ended, at most so many seconds; return whether it has."""
        self._thread.join(seconds)
        return not self.running

    def _run(self) -> None:
        try:
            self.turn = self._session.ask(
                self.question,
                show=self._pieces.append,
                allow_secrets=self._allow_secrets,
                on_origin=self._begins,
            )
        except Exception as error:  # the page's error boundary: it is shown there
            self.error = error
            return
        if self.turn.run_id:
            from ragstream_assets.recording.answer_record import record_answer

            record_answer(self._workspace, self.turn.answer, run_id=self.turn.run_id)

    def _begins(self, origin: str) -> None:
        self.origin = origin

    def _build(self, workspace: Workspace, request: PromptRequest) -> Outcome:
        """Make the prompt, recorded as the page's settings say; its run is written behind."""
        from ragstream_assets.recorder import record_prompt

        return outcome_of(record_prompt(workspace, request, session=self._group))
