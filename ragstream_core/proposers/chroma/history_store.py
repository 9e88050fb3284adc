"""`HistoryStoreChroma`: the collection ``history_main``, and the metadata of a turn's rows.

It is there for tools that speak Chroma; prompts never read it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.errors import GenerationGone, IntegrityError, UsageError
from ragstream_core.index import history_turns
from ragstream_core.index.look import read
from ragstream_core.index.rows import latest_generation
from ragstream_core.index.schema import label, update_hint
from ragstream_core.proposers.chroma.names import HISTORY_MAIN, Metadata, kept
from ragstream_core.proposers.chroma.vector_store_chroma import STANDARD, VectorStoreChroma
from ragstream_core.records.identity import SHORT_ID_DIGITS, sha256_hex

if TYPE_CHECKING:
    import sqlite3

    from ragstream_core.index.history_turns import TurnRow
    from ragstream_core.ports import F32
    from ragstream_core.records import Chunk

REQUIRED = frozenset(
    {"session_id", "turn_id_start", "turn_id_end", "timestamp_first", "timestamp_last"}
)
"""What every row says of its turn; others only if there are any."""
_NS = 1_000_000_000


class HistoryStoreChroma(VectorStoreChroma):
    """The turns of all sessions in one collection (R-227)."""

    def __init__(
        self, folder: Path, *, metadata: Metadata | None = None, graph: str = STANDARD
    ) -> None:
        super().__init__(folder, HISTORY_MAIN, metadata=metadata, graph=graph)

    def add(
        self,
        ids: Sequence[str],
        embeddings: F32,
        metadatas: Sequence[Metadata],
        *,
        documents: Sequence[str] | None = None,
    ) -> None:
        """Add rows that say which turn they are of."""
        for identifier, row in zip(ids, metadatas, strict=True):
            if missing := sorted(REQUIRED - row.keys()):
                raise UsageError(
                    f"{identifier}: a row of {HISTORY_MAIN} needs {', '.join(missing)}",
                    hint="make it with turn_metadata",
                )
        super().add(ids, embeddings, metadatas, documents=documents)


def turn_metadata(chunk: Chunk, row: TurnRow) -> Metadata:
    """Return what Chroma keeps beside the vector of one chunk of a turn (R-228), nothing empty.

    Times are whole seconds since the epoch, so that a ``where`` filter can compare them; tags are
    those of the generation that the collection was made from, each also as ``tag_NAME: True``.
    """
    if chunk.meta["sha256"] != row.sha256:
        raise IntegrityError(f"{chunk.id} is of another version of its turn")
    turn, seconds = row.turn, row.timestamp_ns // _NS
    return kept(
        {
            "session_id": turn.session_id,
            "turn_id_start": row.seq,
            "turn_id_end": row.seq,
            "turn": turn.id,
            "tags": list(row.tags),
            "timestamp": turn.timestamp,
            "timestamp_first": seconds,
            "timestamp_last": seconds,
            "projects": list(turn.projects),
            "active_dbs": list(turn.active_dbs),
            "source": turn.source,
            "importance": turn.importance,
            "chunk_idx": chunk.meta["chunk_index"],
            "chunk_id": sha256_hex(chunk.id)[:SHORT_ID_DIGITS],
            "text_hash": sha256_hex(chunk.snippet),
        }
    )


def describer(index_dir: Path, generation: int) -> Callable[[Chunk], Metadata]:
    """Return what makes the metadata of one generation's rows."""

    def look(db: sqlite3.Connection) -> tuple[int, dict[str, TurnRow]]:
        newest = latest_generation(db)
        rows = {row.path: row for row in history_turns.read_turns(db)}
        return newest.n if newest else 0, rows

    newest, rows = read(index_dir, look)
    if newest != generation:
        raise GenerationGone(
            f"{label(index_dir)} is now at generation {newest}, not at {generation}",
            hint=update_hint(index_dir),
        )

    def describe(chunk: Chunk) -> Metadata:
        """Return the metadata of one chunk."""
        if chunk.source not in rows:
            raise IntegrityError(f"{index_dir}: the turn of {chunk.id} is missing")
        return turn_metadata(chunk, rows[chunk.source])

    return describe
