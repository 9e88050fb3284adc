"""The roll call: whether the process of a run that cannot be seen from here lives, by PostgreSQL.

Who looks for dead runs calls those of other hosts, and a process answers by taking the calls of its
run away. A run that leaves many calls unanswered is taken for dead. Calls are counted, no clocks of
two machines are compared: while the database is away, or nobody looks, nobody is missed.
"""

import contextlib
import threading
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

from ragstream_assets.instance import SETTING
from ragstream_core.config import AppConfig
from ragstream_core.errors import RagstreamError
from ragstream_core.platform.postgres import Database, Tables, database_at, sessions

if TYPE_CHECKING:
    from ragstream_core.platform.postgres import Connection

EVERY_S = 20.0
"""Seconds between two answers of a process."""
APART_S = 25.0
"""Seconds, at least, between two calls of a run, on the clock of the database."""
CALLS = 16
"""So many calls without an answer: 6 minutes at least, 8 to 9 if only the folder sensor looks."""
TABLES = Tables(
    "roll_call",
    1,
    (
        "CREATE TABLE ragstream_roll_call"
        " (run_id text PRIMARY KEY, calls integer NOT NULL, called timestamptz NOT NULL)",
    ),
)
_OLD = "DELETE FROM ragstream_roll_call WHERE called < now() - interval '1 day'"
_CALL = (
    "INSERT INTO ragstream_roll_call AS row (run_id, calls, called)"
    " SELECT unnest(%s::text[]), 1, now()"
    " ON CONFLICT (run_id) DO UPDATE SET calls = row.calls + 1, called = now()"
    " WHERE row.called NOT BETWEEN now() - make_interval(secs => %s) AND now()"
)
_SILENT = "SELECT run_id FROM ragstream_roll_call WHERE run_id = ANY(%s) AND calls >= %s"
_ANSWER = "DELETE FROM ragstream_roll_call WHERE run_id = %s"


def database_of(config: AppConfig) -> Database | None:
    """Return the database of Dagster's records; None if they are files of this machine.

    Raises:
        UnknownSetting: The address is none.
    """
    url = config.settings.dagster.storage.get_secret_value()
    return database_at(url, setting=SETTING) if url else None


def call(database: Database, run_ids: Collection[str]) -> set[str]:
    """Call runs, each unless it was called just now; return those that are taken for dead.

    Raises:
        StoreFailed: The database is away or refuses.
        OperationFailed: Its disk is full.
        Refused: The table was made by another version.
    """
    names = list(run_ids)

    def ask(db: "Connection") -> set[str]:
        TABLES.ensure(db, database)
        db.execute(_OLD)  # of runs that ended before they answered
        db.execute(_CALL, (names, APART_S))
        return {str(row[0]) for row in db.execute(_SILENT, (names, CALLS))}

    return sessions(database).ask(ask)


def answer(config: AppConfig, run_id: str) -> Callable[[], None]:
    """Answer for a run of this process from now on; return what ends that.

    Without a database nothing is done. One that is away is asked again at the next answer.

    Raises:
        UnknownSetting: The address is none.
    """
    database, ended = database_of(config), threading.Event()
    if database is not None:
        of_run = database, run_id, ended
        threading.Thread(target=_answer, args=of_run, name="roll call", daemon=True).start()
    return ended.set


@contextlib.contextmanager
def answering(config: AppConfig, run_id: str) -> Iterator[None]:
    """Answer for a run of this process meanwhile.

    Raises:
        UnknownSetting: The address is none.
    """
    end = answer(config, run_id)
    try:
        yield
    finally:
        end()


def _answer(database: Database, run_id: str, ended: threading.Event) -> None:
    def ask(db: "Connection") -> None:
        TABLES.ensure(db, database)
        db.execute(_ANSWER, (run_id,))

    while not ended.wait(EVERY_S):
        with contextlib.suppress(RagstreamError):
            sessions(database).ask(ask)
