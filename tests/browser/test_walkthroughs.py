"""Dagster's pages as a person uses them: four of the five ways to use RAGstream, click by click.

The fifth, the page, is in `test_page.py`; *Materialize* in `test_dagster_ui.py`.
"""

import json
import shutil
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import SIZE
from tests.browser.dagster_api import ENDED, RUN_S, ask, new_run, runs
from tests.browser.sites import ROOT, Seen, Site, running, shot
from tests.browser.walk import SLOW_MS, Walk
from tests.processes import until

HANDBOOK = ROOT / "data" / "doc_raw" / "handbook"
PAGES = ("durability-and-recovery.md", "stage-a1-files-and-lock.md", "quick-start.md")
QUESTION = "How does the exact file lock restrict a prompt?"
NOTE = "# Canary\n\nThe yellow canary of the control room sings at half past nine.\n"
OTHER_SETTING = """ops:
  prompt_builder:
    config:
      from_run: {}
      settings:
        prompt.block_order: classic
"""
TICKS = """{ sensorOrError(sensorSelector: {
  repositoryLocationName: "ragstream", repositoryName: "__repository__", sensorName: "folder_sensor"
}) { ... on Sensor { sensorState { ticks(limit: 20) { timestamp runIds } } } } }"""
MATERIALIZED = '{ assetOrError(assetKey: {path: ["history", "embeddings"]}) { ... on Asset { \
assetMaterializations { partition runId } } } }'


@pytest.fixture(scope="module")
def office(tmp_path_factory):
    """`ragstream up` over three pages of the handbook and one kept turn."""
    data = tmp_path_factory.mktemp("office") / "data"
    (data / "doc_raw" / "handbook").mkdir(parents=True)
    for name in PAGES:
        shutil.copy(HANDBOOK / name, data / "doc_raw" / "handbook")
    with running(data, ingest=["handbook"]) as site:
        site.ragstream("history", "append", "--user", "Which port?", "--assistant", "8503.")
        yield site


@pytest.fixture
def desk(browser, office):
    """A tab on Dagster's pages and the page."""
    context = browser.new_context(viewport=SIZE)
    context.set_default_timeout(SLOW_MS)
    page = context.new_page()
    page.seen = Seen({urlsplit(url).netloc for url in (office.page, office.dagster)})
    context.on("request", lambda sent: page.seen.note(sent.url))
    yield page
    shot(page, "walkthrough-last")
    assert page.seen.foreign == []
    context.close()


def test_the_sensor_brings_a_new_file_in_within_two_ticks(desk, office: Site):
    assert until(lambda: all(status in ENDED for _, status in runs(office).values()), RUN_S)
    before = runs(office)  # the sensor looks twice at files as young as the office's
    office.write("handbook", "canary.md", NOTE)
    written = (office.data / "doc_raw" / "handbook" / "canary.md").stat().st_mtime
    run = new_run(office, before, "ingest_documents")
    ticks = ask(office, TICKS)["sensorOrError"]["sensorState"]["ticks"]
    since = [tick["runIds"] for tick in ticks if tick["timestamp"] > written]
    assert any(run in ids for ids in since[-2:]), since
    desk.goto(f"{office.dagster}/automation")
    desk.get_by_text("folder_sensor").first.wait_for()
    desk.get_by_text("nightly_history").first.wait_for()
    shot(desk, "walkthrough-sensors")
    walk = Walk(desk, office).open()
    walk.sees("index version 2")
    desk.get_by_text("Files: 4 of 4 ON").click()
    walk.sees("canary.md")
    assert "half past nine" in walk.ask("When does the yellow canary sing?")
    shot(desk, "walkthrough-sensor-on-the-page")


def test_a_prompt_of_the_page_is_an_event_of_its_asset(desk, office: Site):
    before = runs(office)
    Walk(desk, office).open().ask(QUESTION)
    desk.goto(f"{office.dagster}/assets/prompts/super_prompts?view=events")
    desk.get_by_text("prompt_key").first.wait_for(timeout=150_000)
    shot(desk, "walkthrough-event-of-a-prompt")
    assert set(runs(office)) == set(before)


def test_the_launchpad_runs_the_query_job_as_it_stands(desk, office: Site):
    before = runs(office)
    desk.goto(f"{office.dagster}/locations/ragstream/jobs/build_prompt/playground")
    desk.get_by_text("No errors").wait_for()
    shot(desk, "walkthrough-launchpad")
    desk.get_by_role("button", name="Launch Run").click()
    desk.wait_for_url("**/runs/*")
    run = new_run(office, before, "build_prompt")
    assert run in desk.url
    desk.get_by_text("RUN_SUCCESS").wait_for()
    select(desk, "prompt_builder")
    desk.get_by_text("super_prompt.md").first.wait_for()
    shot(desk, "walkthrough-super-prompt")
    (record,) = [json.loads(path.read_text()) for path in office.data.glob("prompts/*/record.json")
                 if run in path.read_text()]  # fmt: skip
    text = (office.data / "prompts" / record["prompt_key"] / "super_prompt.md").read_text()
    assert "] HARD RULES" in text and f'source="{PAGES[0]}"' in text


