"""`ContextBuilder`: what the chain finds for a text, as one plain text within both budgets.

Pieces, retrieval, `retrieval.min_score` and reranking are the chain's own, from the same pinned
generations; only the frame is another one than a Super-Prompt's. Nothing is kept of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragstream_core.retrieval.plain_context import ContextLimits, Passage, context_parts
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.stages import run_prompt
from ragstream_core.wiring.token_budget import counter_of_settings

if TYPE_CHECKING:
    from ragstream_core.wiring.workspace import Workspace

_DOCUMENTS_ONLY = {
    "history.persist": False,
    "history.enabled": False,
    "prompt.recent_history": False,
    "agents.a1": False,
    "agents.a2": False,
}


@dataclass(frozen=True, slots=True)
class Retrieved:
    """What was found.

    Attributes:
        passages: The best first.
        below: How many candidates were dropped by `retrieval.min_score`.
    """

    passages: tuple[Passage, ...]
    below: int


@dataclass(frozen=True, slots=True)
class Context:
    """Passages as one text.

    Attributes:
        text: The text; empty where nothing was found or fits.
        passages: Those in it.
        cut: Whether the last one is not whole.
        left: How many did not fit.
        below: As `Retrieved` has it.
    """

    text: str
    passages: tuple[Passage, ...]
    cut: bool
    left: int
    below: int


@dataclass(frozen=True)
class ContextBuilder:
    """Finds and renders.

    Attributes:
        workspace: The data root; its settings hold.
        projects: Where to look.
        separator: Between two passages.
        head_separator: Between a passage's head and its text.
        task: Name of a task profile; empty for none.
    """

    workspace: Workspace
    projects: tuple[str, ...]
    separator: str = "\n\n"
    head_separator: str = "\n"
    task: str = ""

    def retrieve(self, text: str) -> Retrieved:
        """Return the passages that the chain finds for a text, in the reranker's order.

        Args:
            text: What to look for; its filters hold, files it names are not injected.

        Raises:
            RagstreamError: Unknown project, damaged index, missing model.
        """
        from ragstream_core.prompts.inputs import PromptRequest

        request = PromptRequest(
            text=text, projects=self.projects, settings=dict(_DOCUMENTS_ONLY), task=self.task
        )
        prompt = run_prompt(self.workspace, pin_inputs(self.workspace, request), through="reranker")
        rows = prompt.extras.decisions
        scores = {row.chunk_id: row.score for row in rows if row.stage == "reranked"}
        chunks = {chunk.id: chunk for chunk in prompt.base_context_chunks}
        return Retrieved(
            tuple(
                Passage(
                    i, chunks[i].source, chunks[i].meta["chunk_index"], score, chunks[i].snippet
                )
                for i, score in scores.items()
            ),
            sum(row.rule == "min_score" for row in rows),
        )

    def build_context(self, text: str) -> Context:
        """Return the passages for a text within both budgets, the last one cut to fit.

        The budgets are `retrieval.max_context_chars`, and `retrieval.max_context_tokens` less
        `retrieval.token_overhead`.

        Args:
            text: What to look for.

        Raises:
            RagstreamError: As `retrieve`.
        """
        found = self.retrieve(text)
        settings = self.workspace.config.with_task(self.task).chain()
        chosen = settings.retrieval
        counter = counter_of_settings(self.workspace, settings)
        limits = ContextLimits(
            chosen.max_context_chars,
            max(0, chosen.max_context_tokens - chosen.token_overhead),
            self.separator,
            self.head_separator,
        )
        parts = list(context_parts(found.passages, limits, counter))
        return Context(
            "".join(part.text for part in parts),
            tuple(part.passage for part in parts),
            cut=bool(parts) and not parts[-1].whole,
            left=len(found.passages) - len(parts),
            below=found.below,
        )
