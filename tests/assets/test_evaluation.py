"""Asset group `evaluation`: a point a partition, drawn once; figures alone are kept."""

import json

import pytest

from ragstream_assets.evaluation import HEAT_MAP, PROMPTS, SWEEP, pair_of, thresholds
from ragstream_core.evaluation.sweep import RELATIVES, THETAS, read_points
from ragstream_core.services.eval_gold import points_dir, sweep_fingerprint
from tests.assets.executing import execute, shown
from tests.workspaces import write_gold

GOLD = {"question": "What does a killed ingest leave behind?", "file": "crash.md"}
KEYS = thresholds.get_partition_keys()


@pytest.fixture
def gold(ingested):
    write_gold(ingested.data_dir, GOLD)
    return ingested


def materialise(space, home, spec, *, key=None, config=None):
    op = {SWEEP.key: "sweep_thresholds", HEAT_MAP.key: "draw_heat_map"}[spec.key]
    given = {"asset_selection": [spec.key], "partition_key": key}
    return execute(space, home, ops={op: config or {}}, **given)


def test_every_pair_is_a_partition():
    assert {pair_of(key) for key in KEYS} == {(t, r) for t in THETAS for r in RELATIVES}
    assert len(KEYS) == len(THETAS) * len(RELATIVES)


def test_a_partition_and_the_maps_of_what_is_there(gold, home):
    folder = points_dir(gold, "demo")
    assert "no point is up to date" in shown(materialise(gold, home, HEAT_MAP))["heat_maps"]
    for key in (KEYS[0], KEYS[-1]):
        result = materialise(gold, home, SWEEP, key=key)
        assert result.success
        (row,) = shown(result)["figures"].records
        assert (row.data["theta"], row.data["relative"]) == pair_of(key)
    points = read_points(folder, sweep_fingerprint(gold, "demo"))
    assert [(p.theta, p.relative) for p in points] == sorted(map(pair_of, (KEYS[0], KEYS[-1])))
    drawn = shown(materialise(gold, home, HEAT_MAP))
    assert drawn["points"] == 2
    for figure in ("kept relevant", "shown", "tokens"):
        assert (
            f"|{figure}: relative \\ θ|{points[0].theta:g}|{points[-1].theta:g}|"
            in drawn["heat_maps"]
        )
    values = sorted(point.tokens for point in points)
    low, high = ("░", "█") if values[0] < values[-1] else ("░", "░")
    assert f"{low} {values[0]:.0f}" in drawn["heat_maps"]
    assert f"{high} {values[-1]:.0f}" in drawn["heat_maps"]
    assert GOLD["question"] not in json.dumps(str(drawn))


def test_a_project_without_gold_questions(ingested, home):
    assert shown(materialise(ingested, home, SWEEP, key=KEYS[0]))["points"] == 0
    failed = materialise(ingested, home, SWEEP, key=KEYS[0], config={"project": "demo"})
    assert not failed.success
    (event,) = [e for e in failed.all_events if e.is_step_failure]
    assert "no gold questions" in str(event.step_failure_data.user_failure_data.description)


def test_the_prompts_of_gold_questions_as_figures_and_a_row_each(gold, home):
    absent = {"question": "Which colour has the moon of Jupiter?", "unanswerable": True}
    write_gold(gold.data_dir, {**GOLD, "answer": "nothing"}, absent)
    made = execute(gold, home, project="demo", asset_selection=[PROMPTS.key])
    found = shown(made)
    assert (found["questions"], found["unanswerable"], found["expected_shown"]) == (2, 1, 1.0)
    assert 0 <= found["answer_shown"] <= 1 and found["tokens"] > 0
    rows = [row.data for row in found["prompts"].records]
    assert [row["unanswerable"] for row in rows] == [False, True]
    assert rows[1]["answer_shown"] is None and rows[0]["tokens"] > 0
