"""What goes: rows that no kept generation holds, texts that nothing names, files that are erased.

A row is dropped when no kept generation lies in [from_gen, to_gen). Recording texts leaves a mark,
the commit that names them takes it away; a mark that is found when the catalog is opened is of an
ingest that was killed, and the commit that ends this one also drops what no chunk names. Erasing is
resumable: `tombstone` takes the rows out of every generation in one transaction; the texts stay,
named by the tombstone alone, until everything else was searched for them; `purge_texts` then takes
texts and vectors, and the tombstone last.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from unicodedata import normalize

from ragstream_core.index import vectors
from ragstream_core.index.rows import all_generations, meta_value, row_sum
from ragstream_core.index.schema import CATALOG_NAME, LIVE, guard, transaction
from ragstream_core.index.vectors import VectorFile
from ragstream_core.records.identity import generation_digest, sha256_hex

if TYPE_CHECKING:
    from ragstream_core.index.rows import Generation


_RECORDING, _UNFINISHED = "recording", "unfinished"


def mark_recording(db: sqlite3.Connection) -> None:
    """Leave the mark of an ingest that records texts, inside the caller's transaction."""
    db.execute("INSERT OR IGNORE INTO meta VALUES(?, '')", (_RECORDING,))


def mark_unfinished(db: sqlite3.Connection, path: Path) -> None:
    """Make a mark that is there when the catalog is opened that of an earlier ingest."""
    if db.execute("SELECT 1 FROM meta WHERE key = ?", (_RECORDING,)).fetchone():
        with transaction(db, path):
            rename = "UPDATE OR REPLACE meta SET key = ? WHERE key = ?"
            db.execute(rename, (_UNFINISHED, _RECORDING))


def finish_recording(db: sqlite3.Connection) -> bool:
    """Take this ingest's mark away inside its commit; say whether an earlier one's is there."""
    db.execute("DELETE FROM meta WHERE key = ?", (_RECORDING,))
    return is_unfinished(db)


def is_unfinished(db: sqlite3.Connection) -> bool:
    """Say whether an ingest recorded texts and did not come to its commit."""
    query = "SELECT 1 FROM meta WHERE key IN (?, ?)"
    return db.execute(query, (_RECORDING, _UNFINISHED)).fetchone() is not None


def clear_marks(db: sqlite3.Connection) -> None:
    """Take all marks away: what no chunk names was dropped in the same transaction."""
    db.execute("DELETE FROM meta WHERE key IN (?, ?)", (_RECORDING, _UNFINISHED))


_DEAD = (
    "to_gen IS NOT NULL AND NOT EXISTS "
    "(SELECT 1 FROM kept k WHERE k.n >= from_gen AND k.n < to_gen)"
)

# Of a table: that no chunk of any generation has the text.
UNNAMED = "NOT EXISTS (SELECT 1 FROM chunks c WHERE c.text_hash = {}.text_hash)"


def superfluous(
    db: sqlite3.Connection, keep: int, pinned: Collection[int] = frozenset()
) -> list[int]:
    """Return the generations that are neither among the last ``keep`` nor pinned, oldest first."""
    found = [n for (n,) in db.execute("SELECT n FROM generations ORDER BY n DESC")]
    return sorted(n for n in found[max(keep, 1) :] if n not in pinned)


def drop_old(
    db: sqlite3.Connection, path: Path, keep: int, pinned: Collection[int] = frozenset()
) -> bool:
    """Drop what only generations before the last ``keep`` hold; say whether anything was."""
    gone = superfluous(db, keep, pinned)
    if not gone:
        return False
    with transaction(db, path):
        drop(db, gone, unnamed=False)
    return True


