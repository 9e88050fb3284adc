"""Connections to PostgreSQL and its errors as ours; psycopg is imported at the first connection.

A password is in no message and no representation. Whatever waits has a limit: connecting, a
statement, and bytes on a network that was cut.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from ragstream_core.errors import (
    ExtraMissing,
    Hint,
    OperationFailed,
    Refused,
    StoreFailed,
    TryAgain,
    UnknownSetting,
)
from ragstream_core.platform import extras

if TYPE_CHECKING:
    import psycopg

    from ragstream_core.platform.pg_connection import LimitedConnection

    Connection = LimitedConnection

SCHEMES = ("postgresql", "postgres")
CONNECT_S = 5
STATEMENT_S = 30
LATE_S = 10.0
"""Seconds after the server should have ended a statement; then it hangs and is given up."""
_CUT_S = 20  # bytes that are not acknowledged for so long end a connection
_SETUP_LOCK = 0x5241_4753  # "RAGS": one process at a time makes tables
_SECRET = re.compile(r"(?i)(password=)[^\s&]+")


@dataclass(frozen=True, slots=True)
class Database:
    """The checked address of a database; made by `database_at`.

    Attributes:
        setting: The setting that names it, for messages.
        url: As psycopg takes it. Never shown: it may hold a password.
        shown: The same for people: user, host, port and database.
        connect_s: Seconds a connection may take.
        statement_s: Seconds a statement may take; 0: as long as it needs, while the server answers.
    """

    setting: str
    url: str = field(repr=False)
    shown: str
    connect_s: int = CONNECT_S
    statement_s: int = STATEMENT_S

    def connect(self) -> Connection:
        """Return a new connection that commits each statement, unless a transaction is opened.

        Raises:
            ExtraMissing: psycopg is not installed.
            StoreFailed: Nobody answers there, or the database does not let us in.
        """
        extras.require(f"{self.setting} (PostgreSQL)", "distributed", "psycopg")
        try:
            import psycopg

            from ragstream_core.platform.pg_connection import LimitedConnection
        except ImportError as error:  # psycopg without libpq
            raise ExtraMissing(
                f"{self.setting}: psycopg cannot be loaded: {str(error).splitlines()[0]}",
                hint=extras.install("distributed"),
            ) from None
        try:
            given = str(psycopg.conninfo.conninfo_to_dict(self.url).get("options", ""))
            made = LimitedConnection.connect(
                self.url,
                autocommit=True,
                connect_timeout=self.connect_s,
                options=f"{given} -c statement_timeout={self.statement_s * 1000}".strip(),
                tcp_user_timeout=_CUT_S * 1000,
                keepalives_idle=_CUT_S,
                application_name="ragstream",
            )
            made.limit_s = self.statement_s + LATE_S if self.statement_s else None
            return made
        except psycopg.Error as error:
            raise self.failure(error) from None

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Turn what psycopg raises inside into our error.

        Raises:
            StoreFailed: The database is away, refuses or takes too long; the hint says what to do.
            OperationFailed: Its disk is full.
        """
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


def database_at(url: str, *, setting: str) -> Database:
    """Check an address and return the database; nobody is contacted.

    Args:
        url: ``postgresql://USER:PASSWORD@HOST:PORT/NAME``; PostgreSQL's own parameters may follow
            behind ``?``. Without a password, ``PGPASSWORD`` or ``~/.pgpass`` are asked.
        setting: The setting that it comes from.

    Raises:
        UnknownSetting: It is no such address.
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


@dataclass(frozen=True, slots=True)
class Tables:
    """Some tables of ours in a database, made together and of one version.

    Attributes:
        part: What they are for, e.g. ``shared_vectors``.
        version: Their version in this package.
        make: The statements that make them.
    """

    part: str
    version: int
    make: tuple[str, ...]

    def ensure(self, db: Connection, database: Database) -> None:
        """Make the tables if they are not there.

        Args:
            db: A connection.
            database: Where it leads.

        Raises:
            Refused: They were made by another version of RAGstream; nothing was changed.
            OperationFailed: As `Database.failure`.
        """
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
        there = db.execute("SELECT to_regclass('ragstream_schema') IS NOT NULL").fetchone()
        if not there or not there[0]:
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
        f"{_variable(setting)} or ~/.pgpass",
    )


def _variable(setting: str) -> str:
    return f"RAGSTREAM_{setting.replace('.', '__').upper()}"


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
    "53300": ("it has no connection left", "raise max_connections, or run fewer workers"),
}
_BY_WORDS: tuple[tuple[str, str, Hint], ...] = (
    ("password", "", _PASSWORD),
    ("no pg_hba.conf entry", "", "let this host in: pg_hba.conf of the database"),
    ('role "', "", "make that user (`createuser NAME`), or name another one in the setting"),
    ('database "', "", "make that database (`createdb NAME`), or name another one in the setting"),
    ("connection is closed", "", _WAIT),
    ("starting up", "", _WAIT),
    ("shutting down", "", _WAIT),
    (
        "too many clients",
        "it has no connection left",
        "raise max_connections, or run fewer workers",
    ),
    ("wait timeout", "it does not answer any more", _WAIT),
    ("timeout", "nobody answers there", "check host, port and firewall; is PostgreSQL running?"),
    ("refused", "nobody answers there", "check host, port and firewall; is PostgreSQL running?"),
    ("resolve", "its host name is not known", "check the host in the setting"),
    ("translate host name", "its host name is not known", "check the host in the setting"),
)
