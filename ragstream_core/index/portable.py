"""One generation of an index outside of it: as values for a bundle, and as one Arrow file.

Values that were taken out are put into an empty catalog; the digest that a prompt pins covers every
row, so it tells whether they are the same. The Arrow file has a row a chunk, sorted by id, and the
term arrays in row 0 of a column of their own; the same generation gives the same bytes. What it
says of itself stands in the schema's metadata under ``ragstream``, with a digest over all rows.
"""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ragstream_core.errors import GenerationGone, IntegrityError, RunCommand
from ragstream_core.index import commit, look
from ragstream_core.index.catalog import open_catalog
from ragstream_core.index.generation_rows import load_rows
from ragstream_core.index.rows import (
    Change,
    ChunkRow,
    FileEntry,
    ScanStamp,
    TextRow,
    live_files,
    numbered_generation,
)
from ragstream_core.index.schema import LIVE
from ragstream_core.records.identity import canonical_json, sha256_hex
from ragstream_core.text.terms import LEXICAL_VERSION, term_blob

if TYPE_CHECKING:
    import pyarrow as pa

    from ragstream_core.index.rows import Generation
    from ragstream_core.ports import F32, IndexView


_CHUNKS = (
    "SELECT chunk_id, path, sha256, chunk_idx, start, end, page, heading, text_hash FROM chunks "
    f"WHERE {LIVE} ORDER BY chunk_id"
)
_TEXTS = (
    "SELECT text_hash, tokens, text FROM texts WHERE text_hash IN "
    f"(SELECT text_hash FROM chunks WHERE {LIVE}) ORDER BY text_hash"
)
_BATCH = 4096


@dataclass(frozen=True, slots=True)
class Portable:
    """All that a generation holds.

    Attributes:
        index_fp: Fingerprint of model, chunker and parsers.
        embed_fp: Fingerprint of the model.
        files: The manifest.
        chunks: The live chunks, by id.
        texts: (text_hash, tokens, text) of each distinct text, by hash.
        vectors: Shape (texts, dimension), float32, in the order of ``texts``.
    """

    index_fp: str
    embed_fp: str
    files: tuple[FileEntry, ...]
    chunks: tuple[ChunkRow, ...]
    texts: tuple[tuple[str, int, str], ...]
    vectors: F32


def take_out(index_dir: Path, n: int, digest: str) -> Portable:
    """Return a generation, checked as a prompt checks it."""

    def query(db: sqlite3.Connection) -> Portable:
        found = numbered_generation(db, n)
        if found is None or found.digest != digest:
            raise GenerationGone(
                f"generation {n} of {index_dir.name}, which the prompt was made from, is gone",
                hint=(RunCommand("keep", "KEY"), " keeps those of a prompt"),
            )
        return _read(db, index_dir, found)

    return look.read(index_dir, query)


def _read(db: sqlite3.Connection, index_dir: Path, found: Generation) -> Portable:
    loaded = load_rows(db, index_dir, found)
    chunks = tuple(ChunkRow(*row) for row in db.execute(_CHUNKS, {"n": found.n}))
    texts = tuple((h, t, text) for h, t, text in db.execute(_TEXTS, {"n": found.n}))
    row_of = {chunk.text_hash: row for row, chunk in enumerate(chunks)}
    if any(sha256_hex(text) != text_hash for text_hash, _, text in texts):
        raise IntegrityError(
            f"{index_dir}: a text of generation {found.n} does not have its hash",
            hint=RunCommand("index check", index_dir.name),
        )
    return Portable(
        found.index_fp,
        found.embed_fp,
        tuple(live_files(db, found.n).values()),
        chunks,
        texts,
        loaded.vectors[[row_of[text_hash] for text_hash, _, _ in texts]],
    )


def put_in(index_dir: Path, portable: Portable, *, n: int, digest: str) -> None:
    """Make an empty index that holds one generation under its old number."""
    rows = [TextRow(h, text, tokens, term_blob(text)) for h, tokens, text in portable.texts]
    with open_catalog(index_dir) as catalog:
        for at in range(0, len(rows), _BATCH):
            part = slice(at, at + _BATCH)
            vectors = portable.vectors[part]
            catalog.record_texts(rows[part], vectors, embed_fp=portable.embed_fp)
        catalog.stage(portable.chunks)
        change = Change(opened=list(portable.files))
        made = commit.prepare(
            catalog.db,
            change,
            index_fp=portable.index_fp,
            embed_fp=portable.embed_fp,
            provenance={},
        )
        if made.digest != digest:
            raise IntegrityError(
                f"the rows of {index_dir.name} do not have the digest that the prompt names",
                hint="ask for the bundle again",
            )
        catalog.commit(dataclasses.replace(made, n=n), change, stamp=ScanStamp(0, ""))


