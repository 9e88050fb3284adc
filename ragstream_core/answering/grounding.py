"""What an answer may rest on: documents, memory, or nothing at all (R-209…R-211)."""

from __future__ import annotations

from typing import Literal

from ragstream_core.prompting.compose import file_texts, history_texts, selected_texts
from ragstream_core.prompting.reparse import is_edited, still_shown
from ragstream_core.records import SuperPrompt

Grounding = Literal["documents", "memory", "nothing"]

REFUSAL = "I don't have enough information in the uploaded documents to answer this question."


def grounding_of(
    prompt: SuperPrompt, *, project_memory: str = "", history: bool = True
) -> Grounding:
    """Say what an answer to a prompt may rest on.

    Args:
        prompt: After the prompt builder.
        project_memory: Text of ``project_memory.md``.
        history: Whether RECENT HISTORY is shown.

    Returns:
        ``documents`` where an injected file or a chunk is in the prompt; else ``memory`` where
        there is a Project Memory or a conversation; else ``nothing``: the answer is `REFUSAL`, and
        no model is asked. A text that a person edited is ``memory`` where it shows none of them: it
        holds what the person put there.
    """
    texts = [*file_texts(prompt), *selected_texts(prompt, history=False)]
    if still_shown(prompt, (source.id for source, _ in texts)):
        return "documents"
    if is_edited(prompt):
        return "memory"
    return "memory" if project_memory.strip() or (history and history_texts(prompt)) else "nothing"
