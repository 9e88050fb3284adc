"""`history_store.arrow`: the published selection of the history; all of it that prompts read.

Written to a staging file, synced, and given its name by one ``os.replace`` (R-232): a reader sees
the old selection or the new one, and one that has it open keeps what it opened. It is derived: the
catalog is complete, and a damaged or missing file is published again. Anything that speaks Arrow
can read it; RAGstream maps it and reads it as an `array_file`, without Arrow.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import re
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ragstream_core.conversations.columns import Coded, SelectedRow, Strings, capped, lexical_of
from ragstream_core.conversations.summaries import rolled_up
from ragstream_core.errors import IntegrityError
from ragstream_core.index.history_turns import Mark
from ragstream_core.index.history_view import (
    ARRAYS,
    LABELS,
    NON_ANSWERS,
    NUMBERS,
    TEXTS,
    VERSION,
    HistoryView,
    damaged,
    rows_digest,
)
from ragstream_core.platform import array_file
from ragstream_core.platform.disk import disk_failure, require_space
from ragstream_core.platform.files import make_private_dir, replace_bytes
from ragstream_core.records.identity import canonical_json
from ragstream_core.text.terms import LEXICAL_VERSION

if TYPE_CHECKING:
    import pyarrow as pa

    from ragstream_core.platform.array_file import Arrays
    from ragstream_core.ports import F32
    from ragstream_core.records.identity import Json

RULES = 2
"""Raised where a selection says more of its rows than before: it is published again."""
STAMP = {"version": VERSION, "lexical": LEXICAL_VERSION}
_ROOM = 6_000
"""Bytes kept for the description: it names where the arrays lie, and they move with its length."""
SNAPSHOT_NAME = "history_store.arrow"
Identity = tuple[int, int, int, int]
HELD = 3
"""Views that stay open after a newer one was published: prompts that began with them go on."""
_open: dict[str, tuple[Identity, HistoryView]] = {}
_held: OrderedDict[str, HistoryView] = OrderedDict()
_lock = threading.Lock()


class SnapshotReport(NamedTuple):
    """What is published, and whether it was just now.

    Attributes:
        digest: Digest of the rows, 64 hex digits.
        rows: Chunks in it.
        turns: Turns with a chunk in it.
        evicted: Chunks above the cap that only the catalog holds.
        size: Bytes of the file.
        written: Whether it was not there already.
    """

    digest: str
    rows: int
    turns: int
    evicted: int
    size: int
    written: bool


def build(
    rows: Sequence[SelectedRow],
    vectors: F32,
    *,
    mark: Mark,
    cap: int,
    summarise_after: float = 0.0,
    summary_tags: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
) -> HistoryView:
    """Select and arrange what a snapshot holds; the same rows give the same digest.

    At most ``cap`` chunks; spans older than ``summarise_after`` days are rolled up (R-240).
    """
    non_answers = {row.seq for row in rows if row.is_non_answer}
    if summarise_after:
        rows, vectors = rolled_up(rows, vectors, after_days=summarise_after, tags=summary_tags)
    kept = sorted(capped(rows, cap), key=lambda i: rows[i].chunk_id)
    arrays = _arrays([rows[i] for i in kept])
    lexical = lexical_of(rows, kept).packed() if kept else b""
    arrays["vector"] = np.ascontiguousarray(vectors[kept], dtype="<f4").reshape(-1)
    arrays["lexical"] = np.frombuffer(lexical, np.uint8)
    meta = {
        **STAMP,
        **source(mark, cap=cap, summarise_after=summarise_after),
        "rows": len(kept),
        "dimension": max(1, vectors.shape[1]),
        "turns": len({rows[i].seq for i in kept}),
        "evicted": len(rows) - len(kept),
        NON_ANSWERS: sorted(non_answers),
    }
    return HistoryView(arrays, meta | {"digest": rows_digest(arrays, meta)}, "snapshot")


def source(mark: Mark, *, cap: int, summarise_after: float) -> dict[str, Json]:
    """Return what a snapshot says of what it was made from."""
    return {
        "cap": cap,
        "summarise_after": summarise_after,
        "embed_fp": mark.embed_fp,
        "index_fp": mark.index_fp,
        "generation": mark.generation,
        "catalog": mark.digest,
        "position": asdict(mark.position),
        "rules": RULES,
    }


def _arrays(rows: Sequence[SelectedRow]) -> Arrays:
    """Return the arrays of all columns but vectors and terms."""
    arrays = {n: np.array([getattr(row, n) for row in rows], dtype=t) for n, t in NUMBERS.items()}
    arrays["seq_last"] = np.array([row.seq_last or row.seq for row in rows], dtype="<i8")
    texts = {name: [getattr(row, name) for row in rows] for name in TEXTS}
    for name in LABELS:
        given = (getattr(row, name) for row in rows)
        coded = Coded.of(v if isinstance(v, str) else tuple(sorted(v)) for v in given)
        texts[name] = [v if isinstance(v, str) else json.dumps(v) for v in coded.values]
        arrays[f"{name}.codes"] = coded.codes
    for name, values in texts.items():
        text = Strings.of(values)
        arrays |= {f"{name}.offsets": text.offsets, f"{name}.data": text.data}
    return arrays


def publish(made: HistoryView, path: Path) -> SnapshotReport:
    """Publish a selection; a file that is the same already is left alone.

    One publisher at a time: the caller holds the history's lock.
    """
    sweep(path)
    if written := published(path, made.meta) is None:
        data = encode(made)
        require_space(path.parent, len(data))
        try:
            make_private_dir(path.parent)
            replace_bytes(path, data)
        except OSError as error:
            raise disk_failure(path, error, needed=len(data)) from error
    return report(made, path, written=written)


def published(path: Path, wanted: Mapping[str, object]) -> HistoryView | None:
    """Return the published selection, checked; None if damaged or made from something else."""
    with contextlib.suppress(IntegrityError):  # damaged: it is replaced
        there = open_snapshot(path)
        if there is not None and there.meta.items() >= wanted.items():
            there.verify()
            return there
    return None


def report(view: HistoryView, path: Path, *, written: bool) -> SnapshotReport:
    """Return what there is to say of a published selection."""
    rows, turns, evicted = (view.meta[name] for name in ("rows", "turns", "evicted"))
    return SnapshotReport(view.digest, rows, turns, evicted, path.stat().st_size, written)


def sweep(path: Path) -> None:
    """Remove the staging files of publishers that died; the caller holds the history's lock."""
    for staging in path.parent.glob(f".{path.name}.*.tmp"):
        staging.unlink(missing_ok=True)


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
    return _decoded(memoryview(data), str(path))


