"""Asking the language model what of a message is worth remembering; the rules stand behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragstream_core.agents.asking import own, question
from ragstream_core.build import models
from ragstream_core.build.asking import Guarded
from ragstream_core.errors import ChatFailed, UsageError
from ragstream_core.memory.facts.candidate import Candidate
from ragstream_core.memory.facts.deciding import TASK, candidate_of, decisions

if TYPE_CHECKING:
    from ragstream_core.build.workspace import Workspace


def asked(workspace: Workspace, user_text: str) -> tuple[list[Candidate] | None, str]:
    """Return what the model proposes; None and the reason where it gave no usable answer.

    A message that seems to hold a secret is not sent to a model on another machine. The answer is
    kept nowhere.

    Args:
        workspace: Whose model is asked.
        user_text: The user's side of a turn.
    """
    try:
        model = Guarded(models.chat_model(workspace.config))
        reply = model.complete(question(TASK, [own("message", user_text)]))
    except (ChatFailed, UsageError) as error:
        return None, error.message
    found = decisions(reply.text)
    if found is None:
        return None, f"{model.name} answered without JSON"
    return [fact for decision in found if (fact := candidate_of(decision)) is not None], ""
