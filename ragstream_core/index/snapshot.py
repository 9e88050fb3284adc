"""`history_store.arrow`: the published selection of the history, all of it that prompts read.

It is derived: the catalog is complete, and a damaged or missing file is published again. Anything
that speaks Arrow can read it; RAGstream maps it and reads it as an `array_file`, without Arrow.
"""

from __future__ import annotations

import json
import mmap
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ragstream_core.conversations.around import Order, order_of
from ragstream_core.conversations.columns import Coded, HistoryColumns, Strings
from ragstream_core.conversations.journal.records import HISTORY, Position
from ragstream_core.conversations.use import OWN_LABEL
from ragstream_core.errors import IntegrityError, RunCommand
from ragstream_core.index.history import Mark
from ragstream_core.platform import array_file
from ragstream_core.platform.disk import disk_failure
from ragstream_core.records import Chunk
from ragstream_core.records.identity import canonical_json, sha256_hex
from ragstream_core.text.bm25 import LexicalArrays, build_lexical, unpacked
from ragstream_core.text.terms import LEXICAL_VERSION

if TYPE_CHECKING:
    from ragstream_core.platform.array_file import Arrays
    from ragstream_core.ports import F32

REPAIR = RunCommand("history backfill")

# Raised with every change of the format, and of what the words or the cap of a row are.
VERSION = 1
STAMP = {"version": VERSION, "lexical": LEXICAL_VERSION}
NUMBERS = {
    "seq": "<i8", "seq_last": "<i8", "chunk_idx": "<i4", "start": "<i4", "end": "<i4",
    "timestamp_ns": "<i8", "importance": "<f8",
}  # fmt: skip
TEXTS = ("chunk_id", "text", "text_hash", "turn_id", "sha256", "prompt_key")

# Columns with few distinct values; of the last four each value is a list, as JSON.
LABELS = ("session", "source", "tags", "projects", "active_dbs", "versions")
# What a file says of turns that were embedded before it was known that they are no answers.
NON_ANSWERS = "non_answers"
_TEXT = {"offsets": "<i8", "data": "|u1"}

# Name and type of every array; ``lexical`` is `LexicalArrays.packed`, empty without rows.
ARRAYS = {
    **NUMBERS,
    **{f"{name}.{part}": dtype for name in (*TEXTS, *LABELS) for part, dtype in _TEXT.items()},
    **{f"{name}.codes": "<i4" for name in LABELS},
    "vector": "<f4",
    "lexical": "|u1",
}


class HistoryView:
    """A published selection, pinned; implements `ragstream_core.ports.IndexView`.

    The digest is of all rows and columns and of the model. ``non_answers`` are turns that no prompt
    may find; None: the file says nothing.
    """

    def __init__(self, arrays: Arrays, meta: Mapping[str, Any], where: str) -> None:
        self.arrays = arrays
        self.meta = meta
        self.where = where
        self.project = HISTORY
        self.generation = int(meta["generation"])
        self.digest = str(meta["digest"])
        self.embed_fp = str(meta["embed_fp"])
        self.chunk_ids: Sequence[str] = self.text("chunk_id")
        self.vectors: F32 = arrays["vector"].reshape(len(arrays["seq"]), meta["dimension"])
        self._verified = False
        told = meta.get(NON_ANSWERS)
        self.non_answers: frozenset[int] | None = None if told is None else frozenset(told)

    @property
    def mark(self) -> Mark:
        """How far the catalog had come: turns behind it are not in here."""
        position = Position(**self.meta["position"])
        return Mark(
            self.generation, position, self.embed_fp, self.meta["index_fp"], self.meta["catalog"]
        )

    def text(self, name: str) -> Strings:
        """Return a column of texts, or the distinct values of a column of labels."""
        return Strings(self.arrays[f"{name}.offsets"], self.arrays[f"{name}.data"])

    def _labels(self, name: str) -> Coded[str]:
        return Coded(self.arrays[f"{name}.codes"], tuple(self.text(name)))

    def _lists(self, name: str) -> Coded[tuple[Any, ...]]:
        return Coded(self.arrays[f"{name}.codes"], tuple(map(_listed, self.text(name))))

    @cached_property
    def paths(self) -> Sequence[str]:
        """``<session>/<seq>`` of each row."""
        names, codes = self.columns.sessions.values, self.columns.sessions.codes.tolist()
        pairs = zip(codes, self.columns.seq.tolist(), strict=True)
        return [f"{names[code]}/{seq}" for code, seq in pairs]

    @cached_property
    def lexical(self) -> LexicalArrays:
        """Term arrays of the rows: each with the terms of its neighbours."""
        if not self.chunk_ids:
            return build_lexical([])
        try:
            return unpacked(self.arrays["lexical"].data)
        except ValueError as error:
            raise damaged(self.where, f"its term arrays are damaged: {error}") from None

    @cached_property
    def columns(self) -> HistoryColumns:
        """What selection looks at."""
        arrays = self.arrays
        return HistoryColumns(
            arrays["seq"],
            arrays["seq_last"],
            arrays["timestamp_ns"],
            arrays["importance"],
            self._labels("session"),
            self._lists("tags"),
            self._lists("projects"),
            self._labels("source"),
            self.text("turn_id"),
            arrays["start"],
            arrays["end"],
        )

    @cached_property
    def order(self) -> Order:
        """Where each row stands in its conversation."""
        return order_of(self.columns)

    @cached_property
    def _row_of(self) -> dict[str, int]:
        return {identifier: row for row, identifier in enumerate(self.chunk_ids)}

    def rows_of(self, chunk_ids: Iterable[str]) -> list[int]:
        """Return the row of each id."""
        return [self._row_of[identifier] for identifier in chunk_ids]

    def chunks(self, chunk_ids: Iterable[str]) -> list[Chunk]:
        """Load chunks with their texts, in the order asked for."""
        return list(map(self._chunk, self.rows_of(chunk_ids)))

    def _chunk(self, row: int) -> Chunk:
        arrays, columns = self.arrays, self.columns
        text, path = self.text("text")[row], f"{columns.sessions[row]}/{columns.seq[row]}"
        if sha256_hex(text) != self.text("text_hash")[row]:
            raise damaged(self.where, f"the text of {self.chunk_ids[row]} does not have its hash")
        meta = {
            "path": path,
            "source": columns.sources[row],
            "sha256": self.text("sha256")[row],
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
            "projects": [name for name in columns.projects[row] if name != OWN_LABEL],
            "active_dbs": list(self._lists("active_dbs")[row]),
            "versions": list(self._lists("versions")[row]),
            "importance": float(columns.importance[row]),
            "timestamp_ns": int(columns.timestamp_ns[row]),
            "prompt_key": self.text("prompt_key")[row],
        }
        span = int(arrays["start"][row]), int(arrays["end"][row])
        return Chunk(self.chunk_ids[row], f"history/{path}", text, span, meta)

    def verify(self) -> None:
        """Check every value that a query can return, once a process and file.

        To be called before a prompt is handed out.
        """
        if self._verified:
            return
        if rows_digest(self.arrays, self.meta) != self.digest:
            raise damaged(self.where, "its rows do not have its digest")
        self._verified = True

    def is_sound(self) -> bool:
        """Return whether `verify` finds nothing."""
        try:
            self.verify()
        except IntegrityError:
            return False
        return True


