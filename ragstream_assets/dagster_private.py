"""The one thing that runs need of Dagster's private modules: to change a recorded config.

The servers and the launcher apart, nothing else imports a private module; a contract test pins
every name that is used.
"""

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dagster import DagsterInstance, DagsterRun


def replace_config(
    instance: "DagsterInstance", run: "DagsterRun", config: Mapping[str, object]
) -> str:
    """Replace the recorded config of a run, leaving no copy of the old one in the database.

    Returns:
        Why the old one is still there, for people; empty if it is not.
    """
    from dagster._core.storage.runs.schema import RunsTable
    from dagster._core.storage.runs.sql_run_storage import SqlRunStorage
    from dagster._serdes import serialize_value

    storage = instance.run_storage
    if not isinstance(storage, SqlRunStorage):
        return f"{type(storage).__name__} does not let a run's config be changed"
    body = serialize_value(run._replace(run_config=config))
    try:
        with storage.connect() as db:
            if db.dialect.name == "sqlite":
                db.exec_driver_sql("PRAGMA secure_delete=ON")
            row = RunsTable.update().where(RunsTable.c.run_id == run.run_id)
            db.execute(row.values(run_body=body))
        with contextlib.suppress(Exception), storage.connect() as db:
            if db.dialect.name == "sqlite":
                db.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    except Exception as error:  # whatever is wrong with the storage, the prompt goes on
        return f"{type(error).__name__}: the run's config could not be changed"
    return ""