VERSION = 1
KEY = b"ragstream"
PAGE = 2_000
COLUMNS = (
    "chunk_id", "path", "sha256", "chunk_idx", "span_start", "span_end", "page_number", "heading",
    "file_type", "mtime", "text_hash",
)  # fmt: skip
"""The columns that the digest covers row by row; text by its hash, and the vector by its bytes."""


class ExportMeta(NamedTuple):
    """What an exported file says of itself.

    Attributes:
        version: Of the format.
        project: Its name.
        generation: Its number.
        digest: Of the generation.
        rows: How many.
        dimension: Of the vectors.
        embed_fp: Fingerprint of the model that made them.
        lexical: Version of the term arrays.
        content: Digest of all rows.
    """

    version: int
    project: str
    generation: int
    digest: str
    rows: int
    dimension: int
    embed_fp: str
    lexical: str
    content: str


def encode(view: IndexView) -> tuple[memoryview, ExportMeta]:
    """Return the bytes of the file, and what it says of itself."""
    import pyarrow as pa

    table = _table(view)
    meta = ExportMeta(
        version=VERSION,
        project=view.project,
        generation=view.generation,
        digest=view.digest,
        rows=table.num_rows,
        dimension=int(view.vectors.shape[1]),
        embed_fp=view.embed_fp,
        lexical=LEXICAL_VERSION,
        content=content_digest(table),
    )
    table = table.replace_schema_metadata({KEY: canonical_json(meta._asdict()).encode()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return memoryview(sink.getvalue()), meta


def decode(data: bytes | memoryview) -> tuple[pa.Table, dict[str, Any]]:
    """Read an export and check it: its rows have its digest, each text has its hash."""
    import pyarrow as pa

    try:
        table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
        meta: dict[str, Any] = json.loads(table.schema.metadata[KEY])
        whole = meta["version"] == VERSION and meta["content"] == content_digest(table)
        texts = zip(table["text"].to_pylist(), table["text_hash"].to_pylist(), strict=True)
        whole = whole and all(sha256_hex(text) == text_hash for text, text_hash in texts)
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        raise IntegrityError(f"no export of an index: {error}", hint=_AGAIN) from None
    if not whole:
        raise IntegrityError("the export is not what was written", hint=_AGAIN)
    return table, meta


def content_digest(table: pa.Table) -> str:
    """Return the sha256 over the rows of an export: their values as JSON, then their vectors."""
    hashed = sha256()
    columns = [table[name].to_pylist() for name in COLUMNS]
    for row in zip(*columns, strict=True):
        hashed.update(canonical_json(list(row)).encode("utf-8", "surrogatepass"))
    for chunk in table["vector"].chunks:
        hashed.update(chunk.flatten().to_numpy(zero_copy_only=False).astype("<f4").tobytes())
    return hashed.hexdigest()


_AGAIN = RunCommand("index export", "PROJECT --force")


def _table(view: IndexView) -> pa.Table:
    import numpy as np
    import pyarrow as pa

    rows: dict[str, list[Any]] = {name: [] for name in (*COLUMNS, "text")}
    for start in range(0, len(view.chunk_ids), PAGE):
        for chunk in view.chunks(view.chunk_ids[start : start + PAGE]):
            meta = chunk.meta
            values = (
                chunk.id, meta["path"], meta["sha256"], meta["chunk_index"], *chunk.span,
                meta["page_number"], meta["heading"], meta["file_type"], float(meta["mtime"]),
                sha256_hex(chunk.snippet), chunk.snippet,
            )  # fmt: skip
            for name, value in zip(rows, values, strict=True):
                rows[name].append(value)
    flat = pa.array(np.ascontiguousarray(view.vectors, dtype="<f4").reshape(-1))
    vectors = pa.FixedSizeListArray.from_arrays(flat, int(view.vectors.shape[1]))
    terms = [view.lexical.packed(), *[b""] * (len(view.chunk_ids) - 1)]
    columns = {name: pa.array(values) for name, values in rows.items()}
    return pa.table({**columns, "vector": vectors, "lexical": pa.array(terms, pa.large_binary())})
