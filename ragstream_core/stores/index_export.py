"""One generation of an index as one Arrow file, as `history_store.arrow` is one of the history.

A row a chunk, sorted by id; anything that speaks Arrow reads it. The same generation gives the same
bytes. The term arrays lie in row 0 of a column of their own. What the file says of itself stands in
the schema's metadata under ``ragstream``, with a digest over all rows.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from ragstream_core.errors import IntegrityError
from ragstream_core.lexical import LEXICAL_VERSION
from ragstream_core.records.identity import canonical_json, sha256_hex

if TYPE_CHECKING:
    import pyarrow as pa

    from ragstream_core.ports import IndexView

VERSION = 1
KEY = b"ragstream"
PAGE = 2_000
COLUMNS = (
    "chunk_id", "path", "sha256", "chunk_idx", "span_start", "span_end", "page_number", "heading",
    "file_type", "mtime", "text_hash",
)  # fmt: skip
"""The columns that the digest covers row by row; text by its hash, and the vector by its bytes."""


def encode(view: IndexView) -> tuple[memoryview, dict[str, Any]]:
    """Return the bytes of the file, and what it says of itself.

    Args:
        view: The generation; at least one row.

    Returns:
        The metadata holds ``version, project, generation, digest`` (of the generation), ``rows,
        dimension, embed_fp, lexical`` (version of the term arrays) and ``content`` (digest of all
        rows).

    Raises:
        IntegrityError: A stored text does not have its hash.
        RagstreamError: The catalog cannot be read.
    """
    import pyarrow as pa

    table = _table(view)
    meta = {
        "version": VERSION,
        "project": view.project,
        "generation": view.generation,
        "digest": view.digest,
        "rows": table.num_rows,
        "dimension": int(view.vectors.shape[1]),
        "embed_fp": view.embed_fp,
        "lexical": LEXICAL_VERSION,
        "content": content_digest(table),
    }
    table = table.replace_schema_metadata({KEY: canonical_json(meta).encode()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return memoryview(sink.getvalue()), meta


def decode(data: bytes | memoryview) -> tuple[pa.Table, dict[str, Any]]:
    """Read an export and check it: its rows have its digest, each text has its hash.

    Raises:
        IntegrityError: It is no export, of another version, or not what was written.
    """
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


_AGAIN = "ragstream index export PROJECT --force"


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
