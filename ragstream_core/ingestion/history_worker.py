"""`HistoryIngestionWorker`: the new tail of the journal into the history catalog (R-231, R-234).

It adds and never deletes. A run reads what lies behind the catalog's high-water mark, embeds the
texts that have no vector yet, and commits turns, tags and the new mark in one transaction: a run
that is killed leaves the old mark, and the next one finds the texts that were embedded already.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.conversations.edits import Folded, fold_tail
from ragstream_core.conversations.journal.records import NO_VECTORS, Entry, Position, Turn
from ragstream_core.conversations.non_answers import is_evidence
from ragstream_core.conversations.units import (
    Piece,
    TurnChunker,
    history_chunk_id,
    month_of,
    timestamp_ns,
    turn_sha,
)
from ragstream_core.errors import ModelMismatch, RunCommand
from ragstream_core.index import history
from ragstream_core.index.history import Mark, TurnRow, commit_turns, lacking, open_history_catalog
from ragstream_core.index.rows import ChunkRow
from ragstream_core.ingestion.staging import Stager
from ragstream_core.ingestion.stats import HistoryStats
from ragstream_core.records.identity import sha256_hex

if TYPE_CHECKING:
    from ragstream_core.conversations.journal.journal import Journal
    from ragstream_core.index.catalog import Catalog
    from ragstream_core.ports import Embedder, PhaseProgress


@dataclass(slots=True)
class Run:
    """One run with its store open.

    Attributes:
        store: The history catalog.
        stager: Texts on their way to the model.
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

    store: Catalog
    stager: Stager
    provenance: Mapping[str, str]
    began: float
    before: Mark
    turns: int = 0
    retagged: int = 0
    passed_over: set[int] = field(default_factory=set)
    months: Counter[str] = field(default_factory=Counter)
    sessions: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def stats(self, now: float) -> HistoryStats:
        """Return the numbers; ``now`` is the clock's."""
        mark = history.current_mark(self.store.db)
        return HistoryStats(
            mark.generation,
            mark.digest,
            mark.position.seq,
            committed=mark.generation != self.before.generation,
            turns=self.turns,
            retagged=self.retagged,
            passed_over=len(self.passed_over),
            embedded=self.stager.embedded,
            reused=self.stager.reused,
            missing=len(self.stager.missing),
            months=dict(sorted(self.months.items())),
            sessions=dict(sorted(self.sessions.items())),
            seconds=now - self.began,
            model_seconds=self.stager.seconds,
            warnings=(*self.store.notes, *self.warnings),
        )


