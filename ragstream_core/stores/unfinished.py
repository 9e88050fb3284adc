"""The mark of an ingest that recorded texts for a generation that never came.

Recording texts leaves the mark, the commit that names them takes it away. A writer that finds it
when it opens the catalog renames it: from then on it stands for an earlier ingest, and the commit
that ends this one also drops every text and vector that no chunk names.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from ragstream_core.stores.schema import transaction

_RECORDING, _UNFINISHED = "recording", "unfinished"


def note(db: sqlite3.Connection) -> None:
    """Leave the mark of an ingest that records texts, inside the caller's transaction."""
    db.execute("INSERT OR IGNORE INTO meta VALUES(?, '')", (_RECORDING,))


def take_over(db: sqlite3.Connection, path: Path) -> None:
    """Make a mark that is there when the catalog is opened that of an earlier ingest.

    Raises:
        OperationFailed: The catalog could not be written.
    """
    if db.execute("SELECT 1 FROM meta WHERE key = ?", (_RECORDING,)).fetchone():
        with transaction(db, path):
            rename = "UPDATE OR REPLACE meta SET key = ? WHERE key = ?"
            db.execute(rename, (_UNFINISHED, _RECORDING))


def finish(db: sqlite3.Connection) -> bool:
    """Take this ingest's mark away inside its commit; say whether an earlier one's is there."""
    db.execute("DELETE FROM meta WHERE key = ?", (_RECORDING,))
    return is_left(db)


def is_left(db: sqlite3.Connection) -> bool:
    """Say whether an ingest recorded texts and did not come to its commit."""
    query = "SELECT 1 FROM meta WHERE key IN (?, ?)"
    return db.execute(query, (_RECORDING, _UNFINISHED)).fetchone() is not None


def clear(db: sqlite3.Connection) -> None:
    """Take all marks away: what no chunk names was dropped in the same transaction."""
    db.execute("DELETE FROM meta WHERE key IN (?, ?)", (_RECORDING, _UNFINISHED))
