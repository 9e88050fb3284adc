"""What other faces did reaches Dagster once, in order, in figures; what Dagster did, not again."""

import json
import os
import random
import time
from itertools import pairwise

import dagster as dg
import pytest

from ragstream_assets import events, instance
from ragstream_assets.events import ANSWERS_SPEC, MIRROR, MOST, PROMPTS_SPEC
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.services import made_since
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.projects import AddRequest, add
from ragstream_core.services.sync_project import sync_project
from ragstream_core.wiring import answering
from ragstream_core.wiring.make_prompt import make_prompt
from tests.assets.executing import execute
from tests.recorded import record_ingest, record_prompt
from tests.remote_servers import WebServer
from tests.workspaces import docs_of

INDEX = dg.AssetKey(events.INDEX_KEY)
PROMPTS, ANSWERS = PROMPTS_SPEC.key, ANSWERS_SPEC.key
WORDS = "zanzibar"


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(made_since, "SETTLED_S", 0.0)


def told_of(home, space, cursor=None, *, kept=True):
    """One tick, its events as the daemon reports them; return them, the message and the cursor."""
    result = events.tick(space, home, cursor)
    for event in result.asset_events:
        home.report_runless_asset_event(event)
    return list(result.asset_events), result.skip_reason.skip_message, result.cursor


def keys_of(found):
    return [event.asset_key for event in found]


def ask(space, text):
    made = make_prompt(space, PromptRequest(text, ("demo",)))
    prepared = answering.prepare(
        space, made.super_prompt, prompt_key=made.key, session="s", or_extract=True
    )
    answering.answer(space, prepared)
    return made


def test_each_is_reported_once_in_order_and_without_words(space, home):
    ingest_project(space, "demo")
    (docs_of(space) / "late.md").write_text("# Late\n\nSomething new to say.\n")
    ingest_project(space, "demo")
    made = [ask(space, f"What of the {WORDS} lock, part {n}?") for n in range(3)]
    found, said, cursor = told_of(home, space)
    assert keys_of(found) == [INDEX] * 2 + [PROMPTS] * 3 + [ANSWERS] * 3
    assert events.NEW in said and "8 events" in said
    assert [e.metadata["generation"].value for e in found[:2]] == [1, 2]
    for rows in (found[2:5], found[5:]):
        assert [e.metadata["prompt_key"].value for e in rows] == [m.key for m in made]
    assert found[2].metadata["tokens"].value > 0 and found[2].metadata["projects"].value == "demo"
    assert WORDS not in json.dumps([str(event) for event in found]) + said + cursor
    again, said, after = told_of(home, space, cursor)
    assert (again, said, after) == ([], "nothing new", cursor)
    make_prompt(space, PromptRequest("And what of a crash?", ("demo",)))
    assert keys_of(told_of(home, space, cursor)[0]) == [PROMPTS]


def test_a_question_asked_again_is_no_new_prompt(ingested, home, request_):
    make_prompt(ingested, request_)
    _, _, cursor = told_of(home, ingested)
    assert make_prompt(ingested, request_).asked
    assert told_of(home, ingested, cursor)[0] == []


