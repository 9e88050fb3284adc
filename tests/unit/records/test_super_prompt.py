"""The record of a prompt and its chunks: thirteen fields, two invariants, five fields."""

import dataclasses
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core import records
from ragstream_core.records import (
    Chunk,
    SuperPrompt,
    chunk,
    evolve,
    from_json,
    super_prompt,
    to_json,
)
from ragstream_core.records.super_prompt import STAGES

FIELDS = {
    "stage", "model_target", "history_of_stages", "body", "extras", "base_context_chunks",
    "views_by_stage", "final_selection_ids", "recentConversation", "System_MD", "Prompt_MD",
    "S_CTX_MD", "Attachments_MD",
}  # fmt: skip
TRAILS = st.lists(st.sampled_from(STAGES), max_size=5)


def test_it_is_a_plain_class_with_thirteen_slots():
    assert set(SuperPrompt.__slots__) == FIELDS and len(SuperPrompt.__slots__) == len(FIELDS)
    assert not dataclasses.is_dataclass(SuperPrompt)
    assert not hasattr(SuperPrompt(), "__dict__")
    assert super_prompt.SuperPrompt is records.SuperPrompt
    assert chunk.Chunk is records.Chunk


def test_a_new_one_is_raw_and_has_nothing_rendered():
    prompt = SuperPrompt(body={"task": "x"}, model_target="some-model")
    assert (prompt.stage, prompt.history_of_stages) == ("raw", ["raw"])
    assert (prompt.model_target, prompt.body["depth"]) == ("some-model", "high")
    assert prompt.recentConversation == {"body": "", "pairs_count": 0, "range": (0, 0)}
    assert not any(getattr(prompt, name) for name in FIELDS if name.endswith("_MD"))


@settings(deadline=None)
@given(st.text(max_size=12))
def test_only_known_stages_are_taken(name):
    prompt = SuperPrompt()
    if name in STAGES:
        prompt.stage = name
        assert prompt.stage == name
        return
    with pytest.raises(ValueError, match="unknown stage"):
        prompt.stage = name
    with pytest.raises(ValueError, match="unknown stage"):
        evolve(prompt, stage=name)


@settings(deadline=None)
@given(TRAILS, TRAILS)
def test_the_trail_only_grows(before, after):
    prompt = SuperPrompt()
    prompt.history_of_stages = ["raw", *before]
    if after[: len(before)] == before:
        prompt.history_of_stages = ["raw", *after]
        assert prompt.history_of_stages == ["raw", *after]
        return
    with pytest.raises(ValueError, match="only grows"):
        prompt.history_of_stages = ["raw", *after]
    assert prompt.history_of_stages == ["raw", *before]


@settings(deadline=None)
@given(TRAILS)
def test_a_changed_copy_leaves_the_original_and_notes_its_stage(stages):
    first = prompt = SuperPrompt()
    for stage in stages:
        prompt = evolve(prompt, stage=stage)
        prompt.extras.raw_text = stage
        prompt.views_by_stage[stage] = []
        prompt.final_selection_ids.append(stage)
    assert prompt.history_of_stages == ["raw", *stages]
    assert (first.stage, first.history_of_stages) == ("raw", ["raw"])
    assert not (vars(first.extras) or first.views_by_stage or first.final_selection_ids)
    assert to_json(from_json(json.loads(json.dumps(to_json(prompt))))) == to_json(prompt)


def test_a_chunk_has_five_fields_and_never_changes():
    chunk = Chunk("a::b::0", "a.md", "text", (0, 4), {"sha256": "b"})
    fields = ["id", "source", "snippet", "span", "meta"]
    assert [field.name for field in dataclasses.fields(Chunk)] == fields
    views = {"context", "in_context"}  # of its meta: what it stands in
    own = {name for name in vars(Chunk) if not name.startswith("_")} - set(fields)
    assert own == views and all(isinstance(vars(Chunk)[name], property) for name in views)
    for name in fields:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(chunk, name, getattr(chunk, name))


@pytest.mark.parametrize("version", [None, 0, 2, "1"])
def test_another_version_of_the_json_is_refused(version):
    with pytest.raises(ValueError, match="version"):
        from_json({**to_json(SuperPrompt()), "version": version})
