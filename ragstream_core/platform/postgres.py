"""Connections to PostgreSQL and its errors as ours; psycopg is imported at the first connection.

A password is in no message and no representation. Whatever waits has a limit: connecting, a
statement, and bytes on a network that was cut.
"""

from __future__ import annotations

import contextlib
import functools
import os
import queue
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit

from ragstream_core.errors import (
    ExtraMissing,
    Hint,
    OperationFailed,
    Refused,
    SetVariable,
    StoreFailed,
    TryAgain,
    UnknownSetting,
)
from ragstream_core.platform import extras

if TYPE_CHECKING:
    import psycopg
    from psycopg.abc import RV, PQGen

    class Connection(psycopg.Connection[tuple[object, ...]]):
        """A connection that waits for an answer for `limit_s` seconds; None: for ever."""

        limit_s: float | None = None

        @contextlib.contextmanager
        def unlimited(self) -> Iterator[None]:
            """Let statements inside take as long as they need."""
            yield


Answer = TypeVar("Answer")

SCHEMES = ("postgresql", "postgres")
CONNECT_S = 5
STATEMENT_S = 30

# Seconds after the server should have ended a statement; then it hangs and is given up.
LATE_S = 10.0
_CUT_S = 20  # bytes that are not acknowledged for so long end a connection
_IDLE = 4  # connections of a process that wait for its next question
_SETUP_LOCK = 0x5241_4753  # "RAGS": one process at a time makes tables
_SECRET = re.compile(r"(?i)(password=)[^\s&]+")


@dataclass(frozen=True, slots=True)
class Database:
    """The checked address of a database; made by `database_at`."""

    setting: str
    url: str = field(repr=False)  # never shown: it may hold a password
    shown: str  # the same for people, without it
    connect_s: int = CONNECT_S
    statement_s: int = STATEMENT_S  # 0: as long as it needs

    def connect(self) -> Connection:
        """Return a new connection that commits each statement, unless a transaction is opened."""
        extras.require(f"{self.setting} (PostgreSQL)", "distributed", "psycopg")
        try:
            import psycopg

            limited = _limited_connection()
        except ImportError as error:  # psycopg without libpq
            raise ExtraMissing(
                f"{self.setting}: psycopg cannot be loaded: {str(error).splitlines()[0]}",
                hint=extras.install("distributed"),
            ) from None
        try:
            connection = limited.connect(self.url, autocommit=True, **self.limits())
            connection.limit_s = self.statement_s + LATE_S if self.statement_s else None
            return connection
        except psycopg.Error as error:
            raise self.failure(error) from None

    def limits(self) -> dict[str, Any]:
        """Return the parameters of a connection that does not wait for ever; imports psycopg."""
        from psycopg.conninfo import conninfo_to_dict

        given = str(conninfo_to_dict(self.url).get("options", ""))
        return {
            "connect_timeout": self.connect_s,
            "options": f"{given} -c statement_timeout={self.statement_s * 1000}".strip(),
            "tcp_user_timeout": _CUT_S * 1000,
            "keepalives_idle": _CUT_S,
            "application_name": "ragstream",
        }

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Turn what psycopg raises inside into our error."""
        import psycopg

        try:
            yield
        except psycopg.Error as error:
            raise self.failure(error) from None

    def failure(self, error: psycopg.Error) -> OperationFailed:
        """Return an error of psycopg as ours: what, where, and what to do next."""
        said = self._said(error)
        why, hint = _why(error.sqlstate or "", said)
        full = error.sqlstate == DISK_FULL
        kind = OperationFailed if full else StoreFailed
        return kind(f"{self.shown} ({self.setting}): {why or said}", hint=hint or self._look())

    def _said(self, error: psycopg.Error) -> str:
        """Return the server's own words on one line, without a password."""
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        text = lines[0] if lines else type(error).__name__
        text = text.rpartition("FATAL:")[2].strip() if "FATAL:" in text else text
        written = urlsplit(self.url).password
        for secret in (written, unquote(written)) if written else ():
            text = text.replace(secret, "***")
        return _SECRET.sub(r"\1***", text)

    def _look(self) -> Hint:
        return (f"look at the database's log and at {self.setting}, then ", TryAgain())


@functools.cache
def _limited_connection() -> type[Connection]:
    """Return the class of our connections: a server that hangs cannot end its own statements."""
    import psycopg

    class LimitedConnection(psycopg.Connection[tuple[object, ...]]):
        limit_s: float | None = None

        def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
            return super().wait(gen, interval, self.limit_s if timeout is None else timeout)

        @contextlib.contextmanager
        def unlimited(self) -> Iterator[None]:
            before, self.limit_s = self.limit_s, None
            try:
                yield
            finally:
                self.limit_s = before

    return LimitedConnection  # type: ignore[return-value]  # the same, as type checkers see it


def database_at(url: str, *, setting: str) -> Database:
    """Check an address, ``postgresql://USER:PASSWORD@HOST:PORT/NAME``; nobody is contacted.

    PostgreSQL's own parameters may follow behind ``?``. Without a password, ``PGPASSWORD`` or
    ``~/.pgpass`` are asked.
    """
    try:
        parts = urlsplit(url.strip())
        port, host = parts.port, parts.hostname or ""
    except ValueError:
        raise _no_address(setting, "it cannot be read") from None
    if parts.scheme not in SCHEMES:
        raise _no_address(setting, "it does not begin with postgresql://")
    name = parts.path.lstrip("/")
    if not name or "/" in name:
        raise _no_address(setting, "it names no database")
    if any(ord(char) <= 32 for char in url.strip()) or "#" in url:
        raise _no_address(setting, "it holds characters that must be written as %XX")
    user = f"{unquote(parts.username)}@" if parts.username else ""
    place = f"[{host}]" if ":" in host else host
    shown = f"postgresql://{user}{place}{f':{port}' if port else ''}/{unquote(name)}"
    return Database(setting, url.strip(), shown)


