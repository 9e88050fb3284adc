"""`CatalogView`: one committed generation, loaded in one short read transaction and then pinned.

What is loaded is checked: the generation's digest over every live row, and the crc of every
vector; or, for the newest generation, the seal of the file that holds the
outcome, and what changed since. Views are shared within a process, so either
happens once a generation. While the catalog's file is at the revision that was read, opening a
generation again asks it nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import threading
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_core.errors import GenerationGone, OperationFailed, RagstreamError, RunCommand
from ragstream_core.index import derived
from ragstream_core.index.generation_rows import (
    GenerationRows,
    canon_crc,
    damaged,
    drop_saved,
    load_rows,
    load_saved,
    save_rows,
)
from ragstream_core.index.rows import (
    Generation,
    checked_entry,
    latest_generation,
    numbered_generation,
    pages_without_text,
    parted,
    read_by_ocr,
)
from ragstream_core.index.schema import CATALOG_NAME, CHUNK_CANON, reading, recover
from ragstream_core.index.vectors import VectorFile
from ragstream_core.platform.locks import one_thread_at_a_time
from ragstream_core.records import Chunk
from ragstream_core.records.identity import sha256_hex

if TYPE_CHECKING:
    from ragstream_core.platform.placed_rows import PlacedRows
    from ragstream_core.text.bm25 import PostingLists


CACHED_VIEWS = 8

# So many checked texts a view keeps: the same passages come back prompt after prompt.
CACHED_CHUNKS = 2_048
_CHANGE_COUNTER = (4, 24)  # bytes and offset in SQLite's file header; every commit adds one
_Revision = tuple[int, int, int, bytes]
_cache: OrderedDict[tuple[str, int, str], CatalogView] = OrderedDict()
_opened: OrderedDict[tuple[Path, str, int], tuple[_Revision, CatalogView]] = OrderedDict()
_cache_lock = threading.Lock()


class CatalogView:
    """A pinned generation; implements `ragstream_core.ports.IndexView`.

    Attributes:
        rows_are_saved: Whether they lie in the sealed file, or were not to.
        generation: Generation number, ≥ 1.
        digest: Digest of the live rows and both fingerprints, 64 hex digits.
        embed_fp: Fingerprint of the model that made `vectors`.
        chunk_ids: Ids of the live chunks, sorted.
        paths: Source path of each row.
    """

    def __init__(
        self,
        index_dir: Path,
        project: str,
        pinned: Generation,
        *,
        loaded: GenerationRows,
    ) -> None:
        self.index_dir, self.project, self.pinned = index_dir, project, pinned
        self.loaded, self.rows_are_saved = loaded, loaded.are_saved
        self.generation, self.digest, self.embed_fp = pinned.n, pinned.digest, pinned.embed_fp
        self.chunk_ids, self.paths = loaded.chunk_ids, loaded.paths
        self._lexical: PostingLists | None = None
        self._loading = threading.Lock()
        self._texts: OrderedDict[str, Chunk] = OrderedDict()

    @property
    def vectors(self) -> PlacedRows:
        """Shape (rows, dimension), float32 unit rows, read from their file when asked for."""
        return self.loaded.vectors

    @property
    def lexical(self) -> PostingLists:
        """Term arrays of the rows; loaded at first use."""
        with self._loading:
            if self._lexical is None:
                with reading(self.index_dir) as db:
                    arrays = derived.load_terms(db, self.index_dir, self.pinned)
                if len(arrays.lengths) != len(self.chunk_ids):
                    raise _gone(self.project, self.generation)
                self._lexical = arrays
            return self._lexical

    def chunks(self, chunk_ids: Iterable[str]) -> list[Chunk]:
        """Load chunks with their texts, in the order asked for; each is read and checked once."""
        wanted = list(chunk_ids)
        held = {i: chunk for i in wanted if (chunk := self._texts.get(i)) is not None}
        fresh = self._loaded([i for i in wanted if i not in held])
        with _cache_lock:
            self._texts.update(fresh)
            while len(self._texts) > CACHED_CHUNKS:
                self._texts.popitem(last=False)
        found = {**held, **fresh}
        return [found[chunk_id] for chunk_id in wanted]

    def _loaded(self, chunk_ids: Iterable[str]) -> dict[str, Chunk]:
        """Load chunks from the catalog, none of which is held."""
        crcs = {i: int(self.loaded.crcs[self._row(i)]) for i in chunk_ids}
        if not crcs:
            return {}
        with reading(self.index_dir) as db:
            found = load_chunks(
                db, self.index_dir, project=self.project, pinned=self.pinned, crcs=crcs
            )
        if len(found) < len(crcs):
            raise _gone(self.project, self.generation)
        return found

    def holds(self, chunk_id: str) -> bool:
        """Whether a chunk is live in this generation."""
        row = bisect_left(self.chunk_ids, chunk_id)
        return row < len(self.chunk_ids) and self.chunk_ids[row] == chunk_id

    def forget_texts(self) -> None:
        """Read and check the texts of chunks again when they are asked for."""
        with _cache_lock:
            self._texts.clear()

    def _row(self, chunk_id: str) -> int:
        row = bisect_left(self.chunk_ids, chunk_id)
        if row == len(self.chunk_ids) or self.chunk_ids[row] != chunk_id:
            raise KeyError(chunk_id)
        return row


def _gone(project: str, n: int) -> GenerationGone:
    if not n:
        return GenerationGone(
            f"project {project} has no generation yet", hint=RunCommand("ingest", project)
        )
    return GenerationGone(
        f"project {project} no longer keeps generation {n}",
        hint=RunCommand("index generations", project),
    )


def open_view(
    index_dir: Path, *, project: str = "", generation: int = 0, keep: bool = False
) -> CatalogView:
    """Open one generation, 0 for the newest; the same view is shared within the process.

    With ``keep`` the checked rows of the newest are left behind, for whoever opens it next.
    """
    path, project = index_dir / CATALOG_NAME, project or index_dir.name
    if not path.exists():
        raise _gone(project, 0)
    revision = _revision(path)
    key = (index_dir, project, generation)
    if (view := _current(key, revision, keep)) is not None:
        return view
    with one_thread_at_a_time(("view", index_dir)):  # a million rows take ten seconds and 0.5 GiB
        if (view := _current(key, revision, keep)) is not None:
            return view
        view = _reopened(index_dir, project, generation, keep)
        if revision is not None:
            _remember(_opened, key, (revision, view))
        return view


def _current(
    key: tuple[Path, str, int], revision: _Revision | None, keep: bool
) -> CatalogView | None:
    """Return the view that was opened of this revision, None if there is none to be shared."""
    with _cache_lock:
        last, view = _opened.get(key, (None, None))
    shared = view is not None and revision == last is not None and (view.rows_are_saved or not keep)
    return view if shared else None


def _revision(path: Path) -> _Revision | None:
    """Return what no commit leaves as it was, None while there may be a writer."""
    with contextlib.suppress(OSError):
        if not path.with_name(f"{path.name}-journal").exists():
            with path.open("rb", buffering=0) as file:
                status = os.fstat(file.fileno())
                counter = os.pread(file.fileno(), *_CHANGE_COUNTER)
            return status.st_ino, status.st_size, status.st_mtime_ns, counter
    return None


def _remember(cache: OrderedDict[Any, Any], key: object, value: object) -> None:
    with _cache_lock:
        cache[key] = value
        cache.move_to_end(key)
        while len(cache) > CACHED_VIEWS:
            cache.popitem(last=False)


def _reopened(index_dir: Path, project: str, generation: int, keep: bool) -> CatalogView:
    try:
        return _open(index_dir, project, generation, keep)
    except OperationFailed:
        if not recover(index_dir):
            raise
        return _open(index_dir, project, generation, keep)
    except FileNotFoundError:  # compacted between the catalog's answer and the map
        return _open(index_dir, project, generation, keep)


def _open(index_dir: Path, project: str, n: int, keep: bool) -> CatalogView:
    with reading(index_dir) as db:
        found = numbered_generation(db, n) if n else latest_generation(db)
        if found is None:
            raise _gone(project, n)
        key = (str(index_dir.resolve()), found.n, found.digest)
        with _cache_lock:
            view = _cache.get(key)
        if view is None or _is_moved(db, view):
            loaded = load_saved(db, index_dir, found) or load_rows(db, index_dir, found)
            view = CatalogView(index_dir, project, found, loaded=loaded)
    if keep and not view.rows_are_saved:
        _keep(view)
    view.forget_texts()  # the catalog has changed since they were read
    _remember(_cache, key, view)
    return view


def _is_moved(db: sqlite3.Connection, view: CatalogView) -> bool:
    """Return whether the vectors were compacted since: what is made from them has other places."""
    now = VectorFile.of(db, view.index_dir, view.embed_fp)
    return bool(view.chunk_ids) and now.epoch != view.loaded.file.epoch


def _keep(view: CatalogView) -> None:
    """Save the rows of the newest generation; not where a commit or an erasing came in between."""
    view.rows_are_saved = True
    if _is_newest(view.index_dir, view.pinned):
        save_rows(view.index_dir, view.pinned, view.loaded)
        if not _is_newest(view.index_dir, view.pinned):
            drop_saved(view.index_dir)


def _is_newest(index_dir: Path, found: Generation) -> bool:
    try:
        with reading(index_dir) as db:
            return latest_generation(db) == found
    except RagstreamError:
        return False


def forget_views() -> None:
    """Empty the process-wide cache; the next view is loaded and checked anew."""
    with _cache_lock:
        _cache.clear()
        _opened.clear()


_CHUNKS = (
    "SELECT c.chunk_id, c.path, c.sha256, c.chunk_idx, c.start, c.end, c.page, c.heading, "
    "c.text_hash, t.text, f.path, f.sha256, f.size, f.mtime_ns, f.type, f.decision, f.reason, "
    f"f.crc, {CHUNK_CANON} FROM chunks c "
    "LEFT JOIN texts t ON t.text_hash = c.text_hash "
    "LEFT JOIN files f ON f.path = c.path AND f.from_gen <= :n "
    "AND (f.to_gen IS NULL OR f.to_gen > :n) "
    "WHERE c.chunk_id IN (SELECT value FROM json_each(:ids)) "
    "AND c.from_gen <= :n AND (c.to_gen IS NULL OR c.to_gen > :n)"
)


def load_chunks(
    db: sqlite3.Connection,
    index_dir: Path,
    *,
    project: str,
    pinned: Generation,
    crcs: Mapping[str, int],
) -> dict[str, Chunk]:
    """Load chunks with texts; ids that are gone are left out."""
    found = {}
    for row in db.execute(_CHUNKS, {"ids": json.dumps(list(crcs)), "n": pinned.n}):
        identifier, path, sha256, idx, start, end, page, place, text_hash, text = row[:10]
        if canon_crc(row[18]) != crcs.get(identifier):
            raise damaged(index_dir, f"the row of {identifier} is not what was committed")
        entry = checked_entry(row[10:18])
        if not isinstance(text, str) or sha256_hex(text) != text_hash:
            raise damaged(index_dir, f"the text of {identifier} does not have its hash")
        try:
            heading, context, snippet = parted(place, text)
        except ValueError as error:
            raise damaged(index_dir, f"{identifier}: {error}") from error
        meta = {
            "path": path,
            "source": path.rpartition("/")[2],
            "sha256": sha256,
            "mtime": entry.mtime_ns / 1e9,
            "file_type": entry.type,
            "chunk_index": idx,
            "page_number": page,
            "heading": heading,
            "generation": pinned.n,
            "project": project,
        }
        if missing := pages_without_text(entry.reason):
            meta["without_text"] = missing
        if read_by_ocr(entry.reason, page):
            meta["read_by"] = "OCR"
        if context:
            meta["context"] = context
        found[identifier] = Chunk(identifier, path, snippet, (start, end), meta)
    return found
