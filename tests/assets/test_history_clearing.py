"""Cleared turns leave Dagster's databases, stage files and the Chroma collection as well."""

import pytest
from dagster import AssetMaterialization, DagsterRunStatus, RunsFilter

from ragstream_assets.definitions import defs
from ragstream_core.conversations.clearing import Choice
from ragstream_core.conversations.journal.records import HISTORY, Turn
from ragstream_core.errors import InputUnavailable
from ragstream_core.index.check import Part
from ragstream_core.prompts.chain import OPS
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.proposers.collections import compare
from ragstream_core.services.clear_history import clear
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.replay import replay_prompt
from ragstream_core.wiring.history_index import History
from ragstream_core.wiring.journal import append_turn
from ragstream_core.wiring.make_prompt import make_prompt, make_stages
from tests.copies import holders
from tests.recorded import record_prompt

CANCELED = RunsFilter(statuses=[DagsterRunStatus.CANCELED])
CANARIES = ("quatermain", "marzipan")
ASKED = "What is the canary of Zebulon Quatermain worth to the treasury of the town?"
ANSWER = "The vault opens with umbrella marzipan cathedral, and nobody else may know it."


def leave_words(home, *texts):
    """Put texts into runs that were cancelled in the queue, and into events of versions before.

    Returns:
        The run that holds none, and stays.
    """
    job = defs.resolve_job_def("build_prompt")
    for text in texts:
        ops = {"ops": {OPS[0]: {"config": {"prompt": text}}}}
        home.create_run_for_job(job, run_config=ops, status=DagsterRunStatus.CANCELED)
        event = AssetMaterialization("documents/chunks", metadata={"preview": text})
        home.report_runless_asset_event(event)
    return home.create_run_for_job(job).run_id


def say(space, session, asked, answer, key=""):
    when = "2026-10-05T14:07:00+02:00"
    append_turn(space, Turn("", session, when, asked, answer, prompt_key=key))


def test_no_byte_is_left_in_any_database(root, home, embed, open_root):
    space = open_root(root, **{"vector_store.collection": "true"})
    ingest_project(space, "demo")
    say(space, "plain", "What does an ingest hold?", "The lock of its project.")
    done = record_prompt(space, PromptRequest(ASKED, ("demo",), session="secret"))
    say(space, "secret", ASKED, ANSWER, done.record.prompt_key)
    say(space, "secret", "Quatermain?", "Marzipan!")
    shows = record_prompt(space, PromptRequest("And now?", ("demo",), session="secret"))
    other = record_prompt(
        space, PromptRequest("What is left behind?", ("demo",), settings={"history.recency_k": 0})
    )
    waits = leave_words(home, ASKED, ANSWER)
    assert embed(space, home).success
    areas = {part for name in holders(root, *CANARIES) for part in name.split("/")[:2]}
    assert {"prompts", "dagster_home", "logs", "index", "vectors"} <= areas
    assert any("history_main" in name for name in holders(root, *CANARIES))
    report = clear(space, Choice("secret"))
    assert holders(root, *CANARIES) == [] and report.left == [] and report.warnings == []
    assert {"prompts/" + r.record.prompt_key for r in (done, shows)} <= set(report.removed)
    assert set(space.store.keys()) == {other.record.prompt_key}
    assert compare(space, HISTORY) == []
    assert History(space).check(Part(1, 1)) == []
    listed = {record.dagster_run.run_id for record in home.get_run_records()}
    assert {other.run_id, waits} <= listed and not home.get_runs(CANCELED)
    assert all(home.all_logs(run) for run in listed - {waits})
    assert embed(space, home).success
    assert holders(root, *CANARIES) == []
    verdict = replay_prompt(space, other.record.prompt_key)  # it was pinned at a turn that is gone
    assert verdict.verdict == "input unavailable" and "cleared" in verdict.reason


def test_a_prompt_that_goes_on_after_a_clearing_leaves_nothing(root, home, open_root):
    space = open_root(root)
    ingest_project(space, "demo")
    say(space, "secret", ASKED, ANSWER)
    request = PromptRequest("And now?", ("demo",), session="secret")
    step = make_prompt(space, request, through=OPS[0])
    clear(space, Choice("secret"))
    assert holders(root, *CANARIES) == []
    with pytest.raises(InputUnavailable):
        for op in OPS[1:]:
            step = make_stages(space, step, (op,))
    assert holders(root, *CANARIES) == [] and not list(space.store.keys())
