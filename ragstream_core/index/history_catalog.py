"""`HistoryCatalog`: the store of the conversations, open for writing under its lock.

It is a catalog as the documents have it: a turn is a file ``<session>/<seq>`` whose digest is that
of its texts, its chunks and vectors lie in the same tables and vector file, and the journal's
position is part of the generation row. Implements `ragstream_core.conversations.history_store`.
"""

from __future__ import annotations

import contextlib
import itertools
import sqlite3
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.conversations.history_store import EmbeddedText, HistoryChunk, Mark, TurnRow
from ragstream_core.conversations.units import turn_path
from ragstream_core.errors import IntegrityError, RagstreamError
from ragstream_core.index import commit, history_turns, retention, text_writer, vectors
from ragstream_core.index.catalog import Catalog, open_catalog
from ragstream_core.index.history_rows import LiveRows, selection_rows
from ragstream_core.index.lock import rebuild_hint
from ragstream_core.index.rows import Change, ChunkRow, FileEntry, Fingerprints, ScanStamp, TextRow
from ragstream_core.index.schema import JOURNAL_NAME, guard, transaction
from ragstream_core.records.identity import sha256_hex

if TYPE_CHECKING:
    from ragstream_core.ports import F32

__all__ = ["HistoryCatalog", "LiveRows", "open_history_catalog", "selection_rows"]

KEPT_GENERATIONS = 20
_RETAIN_EVERY = 10  # dropping one generation costs as much as dropping several
_STAMP = ScanStamp(0, "")
_SOUND = (
    "SELECT v.text_hash, v.epoch, v.row, v.crc32, t.text, t.terms, t.terms_crc FROM vectors v "
    "JOIN texts t ON t.text_hash = v.text_hash WHERE v.embed_fp = ? AND v.text_hash = ?"
)
_LIVE_CHUNKS = (
    "SELECT chunk_id, chunk_idx, start, end, text_hash FROM chunks "
    "WHERE path = ? AND to_gen IS NULL ORDER BY chunk_idx"
)
_NO_VECTOR = (
    "SELECT r.chunk_id FROM ({rows}) r LEFT JOIN vectors v "
    "ON v.embed_fp = ? AND v.text_hash = r.text_hash WHERE v.text_hash IS NULL LIMIT 1"
)
_LACKING = (
    "SELECT c.path, t.text_hash, t.text FROM chunks c JOIN texts t ON t.text_hash = c.text_hash "
    "LEFT JOIN vectors v ON v.embed_fp = ? AND v.text_hash = c.text_hash "
    "WHERE c.to_gen IS NULL AND v.text_hash IS NULL"
)
_LIVE = "SELECT * FROM chunks WHERE to_gen IS NULL"


@contextlib.contextmanager
def open_history_catalog(index_dir: Path, *, rebuild: bool = False) -> Iterator[HistoryCatalog]:
    """Lock the history's index and open it for writing, creating it when missing.

    Args:
        index_dir: ``<data>/history/index``.
        rebuild: First put a catalog that fails its checks aside; texts and vectors in it that
            pass theirs are taken over, turns come from the journal again.

    Raises:
        ProjectLocked: Another process writes it.
        IntegrityError: It is damaged or of another format.
        OperationFailed: Disk full or the file is busy.
    """
    with open_catalog(index_dir, rebuild=rebuild) as catalog:
        history_turns.make_table(catalog.db, catalog.path)
        if (index_dir / JOURNAL_NAME).exists():
            # of a writer killed before there was anything to roll back: only a write removes it
            with transaction(catalog.db, catalog.path):
                catalog.db.execute("INSERT OR REPLACE INTO meta VALUES('recovered', '')")
        yield HistoryCatalog(catalog)


