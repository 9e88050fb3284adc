"""Chunks on their way into an index: staged, and embedded if their text has no vector yet.

Files and turns come the same way. Texts are embedded in batches and each batch is durable before
the next begins: a killed run resumes where it was, and memory does not grow with the corpus.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ragstream_core.errors import EmbeddingFailed, IntegrityError, RunCommand
from ragstream_core.index.rows import EMBED_SECONDS, EMBEDDED, ChunkRow, TextRow, placed
from ragstream_core.records.identity import chunk_id, sha256_hex
from ragstream_core.text.headings import titled

if TYPE_CHECKING:
    from ragstream_core.index.catalog import Catalog
    from ragstream_core.ingestion.loader import Document
    from ragstream_core.ports import Embedder, PhaseProgress
    from ragstream_core.text.chunker import Chunker

BATCH_TEXTS = 256
_PROGRESS_EVERY_S = 0.25


def chunked(document: Document, chunker: Chunker) -> tuple[list[ChunkRow], dict[str, str]]:
    """Return the chunk rows of a document and their texts by hash; a chunk lies in one page.

    A text begins with the context that it is read with.
    """
    entry, whole_text = document.entry, document.text or ""
    rows: list[ChunkRow] = []
    texts: dict[str, str] = {}
    for page in document.pages:
        whole = page.start == 0 and page.end == len(whole_text)
        part = whole_text if whole else whole_text[page.start : page.end]
        for piece in chunker.chunk(part, file_type=document.syntax):
            text = piece.context + piece.chunk_text
            text_hash = sha256_hex(text)
            texts[text_hash] = text
            start, end = piece.start + page.start, piece.end + page.start
            rows.append(
                ChunkRow(
                    chunk_id(entry.path, entry.sha256, len(rows)), entry.path, entry.sha256,
                    len(rows), start, end, page=page.number,
                    heading=placed(titled(document.title, piece.heading), piece.context),
                    text_hash=text_hash,
                )
            )  # fmt: skip
    return rows, texts


class Stager:
    """Stages the chunks of one ingest and embeds their texts.

    Attributes:
        store: The catalog.
        embedded: Texts given to the model.
        reused: Chunks whose text had a vector already, or comes twice.
        missing: Texts without a vector that were not to be embedded, by hash.
        staged: Chunk rows staged.
        long_inputs: Embedded texts over the model's window.
        seconds: Wall time inside the model.
        batch_texts: Texts that are embedded and stored at a time.

    Args:
        store: The catalog.
        embedder: Makes the vectors.
        progress: Called with ("embed", texts done, texts in all); while documents are still being
            read the second is estimated.
        checked: A vector that is there counts if it and its text are sound; else `verify` finds
            the damaged ones before the commit.
        source: What stays pending if the model fails: ``files``, ``turns``.
        clock: Seconds, for durations.
    """

    def __init__(
        self,
        store: Catalog,
        embedder: Embedder,
        *,
        progress: PhaseProgress,
        checked: bool = False,
        source: str = "files",
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.store = store
        self._embedder = embedder
        self._progress = progress
        self._checked = checked
        self._source = source
        self.batch_texts = max(BATCH_TEXTS, int(getattr(embedder, "texts_at_once", 0)))
        self._clock = clock
        self._asked: dict[str, str] = {}
        self._others: set[str] = set()
        self._waiting: dict[str, str] = {}
        self._share = 1.0
        self.embedded = self.reused = self.staged = self.long_inputs = 0
        self.missing: set[str] = set()
        self.seconds = 0.0
        self._cut_before = embedder.truncated_inputs
        self._taken_before = self._taken

    @property
    def truncated_inputs(self) -> int:
        """How many texts the encoder cut during this ingest, by its own count."""
        return self._embedder.truncated_inputs - self._cut_before

    @property
    def _taken(self) -> int:
        """Texts whose vectors the embedder did not make but took over."""
        return int(getattr(self._embedder, "taken", 0))

    def provenance(self) -> dict[str, str]:
        """Return what a generation keeps of the embedding: how many texts, and how long."""
        made = self.embedded - (self._taken - self._taken_before)
        return {EMBEDDED: str(made), EMBED_SECONDS: f"{self.seconds:.3f}"}

    def stage(self, rows: Sequence[ChunkRow], texts: Mapping[str, str], share: float) -> None:
        """Stage the chunk rows of a document and take their texts; as `add`.

        Raises:
            EmbeddingFailed: The model returned something unusable; the batch is not stored.
            OperationFailed: Disk full; the batch is not stored.
        """
        self.store.stage(rows)
        self.staged += len(rows)
        self.reused += len(rows) - len(texts)
        self.add(texts, share=share)

    def add(self, texts: Mapping[str, str], *, share: float = 0.0, embed: bool = True) -> None:
        """Take texts; they are embedded as soon as there is a batch of them.

        Args:
            texts: Hash → text.
            share: Share of all bytes to read that are read with them; tells how much is to come.
                0: not known.
            embed: Embed those without a vector; else only count them.

        Raises:
            EmbeddingFailed: The model returned something unusable; the batch is not stored.
            OperationFailed: Disk full; the batch is not stored.
        """
        if embed:
            self._asked.update(texts)
        else:
            self._others.update(texts)
        self.reused += len(texts)
        self._share = share
        if len(self._asked) + len(self._others) + len(self._waiting) >= self.batch_texts:
            self._sort()
        while len(self._waiting) >= self.batch_texts:
            self._record()

    def finish(self, *, last: bool = False) -> None:
        """Embed what still waits.

        Args:
            last: The commit comes next: the last batch becomes durable with it.

        Raises:
            EmbeddingFailed: The model returned something unusable; the batch is not stored.
            OperationFailed: Disk full; the batch is not stored.
        """
        self._share = 1.0 if self._share else 0.0
        self._sort()
        while self._waiting:
            self._record(last=last and len(self._waiting) <= self.batch_texts)

    def verify(self, *, everything: bool) -> int:
        """Check the vectors on disk, embed again what is damaged, and check that.

        Args:
            everything: All vectors of the model; else those of staged chunks.

        Returns:
            How many vectors were made anew.

        Raises:
            IntegrityError: Rows are missing, or damage remains.
            EmbeddingFailed: The model returned something unusable.
            OperationFailed: Disk full.
        """
        fingerprint = self._embedder.fingerprint
        broken = self.store.broken_texts(fingerprint, everything=everything)
        self._waiting.update(broken)
        self.finish()
        if broken and self.store.broken_texts(fingerprint, everything=everything):
            raise IntegrityError("vectors are damaged again right after they were written")
        if self.store.staged_count() != self.staged:
            raise IntegrityError("staged chunks were lost")
        return len(broken)

    def _sort(self) -> None:
        """Ask the store once for many texts; those that it does not know wait for the model."""
        known = self.store.known(
            [*self._asked, *self._others], self._embedder.fingerprint, checked=self._checked
        )
        have = known | self._waiting.keys()
        fresh = {h: text for h, text in self._asked.items() if h not in have}
        lacking = self._others - have - fresh.keys()
        self.reused -= len(fresh) + len(lacking - self.missing)
        self._waiting.update(fresh)
        self.missing = (self.missing | lacking) - fresh.keys()
        self._asked, self._others = {}, set()

    def _next_batch(self) -> dict[str, str]:
        return {h: self._waiting[h] for h in list(self._waiting)[: self.batch_texts]}

    def _record(self, *, last: bool = False) -> None:
        from ragstream_core.text.term_blobs import term_blobs

        batch = self._next_batch()
        total = self.embedded + len(self._waiting)
        total = round(total / max(self._share, 1e-3)) if self._share else 0
        began = self._clock()
        vectors = self._embedder.embed_documents(
            list(batch.values()),
            progress=lambda done, _: self._progress("embed", self.embedded + done, total),
        )
        self.seconds += self._clock() - began
        wanted = (len(batch), self._embedder.dimension)
        if vectors.shape != wanted:
            raise EmbeddingFailed(
                f"the embedder returned shape {vectors.shape} for {wanted}",
                hint=("run ", RunCommand("doctor"), f"; the {self._source} stay pending"),
            )
        terms = term_blobs(list(batch.values()))
        rows = [
            TextRow(text_hash, text, self._embedder.count(text), blob)
            for (text_hash, text), blob in zip(batch.items(), terms, strict=True)
        ]
        self.store.record_texts(rows, vectors, embed_fp=self._embedder.fingerprint, last=last)
        for text_hash in batch:
            del self._waiting[text_hash]
        self.embedded += len(batch)
        self.long_inputs += sum(row.tokens > self._embedder.window for row in rows)
        self._progress("embed", self.embedded, max(total, self.embedded) if total else 0)


def throttled(progress: PhaseProgress | None) -> PhaseProgress:
    """Return a callback that calls ``progress`` a few times a second, and for every new phase."""
    last_phase, last_time = "", 0.0

    def report(phase: str, done: int, total: int) -> None:
        nonlocal last_phase, last_time
        now = time.monotonic()
        due = phase != last_phase or done == total or now - last_time >= _PROGRESS_EVERY_S
        if progress is not None and due:
            last_phase, last_time = phase, now
            progress(phase, done, total)

    return report
