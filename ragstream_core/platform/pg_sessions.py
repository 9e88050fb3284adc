"""Open connections to PostgreSQL that wait for the next question of this process."""

from __future__ import annotations

import functools
import os
import queue
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from ragstream_core.platform.postgres import Connection, Database

Answer = TypeVar("Answer")
_IDLE = 4


class Sessions:
    """Open connections to one database; each serves one thread at a time.

    Args:
        database: Where they lead.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._idle: queue.LifoQueue[Connection] = queue.LifoQueue(_IDLE)

    def ask(self, question: Callable[[Connection], Answer]) -> Answer:
        """Return the answer to a question; a connection that had died meanwhile is replaced.

        Raises:
            StoreFailed: The database is away or refuses.
            OperationFailed: Its disk is full.
        """
        import psycopg

        with self._database.errors():
            while (db := self._next()) is not None:
                try:
                    return self._answer(question, db)
                except psycopg.OperationalError:
                    if not db.broken:
                        raise
            return self._answer(question, self._database.connect())

    def _answer(self, question: Callable[[Connection], Answer], db: Connection) -> Answer:
        try:
            answer = question(db)
        except BaseException:
            db.close()
            raise
        try:
            self._idle.put_nowait(db)
        except queue.Full:
            db.close()
        return answer

    def _next(self) -> Connection | None:
        try:
            return self._idle.get_nowait()
        except queue.Empty:
            return None


def sessions(database: Database) -> Sessions:
    """Return this process's connections to a database."""
    return _sessions(database, os.getpid())


@functools.lru_cache(maxsize=4)
def _sessions(database: Database, pid: int) -> Sessions:
    return Sessions(database)