def _decoded(data: memoryview, where: str) -> HistoryView:
    try:
        meta, arrays = array_file.decode(data, ARRAYS, STAMP)
    except ValueError as error:
        raise damaged(where, f"no whole snapshot: {error}") from None
    return HistoryView(arrays, meta, where)


def encode(view: HistoryView) -> memoryview:
    """Return the bytes of the file: an Arrow table that describes itself as an `array_file`."""
    import pyarrow as pa

    columns = _columns(view)
    meta = {name: value for name, value in view.meta.items() if name != "arrays"}
    room = array_file.MARK + b" " * (_ROOM + len(canonical_json(meta)))
    schema = pa.schema(
        [pa.field(name, column.type, nullable=False) for name, column in columns.items()],
        metadata={b"ragstream": room},
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.record_batch(list(columns.values()), schema=schema))
    written = sink.getvalue()
    told = array_file.description(meta, _places(written)).ljust(len(room))
    data = bytearray(written)
    for at in [match.start() for match in re.finditer(re.escape(room), data)]:
        data[at : at + len(room)] = told
    _decoded(memoryview(data), view.where).verify()
    return memoryview(data)


def _columns(view: HistoryView) -> dict[str, pa.Array]:
    import pyarrow as pa

    arrays, rows = view.arrays, len(view.arrays["seq"])
    columns = {name: _text_column(view.text(name)) for name in TEXTS}
    columns |= {name: pa.array(arrays[name]) for name in NUMBERS}
    columns |= {
        name: pa.DictionaryArray.from_arrays(
            pa.array(arrays[f"{name}.codes"]), _text_column(view.text(name))
        )
        for name in LABELS
    }
    flat = pa.array(arrays["vector"])
    columns["vector"] = pa.FixedSizeListArray.from_arrays(flat, view.meta["dimension"])
    ends = np.full(rows + 1, len(arrays["lexical"]), dtype=np.int64)
    ends[0] = 0  # all of it in row 0
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(arrays["lexical"])]
    columns["lexical"] = pa.Array.from_buffers(pa.large_binary(), rows, buffers)
    return columns


def _text_column(text: Strings) -> pa.Array:
    import pyarrow as pa

    buffers = [None, pa.py_buffer(text.offsets), pa.py_buffer(text.data)]
    return pa.Array.from_buffers(pa.large_utf8(), len(text), buffers)


def _places(written: pa.Buffer) -> dict[str, tuple[int, int]]:
    """Return where each array lies in the file: first byte and number of bytes."""
    import pyarrow as pa

    batch = pa.ipc.open_file(pa.BufferReader(written)).get_batch(0)
    texts = {name: batch.column(name) for name in TEXTS}
    buffers = {name: batch.column(name).buffers()[1] for name in NUMBERS}
    buffers["vector"] = batch.column("vector").values.buffers()[1]
    buffers["lexical"] = batch.column("lexical").buffers()[2]
    for name in LABELS:
        texts[name] = batch.column(name).dictionary
        buffers[f"{name}.codes"] = batch.column(name).indices.buffers()[1]
    for name, column in texts.items():
        _, buffers[f"{name}.offsets"], buffers[f"{name}.data"] = column.buffers()
    return {  # an empty one may lie anywhere, or be None
        name: (buffer.address - written.address, buffer.size) if buffer else (0, 0)
        for name, buffer in buffers.items()
    }


def forget_snapshots() -> None:
    """Empty the process-wide cache; the next view is opened and checked anew."""
    with _lock:
        _open.clear()
        _held.clear()
