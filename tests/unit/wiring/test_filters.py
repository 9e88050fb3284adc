"""Filters through the whole chain: what is pinned is what is searched, and what is replayed."""

import datetime as dt
import os

import pytest

from ragstream_core.errors import UnknownSetting
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.replay import replay_prompt
from ragstream_core.services.search import search
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.saved_prompts import save_prompt
from ragstream_core.wiring.workspace import open_workspace
from tests.workspaces import ask, hashed_workspace, write_docs

QUESTION = "What does the catalog hold, and how many tokens may a prompt have?"


@pytest.fixture
def space(tmp_path):
    write_docs(tmp_path)
    old = dt.datetime(2020, 1, 1, tzinfo=dt.UTC).timestamp()
    os.utime(tmp_path / "doc_raw/demo/retrieval.md", (old, old))
    workspace = hashed_workspace(tmp_path)
    ingest_project(workspace, "demo")
    return workspace


def sources(prompt):
    return {chunk.source for chunk in prompt.base_context_chunks}


def messages(prompt, kind):
    return " | ".join(row.message for row in getattr(prompt.extras, kind))


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ("", {"catalog.md", "retrieval.md", "settings.yaml", "notes/limits.txt"}),
        ("type:md", {"catalog.md", "retrieval.md"}),
        ("type:md since:2021-01-01", {"catalog.md"}),
        ("file:notes/*", {"notes/limits.txt"}),
    ],
)
def test_only_what_the_filters_leave_is_searched(space, filters, found):
    prompt = ask(space, f"{QUESTION} {filters}")
    assert sources(prompt) == found
    assert filters not in prompt.extras.super_prompt or not filters
    if filters:
        assert f"filters: {filters}; {len(found)} documents left" in messages(prompt, "events")


def test_off_stays_off_whatever_a_filter_names(space):
    prompt = ask(space, f"{QUESTION} file:catalog.md file:settings.yaml", off=("catalog.md",))
    assert sources(prompt) == {"settings.yaml"}


def test_nothing_left_is_said_and_nothing_is_searched(space):
    prompt = ask(space, f"{QUESTION} type:pdf")
    assert sources(prompt) == set()
    assert "no document fits type:pdf" in messages(prompt, "warnings")


def test_a_prompt_replays_after_the_times_changed(space, tmp_path):
    record = save_prompt(space, ask(space, f"{QUESTION} since:2021-01-01"))
    (tmp_path / "doc_raw/demo/retrieval.md").touch()
    ingest_project(space, "demo")
    assert "retrieval.md" in sources(ask(space, f"{QUESTION} since:2021-01-01"))
    assert replay_prompt(space, record.prompt_key).verdict == "identical"


def test_search_obeys_them_too(space):
    rows = search(space, "catalog type:yaml", ["demo"], k=10)
    assert {row.source for row in rows} == {"settings.yaml"}


def test_tags_and_times_narrow_the_conversation(space):
    inputs = pin_inputs(space, PromptRequest(f"{QUESTION} tag:GOLD since:2d", ("demo",)))
    assert inputs.settings["history"]["tags"] == ("GOLD",)
    day = (dt.datetime.now().astimezone() - dt.timedelta(days=2)).date().isoformat()
    assert inputs.settings["history"]["since"].startswith(f"{day}T00:00:00")
    assert not any("catalog.md" in name for name in inputs.off)


@pytest.mark.parametrize("given", ["2026-10-01", "2026-10-01T08:00:00+02:00", ""])
def test_since_is_a_setting_too(space, given):
    inputs = pin_inputs(
        space, PromptRequest(QUESTION, ("demo",), settings={"history.since": given})
    )
    assert inputs.settings["history"]["since"] == given


def test_since_in_a_settings_file_is_a_date_and_a_wrong_one_is_named(tmp_path, space):
    path = tmp_path / "settings.yaml"
    path.write_text("history: {since: 2026-10-01}\n")
    found = open_workspace(tmp_path, config_path=path).config.settings.history.since
    assert found == "2026-10-01"
    with pytest.raises(UnknownSetting, match=r"history\.since"):
        pin_inputs(
            space, PromptRequest(QUESTION, ("demo",), settings={"history.since": "last week"})
        )