def drop(db: sqlite3.Connection, gone: Collection[int], *, unnamed: bool) -> dict[str, int]:
    """Delete generations and what only they hold in the caller's transaction; count it by table.

    ``unnamed`` also drops texts and vectors that no chunk names for other reasons, e.g. those of an
    ingest that was killed before its commit.
    """
    for table in ("dropped(text_hash TEXT PRIMARY KEY)", "kept(n INTEGER PRIMARY KEY)"):
        db.execute(f"CREATE TEMP TABLE IF NOT EXISTS {table}")
        db.execute(f"DELETE FROM {table.partition('(')[0]}")
    went = {"generations": 0, "texts": 0, "vectors": 0}
    for n in gone:
        went["generations"] += db.execute("DELETE FROM generations WHERE n = ?", (n,)).rowcount
    db.execute("INSERT INTO kept SELECT n FROM generations")
    db.execute(f"INSERT OR IGNORE INTO dropped SELECT text_hash FROM chunks WHERE {_DEAD}")
    for table in ("chunks", "files"):
        went[table] = db.execute(f"DELETE FROM {table} WHERE {_DEAD}").rowcount
    # the texts of a file that is being erased are named by its tombstone alone, and have yet to be
    # searched for elsewhere
    unnamed = unnamed and not tombstones(db)
    if unnamed:
        clear_marks(db)
    among = "1" if unnamed else "text_hash IN (SELECT text_hash FROM dropped)"
    some = unnamed or db.execute("SELECT 1 FROM dropped").fetchone()
    for table in ("texts", "vectors") if some else ():
        where = f"{among} AND {UNNAMED.format(table)}"
        went[table] = db.execute(f"DELETE FROM {table} WHERE {where}").rowcount
    if gone or unnamed:
        old = "SELECT embed_fp FROM vector_files EXCEPT SELECT embed_fp FROM generations"
        for table in ("vectors", "vector_files"):  # found by index: cheap whatever the size
            db.execute(f"DELETE FROM {table} WHERE embed_fp IN ({old})")
    return went


def leftovers(db: sqlite3.Connection, index_dir: Path) -> list[Path]:
    """Return vector files that the catalog does not name, and what killed writers left half-done.

    The lock is held: nobody is writing those.
    """
    named = {file.path.name for file in VectorFile.every(db, index_dir)}
    found = [path for path in index_dir.glob("vectors-*.f32") if path.name not in named]
    return [*found, *index_dir.glob(".*.tmp"), *index_dir.glob("lexical-latest/.*.tmp")]


def sweep(db: sqlite3.Connection, index_dir: Path) -> None:
    """Unlink what is left over; readers that map an old vector file keep it."""
    for path in leftovers(db, index_dir):
        with contextlib.suppress(OSError):
            path.unlink()


_PREFIX = "erasing:"
_LAST = "last_erased"
_BURIED = "path IN (SELECT path FROM temp.buried)"


class Tombstone(NamedTuple):
    """What a tombstone stands for."""

    name: str  # the file, or what stands for several
    hashes: Collection[str] = ()  # texts that the chunks had
    chunk_ids: Collection[str] = ()  # those chunks, by which prompts cite them
    generations: int = 0  # how many generations held them
    chunks: int = 0  # how many chunk rows went


def tombstones(db: sqlite3.Connection) -> list[str]:
    """Return the names of what began to be erased and was not finished, sorted."""
    rows = db.execute("SELECT key FROM meta WHERE key >= ? AND key < ?", (_PREFIX, "erasing;"))
    return sorted(str(key).removeprefix(_PREFIX) for (key,) in rows)


def is_known(db: sqlite3.Connection, path: str) -> bool:
    """Return whether any kept generation, or a tombstone, names a file."""
    found = db.execute("SELECT 1 FROM files WHERE path = ? LIMIT 1", (path,)).fetchone()
    return found is not None or path in tombstones(db)


def was_erased(db: sqlite3.Connection, name: str) -> bool:
    """Return whether a name is the one that was erased last: asked again, it is done already."""
    return meta_value(db, _LAST) == sha256_hex(name)


def named(db: sqlite3.Connection, path: str) -> str:
    """Return the one known path that reads as a path does, however its accents are written.

    A path that is known, or that nothing or several read as, is returned as it is.
    """
    if is_known(db, path) or path.isascii():
        return path
    rows = [str(row) for (row,) in db.execute("SELECT DISTINCT path FROM files")]
    same = [row for row in rows if normalize("NFC", row) == normalize("NFC", path)]
    return same[0] if len(same) == 1 else path


def tombstone(
    db: sqlite3.Connection, catalog: Path, name: str, paths: Iterable[str] | None = None
) -> Tombstone:
    """Take files out of every generation and leave a tombstone, in one transaction.

    The digests of the generations that held them are made again: they say what is there.
    """
    with transaction(db, catalog):
        db.execute("CREATE TEMP TABLE IF NOT EXISTS buried(path TEXT PRIMARY KEY)")
        db.execute("DELETE FROM buried")
        every = ((path,) for path in ([name] if paths is None else paths))
        db.executemany("INSERT OR IGNORE INTO buried VALUES(?)", every)
        rows = db.execute(f"SELECT text_hash, chunk_id FROM chunks WHERE {_BURIED}").fetchall()
        before = _earlier(db, name)
        touched = _generations_touched(db)
        buried = Tombstone(
            name,
            sorted({r[0] for r in rows} | set(before.hashes)),
            sorted({r[1] for r in rows} | set(before.chunk_ids)),
            before.generations + len(touched),
            before.chunks + len(rows),
        )
        db.execute(
            "INSERT OR REPLACE INTO meta VALUES(?,?)",
            (_PREFIX + name, json.dumps(buried._asdict())),
        )
        for table in _tables(db):
            db.execute(f"DELETE FROM {table} WHERE {_BURIED}")
        for generation in touched:
            _restate(db, generation)
    return buried