def test_a_run_of_the_launchpad_is_executed_again_from_the_middle(desk, office: Site):
    before = runs(office)
    desk.goto(f"{office.dagster}/locations/ragstream/jobs/build_prompt/playground")
    desk.get_by_text("No errors").wait_for()
    desk.get_by_role("button", name="Launch Run").click()
    desk.wait_for_url("**/runs/*")
    parent = new_run(office, before, "build_prompt")
    before = runs(office)
    desk.goto(f"{office.dagster}/runs/{parent}")
    desk.get_by_text("RUN_SUCCESS").wait_for()
    select(desk, "a3_nli_gate")
    desk.get_by_role("button", name="Re-execute (").locator("xpath=following::button[1]").click()
    desk.get_by_role("menuitem", name="From selected").click()
    run = new_run(office, before, "build_prompt")
    desk.goto(f"{office.dagster}/runs/{run}")
    desk.get_by_text("RUN_SUCCESS").wait_for()
    shot(desk, "walkthrough-from-the-middle")
    found = ask(office, f'{{ runOrError(runId: "{run}") {{ ... on Run {{ parentRunId rootRunId '
                        "stepStats { stepKey status } } } }")["runOrError"]  # fmt: skip
    ran = {row["stepKey"] for row in found["stepStats"] if row["status"] == "SUCCESS"}
    assert (found["parentRunId"], found["rootRunId"]) == (parent, parent)
    assert "retrieval" not in ran and {"a3_nli_gate", "prompt_builder"} <= ran


def test_a_stage_is_launched_again_with_another_setting(desk, office: Site):
    words = ("prompt", QUESTION, "-p", "handbook", "--fresh", "--json", "--dagster")
    first = json.loads(office.ragstream(*words))
    before, parent = runs(office), first["run_id"]
    desk.goto(f"{office.dagster}/runs/{parent}")
    desk.get_by_text("RUN_SUCCESS").wait_for()
    desk.get_by_text("Open in Launchpad").click()
    desk.wait_for_url("**/playground")
    desk.get_by_placeholder("Type an op subset").click()
    desk.keyboard.press("Control+a")
    desk.keyboard.type("prompt_builder*")
    desk.get_by_text("1 matching ops").wait_for()
    desk.keyboard.press("Enter")
    desk.keyboard.press("Escape")
    desk.locator(".CodeMirror").first.click()
    desk.keyboard.press("Control+a")
    desk.keyboard.insert_text(OTHER_SETTING.format(parent[:8]))
    desk.get_by_text("No errors").wait_for()
    shot(desk, "walkthrough-other-setting")
    desk.get_by_role("button", name="Launch Run").click()
    desk.wait_for_url("**/runs/*")
    run = new_run(office, before, "build_prompt")
    found = ask(office, f'{{ runOrError(runId: "{run}") {{ ... on Run {{ tags {{ key value }} '
                        "stepStats { stepKey } } } }")["runOrError"]  # fmt: skip
    tags = {row["key"]: row["value"] for row in found["tags"]}
    assert tags["dagster/parent_run_id"] == tags["dagster/root_run_id"] == parent
    assert [row["stepKey"] for row in found["stepStats"]] == ["prompt_builder"]
    records = [json.loads(path.read_text()) for path in office.data.glob("prompts/*/record.json")]
    assert [r["resumed"] for r in records if r["run_id"] == run] == [first["prompt_key"]]


def test_a_month_of_history_is_filled_back(desk, office: Site):
    before = runs(office)
    desk.goto(f"{office.dagster}/assets/history/embeddings")
    desk.get_by_role("button", name="Materialize").first.click()
    dialog = desk.get_by_role("dialog")
    dialog.get_by_text("Latest", exact=True).click()
    shot(desk, "walkthrough-backfill")
    dialog.get_by_role("button", name="Launch").click()
    run = new_run(office, before, "__ASSET_JOB")
    desk.goto(f"{office.dagster}/runs/{run}")
    desk.get_by_text("RUN_SUCCESS").wait_for()
    shot(desk, "walkthrough-backfill-run")
    rows = ask(office, MATERIALIZED)["assetOrError"]["assetMaterializations"]
    assert [row["partition"] for row in rows if row["runId"] == run]
    desk.goto(f"{office.dagster}/locations/ragstream/schedules/nightly_history")
    desk.get_by_text("nightly_history").first.wait_for()
    expect(desk.get_by_role("checkbox").first).to_be_checked()


def select(desk, step: str) -> None:
    """Select a step of the run in sight by its name."""
    desk.get_by_role("textbox", name="Search and filter steps").focus()
    desk.keyboard.type(f'name:"{step}"')
    desk.keyboard.press("Enter")
    desk.keyboard.press("Escape")
    desk.get_by_role("button", name="Re-execute (").wait_for()
