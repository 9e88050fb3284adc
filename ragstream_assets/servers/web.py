"""Dagster's web server behind our guard: ``python -P -m ragstream_assets.servers.web``.

Its own command has no place for a guard, so the few lines of it that matter stand here; the
private parts they use are in the contract test.
"""

import sys

from ragstream_assets.instance import instance_for, ready_home
from ragstream_assets.servers.code_servers import keep_code_servers, leave_the_folder
from ragstream_assets.servers.guard import Guard, own_hosts
from ragstream_core.config import AppConfig, adopt_environment, quiet_environment
from ragstream_core.errors import told_at_the_end

HOST = "127.0.0.1"
"""Always: whoever needs Dagster from elsewhere puts a proxy with a login before it."""
READ_ONLY = "--read-only"
GRACE_S = 3


def serve(config: AppConfig, *, read_only: bool) -> None:
    """Serve Dagster's pages at the port of the settings, until a signal ends the process.

    Raises:
        OSError: The data root cannot be written.
        SystemExit: The port is taken.
    """
    import uvicorn
    from dagster._core.workspace.context import WorkspaceProcessContext
    from dagster._core.workspace.load_target import WorkspaceFileTarget
    from dagster_webserver.app import create_app_from_workspace_process_context

    workspace = str(ready_home(config) / "workspace.yaml")
    instance = instance_for(config)
    instance.optimize_for_webserver(15_000, 3_600, 20)  # the defaults of its own command
    port = config.settings.dagster.port
    with WorkspaceProcessContext(
        instance, WorkspaceFileTarget([workspace]), read_only=read_only
    ) as context:
        app = create_app_from_workspace_process_context(context, live_data_poll_rate=2_000)
        keep_code_servers(context)
        uvicorn.run(
            Guard(app, own_hosts(port)),
            host=HOST,
            port=port,
            log_level="warning",
            timeout_graceful_shutdown=GRACE_S,
        )


if __name__ == "__main__":
    quiet_environment()
    with told_at_the_end():
        config = AppConfig.load()
        adopt_environment(config)
        leave_the_folder()
        serve(config, read_only=READ_ONLY in sys.argv[1:])