def put_prompts(space, number):
    """Folders as of prompts that were made while the daemon was away; return their keys."""
    then = time.time() - 7 * 86_400
    for n in range(number):
        folder = space.store.root / f"{n:064x}"
        folder.mkdir(parents=True)
        record = {"prompt_key": folder.name, "inputs": {"pins": [{"project": "demo"}]},
                  "tokens": n, "timings_ms": {"retrieval": 1.5}, "run_id": "",
                  "output_sha256": "0" * 64}  # fmt: skip
        (folder / "record.json").write_text(json.dumps(record))
        (folder / "super_prompt.md").write_text("words")
        os.utime(folder / "super_prompt.md", (then + n // 7, then + n // 7))
    return [f"{n:064x}" for n in range(number)]


def test_thousands_that_were_made_meanwhile_come_a_hundred_a_tick(space, home):
    keys = put_prompts(space, 1050)
    told, cursor = [], None
    for _ in range(20):
        found, _, cursor = told_of(home, space, cursor)
        assert len(found) <= MOST
        told += [event.metadata["prompt_key"].value for event in found]
    assert told == keys


def test_a_daemon_killed_between_events_and_cursor_reports_nothing_twice(space, home):
    """The cursor of before comes back, with any part of the events reported."""
    keys = put_prompts(space, 130)
    rng, told, cursor = random.Random(7), [], None
    for _ in range(60):
        result = events.tick(space, home, cursor)
        reported = rng.choice([0, len(result.asset_events) // 2, len(result.asset_events)])
        for event in result.asset_events[:reported]:
            home.report_runless_asset_event(event)
            told.append(event.metadata["prompt_key"].value)
        if reported == len(result.asset_events):
            cursor = rng.choice([cursor, result.cursor])
    assert told == keys


@pytest.mark.parametrize("bad", ["", "{", "[]", '{"v": 0}', '{"v": 1, "prompts": "x y"}', "null"])
def test_a_garbled_cursor_reports_nothing_twice(space, home, bad):
    put_prompts(space, 5)
    assert len(told_of(home, space)[0]) == 5
    assert told_of(home, space, bad)[0] == []


def test_an_instance_whose_storage_is_gone_begins_anew_and_says_so(ingested, home, request_):
    make_prompt(ingested, request_)
    assert len(told_of(home, ingested)[0]) == 2
    with dg.DagsterInstance.ephemeral() as other:
        found, said, _ = told_of(other, ingested)
        assert keys_of(found) == [INDEX, PROMPTS] and events.NEW in said


def test_what_dagster_made_is_not_reported_again(root, open_root, home, request_, script):
    script({"say": "It leaves a generation."})
    space = open_root(root)
    record_ingest(space, "demo")
    made = record_prompt(space, request_)
    assert make_prompt(space, request_).key == made.key  # from its record
    reference = space.store.put_request(request_)
    ops = {"a0_preprocessing": {"prompt_ref": reference}, "answer": {"session": "s"}}
    assert execute(space, home, job="answer_question", ops=ops).success
    (row,) = home.fetch_observations(ANSWERS, limit=9).records
    assert row.run_id and row.asset_observation.metadata["session"].value == "s"
    found, _, cursor = told_of(home, space)
    assert found == []
    home.delete_run(made.run_id)  # what retention took is behind the cursor
    assert told_of(home, space, cursor)[0] == []


def test_generations_come_in_order_whoever_makes_them(space, home):
    numbers, cursor = [], None
    for n in range(4):
        (docs_of(space) / f"{n}.md").write_text(f"# Part {n}\n\nWhat part {n} says.\n")
        ingest_project(space, "demo") if n % 2 else record_ingest(space, "demo")
        if n == 2:
            cursor = told_of(home, space, cursor)[2]
    told_of(home, space, cursor)
    wanted = dg.AssetRecordsFilter(INDEX, asset_partitions=["demo"])
    rows = home.fetch_materializations(wanted, limit=9).records
    numbers = [row.asset_materialization.metadata["generation"].value for row in rows]
    assert numbers == [4, 3, 2, 1]


def test_a_generation_of_a_run_that_goes_on_waits_for_it(space, home):
    job = dg.DagsterRun(job_name="ingest_documents", status=dg.DagsterRunStatus.STARTED)
    home.add_run(job)
    ingest_project(space, "demo", provenance={"run_id": job.run_id})
    assert told_of(home, space)[0] == []
    home.report_run_failed(job)  # killed after its commit, before it said so
    assert keys_of(told_of(home, space)[0]) == [INDEX]


def test_a_sync_is_reported_with_its_figures(space, home):
    with WebServer() as web:
        add(space, "guide", AddRequest([web.put({"a.md": b"# A\n", "b.md": b"# B\n"})]))
        assert told_of(home, space)[0] == []
        sync_project(space, "guide")
        found, _, cursor = told_of(home, space)
        assert keys_of(found) == [MIRROR.key] and found[0].partition == "guide"
        assert found[0].metadata["files"].value == 2 and found[0].metadata["bytes"].value == 8
        sync_project(space, "guide")  # nothing came
        assert told_of(home, space, cursor)[0] == []
        web.put({"c.md": b"# C\n"})
        record_ingest(space, "guide", sync=True)
        assert MIRROR.key not in keys_of(told_of(home, space, cursor)[0])


def test_what_is_young_waits_for_the_next_look(ingested, home, request_, monkeypatch):
    monkeypatch.setattr(made_since, "SETTLED_S", 3600.0)
    ask(ingested, request_.text)
    assert keys_of(told_of(home, ingested)[0]) == [INDEX]
    monkeypatch.setattr(made_since, "SETTLED_S", 0.0)
    assert keys_of(told_of(home, ingested)[0]) == [PROMPTS, ANSWERS]


def test_a_clock_that_was_put_back_hides_nothing_that_comes(ingested, home):
    ahead = f"{time.time_ns() + 10**15} z"
    cursor = json.dumps({"v": 1, "prompts": ahead})
    cursor = told_of(home, ingested, cursor)[2]
    text = "What comes after the clock was put back?"
    key = make_prompt(ingested, PromptRequest(text, ("demo",))).key
    found = told_of(home, ingested, cursor)[0]
    assert [event.metadata["prompt_key"].value for event in found] == [key]


def test_places_only_grow(space, home):
    put_prompts(space, 30)
    rows = list(made_since.prompts_since(space, ""))
    times = [(int(row.at.split()[0]), row.at.split()[1]) for row in rows]
    assert all(one < other for one, other in pairwise(times))
    assert [r.id for r in made_since.prompts_since(space, rows[9].at)] == [r.id for r in rows[10:]]


def test_the_sensor_runs_by_itself(space, home):
    assert events.made_elsewhere.default_status is dg.DefaultSensorStatus.RUNNING
    assert instance.instance_of(space.data_dir) is home