class Sessions:
    """Open connections to one database; each serves one thread at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._idle: queue.LifoQueue[Connection] = queue.LifoQueue(_IDLE)

    def ask(self, question: Callable[[Connection], Answer]) -> Answer:
        """Return the answer to a question; a connection that had died meanwhile is replaced."""
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
    """Return this process's connections to a database; a fork must not use its parent's."""
    return _sessions(database, os.getpid())


@functools.lru_cache(maxsize=4)
def _sessions(database: Database, pid: int) -> Sessions:
    return Sessions(database)


def has_table(db: Connection, name: str) -> bool:
    """Return whether a table is there."""
    found = db.execute("SELECT to_regclass(%s) IS NOT NULL", (name,)).fetchone()
    return bool(found and found[0])


@dataclass(frozen=True, slots=True)
class Tables:
    """Some tables of ours in a database, made together and of one version."""

    part: str
    version: int
    make: tuple[str, ...]

    def ensure(self, db: Connection, database: Database) -> None:
        """Make the tables if they are not there; refuse those of another version."""
        with database.errors():
            found = self._version(db)
            if found is None:
                self._make(db)
                found = self._version(db)
        if found != self.version:
            newer = found is not None and found > self.version
            raise Refused(
                f"{database.shown} ({database.setting}): its tables of {self.part} have version "
                f"{found}, this RAGstream reads version {self.version}",
                hint="install the newer RAGstream here too, or name another database"
                if newer
                else f"name another database in {database.setting}, or drop these tables and "
                "their row of ragstream_schema there: what they hold is made again",
            )

    def _version(self, db: Connection) -> int | None:
        if not has_table(db, "ragstream_schema"):
            return None
        row = db.execute(
            "SELECT version FROM ragstream_schema WHERE part = %s", (self.part,)
        ).fetchone()
        return int(str(row[0])) if row else None

    def _make(self, db: Connection) -> None:
        with db.transaction():
            db.execute("SELECT pg_advisory_xact_lock(%s)", (_SETUP_LOCK,))
            db.execute(
                "CREATE TABLE IF NOT EXISTS ragstream_schema"
                " (part text PRIMARY KEY, version integer NOT NULL)"
            )
            for statement in self.make if self._version(db) is None else ():
                db.execute(statement.encode())
            db.execute(
                "INSERT INTO ragstream_schema VALUES (%s, %s) ON CONFLICT DO NOTHING",
                (self.part, self.version),
            )


def _no_address(setting: str, why: str) -> UnknownSetting:
    return UnknownSetting(
        f"{setting} is no address of a database: {why}",
        hint=f"set {setting} to postgresql://USER@HOST:5432/NAME; the password belongs into "
        f"{SetVariable.of(setting).name} or ~/.pgpass",
    )


def _why(state: str, said: str) -> tuple[str, Hint]:
    """Return what an error means and what to do next; empty if only the server's words do."""
    if state in _BY_STATE:
        return _BY_STATE[state]
    for words, meaning, hint in _BY_WORDS:
        if words in said:
            return f"{meaning}: {said}" if meaning else said, hint
    return "", ""


DISK_FULL = "53100"
_WAIT: Hint = ("wait until it is back and ", TryAgain())
_PASSWORD: Hint = (
    "put the right password into the environment (PGPASSWORD, or the whole address in the "
    "setting's variable) or into ~/.pgpass, then ",
    TryAgain(),
)
_NOBODY = ("nobody answers there", "check host, port and firewall; is PostgreSQL running?")
_NO_HOST = ("its host name is not known", "check the host in the setting")
_NONE_LEFT = ("it has no connection left", "raise max_connections, or run fewer workers")
_BY_STATE: dict[str, tuple[str, Hint]] = {
    DISK_FULL: (
        "its disk is full",
        ("free space on the database's disk, then ", TryAgain(), "; nothing half was kept"),
    ),
    "42501": (
        "its user may not do that",
        "let the user make tables: GRANT CREATE, USAGE ON SCHEMA public TO …",
    ),
    "25006": ("it is read-only", "name the primary server, not a replica"),
    "57014": ("a statement took too long and was ended", _WAIT),
    "57P01": ("it is shutting down", _WAIT),
    "57P02": ("it crashed and starts again", _WAIT),
    "57P03": ("it is starting", _WAIT),
    "53300": _NONE_LEFT,
}
_BY_WORDS: tuple[tuple[str, str, Hint], ...] = (
    ("password", "", _PASSWORD),
    ("no pg_hba.conf entry", "", "let this host in: pg_hba.conf of the database"),
    ('role "', "", "make that user (`createuser NAME`), or name another one in the setting"),
    ('database "', "", "make that database (`createdb NAME`), or name another one in the setting"),
    ("connection is closed", "", _WAIT),
    ("starting up", "", _WAIT),
    ("shutting down", "", _WAIT),
    ("too many clients", *_NONE_LEFT),
    ("wait timeout", "it does not answer any more", _WAIT),
    ("timeout", *_NOBODY),
    ("refused", *_NOBODY),
    ("resolve", *_NO_HOST),
    ("translate host name", *_NO_HOST),
)
