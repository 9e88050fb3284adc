"""Dagster's daemon, with a look after its code server.

Run as ``python -P -m ragstream_assets.servers.daemon``.
"""

from ragstream_assets.instance import instance_for, ready_home
from ragstream_assets.servers.code_servers import keep_code_servers, leave_the_folder
from ragstream_core.config import AppConfig, adopt_environment, quiet_environment
from ragstream_core.errors import told_at_the_end


def serve(config: AppConfig) -> None:
    """Run sensors, schedules and the queue of a data root, until a signal ends the process.

    Raises:
        OSError: The data root cannot be written.
        KeyboardInterrupt: A signal came.
        Exception: Whatever Dagster raises when one of its loops has died.
    """
    from dagster._core.workspace.load_target import WorkspaceFileTarget
    from dagster._daemon.controller import daemon_controller_from_instance
    from dagster._utils.interrupts import capture_interrupts

    target = WorkspaceFileTarget([str(ready_home(config) / "workspace.yaml")])
    with (
        capture_interrupts(),
        daemon_controller_from_instance(instance_for(config), target) as controller,
    ):
        keep_code_servers(controller._workspace_process_context)
        controller.check_daemon_loop()


if __name__ == "__main__":
    quiet_environment()
    try:
        with told_at_the_end():
            config = AppConfig.load()
            adopt_environment(config)
            leave_the_folder()
            serve(config)
    except KeyboardInterrupt:
        raise SystemExit(0) from None
