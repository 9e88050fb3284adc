"""Chunks on their way into an index: staged, and embedded if their text has no vector yet.

Files and turns come the same way. Texts are embedded in batches and each batch is durable before
the next begins: a killed run resumes where it was, and memory does not grow with the corpus.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.errors import EmbeddingFailed, GenerationGone, IntegrityError, RunCommand
from ragstream_core.index.catalog import Catalog, open_catalog
from ragstream_core.index.rows import EMBED_SECONDS, EMBEDDED, ChunkRow, TextRow, placed
from ragstream_core.index.schema import CATALOG_NAME, project_lock, reading, recover
from ragstream_core.records.identity import chunk_id, sha256_hex
from ragstream_core.text.headings import titled

if TYPE_CHECKING:
    from ragstream_core.ingestion.loader import Document
    from ragstream_core.ports import Embedder, PhaseProgress
    from ragstream_core.text.chunker import Chunker

BATCH_TEXTS = 256
_PROGRESS_EVERY_S = 0.25

# Called with hash → text.
GiveTexts = Callable[[dict[str, str]], None]


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

    Its progress is ("embed", texts done, texts in all); while documents are still being read the
    second is estimated.
    """

    def __init__(
        self,
        store: Catalog,
        embedder: Embedder,
        *,
        progress: PhaseProgress,
        # a vector that is there counts if it and its text are sound; else `verify` finds damage
        checked: bool = False,
        source: str = "files",  # what stays pending if the model fails: ``files``, ``turns``
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.store = store
        self._embedder = embedder
        self._progress = progress
        self._checked = checked
        self._source = source
        # texts that are embedded and stored at a time
        self.batch_texts = max(BATCH_TEXTS, int(getattr(embedder, "texts_at_once", 0)))
        self._clock = clock
        self._asked: dict[str, str] = {}
        self._others: set[str] = set()
        self._waiting: dict[str, str] = {}
        self._share = 1.0
        self.embedded = 0  # texts given to the model
        self.long_inputs = 0  # those of them that are over its window
        self.reused = 0  # chunks whose text had a vector already, or comes twice
        self.staged = 0  # chunk rows
        self.missing: set[str] = set()  # hashes of texts without a vector, not to be embedded
        self.seconds = 0.0  # wall time inside the model
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
        """Stage the chunk rows of a document and take their texts; as `add`."""
        self.store.stage(rows)
        self.staged += len(rows)
        self.reused += len(rows) - len(texts)
        self.add(texts, share=share)

    def add(self, texts: Mapping[str, str], *, share: float = 0.0, embed: bool = True) -> None:
        """Take texts by hash; they are embedded as soon as there is a batch of them.

        `share` is that of all bytes to read that are read with them, 0 if it is not known: it tells
        how much is to come. With `embed` false, those without a vector are only counted. A batch
        that fails is not stored.
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
        """Embed what still waits; the `last` batch before a commit becomes durable with it."""
        self._share = 1.0 if self._share else 0.0
        self._sort()
        while self._waiting:
            self._record(last=last and len(self._waiting) <= self.batch_texts)

    def verify(self, *, everything: bool) -> int:
        """Embed damaged vectors on disk again, of staged chunks or all; return how many."""
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

    def _record(self, *, last: bool = False) -> None:
        batch = {h: self._waiting[h] for h in list(self._waiting)[: self.batch_texts]}
        self._store(batch, last=last)
        for text_hash in batch:
            del self._waiting[text_hash]
        self.embedded += len(batch)

    def _store(self, batch: dict[str, str], *, last: bool) -> None:
        """Embed a batch and store its vectors."""
        from ragstream_core.text.term_blobs import term_blobs

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
        self.long_inputs += sum(row.tokens > self._embedder.window for row in rows)
        done = self.embedded + len(batch)
        self._progress("embed", done, max(total, done) if total else 0)


class ComingTexts(Stager):
    """A stager that hands the texts without a vector over instead of embedding them."""

    def __init__(
        self,
        store: Catalog,
        embedder: Embedder,
        give: GiveTexts,
        *,
        progress: PhaseProgress,
        batch_texts: int,
    ) -> None:
        super().__init__(store, embedder, progress=progress)
        self._give = give
        self._given: set[bytes] = set()
        self.batch_texts = batch_texts

    def stage(self, rows: Sequence[ChunkRow], texts: Mapping[str, str], share: float) -> None:
        """Take the texts of a document."""
        self.add({h: t for h, t in texts.items() if bytes.fromhex(h) not in self._given})

    def _store(self, batch: dict[str, str], *, last: bool) -> None:
        self._give(batch)
        self._given.update(map(bytes.fromhex, batch))


@contextlib.contextmanager
def nothing_erased(index_dir: Path) -> Iterator[None]:
    """Hold the writer lock of a project that has an index: what is handed over is not forgotten."""
    if not (index_dir / CATALOG_NAME).exists():  # there is nothing to forget
        yield
        return
    with contextlib.suppress(IntegrityError):  # whoever reads it says what is damaged
        recover(index_dir)
    with project_lock(index_dir):
        yield


@contextlib.contextmanager
def read_store(index_dir: Path, *, rebuild: bool = False) -> Iterator[Catalog]:
    """Yield a project's catalog for reading; an empty one if there is none yet."""
    if not _is_readable(index_dir, rebuild=rebuild):
        with tempfile.TemporaryDirectory() as folder, open_catalog(Path(folder)) as empty:
            yield empty
        return
    with reading(index_dir) as db:
        yield Catalog(index_dir, db)


def _is_readable(index_dir: Path, *, rebuild: bool) -> bool:
    """Return whether there is a catalog; one that is damaged is none for a rebuild."""
    if not (index_dir / CATALOG_NAME).exists():
        return False
    try:
        recover(index_dir)
        with reading(index_dir):
            return True
    except GenerationGone:  # a first ingest was killed before it had tables
        return False
    except IntegrityError:
        if not rebuild:
            raise
        return False


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
