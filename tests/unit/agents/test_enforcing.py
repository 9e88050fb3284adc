"""A5: whatever S_ctx it gets, what it lets through is cited, issued and said; formats by name."""

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.agents.a4_condenser import Condenser
from ragstream_core.agents.a5_format_enforcer import PARTS, FormatEnforcer, shown_texts
from ragstream_core.agents.prompt_builder import PromptBuilder
from ragstream_core.prompting.tokens import HeuristicTokenCounter
from ragstream_core.records import to_json
from tests.unit.agents.test_condense import GATE, INDEX, NEWER, OTHER, kept

COUNTER = HeuristicTokenCounter()
JUNK = st.one_of(
    st.none(), st.integers(), st.text(max_size=9), st.just([]), st.just({}), st.just([7]),
    st.just({"text": "No citation."}), st.just({"text": 7, "citations": []}),
    st.just({"text": "x", "score": 1.0, "citations": [None]}),
)  # fmt: skip


def condensed():
    return Condenser(COUNTER)(kept(OTHER, NEWER, GATE, INDEX))


GOOD = condensed()


def good_items():
    return [(part, item) for part in PARTS for item in GOOD.extras["s_ctx"][part]]


def test_the_fixture_holds_all_three_parts():
    assert {part for part, _ in good_items()} == set(PARTS)
    assert FormatEnforcer(COUNTER)(GOOD).extras["enforced"]["repairs"] == []


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(st.sampled_from(PARTS), st.lists(JUNK, max_size=4)),
    st.dictionaries(st.text(max_size=5), JUNK, max_size=2),
)
def test_whatever_stands_in_s_ctx_only_what_is_sound_comes_through(junk, others):
    prompt = copy.deepcopy(GOOD)
    s_ctx = prompt.extras["s_ctx"]
    strange = {part: value for part, value in others.items() if part not in PARTS}
    for part, rows in junk.items():
        s_ctx[part] = [*rows, *s_ctx[part]]
    s_ctx |= strange
    done = FormatEnforcer(COUNTER)(prompt)
    assert list(done.extras["s_ctx"]) == list(PARTS)
    assert [(p, i) for p in PARTS for i in done.extras["s_ctx"][p]] == good_items()
    bad = sum(map(len, junk.values())) + len(strange)
    assert len(done.extras["enforced"]["repairs"]) == bad
    assert to_json(FormatEnforcer(COUNTER)(done)) == to_json(done)
    assert done.extras["s_ctx"] == FormatEnforcer(COUNTER)(GOOD).extras["s_ctx"]


@pytest.mark.parametrize("gone", [PARTS, *[(part,) for part in PARTS]])
def test_a_part_that_is_missing_or_no_list_is_an_empty_one(gone):
    for value in (None, "text", 7, {}):
        prompt = copy.deepcopy(GOOD)
        for part in gone:
            prompt.extras["s_ctx"][part] = value
        done = PromptBuilder(COUNTER)(FormatEnforcer(COUNTER)(prompt))
        assert all(done.extras["s_ctx"][part] == [] for part in gone)
        assert done.S_CTX_MD.count("\n### ") == 3


def test_a_citation_names_its_own_passage_by_its_own_id():
    issued, shown = GOOD.extras["citations"], shown_texts(GOOD)
    part, item = next(row for row in good_items() if row[0] == "facts")
    (cited,) = item["citations"]
    others = [i for i in issued if i != cited["short_id"]]
    for wrong in ({"short_id": others[0]}, {"source": issued[others[0]]["source"]}):
        prompt = copy.deepcopy(GOOD)
        prompt.extras["s_ctx"][part] = [{**item, "citations": [{**cited, **wrong}]}]
        done = FormatEnforcer(COUNTER)(prompt)
        assert done.extras["s_ctx"][part] == []
        (repair,) = done.extras["enforced"]["repairs"]
        assert "of another" in repair
    assert item["text"] in shown[cited["chunk_id"]]


@pytest.mark.parametrize("wanted", ["a haiku", "a different tone", "no tables"])
def test_a_format_without_a_sentence_of_ours_stands_in_the_task_and_is_said(wanted):
    prompt = condensed()
    prompt.body["format"] = wanted
    done = PromptBuilder(COUNTER)(FormatEnforcer(COUNTER)(prompt))
    assert done.extras["enforced"]["format"] == {"requested": wanted, "instruction": ""}
    assert any(wanted in event["message"] for event in done.extras["events"])
    assert f"### Format\n{wanted}" in done.Prompt_MD
