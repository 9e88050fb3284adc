"""Query vectors that cannot be made again: kept with the prompt, taken from there in its replay.

An endpoint may answer the same question with other bits tomorrow. So its vectors are inputs of a
prompt like the bytes of an injected file: kept by their digest, named in the record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from ragstream_core.errors import InputUnavailable, UnknownPrompt
from ragstream_core.prompts.inputs import persists
from ragstream_core.records import SuperPrompt, evolve
from ragstream_core.records.identity import sha256_hex
from ragstream_core.records.prompt_inputs import PromptInputs
from ragstream_core.wiring import models

if TYPE_CHECKING:
    from ragstream_core.ports import F32, Embedder
    from ragstream_core.prompts.chain import Stage
    from ragstream_core.prompts.store import PromptStore
    from ragstream_core.wiring.workspace import Workspace

_STORED = "<f4"


class KeptQueries:
    """An embedder whose query vectors are kept, or come from a record.

    Attributes:
        noted: sha256 of each text embedded so far → sha256 of its vector's float32 bytes.
    """

    def __init__(
        self, embedder: Embedder, store: PromptStore, recorded: Mapping[str, str] | None
    ) -> None:
        self.noted: dict[str, str] = {}
        self._embedder = embedder
        self._store = store
        self._recorded = recorded

    def __getattr__(self, name: str) -> Any:
        """Return what the embedder has under that name."""
        return getattr(self._embedder, name)

    def embed_queries(self, texts: Sequence[str]) -> F32:
        """Embed queries and keep the vectors; in a replay nobody is asked."""
        import numpy as np

        digests = [sha256_hex(text) for text in texts]
        if self._recorded is not None:
            rows = [np.frombuffer(self._blob(digest), _STORED) for digest in digests]
            return np.asarray(rows, dtype=np.float32)
        vectors = self._embedder.embed_queries(texts)
        for digest, row in zip(digests, vectors, strict=True):
            self.noted[digest] = self._store.put_blob(row.astype(_STORED).tobytes())
        return vectors

    def _blob(self, text_digest: str) -> bytes:
        try:
            digest = (self._recorded or {})[text_digest]
            data = self._store.blob(digest)
        except (KeyError, UnknownPrompt):
            raise InputUnavailable(
                f"a query vector of {self._embedder.name} is not kept, and an endpoint may answer "
                "otherwise today",
                hint="make the prompt again",
            ) from None
        self.noted[text_digest] = digest
        return data


@dataclass(frozen=True, slots=True)
class NotingStage:
    """A stage that leaves the digests of its query vectors in ``extras.query_vectors``."""

    stage: Stage
    queries: KeptQueries

    def __call__(self, prompt: SuperPrompt) -> SuperPrompt:
        """Run the stage; what an earlier pass noted stays."""
        result = evolve(self.stage(prompt))
        result.extras.query_vectors = {**prompt.extras.query_vectors, **self.queries.noted}
        return result


class RememberedQueries:
    """An embedder that embeds each question once."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._rows: dict[str, F32] = {}

    def __getattr__(self, name: str) -> Any:
        """Return what the embedder has under that name."""
        return getattr(self._embedder, name)

    def embed_queries(self, texts: Sequence[str]) -> F32:
        """Embed queries, each text once."""
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
    """
    models.require_replayable(workspace.config)
    embedder = models.embedder(workspace.config)
    kept_at_all = bool(inputs.query_vectors) or persists(inputs)
    if kept_at_all and not getattr(embedder, "reproducible", True):
        kept = KeptQueries(embedder, workspace.store, inputs.query_vectors)
        embedder = cast("Embedder", kept)
    return cast("Embedder", RememberedQueries(embedder))
