"""Contract: the private parts of Dagster that four modules use, and no other."""

import ast
import inspect
from pathlib import Path

import dagster as dg

PACKAGE = Path(__file__).parents[2] / "ragstream_assets"
USED = {
    "launcher.py": {"dagster._core.launcher": {"CheckRunHealthResult", "WorkerStatus"}},
    "servers/web.py": {
        "dagster._core.workspace.context": {"WorkspaceProcessContext"},
        "dagster._core.workspace.load_target": {"WorkspaceFileTarget"},
    },
    "servers/daemon.py": {
        "dagster._core.workspace.load_target": {"WorkspaceFileTarget"},
        "dagster._daemon.controller": {"daemon_controller_from_instance"},
        "dagster._utils.interrupts": {"capture_interrupts"},
    },
    "servers/code_servers.py": {
        "dagster._core.errors": {"DagsterUserCodeUnreachableError"},
        "dagster._core.remote_representation.code_location": {"GrpcServerCodeLocation"},
        "dagster._core.workspace.context": {"IWorkspaceProcessContext"},
    },
}


def _private_imports(path):
    found = {}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dagster._"):
            found.setdefault(node.module, set()).update(a.name for a in node.names)
    return found


def test_only_these_modules_use_private_ones():
    found = {p.relative_to(PACKAGE).as_posix(): _private_imports(p) for p in PACKAGE.rglob("*.py")}
    used = {path: names for path, names in found.items() if names}
    assert used == USED


def _parameters(function):
    return list(inspect.signature(function).parameters)


def test_what_launcher_and_launchpad_lean_on():
    from dagster._core.launcher import CheckRunHealthResult, RunLauncher, WorkerStatus
    from dagster._core.storage.runs.schema import RunsTable

    assert dg.__version__.startswith("1.13.")
    assert CheckRunHealthResult._fields[:2] == ("status", "msg")
    assert {"RUNNING", "FAILED"} <= {status.name for status in WorkerStatus}
    assert _parameters(RunLauncher.check_run_worker_health) == ["self", "run"]
    assert RunsTable.name == "runs" and {"run_id", "run_body"} <= set(RunsTable.c.keys())


def test_no_future_annotations_in_the_package():
    for path in PACKAGE.rglob("*.py"):
        assert "from __future__" not in path.read_text(), path.name


def test_the_signatures_of_the_servers():
    from dagster._core.workspace.context import BaseWorkspaceRequestContext, WorkspaceProcessContext
    from dagster._daemon.controller import (
        DagsterDaemonController,
        daemon_controller_from_instance,
    )
    from dagster_webserver.app import create_app_from_workspace_process_context

    opened = _parameters(WorkspaceProcessContext.__init__)
    assert opened[1:5] == ["instance", "workspace_load_target", "version", "read_only"]
    assert _parameters(create_app_from_workspace_process_context)[:3] == [
        "workspace_process_context", "path_prefix", "live_data_poll_rate"
    ]  # fmt: skip
    assert hasattr(BaseWorkspaceRequestContext, "get_code_location_entries")
    assert "_workspace_process_context" in DagsterDaemonController.__annotations__
    assert _parameters(daemon_controller_from_instance)[:2] == ["instance", "workspace_load_target"]
    assert _parameters(WorkspaceProcessContext.reload_code_location) == ["self", "name"]
    assert _parameters(dg.DagsterInstance.optimize_for_webserver)[1:] == [
        "statement_timeout", "pool_recycle", "max_overflow"
    ]  # fmt: skip
