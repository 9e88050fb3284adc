"""What prompts search of the history: its live rows, checked, selected, and published.

Written to a staging file, synced, and given its name by one ``os.replace`` (R-232): a reader sees
the old selection or the new one, and one that has it open keeps what it opened.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ragstream_core.conversations.columns import Coded, SelectedRow, Strings, capped, lexical_of
from ragstream_core.conversations.non_answers import is_non_answer, is_non_answer_text
from ragstream_core.conversations.summaries import rolled_up
from ragstream_core.conversations.units import parse_history_chunk_id
from ragstream_core.conversations.use import labels_of
from ragstream_core.errors import IntegrityError
from ragstream_core.index.generation_rows import damaged, load_rows
from ragstream_core.index.history import Mark, TurnRow, mark_of, read_turns
from ragstream_core.index.rows import latest_generation, meta_value
from ragstream_core.index.schema import LEXICAL_KEY, no_generation, read
from ragstream_core.index.snapshot import (
    LABELS,
    NON_ANSWERS,
    NUMBERS,
    STAMP,
    TEXTS,
    HistoryView,
    decoded,
    open_snapshot,
    rows_digest,
)
from ragstream_core.platform import array_file
from ragstream_core.platform.disk import disk_failure, require_space
from ragstream_core.platform.files import make_private_dir, replace_bytes
from ragstream_core.records.identity import canonical_json, sha256_hex
from ragstream_core.text.terms import LEXICAL_VERSION, term_blob

if TYPE_CHECKING:
    import pyarrow as pa

    from ragstream_core.platform.array_file import Arrays
    from ragstream_core.ports import F32
    from ragstream_core.records.identity import Json

_CHUNKS = (
    "SELECT c.chunk_id, c.chunk_idx, c.start, c.end, c.text_hash, t.text, unpack_terms(t.terms), "
    "t.terms_crc FROM chunks c LEFT JOIN texts t ON t.text_hash = c.text_hash "
    "WHERE c.to_gen IS NULL ORDER BY c.chunk_id"
)


@dataclass(frozen=True, slots=True)
class LiveRows:
    """The live rows of the history up to a turn, by chunk id, and their vectors, read-only.

    The mark's digest covers all turns, also those left out; the turns are also those without a
    chunk, by number, without texts.
    """

    mark: Mark
    turns: Mapping[int, TurnRow]
    rows: tuple[SelectedRow, ...]
    vectors: F32


def selection_rows(index_dir: Path, upto: int | None = None) -> LiveRows:
    """Read and check all live rows: digest, every text's hash, every vector's crc, every turn."""
    for _ in range(2):
        with contextlib.suppress(FileNotFoundError):  # compacted meanwhile: look again
            return read(index_dir, lambda db: _live_rows(db, index_dir, upto))
    return read(index_dir, lambda db: _live_rows(db, index_dir, upto))


def _live_rows(db: sqlite3.Connection, index_dir: Path, upto: int | None) -> LiveRows:
    found = latest_generation(db)
    if found is None:
        raise no_generation(index_dir)
    loaded = load_rows(db, index_dir, found)
    turns = {row.seq: row for row in read_turns(db)}
    rows: list[SelectedRow] = []
    stored = meta_value(db, LEXICAL_KEY) == LEXICAL_VERSION
    for chunk_id, idx, start, end, text_hash, text, terms, crc in db.execute(_CHUNKS):
        _, seq, *_ = parse_history_chunk_id(chunk_id)
        if not isinstance(text, str) or sha256_hex(text) != text_hash or zlib.crc32(terms) != crc:
            raise damaged(index_dir, f"the text of {chunk_id} is missing or damaged")
        terms = terms if stored else term_blob(text)
        if seq not in turns:
            raise damaged(index_dir, f"the turn of {chunk_id} is missing")
        rows.append(_row(turns[seq], (chunk_id, idx, start, end, text_hash), text, terms))
    kept = [i for i, row in enumerate(rows) if upto is None or row.seq <= upto]
    vectors = loaded.vectors[kept] if upto is not None else np.asarray(loaded.vectors)
    vectors.flags.writeable = False
    turns = {seq: row for seq, row in turns.items() if upto is None or seq <= upto}
    return LiveRows(mark_of(found), turns, tuple(rows[i] for i in kept), vectors)


def _row(
    of: TurnRow, chunk: tuple[str, int, int, int, str], text: str, terms: bytes
) -> SelectedRow:
    chunk_id, idx, start, end, text_hash = chunk
    turn = of.turn
    return SelectedRow(
        chunk_id, of.seq, idx, text, text_hash, terms,
        session=turn.session_id,
        turn_id=turn.id,
        timestamp_ns=of.timestamp_ns,
        tags=of.tags,
        projects=tuple(sorted(labels_of(turn))),
        active_dbs=turn.active_dbs,
        source=turn.source,
        importance=turn.importance,
        start=start,
        end=end,
        versions=canonical_json(list(turn.versions)),
        prompt_key=turn.prompt_key,
        sha256=of.sha256,
        is_non_answer=is_non_answer(turn) or is_non_answer_text(text),
    )  # fmt: skip


# Raised where a selection says more of its rows than before: it is published again.
RULES = 2
# Bytes kept for the description: it names where the arrays lie, and they move with its length.
_ROOM = 6_000


class SnapshotReport(NamedTuple):
    """What is published, and whether it was just now; only the catalog holds what was evicted."""

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
    # twice: the header of an Arrow file holds the schema too, and Arrow's readers take that one
    description = array_file.description(meta, _places(written)).ljust(len(room))
    data = memoryview(bytes(written).replace(room, description))
    decoded(data, view.where).verify()
    return data


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
