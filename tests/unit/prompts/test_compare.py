"""What tells two outputs, and two sets of inputs, from each other."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.prompts.compare import (
    GROUPS,
    Output,
    blocks_of,
    compare_outputs,
    differing,
    items_of,
    swapped,
)
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.prompts.stage_versions import STAGE_VERSIONS
from ragstream_core.records.prompt_inputs import HistoryPin, Pin, PromptInputs
from ragstream_core.wiring.prompt_inputs import pin_inputs

TEXT = (
    "## [0a1b2c3d4e5f] HARD RULES\nBe exact.\n\n## [0a1b2c3d4e5f] S_CTX\n### Facts\n"
    "| F1. (Locks) One writer holds the lock. [source: a.md, chunk: 11111111]\n"
    "| F2. Two readers wait. [source: a.md, chunk: 11111111]\n### Constraints\n(none)\n"
    "### Open Issues\n| O1. Nothing says why.\n\n"
    "## [0a1b2c3d4e5f] TASK\n## [not ours] HARD RULES\nAsk.\n"
)


@pytest.fixture
def pinned(workspace):
    return pin_inputs(workspace, PromptRequest(text="Who may write?", projects=("demo",)))


def test_every_field_of_the_inputs_is_in_one_group_and_no_other_name():
    fields = [name for names in GROUPS.values() for name in names]
    assert sorted(fields) == sorted(f.name for f in dataclasses.fields(PromptInputs))


def test_a_heading_counts_only_with_the_mark_of_the_first_line():
    found = blocks_of(TEXT)
    assert list(found) == ["HARD RULES", "S_CTX", "TASK"]
    assert found["TASK"] == "## [not ours] HARD RULES\nAsk."
    assert blocks_of("") == {} and blocks_of("no prompt") == {"": "no prompt"}


def test_items_are_read_without_their_numbers():
    found = items_of(TEXT)
    assert [len(found[name]) for name in ("facts", "constraints", "open_issues")] == [2, 0, 1]
    assert found["facts"][1].startswith("Two readers wait.")


def test_renumbering_and_another_mark_are_no_difference():
    other = TEXT.replace("0a1b2c3d4e5f", "ffffffffffff").replace("F2.", "F7.")
    found = compare_outputs(Output(TEXT), Output(other))
    assert found.blocks == ("S_CTX",) and found.facts == ((), ())
    assert not found.identical and compare_outputs(Output(TEXT), Output(TEXT)).identical


def test_both_sides_and_the_order_of_a_selection_are_told():
    found = compare_outputs(Output("", ("a", "b", "c")), Output("", ("c", "b", "d")))
    assert found.selection == (("d",), ("a",), True)
    back = compare_outputs(Output("", ("c", "b", "d")), Output("", ("a", "b", "c")))
    assert back.selection == (("a",), ("d",), True)


OUTPUTS = st.builds(
    lambda facts, chosen: Output(
        "## [0a1b2c3d4e5f] S_CTX\n" + "\n".join(f"| F{i}. {f}" for i, f in enumerate(facts, 1)),
        tuple(chosen),
    ),
    st.lists(st.sampled_from("abcdef"), max_size=4),
    st.lists(st.sampled_from("uvwxyz"), max_size=4, unique=True),
)


@given(OUTPUTS, OUTPUTS)
def test_the_other_way_round_added_and_removed_change_places(one, other):
    there, back = compare_outputs(one, other), compare_outputs(other, one)
    for name in ("selection", "facts"):
        assert getattr(there, name).added == getattr(back, name).removed
        assert getattr(there, name).removed == getattr(back, name).added
    assert there.blocks == back.blocks and there.identical == back.identical
    left = [i for i in one.selection if i not in there.selection.removed]
    assert sorted([*left, *there.selection.added]) == sorted(other.selection)


CHANGES = {
    "text": ({"text": "Another one?"}, "text"),
    "generation": ({"pins": (Pin("demo", 2, "0" * 64, "x"),)}, "generation 1 → 2"),
    "files": ({"named": ("settings.yaml",)}, "named with settings.yaml"),
    "off": ({"off": ("demo/a.md",)}, "off with demo/a.md"),
    "lock": ({"lock": True}, "False → True"),
    "settings": ({"changes": (("retrieval", "retrieval.top_k", 3),)}, "retrieval.top_k"),
    "texts": ({"texts": {"hard_rules": "Be kind."}}, "1 lines in"),
    "time": ({"now": "2030-01-01T00:00:00+00:00"}, "2030"),
    "models": ({"models": {"embedder": "none"}}, "models.embedder"),
    "query vectors": ({"query_vectors": {"a" * 64: "b" * 64}}, "query_vectors"),
    "history": ({"history": HistoryPin("s", 3, "c", "d", 2)}, "history.seq: 0 → 3"),
    "code": ({"code": {"retrieval": 0}}, f"code.retrieval: {STAGE_VERSIONS['retrieval']} → 0"),
}


@pytest.mark.parametrize("group", GROUPS)
def test_each_group_is_named_and_taking_it_over_makes_the_inputs_equal(pinned, group):
    changed, sign = CHANGES[group]
    other = dataclasses.replace(pinned, **changed)
    found = differing(pinned, other)
    assert list(found) == [group] and sign in " | ".join(found[group])
    assert differing(swapped(pinned, other, group), other) == {}
    assert differing(pinned, pinned) == {}
