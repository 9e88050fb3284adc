"""An answer leaves figures in Dagster and none of its words; what is wrong there fails nothing."""

from dataclasses import replace

import dagster as dg
import pytest

from ragstream_assets import instance
from ragstream_assets.answer_job import ANSWERS
from ragstream_assets.definitions import defs
from ragstream_assets.recorder.recorder import record_answer
from ragstream_core.answers.answer import Answer
from ragstream_core.records.chat import ChatUsage
from tests.copies import said

CANARY = "canary-7f3a"
ANSWER = Answer(
    f"{CANARY} text", f"{CANARY} raw", "complete", (), ChatUsage(70, 5, cost_usd=0.25), "scripted",
    "ab" * 32, "mine", (f"{CANARY} warning",), ChatUsage(10, 1, cost_usd=0.5),
)  # fmt: skip


def observed(space):
    records = instance.instance_of(space.data_dir).fetch_observations(dg.AssetKey(ANSWERS), limit=9)
    return [
        {name: value.value for name, value in r.asset_observation.metadata.items()}
        for r in records.records
    ]


def test_figures_and_no_words(space):
    recording = record_answer(space, ANSWER, run_id="r1")
    assert recording.wait(240) and recording.problem == ""
    (found,) = observed(space)
    assert (found["prompt_key"], found["prompt_run"], found["session"]) == ("ab" * 32, "r1", "mine")
    assert (found["input_tokens"], found["output_tokens"]) == (70, 5)
    assert (found["cost_usd"], found["total_cost_usd"]) == (0.25, 0.75)
    home = instance.dagster_home(space.data_dir)
    files = [path for path in home.rglob("*") if path.is_file()]
    assert files and not [p for p in files if CANARY.encode() in said(p)]
    assert dg.AssetKey(ANSWERS) in defs.resolve_asset_graph().get_all_asset_keys()


@pytest.mark.parametrize("field", ["prompt_key", "session"])
def test_what_is_not_kept_is_not_observed(space, field):
    assert record_answer(space, replace(ANSWER, **{field: ""})) is None


def test_a_broken_dagster_is_a_note_and_no_failure(space):
    (space.data_dir / "dagster_home").write_text("not a folder")
    recording = record_answer(space, ANSWER)
    assert recording.wait(240) and recording.problem
