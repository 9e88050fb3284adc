"""Texts into the catalog, batch by batch: each batch is durable before the next one begins."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ragstream_core.errors import EmbeddingFailed
from ragstream_core.history.history_store import EmbeddedText, HistoryStore

if TYPE_CHECKING:
    from ragstream_core.ports import Embedder

BATCH_TEXTS = 256

Progress = Callable[[str, int, int], None]
"""Called with (phase, done, total); total is 0 where it is not known."""


class TextQueue:
    """Embeds the texts that have no sound vector yet.

    Attributes:
        embedded: Texts given to the model.
        reused: Texts that came and were not.
        missing: Texts without a vector that were not to be embedded.
        seconds: Wall time inside the model.

    Args:
        store: The history catalog.
        embedder: Makes the vectors.
        progress: Called with ("embed", texts done, 0).
        clock: Seconds, for durations.
    """

    def __init__(
        self,
        store: HistoryStore,
        embedder: Embedder,
        *,
        progress: Progress,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._progress = progress
        self._clock = clock
        self._waiting: dict[str, str] = {}
        self._asked: dict[str, str] = {}
        self.embedded = self.reused = self.missing = 0
        self.seconds = 0.0

    def add(self, texts: Mapping[str, str], *, embed: bool = True) -> None:
        """Take texts by their hash.

        Args:
            texts: Hash → text.
            embed: Embed those without a vector; else only count them.

        Raises:
            EmbeddingFailed: The model returned something unusable; the batch is not stored.
            OperationFailed: Disk full; the batch is not stored.
        """
        (self._waiting if embed else self._asked).update(texts)
        self.reused += len(texts)
        if len(self._waiting) + len(self._asked) >= BATCH_TEXTS:
            self.finish()

    def finish(self, *, last: bool = False) -> None:
        """Embed what still waits.

        Args:
            last: The commit comes next: the last batch may become durable with it.

        Raises:
            EmbeddingFailed: The model returned something unusable; the batch is not stored.
            OperationFailed: Disk full; the batch is not stored.
        """
        fingerprint = self._embedder.fingerprint
        known = self._store.known([*self._waiting, *self._asked], fingerprint)
        fresh = {h: text for h, text in self._waiting.items() if h not in known}
        lacking = self._asked.keys() - known - fresh.keys()
        self.missing += len(lacking)
        self.reused -= len(fresh) + len(lacking)
        items = list(fresh.items())
        for at in range(0, len(items), BATCH_TEXTS):
            self._record(
                dict(items[at : at + BATCH_TEXTS]), last=last and at + BATCH_TEXTS >= len(items)
            )
        self._waiting, self._asked = {}, {}

    def _record(self, batch: Mapping[str, str], *, last: bool) -> None:
        from ragstream_core.terms import term_blob

        began = self._clock()
        vectors = self._embedder.embed_documents(
            list(batch.values()),
            progress=lambda done, _: self._progress("embed", self.embedded + done, 0),
        )
        self.seconds += self._clock() - began
        wanted = (len(batch), self._embedder.dimension)
        if vectors.shape != wanted:
            raise EmbeddingFailed(
                f"the embedder returned shape {vectors.shape} for {wanted}",
                hint="run `ragstream doctor`; the turns stay pending",
            )
        rows = [EmbeddedText(h, t, self._embedder.count(t), term_blob(t)) for h, t in batch.items()]
        self._store.record_texts(rows, vectors, embed_fp=self._embedder.fingerprint, last=last)
        self.embedded += len(batch)
        self._progress("embed", self.embedded, 0)
