"""One run of the history worker: what it counts, and how records become rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ragstream_core.history.embedding import TextQueue
from ragstream_core.history.fold import Folded, fold
from ragstream_core.history.history_store import HistoryChunk, HistoryStore, Mark, TurnRow
from ragstream_core.history.records import NO_VECTORS, Cleared, Entry, Position, TagEdit, Turn
from ragstream_core.history.stats import HistoryStats
from ragstream_core.history.units import Piece, history_chunk_id, timestamp_ns, turn_sha
from ragstream_core.records.identity import sha256_hex

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

    return fold(taken()), last


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
