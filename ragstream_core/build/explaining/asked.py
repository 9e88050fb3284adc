"""The questions of a recorded prompt, embedded once, however often it is run with a change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from ragstream_core.build import models
from ragstream_core.build.keeping import persists
from ragstream_core.build.query_vectors import KeptQueries

if TYPE_CHECKING:
    from ragstream_core.build.workspace import Workspace
    from ragstream_core.orchestration.inputs import PromptInputs
    from ragstream_core.ports import F32, Embedder


class RememberedQueries:
    """An embedder that embeds each question once.

    Args:
        embedder: Does everything else.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._rows: dict[str, F32] = {}

    def __getattr__(self, name: str) -> Any:
        """Return what the embedder has under that name."""
        return getattr(self._embedder, name)

    def embed_queries(self, texts: Sequence[str]) -> F32:
        """Embed queries, each text once.

        Args:
            texts: The query pieces.

        Returns:
            Shape (len(texts), dimension), float32 unit rows.

        Raises:
            RagstreamError: The embedder cannot answer.
        """
        import numpy as np

        fresh = [text for text in dict.fromkeys(texts) if text not in self._rows]
        if fresh:
            found = self._embedder.embed_queries(fresh)
            self._rows.update(zip(fresh, found, strict=True))
        rows = [self._rows[text] for text in texts]
        return np.stack(rows) if rows else self._embedder.embed_queries([])


def recorded_queries(workspace: Workspace, inputs: PromptInputs) -> Embedder:
    """Return the embedder of a finished prompt: what an endpoint said then is not asked again.

    Only where nothing of the prompt may be kept there is nothing to read, and it is asked.

    Raises:
        RagstreamError: The embedder's weights are missing or wrong.
    """
    models.require_replayable(workspace.config)
    embedder = models.embedder(workspace.config)
    kept_at_all = bool(inputs.query_vectors) or persists(inputs)
    if kept_at_all and not getattr(embedder, "reproducible", True):
        kept = KeptQueries(embedder, workspace.store, inputs.query_vectors)
        embedder = cast("Embedder", kept)
    return cast("Embedder", RememberedQueries(embedder))
