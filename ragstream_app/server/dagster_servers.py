"""Dagster's servers, as `ragstream up` starts them: ``python -P -m …dagster_servers web|daemon``.

Its web server has no place for a guard in its own command, so the few lines of it that matter stand
here; the private parts they use are in the contract test. The daemon is Dagster's own command.
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.request
from importlib.metadata import entry_points
from typing import Any

from ragstream_app.server.guard import Guard, own_hosts
from ragstream_app.server.processes import HOST, direct
from ragstream_assets.instance import instance_for, ready_home
from ragstream_core.config import AppConfig, adopt_environment, quiet_environment
from ragstream_core.errors import told_at_the_end

READ_ONLY = "--read-only"
GRACE_S = 3


def serve_pages(config: AppConfig, *, read_only: bool) -> None:
    """Serve Dagster's pages at the port of the settings, until a signal ends the process.

    Always on loopback: whoever needs them from elsewhere puts a proxy with a login before them.
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
        uvicorn.run(
            Guard(app, own_hosts(port)),
            host=HOST,
            port=port,
            log_level="warning",
            timeout_graceful_shutdown=GRACE_S,
        )


def run_daemon(config: AppConfig) -> None:
    """Run sensors, schedules and the queue of a data root, until a signal ends the process."""
    workspace = ready_home(config) / "workspace.yaml"
    instance_for(config)  # what is wrong with its storage is said in our words, not by a traceback
    (command,) = entry_points(group="console_scripts", name="dagster-daemon")
    sys.argv = [command.name, "run", "--workspace", str(workspace)]
    command.load()()


def main(name: str, *words: str) -> None:
    """Run one of them."""
    quiet_environment()
    with told_at_the_end():
        config = AppConfig.load()
        adopt_environment(config)
        # Code servers and runs put every variable of a `.env` of the working directory into their
        # environment, whoever wrote it: so they work where no stranger's files lie.
        os.chdir("/")
        if name == "daemon":
            run_daemon(config)
        else:
            serve_pages(config, read_only=READ_ONLY in words)


QUERY = """{ repositoriesOrError { ... on RepositoryConnection { nodes {
  sensors { name sensorState { status } }
  schedules { name scheduleState { status } }
} } } }"""
TIMEOUT_S = 30.0
POLL_S = 0.3


def triggers_at(url: str, *, timeout_s: float = TIMEOUT_S) -> dict[str, list[str]]:
    """Return what starts runs by itself, and what is switched off, under a heading for people.

    Dagster's web server answers before it knows them: it is asked again while it names none.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            found = _triggers(_asked(url))
        except (OSError, ValueError, LookupError, TypeError):
            found = {}
        if any(found.values()) or time.monotonic() > deadline:
            return found
        time.sleep(POLL_S)


def _asked(url: str) -> Any:
    request = urllib.request.Request(
        f"{url}/graphql",
        data=json.dumps({"query": QUERY}).encode(),
        headers={"Content-Type": "application/json"},
    )
    with direct().open(request, timeout=TIMEOUT_S) as answer:
        return json.load(answer)


def _triggers(answer: dict[str, Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {"sensors on": [], "schedules on": [], "switched off": []}
    for node in answer["data"]["repositoriesOrError"]["nodes"]:
        for kind in ("sensor", "schedule"):
            for one in node[f"{kind}s"]:
                is_on = one[f"{kind}State"]["status"] == "RUNNING"
                found[f"{kind}s on" if is_on else "switched off"].append(one["name"])
    return {heading: sorted(names) for heading, names in found.items()}


if __name__ == "__main__":
    main(*sys.argv[1:])
