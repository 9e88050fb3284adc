"""What of a text may stand in Dagster's records in PostgreSQL; files are searched like all others.

Of a run of today only a question that was typed into the Launchpad, until the run begins. Versions
before showed passages, prompts and turns in events, and those stay until the retention takes them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from ragstream_core.errors import OperationFailed, StoreFailed
from ragstream_core.text.fingerprints import TextFingerprints, common

if TYPE_CHECKING:
    from ragstream_core.config import AppConfig
    from ragstream_core.platform.postgres import Connection

SETTING = "dagster.storage"
ASSETS = "asset_keys"
"""Dagster's table whose rows stay, without the last event."""
_PLACES = (
    ("runs", "run_body"),
    # events of versions before, and Dagster's two copies of the last ones
    ("event_logs", "event"),
    ("asset_check_executions", "evaluation_event"),
    (ASSETS, "last_materialization"),
)
_AT_ONCE = 200  # rows of a run's events are a few kB each

Texts = Callable[[], Iterable[str]]


def purge_records(config: AppConfig, sought: TextFingerprints, staying: Texts) -> int:
    """Remove the records with a copy from the database that `dagster.storage` names, if it does."""
    with _asked(config) as db:
        if db is None or not sought:
            return 0
        places = _hits(db, sought, staying)
        for table, column, number in places:
            emptied = f"UPDATE {table} SET {column} = NULL"
            change = emptied if table == ASSETS else f"DELETE FROM {table}"
            db.execute(f"{change} WHERE id = %s".encode(), (number,))
    return len(places)


def records_left(config: AppConfig, sought: TextFingerprints, staying: Texts) -> list[str]:
    """Return what to call the tables that still hold a copy; raises as `purge_records`."""
    with _asked(config) as db:
        places = _hits(db, sought, staying) if db is not None and sought else []
    return sorted({f"{SETTING}: {place.table}" for place in places})


@contextlib.contextmanager
def _asked(config: AppConfig) -> Iterator[Connection | None]:
    """Yield a connection whose changes are one transaction, None if no database is set."""
    url = config.settings.dagster.storage.get_secret_value()
    if not url:
        yield None
        return
    from ragstream_core.platform.postgres import database_at

    database = database_at(url, setting=SETTING)
    try:
        with database.connect() as db, database.errors(), db.transaction():
            yield db
    except OperationFailed as error:
        raise StoreFailed(
            f"Dagster's records of these texts may still be there: {error.message}",
            hint=(*error.advice, ", or take ", SETTING, " away if that database is gone"),
        ) from error


class _Place(NamedTuple):
    table: str
    column: str
    id: object


def _hits(db: Connection, sought: TextFingerprints, staying: Texts) -> list[_Place]:
    """Return where a copy stands of what is in no text that stays."""
    hits: dict[_Place, set[bytes]] = {}
    for table, column in _PLACES:
        if db.execute("SELECT to_regclass(%s)", (table,)).fetchone() == (None,):
            continue  # Dagster makes its tables when it first needs them
        with db.cursor(name="ragstream_erasing") as cursor:
            cursor.itersize = _AT_ONCE
            cursor.execute(f"SELECT id, {column} FROM {table}".encode())
            for number, text in cursor:
                if runs := sought.found_in(str(text or "").encode("utf-8", "replace")):
                    hits[_Place(table, column, number)] = runs
    shared = common(set().union(*hits.values()), staying()) if hits else set()
    return [place for place, runs in hits.items() if runs - shared]
