"""A host that is cut off the network while its ingest goes on, and joined again."""

import json
import subprocess
import sys
import time

import dagster as dg
import pytest
from dagster import DagsterRunStatus as Status

from ragstream_assets import instance, reconcile, roll_call
from ragstream_core.wiring.workspace import open_workspace
from tests.processes import until
from tests.worker_hosts import ELSEWHERE, Team, require_hosts

pytestmark = [pytest.mark.slow, pytest.mark.sweep, pytest.mark.timeout(1800)]
TEXTS, TEXT_S = 60, 3
APART_S = 4.0
"""A run that does not answer is taken for dead in a minute."""
CUT_S = 20
WAIT_S = 600
STARTED = dg.RunsFilter(statuses=[Status.STARTED])


@pytest.fixture
def team(tmp_path):
    require_hosts()
    made = Team(tmp_path, text_s=TEXT_S)
    yield made
    made.close()


@pytest.fixture
def home(team, monkeypatch):
    """Dagster's records as another host of the team sees them."""
    for name in ("DAGSTER_HOME", "DAGSTER_POSTGRES_URL"):
        monkeypatch.setenv(name, "")  # restored afterwards
    monkeypatch.setattr(roll_call, "APART_S", APART_S)
    storage = team.environment["RAGSTREAM_DAGSTER__STORAGE"]
    space = open_workspace(team.folder / "looks", explicit={"dagster.storage": storage})
    yield instance.instance_for(space.config), space.config
    instance.drop_instances()


@pytest.mark.parametrize("long", [False, True])
def test_a_host_that_was_cut_off_ends_its_run_well(team, home, long):
    """Whether it was taken for dead meanwhile or not; nothing it did is lost or done again."""
    records, config = home
    team.write(TEXTS)
    env = {k: v for k, v in team.environment.items() if "EMBEDDINGS__B" not in k or "BACKEND" in k}
    del env["RAGSTREAM_EMBEDDINGS__SHARED"]
    words = [sys.executable, "-c", ELSEWHERE, "0.5", "--data", str(team.data), "ingest", "demo"]
    with (
        (team.folder / "out").open("wb") as out,
        (team.folder / "err").open("wb") as err,
        subprocess.Popen(
            ["ip", "netns", "exec", team.make_host(1), *words, "--json"],
            stdout=out, stderr=err, env=env, cwd=team.folder,
        ) as ingest,
    ):  # fmt: skip
        try:
            # its beginning is recorded, and nothing is written while it embeds
            assert until(lambda: b" chunks" in (team.folder / "err").read_bytes(), WAIT_S)
            assert records.get_runs(STARTED)
            team.cut(1)
            since = time.monotonic()
            failed = []
            while not failed and (long or time.monotonic() - since < CUT_S):
                assert time.monotonic() - since < WAIT_S
                failed = reconcile.mark_stale_runs(records, config)
                time.sleep(0.5)
            assert [run.status for run in records.get_runs()] == [
                Status.FAILURE if long else Status.STARTED
            ]
            team.join(1)
            while ingest.poll() is None:
                assert time.monotonic() - since < WAIT_S
                assert reconcile.mark_stale_runs(records, config) == []
                time.sleep(0.5)
        finally:
            ingest.kill()
    stats = json.loads((team.folder / "out").read_text())
    assert stats["committed"] and stats["chunks"]["embedded"] == TEXTS and not stats["warnings"]
    assert [run.status for run in records.get_runs()] == [Status.SUCCESS]
