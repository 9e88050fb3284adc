"""Contract: the private parts of Dagster that two modules use, and no other."""

import ast
import inspect
from importlib.metadata import entry_points
from pathlib import Path

import dagster as dg

ROOT = Path(__file__).parents[2]
USED = {
    "ragstream_assets/launcher.py": {
        "dagster._core.launcher": {"CheckRunHealthResult", "WorkerStatus"}
    },
    "ragstream_app/server/dagster_servers.py": {
        "dagster._core.workspace.context": {"WorkspaceProcessContext"},
        "dagster._core.workspace.load_target": {"WorkspaceFileTarget"},
    },
}


def _private_imports(path):
    found = {}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dagster._"):
            found.setdefault(node.module, set()).update(a.name for a in node.names)
    return found


def test_only_these_modules_use_private_ones():
    ours = ROOT.glob("ragstream_*/**/*.py")
    found = {path.relative_to(ROOT).as_posix(): _private_imports(path) for path in ours}
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
    for path in (ROOT / "ragstream_assets").rglob("*.py"):
        assert "from __future__" not in path.read_text(), path.name


def test_the_signatures_of_the_servers():
    from dagster._core.workspace.context import WorkspaceProcessContext
    from dagster_webserver.app import create_app_from_workspace_process_context

    opened = _parameters(WorkspaceProcessContext.__init__)
    assert opened[1:5] == ["instance", "workspace_load_target", "version", "read_only"]
    assert _parameters(create_app_from_workspace_process_context)[:3] == [
        "workspace_process_context", "path_prefix", "live_data_poll_rate"
    ]  # fmt: skip
    assert _parameters(dg.DagsterInstance.optimize_for_webserver)[1:] == [
        "statement_timeout", "pool_recycle", "max_overflow"
    ]  # fmt: skip
    (daemon,) = entry_points(group="console_scripts", name="dagster-daemon")
    assert daemon.value == "dagster._daemon.cli:main"
