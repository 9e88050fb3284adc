"""`history_store.arrow`: the published selection of the history; all of it that prompts read.

Written to a staging file, synced, and given its name by one ``os.replace`` (R-232): a reader sees
the old selection or the new one, and one that has it open keeps what it opened. It is derived: the
catalog is complete, and a damaged or missing file is published again.
"""

from __future__ import annotations

import json
import mmap
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from ragstream_core.conversations.columns import Coded, SelectedRow, Strings, capped, lexical_of
from ragstream_core.conversations.history_store import Mark
from ragstream_core.conversations.summaries import rolled_up
from ragstream_core.errors import IntegrityError
from ragstream_core.index.history_view import HistoryView, damaged
from ragstream_core.index.snapshot_format import (
    NUMBERS,
    TEXTS,
    VERSION,
    Stored,
    arrays_of,
    decode,
    encode,
)
from ragstream_core.platform.disk import disk_failure, require_space
from ragstream_core.platform.files import make_private_dir, replace_bytes
from ragstream_core.text.bm25 import LEXICAL_VERSION

if TYPE_CHECKING:
    from ragstream_core.ports import F32

SNAPSHOT_NAME = "history_store.arrow"
Identity = tuple[int, int, int, int]
HELD = 3
"""Views that stay open after a newer one was published: prompts that began with them go on."""
_open: dict[str, tuple[Identity, HistoryView]] = {}
_held: OrderedDict[str, HistoryView] = OrderedDict()
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class SnapshotReport:
    """What one publication did.

    Attributes:
        path: The file.
        digest: Digest of the rows, 64 hex digits.
        rows: Chunks in it.
        turns: Turns with a chunk in it.
        evicted: Chunks above the cap that only the catalog holds.
        size: Bytes of the file.
        written: Whether it was not there already.
    """

    path: Path
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
    where: str = "snapshot",
) -> HistoryView:
    """Select and arrange what a snapshot holds; the same rows give the same digest.

    Args:
        rows: All live chunks of the catalog, in any order.
        vectors: Theirs, shape (rows, dimension).
        mark: How far the catalog has come.
        cap: Chunks in it at most.
        summarise_after: Days after which old spans are rolled up (R-240); 0: never.
        summary_tags: Tags of the summaries, by id.
        where: What messages call it.
    """
    if summarise_after:
        rows, vectors = rolled_up(rows, vectors, after_days=summarise_after, tags=summary_tags)
    kept = sorted(capped(rows, cap), key=lambda i: rows[i].chunk_id)
    stored = _stored(rows, kept, np.ascontiguousarray(vectors[kept], dtype="<f4"))
    meta = {
        "version": VERSION,
        "lexical": LEXICAL_VERSION,
        "rows": len(kept),
        "dimension": stored.dimension,
        "turns": len({rows[i].seq for i in kept}),
        "evicted": len(rows) - len(kept),
        "cap": cap,
        "summarise_after": summarise_after,
        "embed_fp": mark.embed_fp,
        "index_fp": mark.index_fp,
        "generation": mark.generation,
        "catalog": mark.digest,
        "position": asdict(mark.position),
        "digest": stored.digest(mark.embed_fp),
    }
    return HistoryView(stored, meta, where)


def _stored(rows: Sequence[SelectedRow], kept: Sequence[int], vectors: F32) -> Stored:
    chosen = [rows[i] for i in kept]
    lists = {
        "tags": [tuple(sorted(row.tags)) for row in chosen],
        "projects": [tuple(sorted(row.projects)) for row in chosen],
        "active_dbs": [tuple(sorted(row.active_dbs)) for row in chosen],
    }
    labels = {
        "session": Coded.of(row.session for row in chosen),
        "source": Coded.of(row.source for row in chosen),
        "versions": Coded.of(row.versions for row in chosen),
        **{name: _as_json(Coded.of(values)) for name, values in lists.items()},
    }
    arrays = arrays_of(
        {n: np.array([getattr(row, n) for row in chosen], dtype=t) for n, t in NUMBERS.items()}
        | {"seq_last": np.array([row.seq_last or row.seq for row in chosen], dtype="<i8")},
        {name: Strings.of([getattr(row, name) for row in chosen]) for name in TEXTS},
        labels,
    )
    lexical = lexical_of(rows, kept).packed() if kept else b""
    arrays |= {"vector": vectors.reshape(-1), "lexical": np.frombuffer(lexical, np.uint8)}
    return Stored(arrays, max(1, vectors.shape[1]))


def _as_json(column: Coded[tuple[str, ...]]) -> Coded[str]:
    return Coded(column.codes, tuple(map(json.dumps, column.values)))


def publish(
    rows: Sequence[SelectedRow],
    vectors: F32,
    path: Path,
    *,
    mark: Mark,
    cap: int,
    summarise_after: float = 0.0,
    summary_tags: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
) -> SnapshotReport:
    """Publish the selection; a file that is the same already is left alone.

    One publisher at a time: the caller holds the history's lock.

    Args:
        rows: All live chunks of the catalog, in any order.
        vectors: Theirs, shape (rows, dimension).
        path: The snapshot's name.
        mark: How far the catalog has come.
        cap: Chunks in it at most.
        summarise_after: Days after which old spans are rolled up; 0: never.
        summary_tags: Tags of the summaries, by id.

    Raises:
        OperationFailed: Disk full; the last snapshot stays.
    """
    made = build(
        rows,
        vectors,
        mark=mark,
        cap=cap,
        summarise_after=summarise_after,
        summary_tags=summary_tags,
        where=str(path),
    )
    sweep(path)
    if written := not _is(path, made):
        data = encode(made.stored, made.meta)
        HistoryView(*decode(data), str(path)).verify()
        require_space(path.parent, len(data))
        try:
            make_private_dir(path.parent)
            replace_bytes(path, data)
        except OSError as error:
            raise disk_failure(path, error, needed=len(data)) from error
    return report(made, path, written=written)


def report(view: HistoryView, path: Path, *, written: bool) -> SnapshotReport:
    """Return what there is to say of a published selection.

    Args:
        view: The selection.
        path: Its file.
        written: Whether it was published just now.
    """
    meta = view.meta
    return SnapshotReport(
        path,
        view.digest,
        meta["rows"],
        meta["turns"],
        meta["evicted"],
        path.stat().st_size,
        written,
    )


def _is(path: Path, made: HistoryView) -> bool:
    try:
        there = open_snapshot(path)
        if there is not None and there.meta.items() >= made.meta.items():
            there.verify()
            return True
    except IntegrityError:
        pass  # damaged: it is replaced
    return False


def sweep(path: Path) -> None:
    """Remove the staging files of publishers that died; the caller holds the history's lock."""
    for staging in path.parent.glob(f".{path.name}.*.tmp"):
        staging.unlink(missing_ok=True)


def open_snapshot(path: Path) -> HistoryView | None:
    """Open the published selection without reading its rows; None where there is none yet.

    The same view is shared within the process while the file is the same.

    Raises:
        IntegrityError: It is no snapshot, torn, or of another format.
        OperationFailed: It cannot be read.
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
    try:
        return HistoryView(*decode(memoryview(data)), str(path))
    except ValueError as error:
        raise damaged(str(path), f"no whole snapshot: {error}") from None


def forget_snapshots() -> None:
    """Empty the process-wide cache; the next view is opened and checked anew."""
    with _lock:
        _open.clear()
        _held.clear()
