"""What `ingest --verify` and `--rebuild` find besides the vectors of the model at hand.

A damaged text is read again from its file. A damaged vector of another model cannot be made again
here: it goes, with the generations that nobody can read without it.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import NamedTuple

from ragstream_core.errors import RagstreamError
from ragstream_core.stores import catalog_read, deep_check, retention
from ragstream_core.stores.schema import CATALOG_NAME, transaction
from ragstream_core.stores.vector_check import broken_vectors

_LOST = (
    "SELECT DISTINCT c.text_hash FROM chunks c LEFT JOIN texts t ON t.text_hash = c.text_hash "
    "WHERE t.text_hash IS NULL"
)
_NAMES = (
    "SELECT 1 FROM chunks c JOIN broken b ON b.text_hash = c.text_hash "
    "WHERE c.from_gen <= :n AND (c.to_gen IS NULL OR c.to_gen > :n) LIMIT 1"
)


class DamagedTexts(NamedTuple):
    """Texts that are missing or do not have their hash or their terms' crc.

    Attributes:
        hashes: Of the texts.
        paths: Files of the newest generation that have one of them.
    """

    hashes: frozenset[str]
    paths: frozenset[str]


def damaged_texts(db: sqlite3.Connection) -> DamagedTexts:
    """Hash every stored text; reads all of them."""
    bad = {str(text_hash) for text_hash in deep_check.bad_texts(db)}
    bad |= {text_hash for (text_hash,) in db.execute(_LOST)}
    query = "SELECT DISTINCT path FROM chunks WHERE text_hash = ? AND to_gen IS NULL"
    paths = (path for text_hash in bad for (path,) in db.execute(query, (text_hash,)))
    return DamagedTexts(frozenset(bad), frozenset(paths))


def mend_rest(db: sqlite3.Connection, index_dir: Path, embed_fp: str) -> list[str]:
    """Drop what is damaged and cannot be made again; say what is damaged still.

    Args:
        db: The catalog, writable, with the staged chunks of this ingest.
        index_dir: Where the vector files lie.
        embed_fp: The model at hand; its own vectors are `broken_vectors`' business.

    Returns:
        A sentence for each thing that went or is still damaged.

    Raises:
        IntegrityError: The vector file of another model lost its end.
        OperationFailed: The catalog could not be written.
    """
    others = "SELECT embed_fp FROM vector_files WHERE embed_fp <> ? ORDER BY embed_fp"
    said = _drop_nameless(db, index_dir)
    for (other,) in db.execute(others, (embed_fp,)).fetchall():
        said += _drop_broken(db, index_dir, other)
    return said + [f"still damaged: {found}" for found in _findings(db, index_dir)]


def _drop_nameless(db: sqlite3.Connection, index_dir: Path) -> list[str]:
    """Drop damaged rows that stand for no text of a chunk, e.g. one whose hash was damaged."""
    bad = [(text_hash,) for text_hash in deep_check.bad_texts(db)]
    nameless = "NOT EXISTS (SELECT 1 FROM chunks c WHERE c.text_hash = texts.text_hash)"
    with transaction(db, index_dir / CATALOG_NAME):
        delete = f"DELETE FROM texts WHERE text_hash = ? AND {nameless}"
        went = db.executemany(delete, bad).rowcount if bad else 0
    return [f"{went} damaged rows that no chunk names were dropped"] if went > 0 else []


def _drop_broken(db: sqlite3.Connection, index_dir: Path, embed_fp: str) -> list[str]:
    broken = broken_vectors(db, index_dir, embed_fp, everything=True)
    if not broken:
        return []
    db.execute("CREATE TEMP TABLE IF NOT EXISTS broken(text_hash TEXT PRIMARY KEY)")
    db.execute("DELETE FROM broken")
    db.executemany("INSERT OR IGNORE INTO broken VALUES(?)", ((h,) for h in broken))
    made = [g.n for g in catalog_read.generations(db) if g.embed_fp == embed_fp]
    gone = [n for n in made if db.execute(_NAMES, {"n": n}).fetchone()]
    with transaction(db, index_dir / CATALOG_NAME):
        db.execute(
            "DELETE FROM vectors WHERE embed_fp = ? AND text_hash IN (SELECT * FROM broken)",
            (embed_fp,),
        )
        retention.drop(db, gone, unnamed=False)
    which = f", and with them generation {', '.join(map(str, gone))}" if gone else ""
    return [
        f"{len(broken)} damaged vectors of the earlier model {embed_fp[:12]}, which only that "
        f"model could make again, were dropped{which}"
    ]


def _findings(db: sqlite3.Connection, index_dir: Path) -> list[str]:
    try:
        return [finding.message for finding in deep_check.findings(db, index_dir)]
    except (RagstreamError, OSError, sqlite3.DatabaseError) as error:
        return [getattr(error, "message", str(error))]