def damaged(where: str, detail: str) -> IntegrityError:
    """Return the error for a snapshot that is not what was published."""
    return IntegrityError(f"{where}: {detail}", hint=(REPAIR, " publishes it again"))


def rows_digest(arrays: Arrays, meta: Mapping[str, object]) -> str:
    """Return the digest of all rows, all columns and the model, 64 hex digits."""
    hashed = sha256(canonical_json([VERSION, meta["embed_fp"], meta["dimension"]]).encode())
    for name in sorted(arrays):
        raw = np.ascontiguousarray(arrays[name]).view(np.uint8).data
        hashed.update(f"{name}:{len(raw)}:".encode())
        hashed.update(raw)
    return hashed.hexdigest()


def _listed(text: str) -> tuple[Any, ...]:
    try:
        return tuple(json.loads(text))
    except (ValueError, TypeError):  # damaged: the digest says so
        return ()


Identity = tuple[int, int, int, int]

# Views that stay open after a newer one was published: prompts that began with them go on.
HELD = 3
_open: dict[str, tuple[Identity, HistoryView]] = {}
_held: OrderedDict[str, HistoryView] = OrderedDict()
_lock = threading.Lock()


def open_snapshot(path: Path) -> HistoryView | None:
    """Open the published selection without reading its rows; None where there is none yet.

    The same view is shared within the process while the file is the same.
    """
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise disk_failure(path, error) from error
    identity = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
    with _lock:
        known = _open.get(str(path))
        if known is not None and known[0] == identity:
            return known[1]
    view = _read(path)
    with _lock:
        _open[str(path)] = (identity, view)
    hold(view)
    return view


def hold(view: HistoryView) -> None:
    """Keep a view for `held`."""
    with _lock:
        _held[view.digest] = view
        _held.move_to_end(view.digest)
        while len(_held) > HELD:
            _held.popitem(last=False)


def held(digest: str) -> HistoryView | None:
    """Return a view that this process opened lately, by the digest of its rows."""
    with _lock:
        return _held.get(digest)


def _read(path: Path) -> HistoryView:
    try:
        with path.open("rb") as handle:
            data = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise disk_failure(path, error) from error
    except ValueError:  # nothing can be mapped of an empty file
        raise damaged(str(path), "it is empty") from None
    return decoded(memoryview(data), str(path))


def decoded(data: memoryview, where: str) -> HistoryView:
    """Return the selection that bytes hold; its rows are not looked at."""
    try:
        meta, arrays = array_file.decode(data, ARRAYS, STAMP)
    except ValueError as error:
        raise damaged(where, f"no whole snapshot: {error}") from None
    return HistoryView(arrays, meta, where)


def forget_snapshots() -> None:
    """Empty the process-wide cache; the next view is opened and checked anew."""
    with _lock:
        _open.clear()
        _held.clear()