class HistoryIngestionWorker:
    """Brings the history catalog up to the journal.

    Args:
        journal: The conversation log.
        index_dir: ``<data>/history/index``.
        embedder: The model of the documents (R-070).
        chunker: Cuts turns for it.
        clock: Seconds, for durations.
        progress: Called with (phase, done, total).
    """

    def __init__(
        self,
        journal: Journal,
        index_dir: Path,
        *,
        embedder: Embedder,
        chunker: TurnChunker,
        clock: Callable[[], float] = time.perf_counter,
        progress: PhaseProgress = lambda phase, done, total: None,
    ) -> None:
        self._journal = journal
        self._index_dir = index_dir
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
        with open_history_catalog(self._index_dir) as store:
            run = self._begin(store, provenance)
            if run.before.generation and run.before.embed_fp != self._embed_fp:
                raise ModelMismatch(
                    f"the history was embedded by model {run.before.embed_fp[:12]}, "
                    f"the settings name {self._embed_fp[:12]}",
                    hint=RunCommand("history backfill", "--rebuild"),
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
        with open_history_catalog(self._index_dir) as store:
            run = self._begin(store, provenance)
            self._remake(run, frozenset(months))
            if history.current_mark(store.db).embed_fp in ("", self._embed_fp):
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
        with open_history_catalog(self._index_dir, rebuild=True) as store:
            run = self._begin(store, provenance)
            self._remake(run)
            self._delta(run, None)
            return run.stats(self._clock())

    def _begin(self, store: Catalog, provenance: Mapping[str, str] | None) -> Run:
        stager = Stager(
            store,
            self._embedder,
            progress=self._progress,
            checked=True,
            source="turns",
            clock=self._clock,
        )
        told = {**(provenance or {}), history.CUT: self._chunker.profile.limits}
        return Run(store, stager, told, self._clock(), history.current_mark(store.db))

    def _delta(self, run: Run, upto: int | None) -> None:
        """Embed and commit what lies behind the mark."""
        mark = history.current_mark(run.store.db)
        start = mark.position.seq + 1
        tail = self._journal.entries(start, hint=mark.position)
        folded, last = fold_tail(tail, upto, partial(history.holds, run.store.db))
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
        run.stager.finish(last=True)  # fresh texts have a turn to be committed
        retagged = self._retagged(run.store, folded, {row.seq for row in rows})
        if rows or retagged:
            self._commit(run, rows, chunks, position=last, retagged=retagged)

    def _remake(self, run: Run, months: Collection[str] | None = None) -> None:
        """Look again at the turns up to the mark; None: those of all months."""
        mark = history.current_mark(run.store.db)
        if not mark.generation:
            return
        end = mark.position.seq
        folded, _ = fold_tail(self._journal.entries(1), end)
        if mark.embed_fp == self._embed_fp and mark.index_fp != self._index_fp:
            months = None  # the rules changed, not the model: cheap, and done at once
        whole = months is None or mark.embed_fp != self._embed_fp
        part = self._journal.entries(1, end + 1)
        rows, chunks = self._read(run, part, folded, months=months, whole=whole)
        if mark.embed_fp != self._embed_fp:  # of turns that the journal has lost
            seqs = {row.seq for row in rows}
            run.stager.add(dict(lacking(run.store.db, self._embed_fp, besides=seqs)))
        run.stager.finish()
        if not run.stager.missing:
            self._commit(run, rows, chunks, position=mark.position, retagged={})

    def _read(
        self,
        run: Run,
        entries: Iterator[Entry],
        folded: Folded,
        *,
        months: Collection[str] | None = None,
        whole: bool = True,
    ) -> tuple[list[TurnRow], list[ChunkRow]]:
        """Cut the turns and hand their texts to the stager.

        Args:
            run: Counts them.
            entries: Records.
            folded: What was said about them.
            months: Whose texts are embedded; None: all.
            whole: Return turns of other months as well.
        """
        rows: list[TurnRow] = []
        chunks: list[ChunkRow] = []
        for entry in entries:
            turn = entry.record
            if not isinstance(turn, Turn):
                continue
            mine = months is None or month_of(turn) in months
            if not (mine or whole):
                continue
            left_out = NO_VECTORS in folded.tags(turn.id, turn.tags)
            if not is_evidence(turn) or left_out or folded.is_hidden(entry.seq):
                run.passed_over.add(entry.seq)
                continue
            pieces = self._chunker.pieces(turn)
            rows.append(turn_row(entry, turn, folded))
            chunks += turn_chunks(rows[-1], pieces)
            run.stager.add({sha256_hex(p.text): p.text for p in pieces}, embed=mine)
            if mine:
                run.turns += 1
                run.months[month_of(turn)] += 1
                run.sessions[turn.session_id] = entry.seq
        return rows, chunks

    def _commit(
        self,
        run: Run,
        rows: Sequence[TurnRow],
        chunks: Sequence[ChunkRow],
        *,
        position: Position,
        retagged: Mapping[int, tuple[str, ...]],
    ) -> None:
        self._progress("commit", 0, len(chunks))
        mark = Mark(position=position, embed_fp=self._embed_fp, index_fp=self._index_fp)
        provenance = {**run.provenance, **run.stager.provenance()}
        commit_turns(run.store, rows, chunks, mark=mark, retagged=retagged, provenance=provenance)
        run.retagged += len(retagged)

    def _retagged(
        self, store: Catalog, folded: Folded, besides: Collection[int]
    ) -> dict[int, tuple[str, ...]]:
        """Return the new tags of turns that were embedded before."""
        seqs = set(history.seqs_of(store.db, folded.edits).values()).difference(besides)
        rows = list(history.read_turns(store.db, seqs))
        now = {row.seq: tuple(sorted(folded.tags(row.turn.id, row.tags))) for row in rows}
        return {row.seq: now[row.seq] for row in rows if now[row.seq] != row.tags}


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


def turn_chunks(row: TurnRow, pieces: Sequence[Piece]) -> list[ChunkRow]:
    """Return the chunk rows of a turn's pieces."""
    session, seq = row.turn.session_id, row.seq
    return [
        ChunkRow(
            history_chunk_id(session, seq, seq, i), row.path, row.sha256, i, p.start, p.end,
            page=0, heading="", text_hash=sha256_hex(p.text),
        )
        for i, p in enumerate(pieces)
    ]  # fmt: skip
