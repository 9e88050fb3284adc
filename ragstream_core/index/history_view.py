"""A published selection of the history, pinned, as the retriever and the prompt read it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

from ragstream_core.conversations.columns import Coded, HistoryColumns
from ragstream_core.conversations.history_store import Mark
from ragstream_core.conversations.journal.records import HISTORY, Position
from ragstream_core.errors import IntegrityError
from ragstream_core.index.snapshot_format import Stored
from ragstream_core.records import Chunk
from ragstream_core.records.identity import sha256_hex
from ragstream_core.text.bm25 import LexicalArrays, build_lexical, unpacked

if TYPE_CHECKING:
    from ragstream_core.ports import F32

REPAIR = "ragstream history backfill"


class _Paths(Sequence[str]):
    """``<session>/<seq>`` of each row, made when it is looked at."""

    def __init__(self, sessions: Coded[str], seqs: Any) -> None:
        self._sessions, self._seqs = sessions, seqs

    def __len__(self) -> int:
        return len(self._seqs)

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> list[str]: ...
    def __getitem__(self, row: int | slice) -> str | list[str]:
        if isinstance(row, slice):
            return [self[i] for i in range(*row.indices(len(self)))]
        return f"{self._sessions[row]}/{self._seqs[row]}"

    def __iter__(self) -> Iterator[str]:
        names = self._sessions.values
        pairs = zip(self._sessions.codes.tolist(), self._seqs.tolist(), strict=True)
        return (f"{names[code]}/{seq}" for code, seq in pairs)


class HistoryView:
    """A published selection, pinned; implements `ragstream_core.ports.IndexView`.

    Args:
        stored: Its content.
        meta: Its metadata.
        where: The file, for messages.
    """

    def __init__(self, stored: Stored, meta: dict[str, Any], where: str) -> None:
        self.stored = stored
        self.meta = meta
        self.where = where
        self.project = HISTORY
        self.chunk_ids: Sequence[str] = stored.text("chunk_id")
        self._verified = False

    @property
    def mark(self) -> Mark:
        """How far the catalog had come: turns behind it are not in here."""
        position = Position(**self.meta["position"])
        return Mark(
            self.generation, position, self.embed_fp, self.meta["index_fp"], self.meta["catalog"]
        )

    @property
    def generation(self) -> int:
        """Generation of the catalog that it was made from."""
        return int(self.meta["generation"])

    @property
    def digest(self) -> str:
        """Digest of all rows and columns and of the model, 64 hex digits."""
        return str(self.meta["digest"])

    @property
    def embed_fp(self) -> str:
        """Fingerprint of the model that made `vectors`."""
        return str(self.meta["embed_fp"])

    @property
    def vectors(self) -> F32:
        """Shape (rows, dimension), float32 unit rows, mapped from the file."""
        return self.stored.vectors

    @cached_property
    def paths(self) -> Sequence[str]:
        """``<session>/<seq>`` of each row."""
        return _Paths(self.columns.sessions, self.columns.seq)

    @cached_property
    def lexical(self) -> LexicalArrays:
        """Term arrays of the rows: each with the terms of its neighbours.

        Raises:
            IntegrityError: They are damaged.
        """
        if not self.chunk_ids:
            return build_lexical([])
        try:
            return unpacked(self.stored.lexical)
        except ValueError as error:
            raise damaged(self.where, f"its term arrays are damaged: {error}") from None

    @cached_property
    def columns(self) -> HistoryColumns:
        """What selection looks at."""
        stored = self.stored
        return HistoryColumns(
            stored.arrays["seq"],
            stored.arrays["seq_last"],
            stored.arrays["timestamp_ns"],
            stored.arrays["importance"],
            stored.labels("session"),
            stored.lists("tags"),
            stored.lists("projects"),
            stored.labels("source"),
            stored.text("turn_id"),
            stored.arrays["start"],
            stored.arrays["end"],
        )

    @cached_property
    def _row_of(self) -> dict[str, int]:
        return {identifier: row for row, identifier in enumerate(self.chunk_ids)}

    def chunks(self, chunk_ids: Iterable[str]) -> list[Chunk]:
        """Load chunks with their texts, in the order asked for.

        Raises:
            IntegrityError: A stored text does not have its hash.
            KeyError: An id is not in the selection.
        """
        return [self._chunk(self._row_of[identifier]) for identifier in chunk_ids]

    def _chunk(self, row: int) -> Chunk:
        stored, arrays, columns = self.stored, self.stored.arrays, self.columns
        text, path = stored.text("text")[row], self.paths[row]
        if sha256_hex(text) != stored.text("text_hash")[row]:
            raise damaged(self.where, f"the text of {self.chunk_ids[row]} does not have its hash")
        meta = {
            "path": path,
            "source": columns.sources[row],
            "sha256": stored.text("sha256")[row],
            "mtime": int(columns.timestamp_ns[row]) / 1e9,
            "file_type": "turn",
            "chunk_index": int(arrays["chunk_idx"][row]),
            "page_number": 0,
            "heading": "",
            "generation": self.generation,
            "project": HISTORY,
            "session_id": columns.sessions[row],
            "turn_id": columns.turn_ids[row],
            "turn_id_start": int(columns.seq[row]),
            "turn_id_end": int(columns.seq_last[row]),
            "tags": list(columns.tags[row]),
            "projects": list(columns.projects[row]),
            "active_dbs": list(stored.lists("active_dbs")[row]),
            "versions": list(stored.lists("versions")[row]),
            "importance": float(columns.importance[row]),
            "timestamp_ns": int(columns.timestamp_ns[row]),
            "prompt_key": stored.text("prompt_key")[row],
        }
        span = int(arrays["start"][row]), int(arrays["end"][row])
        return Chunk(self.chunk_ids[row], f"history/{path}", text, span, meta)

    def verify(self) -> None:
        """Check every value that a query can return, once a process and file.

        To be called before a prompt is handed out.

        Raises:
            IntegrityError: The file is not what was published.
        """
        if self._verified:
            return
        if self.stored.digest(self.embed_fp) != self.digest:
            raise damaged(self.where, "its rows do not have its digest")
        self._verified = True


def damaged(where: str, detail: str) -> IntegrityError:
    """Return the error for a snapshot that is not what was published."""
    return IntegrityError(f"{where}: {detail}", hint=f"{REPAIR} publishes it again")
