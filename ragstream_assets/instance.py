"""The Dagster instance of a data root: its settings file, its folder, one object a process."""

import contextlib
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.config import (
    AppConfig,
    is_confirmed,
    set_dagster_database,
    set_dagster_home,
)
from ragstream_core.errors import OperationFailed, Refused, RunCommand, TryAgain, quoted
from ragstream_core.platform import confirmed_files, extras
from ragstream_core.platform.files import make_private_dir, replace_text
from ragstream_core.platform.locks import FolderLock
from ragstream_core.platform.postgres import Database, database_at
from ragstream_core.records.identity import sha256_hex
from ragstream_core.settings.services import DagsterConfig

if TYPE_CHECKING:
    from dagster import DagsterInstance

# How long to wait for another process that opens the storage.
OPENING_S = 60.0
SETTING = "dagster.storage"
_IN_POSTGRES = """# Runs, events and schedules lie in PostgreSQL, named by `dagster.storage`.
storage:
  postgres:
    postgres_url:
      env: DAGSTER_POSTGRES_URL

"""
WORKSPACE = """# how Dagster finds RAGstream's definitions; the repository holds the same file
load_from:
  - python_module:
      module_name: ragstream_assets.definitions
      location_name: ragstream
"""


def dagster_home(data_dir: Path, chosen: DagsterConfig | None = None) -> Path:
    """Make ``<data>/dagster_home`` ready, point ``DAGSTER_HOME`` to it and return it.

    A ``dagster.yaml`` that somebody has edited or written is left alone; since Dagster loads the
    code that it names, a person has to confirm it. The address of a database is not written: it may
    hold a password, so processes get it in their environment.
    """
    home = make_private_dir(set_dagster_home(data_dir))
    text = (Path(__file__).parent / "dagster.yaml").read_text(encoding="utf-8")
    chosen = chosen or DagsterConfig()
    text = text.replace("max_concurrent_runs: 2", f"max_concurrent_runs: {chosen.max_runs}")
    if storage := chosen.storage.get_secret_value():
        extras.require(f"{SETTING} (PostgreSQL)", "distributed", "dagster_postgres")
        set_dagster_database(database_at(storage, setting=SETTING).url)
        text = _IN_POSTGRES + text[text.index("telemetry:") :]
    stamped = f"{confirmed_files.STAMP}{sha256_hex(text)}\n{text}"
    path = home / "dagster.yaml"
    current = path.read_text(encoding="utf-8") if path.exists() else ""
    if not current or (confirmed_files.is_stamped(current) and current != stamped):
        replace_text(path, stamped)
    elif current != stamped and not is_confirmed(path, path.read_bytes()):
        raise Refused(
            f"{path} was not written by RAGstream, it can name code that is loaded, and you have "
            "not confirmed it",
            hint=(
                RunCommand("config trust", quoted(path)),
                " shows it and asks; without the file it is made anew",
            ),
        )
    return home


def ready_home(config: AppConfig) -> Path:
    """Make Dagster's folder ready for its servers: `dagster.yaml` and `workspace.yaml`."""
    home = dagster_home(config.data_dir, config.settings.dagster)
    replace_text(home / "workspace.yaml", WORKSPACE, durable=False)
    return home


def instance_for(config: AppConfig) -> "DagsterInstance":
    """Return this process's instance under some settings."""
    return instance_of(config.data_dir, config.settings.dagster)


def instance_of(data_dir: Path, chosen: DagsterConfig | None = None) -> "DagsterInstance":
    """Return this process's instance of a data root, opening it at the first call."""
    storage = chosen.storage.get_secret_value() if chosen else ""
    return _open(dagster_home(data_dir, chosen), storage)


def drop_instances() -> None:
    """Forget all open instances, so that the next call opens its storage again."""
    _open.cache_clear()


@lru_cache(maxsize=1)
def _open(home: Path, storage: str) -> "DagsterInstance":
    from dagster import DagsterInstance

    # two processes that make its tables at a time get in each other's way
    with FolderLock(home, "Dagster's storage").held(wait_s=OPENING_S):
        if not storage:
            return _readable(DagsterInstance.from_config(str(home)), home)
        database = database_at(storage, setting=SETTING)
        database.connect().close()  # its error says what to do, Dagster's retries for long
        try:
            return _readable(DagsterInstance.from_config(str(home)), home)
        except OperationFailed:
            raise
        except Exception as error:  # of three libraries, some with the address in their words
            raise _failure(database, error) from None


def _readable(instance: "DagsterInstance", home: Path) -> "DagsterInstance":
    """Return an instance whose runs can be read.

    An older Dagster's tables are no hindrance as long as nothing that is new in them is needed.
    """
    try:
        instance.get_run_records(limit=1)
    except Exception:
        found, newest = instance.run_storage.alembic_version() or (None, None)
        if found is None or found == newest:
            raise
        raise OperationFailed(
            f"Dagster's tables are of another version, run `DAGSTER_HOME={quoted(home)} dagster "
            "instance migrate`",
            hint=(
                f"stop Dagster's servers before; if {SETTING} is set, put its address as "
                "postgresql+psycopg2://… into DAGSTER_POSTGRES_URL; then ",
                TryAgain(),
                "; if a newer Dagster made them, install it here instead",
            ),
        ) from None
    return instance


def _failure(database: Database, error: Exception) -> OperationFailed:
    """Return what Dagster raised over a database as ours, in the words of the database."""
    import psycopg

    cause: BaseException = error
    while cause.__cause__ is not None:  # the driver's own, below SQLAlchemy's and Dagster's
        cause = cause.__cause__
    kind: type[psycopg.Error] = psycopg.Error
    with contextlib.suppress(KeyError):
        kind = psycopg.errors.lookup(getattr(cause, "pgcode", None) or "")
    return database.failure(kind(str(cause)))
