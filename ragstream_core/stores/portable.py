"""One generation as plain values: taken out of a catalog, and put into an empty one.

The digest that a prompt pins covers every row, so whoever puts one in knows it is the same.
"""

from __future__ import annotations

import dataclasses
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.errors import GenerationGone, IntegrityError
from ragstream_core.ingestion.index_store import (
    Change,
    ChunkRow,
    Fingerprints,
    ScanStamp,
    TextRow,
)
from ragstream_core.ingestion.manifest import FileEntry
from ragstream_core.records.identity import sha256_hex
from ragstream_core.stores import catalog_read, generations
from ragstream_core.stores.schema import LIVE
from ragstream_core.stores.view_load import load_rows

if TYPE_CHECKING:
    from ragstream_core.ingestion.index_store import Generation
    from ragstream_core.ports import F32

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
    """Return a generation, checked as a prompt checks it.

    Args:
        index_dir: The project's folder below the index root.
        n: Its number.
        digest: What it must have.

    Raises:
        GenerationGone: It is not kept, or is another one now.
        IntegrityError: Its rows, texts or vectors are not what was committed.
        OperationFailed: The catalog cannot be read.
    """

    def query(db: sqlite3.Connection) -> Portable:
        """Read it.

        Raises:
            GenerationGone: It is not kept.
        """
        found = catalog_read.generation(db, n)
        if found is None or found.digest != digest:
            raise GenerationGone(
                f"generation {n} of {index_dir.name}, which the prompt was made from, is gone",
                hint="ragstream keep KEY keeps those of a prompt",
            )
        return _read(db, index_dir, found)

    return generations.read(index_dir, query)


def _read(db: sqlite3.Connection, index_dir: Path, found: Generation) -> Portable:
    loaded = load_rows(db, index_dir, found)
    chunks = tuple(ChunkRow(*row) for row in db.execute(_CHUNKS, {"n": found.n}))
    texts = tuple((h, t, text) for h, t, text in db.execute(_TEXTS, {"n": found.n}))
    row_of = {chunk.text_hash: row for row, chunk in enumerate(chunks)}
    if any(sha256_hex(text) != text_hash for text_hash, _, text in texts):
        raise IntegrityError(
            f"{index_dir}: a text of generation {found.n} does not have its hash",
            hint=f"ragstream index check {index_dir.name}",
        )
    return Portable(
        found.index_fp,
        found.embed_fp,
        tuple(catalog_read.live_files(db, found.n).values()),
        chunks,
        texts,
        loaded.vectors[[row_of[text_hash] for text_hash, _, _ in texts]],
    )


def put_in(index_dir: Path, portable: Portable, *, n: int, digest: str) -> None:
    """Make an empty index that holds one generation under its old number.

    Args:
        index_dir: A folder without an index.
        portable: The generation.
        n: Its number, ≥ 1.
        digest: What it must have.

    Raises:
        IntegrityError: It has another digest.
        EmbeddingFailed: A vector is no finite unit vector.
        OperationFailed: Disk full.
    """
    from ragstream_core.stores.catalog import open_catalog
    from ragstream_core.terms import term_blob

    rows = [TextRow(h, text, tokens, term_blob(text)) for h, tokens, text in portable.texts]
    with open_catalog(index_dir) as catalog:
        for at in range(0, len(rows), _BATCH):
            part = slice(at, at + _BATCH)
            vectors = portable.vectors[part]
            catalog.record_texts(rows[part], vectors, embed_fp=portable.embed_fp)
        catalog.stage(portable.chunks)
        change = Change(opened=list(portable.files))
        fingerprints = Fingerprints(portable.index_fp, portable.embed_fp)
        made = catalog.prepare(change, fingerprints, provenance={})
        if made.digest != digest:
            raise IntegrityError(
                f"the rows of {index_dir.name} do not have the digest that the prompt names",
                hint="ask for the bundle again",
            )
        catalog.commit(dataclasses.replace(made, n=n), change, stamp=ScanStamp(0, ""))
