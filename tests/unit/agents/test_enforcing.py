"""A5: whatever S_ctx it gets, what it lets through is cited, issued and said; formats by name."""

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.agents.a4_condenser import Condenser
from ragstream_core.agents.a5_format_enforcer import PARTS, FormatEnforcer, shown_texts
from ragstream_core.agents.prompt_builder import PromptBuilder
from ragstream_core.errors import BudgetExceeded
from ragstream_core.records import to_json
from ragstream_core.text.tokens import HeuristicTokenCounter
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


def cut_at_the_end():
    """A prompt whose last attachment is cut, with an open issue that cites nothing."""
    question = "How does the similarity gate use theta?|Which Kafka topic holds the offsets?"
    prompt = kept(GATE, OTHER, NEWER, f"{INDEX} " * 4, question=question)
    for budget in range(500, 2000, 5):
        done = Condenser(COUNTER, budget_tokens=budget, token_overhead=0)(prompt)
        if len(done.extras["cuts"]) and len(done.final_selection_ids) > 2:
            return done
    raise AssertionError("no budget cuts a passage")


CUT = cut_at_the_end()
FULL = FormatEnforcer(COUNTER, budget_tokens=10_000)(CUT)
TOTAL = FULL.extras["enforced"]["total_tokens"]


def _open(ids):
    """The open issues that cite nothing else than what is left."""
    rows = CUT.extras["s_ctx"]["open_issues"]
    return [row for row in rows if {c["chunk_id"] for c in row["citations"]} <= set(ids)]


def ranked(prompt):
    """Its facts and constraints, the least valuable first."""
    rows = [item for part in PARTS[:2] for item in prompt.extras["s_ctx"][part]]
    return sorted(rows, key=lambda item: item["score"])


@settings(max_examples=120, deadline=None)
@given(st.integers(0, TOTAL))
def test_what_is_over_the_budget_goes_from_the_least_valuable_up(less):
    try:
        done = FormatEnforcer(COUNTER, budget_tokens=TOTAL - less)(CUT)
    except BudgetExceeded as error:
        assert "fixed parts" in error.message and "--set prompt.budget_tokens" in error.hint
        return
    ids, repairs = done.final_selection_ids, done.extras["enforced"]["repairs"]
    assert done.extras["enforced"]["total_tokens"] <= TOTAL - less
    assert bool(repairs) == (less > 0)
    assert ids == CUT.final_selection_ids[: len(ids)] and set(done.extras["cuts"]) <= set(ids)
    left, s_ctx = ranked(done), done.extras["s_ctx"]
    if len(ids) > 1:  # nothing but passages went, with what cites them
        cited = [i for i in ranked(CUT) if i["citations"][0]["chunk_id"] in ids]
        assert left == cited
    if not ids:  # the best passage went last
        assert not any(s_ctx.values())
    if len(ids) == 1:
        own = [i for i in ranked(CUT) if i["citations"][0]["chunk_id"] == ids[0]]
        assert left == own[len(own) - len(left) :]
        assert not left or s_ctx["open_issues"] == _open(ids)  # facts go before open issues
    # a prompt that was enforced already is enforced anew for another budget
    again = FormatEnforcer(COUNTER, budget_tokens=TOTAL - less)(FULL)
    assert again.final_selection_ids == ids and again.extras["s_ctx"] == s_ctx


@pytest.mark.parametrize("wanted", ["a haiku", "a different tone", "no tables"])
def test_a_format_without_a_sentence_of_ours_stands_in_the_task_and_is_said(wanted):
    prompt = condensed()
    prompt.body["format"] = wanted
    done = PromptBuilder(COUNTER)(FormatEnforcer(COUNTER)(prompt))
    assert done.extras["enforced"]["format"] == {"requested": wanted, "instruction": ""}
    assert any(wanted in event["message"] for event in done.extras["events"])
    assert f"### Format\n{wanted}" in done.Prompt_MD
