"""The Dagster UI's back-fills, as its daemon carries them out: projects, and months of history."""

import logging
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.execution.backfill import BulkActionStatus
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster._daemon.backfill import execute_backfill_iteration
from dagster_graphql.test.utils import execute_dagster_graphql

from ragstream_assets.evaluation import thresholds
from ragstream_core.evaluation.sweep import RELATIVES
from ragstream_core.index.view import open_view
from ragstream_core.services.ingest import ingest_project
from ragstream_core.wiring import ingestion
from ragstream_core.wiring.history_index import History
from ragstream_core.wiring.quality_gate import gold_path

WORKSPACE = str(Path(__file__).parents[2] / "workspace.yaml")
ASSETS = ("file_manifest", "chunks", "embeddings", "index", "chroma_collection")
BACKFILL = """
mutation($params: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $params) {
    __typename
    ... on LaunchBackfillSuccess { backfillId }
    ... on PythonError { message stack }
  }
}
"""
WANTED = ("alpha", "beta", "demo")


@pytest.fixture
def web(space, home, monkeypatch, make_project):
    """The web server's and the daemon's view: the code location runs in a process of its own."""
    for name in WANTED[:2]:
        make_project(name)
    home.add_dynamic_partitions("project", list(WANTED))
    monkeypatch.setenv("PYTHONPATH", str(Path(WORKSPACE).parent))
    monkeypatch.setenv("RAGSTREAM_DATA_DIR", str(space.data_dir))
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BACKEND", "hashed")
    with WorkspaceProcessContext(home, WorkspaceFileTarget([WORKSPACE])) as process:
        yield process


def _backfill(web, group="documents", assets=ASSETS, partitions=WANTED):
    params = {
        "partitionNames": list(partitions),
        "assetSelection": [{"path": [group, name]} for name in assets],
    }
    answer = execute_dagster_graphql(
        web.create_request_context(), BACKFILL, variables={"params": params}
    )
    result = answer.data["launchPartitionBackfill"]
    assert result["__typename"] == "LaunchBackfillSuccess", result
    return result["backfillId"]


def _carry_out(web, home, backfill_id):
    """Do what the daemon does: iterate, launch what is queued, until the back-fill is done."""
    logger = logging.getLogger("backfill")
    for _ in range(12):
        list(execute_backfill_iteration(web, logger))
        queued = home.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.QUEUED]))
        for run in queued:
            home.launch_run(run.run_id, web.create_request_context())
        home.run_launcher.join(120)
        if home.get_backfill(backfill_id).status is not BulkActionStatus.REQUESTED:
            break
    return home.get_backfill(backfill_id)


@pytest.mark.slow
def test_all_projects_from_the_ui_and_again_as_a_no_op(web, space, home):
    done = _carry_out(web, home, _backfill(web))
    assert done.status is BulkActionStatus.COMPLETED_SUCCESS
    for name in ASSETS:
        key = dg.AssetKey(["documents", name])
        assert home.get_materialized_partitions(key) == set(WANTED)
    digests = {name: open_view(space.index_dir(name)).digest for name in WANTED}
    assert all(ingestion.unchanged(space, name) is not None for name in WANTED)

    again = _carry_out(web, home, _backfill(web))
    assert again.status is BulkActionStatus.COMPLETED_SUCCESS
    assert {name: open_view(space.index_dir(name)).generation for name in WANTED} == dict.fromkeys(
        WANTED, 1
    )
    assert {name: open_view(space.index_dir(name)).digest for name in WANTED} == digests


@pytest.mark.slow
def test_months_of_the_history_from_the_ui_and_again_as_a_no_op(web, space, home, say):
    """What is not partitioned comes after the months, once."""
    for n, when in enumerate(("2026-08-02", "2026-10-05", "2026-10-06")):
        say(space, n, when=f"{when}T12:00:00+02:00")
    assets, months = ("embeddings", "snapshot", "session_logs"), ("2026-08", "2026-10")
    embeddings, snapshot = (
        dg.AssetKey(["history", "embeddings"]),
        dg.AssetKey(["history", "snapshot"]),
    )

    first = _carry_out(web, home, _backfill(web, "history", assets, months))
    assert first.status is BulkActionStatus.COMPLETED_SUCCESS
    assert home.get_materialized_partitions(embeddings) == set(months)
    status = History(space).status()
    assert (status.pending, status.turns, status.generation) == (0, 3, 1)
    assert status.snapshot.rows == 3
    assert len(home.fetch_materializations(snapshot, limit=10).records) == 1

    again = _carry_out(web, home, _backfill(web, "history", assets, months))
    assert again.status is BulkActionStatus.COMPLETED_SUCCESS
    events = home.fetch_materializations(embeddings, limit=2).records
    shown = [record.asset_materialization.metadata for record in events]
    found = sorted((row["embedded"].value, row["turns"].value) for row in shown)
    assert found == [(0, 1), (0, 2)]  # a month each: they are no neighbours
    assert History(space).status().digest == status.digest


@pytest.mark.slow
def test_all_thresholds_from_the_ui_a_run_a_row(web, space, home):
    """And the heat map, which is not partitioned, after them, once."""
    ingest_project(space, "demo")
    path = gold_path(space, "demo")
    path.parent.mkdir(parents=True)
    path.write_text('{"question": "What does a killed ingest leave?", "file": "crash.md"}')
    pairs = thresholds.get_partition_keys()

    done = _carry_out(
        web, home, _backfill(web, "evaluation", ("threshold_sweep", "heat_map"), pairs)
    )
    assert done.status is BulkActionStatus.COMPLETED_SUCCESS
    key = dg.AssetKey(["evaluation", "threshold_sweep"])
    assert home.get_materialized_partitions(key) == set(pairs)
    assert len(home.get_runs()) == len(RELATIVES) + 1
    for record in home.fetch_materializations(key, limit=len(pairs)).records:
        event = record.asset_materialization
        (row,) = event.metadata["figures"].records
        assert f"{row.data['relative']:g}|{row.data['theta']:g}" == event.partition
    (event,) = home.fetch_materializations(dg.AssetKey(["evaluation", "heat_map"]), limit=5).records
    assert event.asset_materialization.metadata["points"].value == len(pairs)
