"""Checks stored vectors against their crc, in blocks: memory stays flat whatever the size."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.errors import IntegrityError
from ragstream_core.stores import vector_file
from ragstream_core.stores.naming import rebuild_hint
from ragstream_core.stores.schema import CATALOG_NAME
from ragstream_core.stores.vector_file import names_row

if TYPE_CHECKING:
    from ragstream_core.ports import F32

BLOCK = 2048

Row = tuple[str, int, int, int]
"""text_hash, epoch, row, crc32."""

_STAGED = (
    "SELECT DISTINCT s.text_hash, v.epoch, v.row, v.crc32, t.text_hash IS NULL FROM staged s "
    "LEFT JOIN vectors v ON v.embed_fp = ? AND v.text_hash = s.text_hash "
    "LEFT JOIN texts t ON t.text_hash = s.text_hash ORDER BY v.row"
)
_ALL = "SELECT text_hash, epoch, row, crc32, 0 FROM vectors WHERE embed_fp = ? ORDER BY row"


def broken_vectors(
    db: sqlite3.Connection, index_dir: Path, embed_fp: str, *, everything: bool
) -> list[str]:
    """Return the texts whose vector is missing, damaged, or not a finite unit vector.

    Args:
        db: The catalog, with its temporary tables.
        index_dir: Where the vector file lies.
        embed_fp: The model.
        everything: Check all vectors; else only what staged chunks use.

    Raises:
        IntegrityError: A staged chunk has no text, or the file is shorter than committed.
    """
    shape = db.execute(
        "SELECT epoch, rows, dimension FROM vector_files WHERE embed_fp = ?", (embed_fp,)
    ).fetchone()
    if shape is None:
        count = db.execute("SELECT count(*) FROM staged").fetchone()[0]
        if count:
            raise IntegrityError(f"{index_dir / CATALOG_NAME}: staged chunks without vectors")
        return []
    epoch, rows, dimension = shape
    path = vector_file.vector_path(index_dir, embed_fp, epoch)
    mapped = _mapped(path, rows, dimension)
    cursor = db.execute(_ALL if everything else _STAGED, (embed_fp,))
    return list(_broken(cursor, mapped, epoch, index_dir))


def _mapped(path: Path, rows: int, dimension: int) -> F32:
    try:
        return vector_file.map_rows(path, rows=rows, dimension=dimension)
    except FileNotFoundError:
        raise IntegrityError(f"{path} is missing", hint=rebuild_hint(path.parent)) from None


def _broken(cursor: sqlite3.Cursor, mapped: F32, epoch: int, index_dir: Path) -> Iterator[str]:
    while block := cursor.fetchmany(BLOCK):
        if any(textless for *_, textless in block):
            raise IntegrityError(
                f"{index_dir / CATALOG_NAME}: a chunk's text is missing",
                hint=rebuild_hint(index_dir),
            )
        usable = [r for r in block if names_row(r[1], r[2], in_epoch=epoch, rows=len(mapped))]
        yield from {r[0] for r in block} - {r[0] for r in usable}
        if usable:
            rows = mapped[[r[2] for r in usable]]
            whole = vector_file.intact(rows, [r[0] for r in usable], [r[3] for r in usable])
            unit = vector_file.unit_rows(rows)
            yield from (
                r[0] for r, ok, u in zip(usable, whole, unit, strict=True) if not (ok and u)
            )
            vector_file.release(mapped)
