"""Dagster's records in PostgreSQL as a place where copies of a text lie; nothing without one.

As in Dagster's own files, a row that holds a copy goes as a whole. Rows of other machines that
record there go as well: they hold the same words.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from ragstream_core.errors import OperationFailed, StoreFailed
from ragstream_core.text.fingerprints import TextFingerprints, common

if TYPE_CHECKING:
    from ragstream_core.config import AppConfig
    from ragstream_core.platform.postgres import Connection, Database

SETTING = "dagster.storage"
ASSETS = "asset_keys"
"""Dagster's table whose rows stay, without the last event. Of others no half may stay: one run
without its body, and Dagster can list none."""
_TABLES = (  # not those that hold definitions and versions only: runs refer to them
    "event_logs", "asset_check_executions", "asset_event_tags", ASSETS, "dynamic_partitions",
    "run_tags", "runs", "bulk_actions", "backfill_tags", "kvs", "jobs", "job_ticks", "instigators",
    "asset_daemon_asset_evaluations",
)  # fmt: skip
_COLUMNS = (
    "SELECT column_name::text FROM information_schema.columns WHERE table_schema = current_schema()"
    " AND table_name = %s AND column_name <> 'id' AND data_type IN ('text', 'character varying')"
)
_AT_ONCE = 200

Texts = Callable[[], Iterable[str]]


class _Row(NamedTuple):
    """A row that holds something: its table, number and columns, and what they hold."""

    table: str
    id: object
    columns: tuple[str, ...]
    found: set[bytes]


def purge_records(config: AppConfig, sought: TextFingerprints, staying: Texts) -> int:
    """Remove the rows with a copy from the database that `dagster.storage` names, if it does.

    Args:
        config: The settings.
        sought: What to look for.
        staying: Gives the texts that stay; words that stand there too are no copies.

    Returns:
        How many rows went, or were emptied.

    Raises:
        StoreFailed: The database cannot be asked: they are still there.
        UnknownSetting: The setting is no address of a database.
    """
    with _asked(config) as db:
        if db is None or not sought:
            return 0
        rows = _hits(db, sought, staying)
        with db.transaction():
            for row in rows:
                emptied = ", ".join(f'"{name}" = NULL' for name in row.columns)
                change = f"UPDATE {ASSETS} SET {emptied}" if row.table == ASSETS else ""
                change = change or f"DELETE FROM {row.table}"
                db.execute(f"{change} WHERE id = %s".encode(), (row.id,))
    return len(rows)


def records_left(config: AppConfig, sought: TextFingerprints, staying: Texts) -> list[str]:
    """Return what to call the tables that still hold a copy; as `purge_records`.

    Raises:
        StoreFailed: The database cannot be asked.
        UnknownSetting: The setting is no address of a database.
    """
    with _asked(config) as db:
        rows = _hits(db, sought, staying) if db is not None and sought else []
    return sorted({f"{SETTING}: {row.table}" for row in rows})


@contextlib.contextmanager
def _asked(config: AppConfig) -> Iterator[Connection | None]:
    """Yield a connection, None if no database is set."""
    url = config.settings.dagster.storage.get_secret_value()
    if not url:
        yield None
        return
    from ragstream_core.platform.postgres import database_at

    database = database_at(url, setting=SETTING)
    try:
        with _connected(database) as db:
            yield db
    except OperationFailed as error:
        raise StoreFailed(
            f"Dagster's records of these texts may still be there: {error.message}",
            hint=(*error.advice, ", or take ", SETTING, " away if that database is gone"),
        ) from error


@contextlib.contextmanager
def _connected(database: Database) -> Iterator[Connection]:
    with database.connect() as db, database.errors():
        yield db


def _hits(db: Connection, sought: TextFingerprints, staying: Texts) -> list[_Row]:
    """Return the rows with a copy of what does not stand in a text that stays."""
    found = [row for table in _TABLES for row in _found_in(db, table, sought)]
    shared = common(set().union(*(row.found for row in found)), staying()) if found else set()
    return [row for row in found if row.found - shared]


def _found_in(db: Connection, table: str, sought: TextFingerprints) -> Iterator[_Row]:
    """Yield the rows of a table that hold something, read in parts; none if it is not there."""
    columns = [str(name) for (name,) in db.execute(_COLUMNS, (table,)).fetchall()]
    if not columns:
        return
    names = ", ".join(f'"{name}"' for name in columns)
    with db.transaction(), db.cursor(name="ragstream_erasing") as cursor:
        cursor.itersize = _AT_ONCE
        cursor.execute(f"SELECT id, {names} FROM {table}".encode())
        for number, *values in cursor:
            held = _held(columns, values, sought)
            if held:
                yield _Row(table, number, tuple(held), set().union(*held.values()))


def _held(
    columns: Collection[str], values: Collection[object], sought: TextFingerprints
) -> dict[str, set[bytes]]:
    """Return what the columns of a row hold, without those that hold nothing."""
    pairs = zip(columns, values, strict=True)
    texts = {name: str(value).encode("utf-8", "replace") for name, value in pairs if value}
    return {name: hits for name, text in texts.items() if (hits := sought.found_in(text))}
