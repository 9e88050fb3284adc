"""Make again what is damaged in an index; `verify` says what that is.

A catalog that fails its checks is set aside and made again from the documents. Only embeddings are
taken over from it: each text that has its hash and whose vector, read from the file, has the crc
over hash and bytes. Terms and derived files are always made from what was checked.
"""

from __future__ import annotations

import contextlib
import itertools
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from ragstream_core.errors import ProjectLocked, RagstreamError
from ragstream_core.index import check, derived, remove
from ragstream_core.index.rows import (
    all_generations,
    last_scan,
    latest_generation,
    recorded_signatures,
)
from ragstream_core.index.schema import (
    CATALOG_NAME,
    INSERT_TEXT,
    JOURNAL_NAME,
    connect_writer,
    guard,
    project_lock,
    transaction,
)
from ragstream_core.index.vectors import VectorFile, broken_vectors
from ragstream_core.platform.files import move_aside
from ragstream_core.records.identity import sha256_hex
from ragstream_core.text.terms import term_blob

_BLOCK = 1024
_NAMES = "SELECT text_hash FROM vectors WHERE embed_fp = ? ORDER BY text_hash"
_ROW = (
    "SELECT v.text_hash, v.epoch, v.row, v.crc32, t.tokens, t.text "
    "FROM vectors v JOIN texts t ON t.text_hash = v.text_hash "
    "WHERE v.embed_fp = ? AND v.text_hash = ?"
)
_KINDS = (str, int, int, int, int, str)
_NEEDS_BROKEN = (
    "SELECT 1 FROM chunks c JOIN broken b ON b.text_hash = c.text_hash "
    "WHERE c.from_gen <= :n AND (c.to_gen IS NULL OR c.to_gen > :n) LIMIT 1"
)

EmbeddedRow = tuple[str, int, int, int, int, str]
"""text_hash, epoch, row, crc32, tokens, text."""


def put_damaged_aside(index_dir: Path) -> Path | None:
    """Rename a catalog that fails its checks to ``catalog.sqlite.damaged-n``; the lock is held."""
    path = index_dir / CATALOG_NAME
    if not path.exists() or _is_sound(index_dir):
        return None
    taken = {p.name for p in index_dir.glob(f"{CATALOG_NAME}.damaged-*")}
    n = next(i for i in range(1, len(taken) + 2) if f"{CATALOG_NAME}.damaged-{i}" not in taken)
    aside = path.with_name(f"{CATALOG_NAME}.damaged-{n}")
    journal = index_dir / JOURNAL_NAME
    if journal.exists():
        move_aside(journal, aside.with_name(f"{aside.name}-journal"))
    move_aside(path, aside)
    return aside


def _is_sound(index_dir: Path) -> bool:
    """Return whether the rows are as committed; missing texts and vectors are made in place."""
    from ragstream_core.index import history_turns

    try:
        with contextlib.closing(connect_writer(index_dir)) as db, guard(index_dir / CATALOG_NAME):
            if db.execute("PRAGMA integrity_check").fetchone()[0] != "ok":
                return False
            recorded_signatures(db), last_scan(db)  # raise if a table is missing
            return not any(check.row_findings(db)) and not history_turns.damage(db)
    except (RagstreamError, TypeError, ValueError, AttributeError):  # the latter: other types
        return False


def take_over_texts(db: sqlite3.Connection, index_dir: Path, aside: Path) -> int:
    """Take over into a new catalog the embedded texts that are sound in a damaged one."""
    old = sqlite3.connect(f"file:{quote(str(aside.absolute()))}?mode=ro", uri=True)
    try:
        return sum(_take_over(db, old, file) for file in _vector_files(old, index_dir))
    finally:
        old.close()


def _vector_files(old: sqlite3.Connection, index_dir: Path) -> list[VectorFile]:
    """Return what is left of the vector files that a damaged catalog names."""
    rows = _readable(old, "SELECT embed_fp, epoch, rows, dimension FROM vector_files", ())
    kinds = (str, int, int, int)
    sound = [r for r in rows if all(map(isinstance, r, kinds)) and min(r[1:]) > 0]
    return [VectorFile.named(index_dir, *row).cut() for row in sound]


def _take_over(db: sqlite3.Connection, old: sqlite3.Connection, file: VectorFile) -> int:
    taken, catalog = 0, file.path.with_name(CATALOG_NAME)
    for block in _blocks(old, file.embed_fp) if file.count else ():
        whole = [row for row in block if sha256_hex(row[-1]) == row[0]]
        bad = set(file.damaged([row[:4] for row in whole]))
        sound = [row for row in whole if row[0] not in bad]
        with transaction(db, catalog):
            db.executemany(INSERT_TEXT, map(_text_row, sound))
            db.executemany(
                "INSERT OR IGNORE INTO vectors VALUES(?,?,?,?,?)",
                ((file.embed_fp, *row[:4]) for row in sound),
            )
        taken += len(sound)
    if taken:
        with transaction(db, catalog):
            remove.mark_recording(db)  # texts of files that are gone have no chunk to come
            shape = file.embed_fp, file.epoch, file.count, file.dimension
            db.execute("INSERT INTO vector_files VALUES(?,?,?,?)", shape)
    return taken


