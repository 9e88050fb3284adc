"""`HistoryIngestionWorker`: the new tail of the journal into the history catalog (R-231, R-234).

It adds and never deletes. A run reads what lies behind the catalog's high-water mark, embeds the
texts that have no vector yet, and commits turns, tags and the new mark in one transaction: a run
that is killed leaves the old mark, and the next one finds the texts that were embedded already.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from ragstream_core.conversations.edits import Folded
from ragstream_core.conversations.history_run import (
    CHUNKS,
    HistoryStats,
    Progress,
    Run,
    TextQueue,
    look,
    turn_chunks,
    turn_row,
)
from ragstream_core.conversations.history_store import HistoryChunk, HistoryStore, Mark, TurnRow
from ragstream_core.conversations.journal.records import NO_VECTORS, Entry, Position, Turn
from ragstream_core.conversations.units import TurnChunker, month_of
from ragstream_core.errors import ModelMismatch
from ragstream_core.records.identity import sha256_hex

if TYPE_CHECKING:
    from ragstream_core.ports import Embedder


class JournalReader(Protocol):
    """What is needed of the journal; `conversations.journal.journal.Journal` is the real one."""

    def newest(self) -> Position:
        """Return the place behind the last record."""
        ...

    def entries(
        self, start: int = 1, end: int | None = None, *, hint: Position | None = None
    ) -> Iterator[Entry]:
        """Yield the verified records with ``start`` ≤ ``seq`` < ``end``, ascending."""
        ...


class OpenHistory(Protocol):
    """Opens the history catalog for writing and holds its lock meanwhile."""

    def __call__(self, *, rebuild: bool = False) -> AbstractContextManager[HistoryStore]:
        """Open; ``rebuild`` first puts a damaged catalog aside.

        Raises:
            ProjectLocked: Another process writes it.
            IntegrityError: It is damaged or of a newer format.
        """
        ...


class HistoryIngestionWorker:
    """Brings the history catalog up to the journal.

    Args:
        journal: The conversation log.
        open_store: Opens the catalog.
        embedder: The model of the documents (R-070).
        chunker: Cuts turns for it.
        clock: Seconds, for durations.
        progress: Called with (phase, done, total).
    """

    def __init__(
        self,
        journal: JournalReader,
        open_store: OpenHistory,
        *,
        embedder: Embedder,
        chunker: TurnChunker,
        clock: Callable[[], float] = time.perf_counter,
        progress: Progress = lambda phase, done, total: None,
    ) -> None:
        self._journal = journal
        self._open_store = open_store
        self._embedder = embedder
        self._chunker = chunker
        self._clock = clock
        self._progress = progress
        self._embed_fp = embedder.fingerprint
        self._index_fp = chunker.index_fp(embedder.fingerprint)

    def run(
        self, upto: int | None = None, *, provenance: Mapping[str, str] | None = None
    ) -> HistoryStats:
        """Embed what lies behind the mark; nothing new makes no generation.

        Args:
            upto: Last record to read; None: all.
            provenance: Kept in the generation row, e.g. the Dagster run.

        Raises:
            ModelMismatch: The catalog was made by another model.
            ProjectLocked: Another process writes it.
            RagstreamError: It is damaged, the model failed or the disk is full; what was
                committed is kept.
        """
        with self._open_store() as store:
            run = self._begin(store, provenance)
            if run.before.generation and run.before.embed_fp != self._embed_fp:
                raise ModelMismatch(
                    f"the history was embedded by model {run.before.embed_fp[:12]}, "
                    f"the settings name {self._embed_fp[:12]}",
                    hint="ragstream history backfill --rebuild",
                )
            if run.before.generation and run.before.index_fp != self._index_fp:
                self._remake(run)
            self._delta(run, upto)
            return run.stats(self._clock())

    def backfill(
        self, months: Collection[str], *, provenance: Mapping[str, str] | None = None
    ) -> HistoryStats:
        """Look at all turns of some months again, then embed what lies behind the mark.

        Texts without a sound vector are embedded and rows that are not as the journal has them
        are replaced; nothing else changes. After a change of the model the vectors of these
        months are made for the new one, which takes over with the last month (`missing` is 0).

        Args:
            months: ``2026-10`` and so on.
            provenance: Kept in the generation row.

        Raises:
            ProjectLocked: Another process writes the catalog.
            RagstreamError: As `run`.
        """
        with self._open_store() as store:
            run = self._begin(store, provenance)
            self._remake(run, frozenset(months))
            if store.mark().embed_fp in ("", self._embed_fp):
                self._delta(run, None)
            return run.stats(self._clock())

    def rebuild(self, *, provenance: Mapping[str, str] | None = None) -> HistoryStats:
        """Read the whole journal again, for the model of the settings; equal texts are re-used.

        A damaged catalog is put aside first and its sound texts and vectors are taken over.

        Args:
            provenance: Kept in the generation row.

        Raises:
            ProjectLocked: Another process writes the catalog.
            RagstreamError: The model failed or the disk is full; what was committed is kept.
        """
        with self._open_store(rebuild=True) as store:
            run = self._begin(store, provenance)
            self._remake(run)
            self._delta(run, None)
            return run.stats(self._clock())

    def _begin(self, store: HistoryStore, provenance: Mapping[str, str] | None) -> Run:
        queue = TextQueue(store, self._embedder, progress=self._progress, clock=self._clock)
        told = {**(provenance or {}), CHUNKS: self._chunker.profile.limits}
        return Run(store, queue, told, self._clock(), store.mark())

    def _delta(self, run: Run, upto: int | None) -> None:
        """Embed and commit what lies behind the mark."""
        mark = run.store.mark()
        start = mark.position.seq + 1
        tail = self._journal.entries(start, hint=mark.position)
        folded, last = look(tail, upto, run.store.holds)
        if last is None:
            newest = self._journal.newest().seq
            if newest < mark.position.seq:
                run.warnings.append(
                    f"the journal ends at record {newest}, the history was embedded up to "
                    f"{mark.position.seq}: was an older journal restored?"
                )
            return
        part = self._journal.entries(start, last.seq + 1, hint=mark.position)
        rows, chunks = self._read(run, part, folded)
        run.queue.finish(last=True)  # fresh texts have a turn to be committed
        retagged = self._retagged(run.store, folded, {row.seq for row in rows})
        if rows or retagged:
            self._commit(run, rows, chunks, position=last, retagged=retagged)

    def _remake(self, run: Run, months: Collection[str] | None = None) -> None:
        """Look again at the turns up to the mark; None: those of all months."""
        mark = run.store.mark()
        if not mark.generation:
            return
        end = mark.position.seq
        folded, _ = look(self._journal.entries(1), end)
        if mark.embed_fp == self._embed_fp and mark.index_fp != self._index_fp:
            months = None  # the rules changed, not the model: cheap, and done at once
        whole = months is None or mark.embed_fp != self._embed_fp
        part = self._journal.entries(1, end + 1)
        rows, chunks = self._read(run, part, folded, months=months, whole=whole)
        if mark.embed_fp != self._embed_fp:  # of turns that the journal has lost
            rest = run.store.lacking(self._embed_fp, besides={row.seq for row in rows})
            run.queue.add(dict(rest))
        run.queue.finish()
        if not run.queue.missing:
            self._commit(run, rows, chunks, position=mark.position, retagged={})

    def _read(
        self,
        run: Run,
        entries: Iterator[Entry],
        folded: Folded,
        *,
        months: Collection[str] | None = None,
        whole: bool = True,
    ) -> tuple[list[TurnRow], list[HistoryChunk]]:
        """Cut the turns and hand their texts to the queue.

        Args:
            run: Counts them.
            entries: Records.
            folded: What was said about them.
            months: Whose texts are embedded; None: all.
            whole: Return turns of other months as well.
        """
        rows: list[TurnRow] = []
        chunks: list[HistoryChunk] = []
        for entry in entries:
            turn = entry.record
            if not isinstance(turn, Turn):
                continue
            mine = months is None or month_of(turn) in months
            if not (mine or whole):
                continue
            left_out = NO_VECTORS in folded.tags(turn.id, turn.tags)
            if turn.status != "complete" or left_out or folded.is_hidden(entry.seq):
                run.passed_over.add(entry.seq)
                continue
            pieces = self._chunker.pieces(turn)
            rows.append(turn_row(entry, turn, folded))
            chunks += turn_chunks(entry.seq, turn.session_id, pieces)
            run.queue.add({sha256_hex(p.text): p.text for p in pieces}, embed=mine)
            if mine:
                run.turns += 1
                run.months[month_of(turn)] += 1
                run.sessions[turn.session_id] = entry.seq
        return rows, chunks

    def _commit(
        self,
        run: Run,
        rows: Sequence[TurnRow],
        chunks: Sequence[HistoryChunk],
        *,
        position: Position,
        retagged: Mapping[int, tuple[str, ...]],
    ) -> None:
        self._progress("commit", 0, len(chunks))
        mark = Mark(position=position, embed_fp=self._embed_fp, index_fp=self._index_fp)
        run.store.commit(rows, chunks, mark=mark, retagged=retagged, provenance=run.told())
        run.retagged += len(retagged)

    def _retagged(
        self, store: HistoryStore, folded: Folded, besides: Collection[int]
    ) -> dict[int, tuple[str, ...]]:
        """Return the new tags of turns that were embedded before."""
        seqs = set(store.seqs_of(folded.edits).values()).difference(besides)
        rows = store.turns(seqs)
        now = {row.seq: tuple(sorted(folded.tags(row.turn.id, row.tags))) for row in rows}
        return {row.seq: now[row.seq] for row in rows if now[row.seq] != row.tags}
