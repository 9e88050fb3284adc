"""`diff`: the cause is found by trial, and what cannot be tried is said to be so."""

import datetime as dt
import shutil
from dataclasses import replace

import pytest

from ragstream_core.errors import UnknownPrompt
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.records import evolve
from ragstream_core.records.prompt_inputs import PromptInputs
from ragstream_core.services.diff_prompts import ALL, NONE, PART, diff
from ragstream_core.services.ingest import ingest_project
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.saved_prompts import save_prompt
from ragstream_core.wiring.stages import run_prompt

NOW = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
QUESTION = (
    "One writer holds the project lock: must other writers wait or give up, and what is the token "
    "budget of a prompt?"
)


def key_of(space, text=QUESTION, minutes=0, **more):
    request = PromptRequest(text=text, projects=("demo",), **more)
    prompt = run_prompt(space, pin_inputs(space, request, NOW + dt.timedelta(minutes=minutes)))
    if minutes:  # as if a stage had read the time
        prompt.extras.time_read = True
    return save_prompt(space, prompt).prompt_key


def effects(found):
    return {row.input: row.effect for row in found.causes}


def test_where_the_time_was_read_it_is_a_cause_that_did_nothing(space):
    found = diff(space, key_of(space), key_of(space, minutes=1))
    assert found.output.identical and found.output.blocks == ()
    assert effects(found) == {"time": NONE}
    assert "03:05:05" in found.causes[0].details[0]


def test_one_input_is_named_with_what_it_changed(space):
    first, other = key_of(space), key_of(space, off=("demo/notes/limits.txt",))
    found = diff(space, first, other)
    assert effects(found) == {"off": ALL}
    gone = found.output.selection.removed
    assert gone and all(i.startswith("notes/limits.txt::") for i in gone)
    assert "ATTACHMENTS" in found.output.blocks
    assert diff(space, other, first).output.selection.added == gone


def test_several_inputs_are_told_apart_by_trial(space):
    first = key_of(space)
    other = key_of(space, minutes=5, settings={"prompt.max_facts": 1}, text=QUESTION + " Now?")
    found = effects(diff(space, first, other))
    assert found["time"] == NONE and set(found) == {"time", "settings", "text"}
    assert found["text"] == PART and found["settings"] in (PART, NONE)


def test_another_generation_names_its_files(space, tmp_path):
    first = key_of(space)
    (tmp_path / "doc_raw" / "demo" / "catalog.md").write_text("# Catalog\n\nMany writers now.\n")
    (tmp_path / "doc_raw" / "demo" / "more.md").write_text("# More\n\nA writer has a budget.\n")
    ingest_project(space, "demo")
    found = diff(space, first, key_of(space))
    assert effects(found) == {"generation": ALL}
    assert found.causes[0].details == ["demo: generation 1 → 2"]
    assert found.documents["demo"] == (("more.md",), ("catalog.md",), ())


def test_an_injected_file_that_changed_is_named_by_its_digests(space, tmp_path):
    text = "What does settings.yaml say about the gate?"
    first = key_of(space, text)
    (tmp_path / "doc_raw" / "demo" / "settings.yaml").write_text("gate:\n  theta: 0.5\n")
    found = diff(space, first, key_of(space, text))
    assert effects(found) == {"files": ALL}
    assert "receipts.demo/settings.yaml" in found.causes[0].details[0]
    assert len(found.output.files.added) == 1
    assert "❖ FILES" in found.output.blocks


def test_where_nothing_can_be_tried_the_renderings_still_tell(space, tmp_path):
    first, other = key_of(space), key_of(space, text="Who may write?", minutes=2)
    shutil.rmtree(tmp_path / "index")
    found = diff(space, first, other)
    assert not found.output.identical and found.output.blocks
    assert all(effect.startswith("unknown: ") for effect in effects(found).values())


def forged(space, key, text, **changed):
    """Keep a prompt as another version of the program would have: other bytes, its own key."""
    prompt = run_prompt(space, PromptInputs.from_json(space.store.record(key).inputs))
    inputs = replace(prompt.extras.inputs, **changed)
    prompt = evolve(prompt)
    prompt.extras.inputs, prompt.extras.super_prompt = inputs, text
    prompt.extras.time_read = bool(inputs.now)
    return save_prompt(space, prompt).prompt_key


def test_older_code_is_a_cause_that_cannot_be_tried(space):
    first = key_of(space)
    other = forged(space, key_of(space, minutes=1), "another text", code={"retrieval": 0})
    found = effects(diff(space, first, other))
    assert found["time"] == NONE
    assert found["code"] == "unknown: other code cannot be tried"
    assert "replay says why" in effects(diff(space, other, first))["time"]
    alone = forged(space, first, "another text", code={"retrieval": 0})
    assert effects(diff(space, first, alone)) == {"code": ALL}  # there is nothing else


def test_a_lost_rendering_is_made_again(space):
    first, other = key_of(space), key_of(space, text="Who may write?")
    before = diff(space, first, other)
    for path in space.store.root.glob("*/super_prompt.md"):
        path.write_text("nonsense")
    assert diff(space, first, other) == before
    with pytest.raises(UnknownPrompt):
        diff(space, first, "0123456789")
