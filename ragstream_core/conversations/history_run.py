"""One run of the history worker: records become rows, rows become durable, figures are kept.

Texts into the catalog, batch by batch: each batch is durable before the next one begins.

`HistoryStats`: what one run of the history worker did.

One run of the history worker: what it counts, and how records become rows.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ragstream_core.conversations.edits import Folded, apply_edits
from ragstream_core.conversations.history_store import (
    EmbeddedText,
    HistoryChunk,
    HistoryStore,
    Mark,
    TurnRow,
)
from ragstream_core.conversations.journal.records import (
    NO_VECTORS,
    Cleared,
    Entry,
    Position,
    TagEdit,
    Turn,
)
from ragstream_core.conversations.units import Piece, history_chunk_id, timestamp_ns, turn_sha
from ragstream_core.errors import EmbeddingFailed
from ragstream_core.records.identity import sha256_hex

if TYPE_CHECKING:
    from ragstream_core.ports import Embedder


@dataclass(frozen=True, slots=True)
class HistoryStats:
    """The numbers of one run.

    Attributes:
        generation: The newest generation of the catalog afterwards; 0 where there is none.
        digest: Its digest, or "".
        seq: Every turn of the journal up to here is embedded.
        committed: Whether this run made a generation.
        turns: Turns that were read and cut.
        retagged: Earlier turns whose tags changed.
        passed_over: Turns that are not embedded: the answer broke off, or they were cleared.
        embedded: Texts given to the model.
        reused: Chunks whose text had a sound vector already, or comes twice.
        missing: Texts that have yet to be embedded before another model can take over.
        months: Turns by month, ``2026-10``.
        sessions: Last turn of each conversation that was read, by ``seq``.
        seconds: Wall time.
        model_seconds: Wall time inside the model.
        warnings: What went wrong after the commit, or is worth knowing.
    """

    generation: int = 0
    digest: str = ""
    seq: int = 0
    committed: bool = False
    turns: int = 0
    retagged: int = 0
    passed_over: int = 0
    embedded: int = 0
    reused: int = 0
    missing: int = 0
    months: Mapping[str, int] = field(default_factory=dict)
    sessions: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    model_seconds: float = 0.0
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as plain JSON values."""
        row = asdict(self)
        return {**row, "warnings": list(self.warnings)}


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
        from ragstream_core.text.terms import term_blob

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


CHUNKS = "chunks"
"""Key of a generation's provenance: how its turns were cut."""


@dataclass(slots=True)
class Run:
    """One run with its store open.

    Attributes:
        store: The history catalog.
        queue: Texts on their way to the model.
        provenance: What started it.
        began: The clock when it began.
        before: The mark when it began.
        turns: Turns that were read and cut.
        retagged: Earlier turns whose tags changed.
        passed_over: Turns that are not embedded, by ``seq``.
        months: Turns by month.
        sessions: Last turn of each conversation.
        warnings: What is worth knowing.
    """

    store: HistoryStore
    queue: TextQueue
    provenance: Mapping[str, str]
    began: float
    before: Mark
    turns: int = 0
    retagged: int = 0
    passed_over: set[int] = field(default_factory=set)
    months: Counter[str] = field(default_factory=Counter)
    sessions: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def told(self) -> dict[str, str]:
        """What the generation row keeps of this run."""
        return {
            **self.provenance,
            "embedded": str(self.queue.embedded),
            "embed_seconds": f"{self.queue.seconds:.3f}",
        }

    def stats(self, now: float) -> HistoryStats:
        """Return the numbers; ``now`` is the clock's."""
        mark = self.store.mark()
        return HistoryStats(
            mark.generation,
            mark.digest,
            mark.position.seq,
            committed=mark.generation != self.before.generation,
            turns=self.turns,
            retagged=self.retagged,
            passed_over=len(self.passed_over),
            embedded=self.queue.embedded,
            reused=self.queue.reused,
            missing=self.queue.missing,
            months=dict(sorted(self.months.items())),
            sessions=dict(sorted(self.sessions.items())),
            seconds=now - self.began,
            model_seconds=self.queue.seconds,
            warnings=(*self.store.notes, *self.warnings),
        )


def look(
    entries: Iterator[Entry],
    upto: int | None,
    holds: Callable[[int, int], bool] = lambda first, last: False,
) -> tuple[Folded, Position | None]:
    """Return what records say about turns, and the place behind the last one to take.

    What was cleared later than that is hidden all the same, and what lost its vectors has none. The
    last one to take is before a clearing whose turns are still in the catalog: behind the mark it
    hides them from prompts.

    Args:
        entries: Records in order.
        upto: Number of the last one to take; None: all.
        holds: Says whether the catalog has a turn in a range of numbers.
    """
    last: Position | None = None

    def taken() -> Iterator[Entry]:
        nonlocal last, upto
        for entry in entries:
            cleared = entry.record.seqs if isinstance(entry.record, Cleared) else ()
            if any(holds(*span) for span in cleared):
                upto = min(upto or entry.seq, entry.seq - 1)
            if upto is None or entry.seq <= upto:
                last = entry.position
            elif not (cleared or _is_of_vectors(entry)):
                continue
            yield entry

    return apply_edits(taken()), last


def _is_of_vectors(entry: Entry) -> bool:
    edit = entry.record
    return isinstance(edit, TagEdit) and NO_VECTORS in {*edit.add, *edit.remove}


def turn_row(entry: Entry, turn: Turn, folded: Folded) -> TurnRow:
    """Return what the catalog keeps of a turn; its texts are those of its chunks."""
    return TurnRow(
        entry.seq,
        replace(turn, user_text="", assistant_text=""),
        turn_sha(turn),
        timestamp_ns(turn),
        tags=tuple(sorted(folded.tags(turn.id, turn.tags))),
        segment=entry.segment,
        offset=entry.offset,
    )


def turn_chunks(seq: int, session: str, pieces: Sequence[Piece]) -> list[HistoryChunk]:
    """Return the chunk rows of a turn's pieces."""
    return [
        HistoryChunk(
            history_chunk_id(session, seq, seq, i), seq, i, p.start, p.end, sha256_hex(p.text)
        )
        for i, p in enumerate(pieces)
    ]