class HistoryCatalog:
    """Writes the history's index; made by `open_history_catalog`, which holds the lock.

    Args:
        catalog: The catalog below.

    Attributes:
        notes: What opening it had to repair and what went wrong after a commit, a sentence each.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.notes = list(catalog.notes)
        self._name: Callable[[sqlite3.Connection], None] | None = None

    @property
    def db(self) -> sqlite3.Connection:
        """The writable connection, for upkeep under the same lock."""
        return self._catalog.db

    @property
    def index_dir(self) -> Path:
        """Where it lies."""
        return self._catalog.index_dir

    @property
    def path(self) -> Path:
        """The catalog's file."""
        return self._catalog.path

    def mark(self) -> Mark:
        """Return how far it has come.

        Raises:
            IntegrityError: It is not what was written.
        """
        with guard(self.path):
            return history_turns.mark(self.db)

    def known(self, text_hashes: Sequence[str], embed_fp: str) -> set[str]:
        """Return those texts that are sound and have a sound vector under a model.

        Raises:
            IntegrityError: The vector file lost its end or is gone.
        """
        shape = self.db.execute(
            "SELECT epoch, rows, dimension FROM vector_files WHERE embed_fp = ?", (embed_fp,)
        ).fetchone()
        if shape is None:
            return set()
        epoch, count, dimension = shape
        found = (self.db.execute(_SOUND, (embed_fp, h)).fetchone() for h in text_hashes)
        rows = [
            r
            for r in found
            if r is not None and sha256_hex(r[4]) == r[0] and zlib.crc32(r[5]) == r[6]
        ]
        if not rows:
            return set()
        mapped = self._mapped(embed_fp, epoch, rows=count, dimension=dimension)
        damaged = vectors.damaged_names(mapped, [r[:4] for r in rows], epoch=epoch)
        return {r[0] for r in rows}.difference(damaged)

    def holds(self, first: int, last: int) -> bool:
        """Say whether there is a turn with a ``seq`` from ``first`` to ``last``."""
        query = "SELECT 1 FROM turns WHERE seq BETWEEN ? AND ? LIMIT 1"
        return self.db.execute(query, (first, last)).fetchone() is not None

    def lacking(self, embed_fp: str, *, besides: Collection[int]) -> list[tuple[str, str]]:
        """Return (hash, text) of live chunks without a vector under a model.

        Args:
            embed_fp: The model.
            besides: Turns that are left out, by ``seq``.
        """
        found = self.db.execute(_LACKING, (embed_fp,)).fetchall()
        return [(h, t) for path, h, t in found if int(path.rpartition("/")[2]) not in besides]

    def _mapped(self, embed_fp: str, epoch: int, *, rows: int, dimension: int) -> F32:
        path = vectors.vector_path(self.index_dir, embed_fp, epoch)
        try:
            return vectors.map_rows(path, rows=rows, dimension=dimension)
        except FileNotFoundError:
            raise IntegrityError(f"{path} is missing", hint=rebuild_hint(self.index_dir)) from None

    def record_texts(
        self, rows: Sequence[EmbeddedText], vectors: F32, *, embed_fp: str, last: bool = False
    ) -> None:
        """Make texts and vectors durable; a killed run resumes after them.

        Args:
            rows: Texts without a sound vector under this model.
            vectors: Shape (len(rows), dimension), unit rows.
            embed_fp: The model.
            last: The commit comes next: these become durable with it, in one transaction.

        Raises:
            EmbeddingFailed: Not as many finite unit vectors; nothing was stored.
            IntegrityError: The model's dimension is not that of its stored vectors.
            OperationFailed: Disk full; nothing was recorded.
        """
        if self._name is not None:  # no commit came: their place must not be taken
            with transaction(self.db, self.path):
                self._name(self.db)
            self._name = None
        named = [TextRow(*row) for row in rows]
        if not last:
            self._catalog.record_texts(named, vectors, embed_fp=embed_fp)
            return
        self._name = text_writer.write_vectors(
            self.db, self.index_dir, named, vectors=vectors, embed_fp=embed_fp
        )

    def turns(self, seqs: Iterable[int] | None = None) -> list[TurnRow]:
        """Return live turns, all or some, ascending by ``seq``.

        Raises:
            IntegrityError: A row fails its crc.
        """
        with guard(self.path):
            return list(history_turns.read(self.db, seqs))

    def seqs_of(self, turn_ids: Iterable[str]) -> dict[str, int]:
        """Return turn id → ``seq`` of those turns that are here."""
        return history_turns.seqs_of(self.db, turn_ids)

    def commit(
        self,
        turns: Sequence[TurnRow],
        chunks: Sequence[HistoryChunk],
        *,
        mark: Mark,
        retagged: Mapping[int, tuple[str, ...]],
        provenance: Mapping[str, str],
    ) -> Mark:
        """Commit turns, chunks, changed tags and the new mark in one transaction.

        A turn that already exists is replaced together with its chunks, one that is there just
        so is left as it is; the mark's position never goes down. Where nothing changes at all, no
        generation is made.

        Args:
            turns: New or replaced turns.
            chunks: All chunks of these turns.
            mark: Position, ``embed_fp`` and ``index_fp`` from now on.
            retagged: ``seq`` → tags of turns that are not replaced.
            provenance: Kept in the generation row.

        Raises:
            IntegrityError: A chunk has no vector under the mark's model.
            OperationFailed: Disk full; nothing was committed.
        """
        before = self.mark()
        position = max(before.position, mark.position, key=lambda p: p.seq)
        change = self._stage(turns, chunks, above=before.position.seq)
        same = (position.seq, mark.embed_fp, mark.index_fp) == (
            before.position.seq, before.embed_fp, before.index_fp,
        )  # fmt: skip
        if same and not (change.opened or retagged):
            commit.note_scan(self.db, self.path, Change(), stamp=_STAMP)
            return before
        with guard(self.path):
            made = commit.prepare(
                self.db,
                change,
                Fingerprints(mark.index_fp, mark.embed_fp),
                provenance={
                    **provenance,
                    history_turns.HIGH_WATER: history_turns.high_water(position),
                },
            )
            opened = {entry.path for entry in change.opened}
            rows = [row for row in turns if _path(row) in opened]

            def also(db: sqlite3.Connection) -> None:
                name, self._name = self._name, None
                if name is not None:
                    name(db)
                self._require_vectors(mark.embed_fp, everything=mark.embed_fp != before.embed_fp)
                history_turns.write(db, rows, retagged)

            commit.commit(self.db, self.path, made, change, stamp=_STAMP, also=also)
            if made.n % _RETAIN_EVERY == 0:
                self._retain()
            return history_turns.mark_of(made)

    def _stage(
        self, turns: Sequence[TurnRow], chunks: Sequence[HistoryChunk], *, above: int
    ) -> Change:
        """Stage the chunks of those turns that are not there just so."""
        by_turn = {
            seq: list(group)
            for seq, group in itertools.groupby(
                sorted(chunks, key=lambda c: (c.seq, c.chunk_idx)), key=lambda c: c.seq
            )
        }
        change, staged = Change(), list[ChunkRow]()
        self.db.execute("DELETE FROM staged")
        for row in turns:
            mine = by_turn.get(row.seq, [])
            path = _path(row)
            if row.seq <= above:
                if self._is_there(row, mine):
                    continue
                change.closed += history_turns.other_paths(self.db, row.seq, path)
            change.opened.append(
                FileEntry(path, row.sha256, 0, row.timestamp_ns, "turn", "ingested", "")
            )
            change.closed.append(path)
            staged += [
                ChunkRow(
                    c.chunk_id, path, row.sha256, c.chunk_idx, c.start, c.end,
                    page=0, heading="", text_hash=c.text_hash,
                )
                for c in mine
            ]  # fmt: skip
        self._catalog.stage(staged)
        return change

    def _is_there(self, row: TurnRow, chunks: Sequence[HistoryChunk]) -> bool:
        query = "SELECT sha256 FROM files WHERE path = ? AND to_gen IS NULL"
        if self.db.execute(query, (_path(row),)).fetchone() != (row.sha256,):
            return False
        wanted = [(c.chunk_id, c.chunk_idx, c.start, c.end, c.text_hash) for c in chunks]
        live = self.db.execute(_LIVE_CHUNKS, (_path(row),)).fetchall()
        return wanted == live and history_turns.is_there(self.db, row)

    def _require_vectors(self, embed_fp: str, *, everything: bool) -> None:
        """Refuse inside the transaction what could not be searched afterwards."""
        rows = _LIVE if everything else "SELECT * FROM staged"
        lost = self.db.execute(_NO_VECTOR.format(rows=rows), (embed_fp,)).fetchone()
        if lost is not None:
            raise IntegrityError(
                f"{self.path}: {lost[0]} has no vector under model {embed_fp[:12]}",
                hint=rebuild_hint(self.index_dir),
            )

    def _retain(self) -> None:
        """Drop what only old generations hold; after a failure the next commit tries again."""
        try:
            gone = retention.superfluous(self.db, KEPT_GENERATIONS)
            with transaction(self.db, self.path):
                went = retention.drop(self.db, gone, unnamed=False)
            if went["texts"] or went["vectors"]:
                retention.compact(self.db, self.index_dir)
            retention.sweep(self.db, self.index_dir)
        except (RagstreamError, OSError) as error:
            self.notes.append(f"old generations were not dropped: {error}")


def _path(row: TurnRow) -> str:
    return turn_path(row.turn.session_id, row.seq)