def _tables(db: sqlite3.Connection) -> list[str]:
    """Return the tables whose rows belong to a file; ``turns`` is there in the history alone."""
    query = "SELECT name FROM main.sqlite_master WHERE type = 'table' AND name = 'turns'"
    return ["chunks", "files", "signatures", *(str(name) for (name,) in db.execute(query))]


def _earlier(db: sqlite3.Connection, name: str) -> Tombstone:
    """Return what a tombstone left by a killed erasing holds; an empty one if there is none."""
    text = meta_value(db, _PREFIX + name)
    return Tombstone(**json.loads(text)) if text else Tombstone(name)


def _generations_touched(db: sqlite3.Connection) -> list[Generation]:
    query = f"SELECT 1 FROM files WHERE {_BURIED} AND {LIVE}"
    found = all_generations(db)
    return [g for g in found if db.execute(query, {"n": g.n}).fetchone()]


def _restate(db: sqlite3.Connection, found: Generation) -> None:
    """Write digest and counts of a generation for the rows it has now."""
    at, total = {"n": found.n}, row_sum(db, found.n)
    files = f"SELECT count(*) FROM files WHERE decision = 'ingested' AND {LIVE}"
    chunks = f"SELECT count(*) FROM chunks WHERE {LIVE}"
    counts = {
        **found.counts,
        "files": db.execute(files, at).fetchone()[0],
        "chunks": db.execute(chunks, at).fetchone()[0],
    }
    digest = generation_digest(total, found.index_fp, found.embed_fp)
    db.execute(
        "UPDATE generations SET row_sum = ?, digest = ?, counts = ? WHERE n = ?",
        (f"{total:064x}", digest, json.dumps(counts), found.n),
    )


def unnamed_texts(db: sqlite3.Connection) -> set[str]:
    """Return the hashes of the texts that no chunk names, buried or left by a killed ingest."""
    rows = db.execute(f"SELECT text_hash FROM texts WHERE {UNNAMED.format('texts')}")
    return {str(text_hash) for (text_hash,) in rows}


def named_texts(db: sqlite3.Connection) -> Iterator[str]:
    """Yield the texts that some chunk of any generation names."""
    rows = db.execute(f"SELECT text FROM texts WHERE NOT {UNNAMED.format('texts')}")
    return (str(text) for (text,) in rows)


def buried_texts(db: sqlite3.Connection, buried: Tombstone) -> list[str]:
    """Return the buried texts that nothing else has."""
    query = f"SELECT text FROM texts WHERE text_hash = ? AND {UNNAMED.format('texts')}"
    return [str(text) for h in buried.hashes for (text,) in db.execute(query, (h,))]


def purge_texts(db: sqlite3.Connection, index_dir: Path, buried: Tombstone) -> int:
    """Take the buried texts and vectors off the disk; afterwards the tombstone goes.

    Every vector file is written again as its next epoch, the catalog is vacuumed, and old files
    and catalogs that were put aside are unlinked.
    """
    catalog = index_dir / CATALOG_NAME
    went = {}
    with transaction(db, catalog):
        for table in ("texts", "vectors"):
            query = f"DELETE FROM {table} WHERE text_hash = ? AND {UNNAMED.format(table)}"
            went[table] = db.executemany(query, ((h,) for h in buried.hashes)).rowcount
    for file in VectorFile.every(db, index_dir):
        vectors.rewrite(db, index_dir, file)
    sweep(db, index_dir)
    for aside in index_dir.glob(f"{CATALOG_NAME}.damaged-*"):
        with contextlib.suppress(FileNotFoundError):
            aside.unlink()
    vacuum(db, catalog)
    with transaction(db, catalog):
        db.execute("DELETE FROM meta WHERE key = ?", (_PREFIX + buried.name,))
        # a digest, not the name: whoever was killed before it was told may ask again
        db.execute("INSERT OR REPLACE INTO meta VALUES(?,?)", (_LAST, sha256_hex(buried.name)))
    vacuum(db, catalog)
    return went["texts"]


def vacuum(db: sqlite3.Connection, catalog: Path) -> None:
    """Write the catalog again without its free pages."""
    with guard(catalog):
        db.execute("VACUUM")
