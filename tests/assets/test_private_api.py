"""Contract: the private parts of Dagster that `recorder.py` uses, and that nobody else uses any."""

import ast
import inspect
from pathlib import Path

import dagster as dg

PACKAGE = Path(__file__).parents[2] / "ragstream_assets"
USED = {
    "dagster._core.definitions.job_base": {"InMemoryJob"},
    "dagster._core.execution.api": {"create_execution_plan", "execute_run"},
    "dagster._core.execution.plan.plan": {"ExecutionPlan"},
    "dagster._core.execution.plan.state": {"KnownExecutionState"},
    "dagster._core.remote_origin": {
        "ManagedGrpcPythonEnvCodeLocationOrigin", "RemoteJobOrigin", "RemoteRepositoryOrigin",
    },
    "dagster._core.types.loadable_target_origin": {"LoadableTargetOrigin"},
}  # fmt: skip


def _private_imports(path):
    found = {}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dagster._"):
            found.setdefault(node.module, set()).update(a.name for a in node.names)
    return found


def test_only_the_recorder_uses_private_modules_and_these():
    assert _private_imports(PACKAGE / "recorder.py") == USED
    for path in PACKAGE.glob("*.py"):
        if path.name != "recorder.py":
            assert _private_imports(path) == {}, path.name


def _parameters(function):
    return list(inspect.signature(function).parameters)


def test_their_signatures():
    from dagster._core.execution.api import create_execution_plan, execute_run
    from dagster._core.execution.plan.state import KnownExecutionState
    from dagster._core.remote_origin import (
        ManagedGrpcPythonEnvCodeLocationOrigin,
        RemoteJobOrigin,
        RemoteRepositoryOrigin,
    )
    from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

    assert dg.__version__.startswith("1.13.")
    assert _parameters(execute_run)[:3] == ["job", "dagster_run", "instance"]
    assert _parameters(create_execution_plan)[:2] == ["job", "run_config"]
    assert {"step_keys_to_execute", "known_state", "tags"} <= set(
        _parameters(create_execution_plan)
    )
    assert _parameters(KnownExecutionState.build_for_reexecution) == ["instance", "parent_run"]
    assert _parameters(KnownExecutionState.update_for_step_selection) == [
        "self", "step_keys_to_execute"
    ]  # fmt: skip
    wanted = {"run_id", "run_config", "execution_plan", "tags", "parent_run_id", "root_run_id",
              "remote_job_origin"}  # fmt: skip
    assert wanted <= set(_parameters(dg.DagsterInstance.create_run_for_job))
    target = LoadableTargetOrigin(module_name="m", working_directory="/w")
    location = ManagedGrpcPythonEnvCodeLocationOrigin(target, "ragstream")
    origin = RemoteJobOrigin(RemoteRepositoryOrigin(location, "__repository__"), "build_prompt")
    assert origin.location_name == "ragstream"
    assert origin.repository_origin.get_label() == "__repository__@ragstream"


def test_no_future_annotations_in_the_package():
    for path in PACKAGE.glob("*.py"):
        assert "from __future__" not in path.read_text(), path.name