def _text_row(row: EmbeddedRow) -> tuple[str, int, bytes, int, str]:
    text_hash, *_, tokens, text = row
    terms = term_blob(text)
    return text_hash, tokens, terms, zlib.crc32(terms), text


def _readable(old: sqlite3.Connection, query: str, values: tuple[str, ...]) -> Iterator[Any]:
    """Yield rows until the damage."""
    try:
        yield from old.execute(query, values)
    except (sqlite3.Error, UnicodeDecodeError):
        return


def _blocks(old: sqlite3.Connection, embed_fp: str) -> Iterator[list[EmbeddedRow]]:
    """Yield the rows that can be read, from both ends up to the damage, each text once."""
    names = {
        name: None
        for query in (_NAMES, f"{_NAMES} DESC")
        for (name,) in _readable(old, query, (embed_fp,))
        if isinstance(name, str)
    }
    rows = (row for name in names for row in _readable(old, _ROW, (embed_fp, name)))
    whole = (row for row in rows if all(map(isinstance, row, _KINDS)))
    while block := list(itertools.islice(whole, _BLOCK)):
        yield block


class DamagedTexts(NamedTuple):
    """Texts that are missing or do not have their hash or their terms' crc.

    Attributes:
        hashes: Of the texts.
        paths: Files of the newest generation that have one of them.
    """

    hashes: frozenset[str]
    paths: frozenset[str]


def damaged_texts(db: sqlite3.Connection) -> DamagedTexts:
    """Hash every stored text; what is damaged is to be read from its file again."""
    bad = {str(text_hash) for text_hash in check.bad_texts(db)} | set(check.missing_texts(db))
    query = "SELECT DISTINCT path FROM chunks WHERE text_hash = ? AND to_gen IS NULL"
    paths = (path for text_hash in bad for (path,) in db.execute(query, (text_hash,)))
    return DamagedTexts(frozenset(bad), frozenset(paths))


def repair_rest(db: sqlite3.Connection, index_dir: Path, embed_fp: str) -> list[str]:
    """Drop what is damaged and cannot be made again; name what is damaged still.

    A damaged vector of another model cannot be made again here: it goes, with the generations that
    cannot be read without it.
    """
    others = "SELECT embed_fp FROM vector_files WHERE embed_fp <> ? ORDER BY embed_fp"
    said = _drop_unnamed(db, index_dir)
    for (other,) in db.execute(others, (embed_fp,)).fetchall():
        said += _drop_broken(db, index_dir, other)
    try:
        left = [finding.message for finding in check.data_findings(db, index_dir)]
    except (RagstreamError, OSError, sqlite3.DatabaseError) as error:
        left = [getattr(error, "message", str(error))]
    return said + [f"still damaged: {found}" for found in left]


def _drop_unnamed(db: sqlite3.Connection, index_dir: Path) -> list[str]:
    """Drop damaged rows that stand for no text of a chunk, e.g. one whose hash was damaged."""
    bad = [(text_hash,) for text_hash in check.bad_texts(db)]
    unnamed = "NOT EXISTS (SELECT 1 FROM chunks c WHERE c.text_hash = texts.text_hash)"
    with transaction(db, index_dir / CATALOG_NAME):
        delete = f"DELETE FROM texts WHERE text_hash = ? AND {unnamed}"
        went = db.executemany(delete, bad).rowcount if bad else 0
    return [f"{went} damaged rows that no chunk names were dropped"] if went > 0 else []


def _drop_broken(db: sqlite3.Connection, index_dir: Path, embed_fp: str) -> list[str]:
    broken = broken_vectors(db, index_dir, embed_fp, everything=True)
    if not broken:
        return []
    db.execute("CREATE TEMP TABLE IF NOT EXISTS broken(text_hash TEXT PRIMARY KEY)")
    db.execute("DELETE FROM broken")
    db.executemany("INSERT OR IGNORE INTO broken VALUES(?)", ((h,) for h in broken))
    made = [g.n for g in all_generations(db) if g.embed_fp == embed_fp]
    gone = [n for n in made if db.execute(_NEEDS_BROKEN, {"n": n}).fetchone()]
    with transaction(db, index_dir / CATALOG_NAME):
        db.execute(
            "DELETE FROM vectors WHERE embed_fp = ? AND text_hash IN (SELECT * FROM broken)",
            (embed_fp,),
        )
        remove.drop(db, gone, unnamed=False)
    which = f", and with them generation {', '.join(map(str, gone))}" if gone else ""
    return [
        f"{len(broken)} damaged vectors of the earlier model {embed_fp[:12]}, which only that "
        f"model could make again, were dropped{which}"
    ]


def repair_derived(index_dir: Path) -> list[str]:
    """Compare term arrays and manifest with the catalog; write those that differ, and name them.

    None while another process writes the project: its ingest publishes them.
    """
    path = index_dir / CATALOG_NAME
    if not path.exists():
        return []
    try:
        with (
            project_lock(index_dir),
            contextlib.closing(connect_writer(index_dir)) as db,
            guard(path),
        ):
            derived.refresh_terms(db, path)
            newest = latest_generation(db)
            return derived.publish_again(db, index_dir, newest) if newest is not None else []
    except ProjectLocked:
        return []
