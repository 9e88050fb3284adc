"""The code servers of Dagster's processes: one that does not answer is started again at once.

By itself Dagster's daemon notices within a minute, its web server when somebody clicks Reload.
"""

import os
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dagster._core.workspace.context import IWorkspaceProcessContext

PING_S = 5.0


def leave_the_folder() -> None:
    """Go to a folder where no stranger's files lie, for this process and those it starts.

    Dagster's code servers and runs put every variable of a ``.env`` of the working directory into
    their environment, whoever wrote it.
    """
    os.chdir("/")


def keep_code_servers(context: "IWorkspaceProcessContext[Any]") -> None:
    """Look after the code servers of this process from a thread, until the process ends."""
    threading.Thread(target=_keep, args=[context], daemon=True).start()


def revive(context: "IWorkspaceProcessContext[Any]") -> list[str]:
    """Start the code servers again that do not answer; return the names of their locations."""
    from dagster._core.errors import DagsterUserCodeUnreachableError
    from dagster._core.remote_representation.code_location import GrpcServerCodeLocation

    revived = []
    entries = context.create_request_context().get_code_location_entries()
    for name, entry in entries.items():
        if isinstance(entry.code_location, GrpcServerCodeLocation):
            try:
                entry.code_location.client.ping("")
            except DagsterUserCodeUnreachableError:
                context.reload_code_location(name)
                revived.append(name)
    return revived


def _keep(context: "IWorkspaceProcessContext[Any]") -> None:
    pause = threading.Event()
    while not pause.wait(PING_S):
        revive(context)
