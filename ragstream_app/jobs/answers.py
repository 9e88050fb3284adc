"""The answer to a Super-Prompt that a person sent from the page."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ragstream_app.jobs.streams import StoppableChat, StreamJob

if TYPE_CHECKING:
    from ragstream_core.answering.answer import Answer, Prepared
    from ragstream_core.build.workspace import Workspace


class AnswerJob(StreamJob):
    """Asks a model for the answer to a prepared prompt.

    Args:
        workspace: The data root.
        prepared: What is sent.
        allow_secrets: Send it even though it seems to contain secrets.
        run_id: The Dagster run of its prompt, in which the answer is observed; empty for none.
    """

    def __init__(
        self,
        workspace: Workspace,
        prepared: Prepared,
        *,
        allow_secrets: bool = False,
        run_id: str = "",
    ) -> None:
        super().__init__(workspace)
        self._allow_secrets = allow_secrets
        self._run_id = run_id
        model = prepared.model
        self.prepared = replace(prepared, model=model and StoppableChat(model, self._stop))
        self._thread.start()

    def _make(self) -> tuple[Answer, str]:
        """Ask.

        Raises:
            RagstreamError: There is no answer.
        """
        from ragstream_core.build import answering

        found = answering.answer(
            self._workspace,
            self.prepared,
            allow_secrets=self._allow_secrets,
            show=self._pieces.append,
        )
        return found, self._run_id
