"""`Stager`: documents into staged chunk rows; embeds only texts that have no vector yet.

Texts are embedded in batches and each batch is durable before the next begins: a killed ingest
resumes where it was, and memory does not grow with the corpus.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from ragstream_core.errors import EmbeddingFailed, IntegrityError
from ragstream_core.index.rows import ChunkRow, TextRow
from ragstream_core.records.identity import chunk_id, sha256_hex

if TYPE_CHECKING:
    from ragstream_core.index.catalog import Catalog
    from ragstream_core.ingestion.loader import Document
    from ragstream_core.ports import Embedder
    from ragstream_core.text.chunker import ChunkPiece

BATCH_TEXTS = 256

PhaseProgress = Callable[[str, int, int], None]
"""Called with (phase, done, total); total is 0 where it is not known, and may be an estimate."""


class DocumentChunker(Protocol):
    """What cuts documents; `ragstream_core.text.chunker.Chunker` is the real one."""

    @property
    def version(self) -> str:
        """What stands for the chunker in the index fingerprint."""
        ...

    def chunk(self, text: str, *, file_type: str) -> Sequence[ChunkPiece]:
        """Return the chunks of a text, numbered 0…N-1."""
        ...


class Stager:
    """Stages the chunks of one ingest.

    Attributes:
        embedded: Texts given to the model.
        reused: Chunks whose text had a vector already, or comes twice.
        staged: Chunk rows staged.
        long_inputs: Embedded texts over the model's window.
        seconds: Wall time inside the model.

    Args:
        store: The project's storage.
        embedder: Makes the vectors.
        chunker: Cuts the documents.
        progress: Called with ("embed", texts done, texts in all); while files are still being
            read the second is estimated from the bytes to come.
    """

    def __init__(
        self,
        store: Catalog,
        embedder: Embedder,
        *,
        chunker: DocumentChunker,
        progress: PhaseProgress,
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._chunker = chunker
        self._progress = progress
        self._waiting: dict[str, str] = {}
        self._share = 1.0
        self.embedded = self.reused = self.staged = self.long_inputs = 0
        self.seconds = 0.0
        self._cut_before = embedder.truncated_inputs

    @property
    def truncated_inputs(self) -> int:
        """How many texts the encoder cut during this ingest, by its own count."""
        return self._embedder.truncated_inputs - self._cut_before

    def add(self, document: Document, share: float = 1.0) -> None:
        """Chunk a document and stage its rows; a chunk lies in one page.

        Args:
            document: An ingested file with its text.
            share: Share of all bytes to read that are read with it; tells how much is to come.

        Raises:
            EmbeddingFailed: The model returned something unusable; the batch is not stored.
            OperationFailed: Disk full; the batch is not stored.
        """
        rows, texts = self._rows(document)
        self._store.stage(rows)
        self.staged += len(rows)
        known = self._store.known(list(texts), self._embedder.fingerprint)
        fresh = {h: t for h, t in texts.items() if h not in known and h not in self._waiting}
        self.reused += len(rows) - len(fresh)
        self._waiting.update(fresh)
        self._share = share
        while len(self._waiting) >= BATCH_TEXTS:
            self._record(BATCH_TEXTS)

    def _rows(self, document: Document) -> tuple[list[ChunkRow], dict[str, str]]:
        entry, text = document.entry, document.text or ""
        rows: list[ChunkRow] = []
        texts: dict[str, str] = {}
        for page in document.pages:
            whole = page.start == 0 and page.end == len(text)
            part = text if whole else text[page.start : page.end]
            for piece in self._chunker.chunk(part, file_type=document.syntax):
                text_hash = sha256_hex(piece.chunk_text)
                texts[text_hash] = piece.chunk_text
                start, end = piece.start + page.start, piece.end + page.start
                rows.append(
                    ChunkRow(
                        chunk_id(entry.path, entry.sha256, len(rows)), entry.path, entry.sha256,
                        len(rows), start, end, page=page.number, heading=piece.heading,
                        text_hash=text_hash,
                    )
                )  # fmt: skip
        return rows, texts

    def finish(self) -> None:
        """Embed what still waits.

        Raises:
            EmbeddingFailed: The model returned something unusable; the batch is not stored.
            OperationFailed: Disk full; the batch is not stored.
        """
        self._share = 1.0
        while self._waiting:
            self._record(BATCH_TEXTS)

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
        broken = self._store.broken_texts(fingerprint, everything=everything)
        self._waiting.update(broken)
        self.finish()
        if broken and self._store.broken_texts(fingerprint, everything=everything):
            raise IntegrityError("vectors are damaged again right after they were written")
        if self._store.staged_count() != self.staged:
            raise IntegrityError("staged chunks were lost")
        return len(broken)

    def _record(self, limit: int) -> None:
        from ragstream_core.text.terms import term_blob

        batch = {h: self._waiting[h] for h in list(self._waiting)[:limit]}
        total = round((self.embedded + len(self._waiting)) / max(self._share, 1e-3))
        began = time.perf_counter()
        vectors = self._embedder.embed_documents(
            list(batch.values()),
            progress=lambda done, _: self._progress("embed", self.embedded + done, total),
        )
        self.seconds += time.perf_counter() - began
        wanted = (len(batch), self._embedder.dimension)
        if vectors.shape != wanted:
            raise EmbeddingFailed(
                f"the embedder returned shape {vectors.shape} for {wanted}",
                hint="run `ragstream doctor`; the files stay pending",
            )
        rows = [TextRow(h, t, self._embedder.count(t), term_blob(t)) for h, t in batch.items()]
        self._store.record_texts(rows, vectors, embed_fp=self._embedder.fingerprint)
        for text_hash in batch:
            del self._waiting[text_hash]
        self.embedded += len(batch)
        self.long_inputs += sum(row.tokens > self._embedder.window for row in rows)
        self._progress("embed", self.embedded, max(total, self.embedded))
