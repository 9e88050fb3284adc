"""A5: whatever S_ctx it gets, what it lets through is cited, issued and said; formats by name."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.agents.a4_condenser import Condenser
from ragstream_core.agents.a5_format_enforcer import PARTS, FormatEnforcer, shown_texts
from ragstream_core.agents.prompt_builder import PromptBuilder
from ragstream_core.errors import BudgetExceeded
from ragstream_core.records import evolve, to_json
from ragstream_core.records.s_ctx import Fact, OpenIssue
from ragstream_core.text.token_estimates import HeuristicTokenCounter
from tests.unit.agents.test_condense import GATE, INDEX, NEWER, OTHER, kept

COUNTER = HeuristicTokenCounter()


def condensed():
    return Condenser(COUNTER)(kept(OTHER, NEWER, GATE, INDEX))


GOOD = condensed()


def good_items(prompt=None):
    s_ctx = (prompt or GOOD).extras.s_ctx
    return [(name, item) for name, part in zip(PARTS, s_ctx.parts, strict=True) for item in part]


def with_s_ctx(**parts):
    """A condensed prompt with other items in some parts of S_ctx."""
    prompt = evolve(GOOD)
    prompt.extras.s_ctx = replace(GOOD.extras.s_ctx, **parts)
    return prompt


def test_the_fixture_holds_all_three_parts():
    assert {part for part, _ in good_items()} == set(PARTS)
    assert FormatEnforcer(COUNTER)(GOOD).extras.enforced.repairs == ()


CITED = GOOD.extras.s_ctx.facts[0].citations[0]
BAD = (
    st.sampled_from([(), (CITED,)]).map(lambda cited: Fact("", citations=cited)),
    st.just(Fact("No citation.", score=1.0)),
    st.text(min_size=1).map(lambda i: Fact("x", citations=(replace(CITED, chunk_id=f"?{i}"),))),
    st.text(max_size=9).map(lambda i: Fact("x", citations=(replace(CITED, short_id=f" {i}"),))),
    st.just(Fact("The moon is made of cheese.", citations=(CITED,))),
)
OPEN = (
    st.just(OpenIssue("unsupported", "")),
    st.just(OpenIssue("conflict", "They disagree.", citations=(replace(CITED, source="?"),))),
)


@settings(max_examples=150, deadline=None)
@given(*[st.lists(st.one_of(kind), max_size=4) for kind in (BAD, BAD, OPEN)])
def test_whatever_stands_in_s_ctx_only_what_is_sound_comes_through(facts, limits, issues):
    good = GOOD.extras.s_ctx
    prompt = with_s_ctx(
        facts=(*facts, *good.facts),
        constraints=(*limits, *good.constraints),
        open_issues=(*issues, *good.open_issues),
    )
    done = FormatEnforcer(COUNTER)(prompt)
    assert good_items(done) == good_items()
    assert len(done.extras.enforced.repairs) == len(facts) + len(limits) + len(issues)
    assert to_json(FormatEnforcer(COUNTER)(done)) == to_json(done)
    assert done.extras.s_ctx == FormatEnforcer(COUNTER)(GOOD).extras.s_ctx


@pytest.mark.parametrize("gone", [PARTS, *[(part,) for part in PARTS]])
def test_a_part_that_is_missing_is_an_empty_one(gone):
    prompt = with_s_ctx(**dict.fromkeys(gone, ()))
    done = PromptBuilder(COUNTER)(FormatEnforcer(COUNTER)(prompt))
    assert all(getattr(done.extras.s_ctx, part) == () for part in gone)
    assert done.S_CTX_MD.count("\n### ") == 3


def test_a_citation_names_its_own_passage_by_its_own_id():
    issued, shown = GOOD.extras.citations, shown_texts(GOOD)
    (fact, *_), (cited, *_) = GOOD.extras.s_ctx.facts, GOOD.extras.s_ctx.facts[0].citations
    others = [i for i in issued if i != cited.short_id]
    for wrong in ({"short_id": others[0]}, {"source": issued[others[0]].source}):
        prompt = with_s_ctx(facts=(replace(fact, citations=(replace(cited, **wrong),)),))
        done = FormatEnforcer(COUNTER)(prompt)
        assert done.extras.s_ctx.facts == ()
        (repair,) = done.extras.enforced.repairs
        assert "of another" in repair
    assert fact.text in shown[cited.chunk_id]


def cut_at_the_end():
    """A prompt whose last attachment is cut, with an open issue that cites nothing."""
    question = "How does the similarity gate use theta?|Which Kafka topic holds the offsets?"
    prompt = kept(GATE, OTHER, NEWER, f"{INDEX} " * 4, question=question)
    for budget in range(500, 2000, 5):
        done = Condenser(COUNTER, budget_tokens=budget, token_overhead=0)(prompt)
        if len(done.extras.cuts) and len(done.final_selection_ids) > 2:
            return done
    raise AssertionError("no budget cuts a passage")


CUT = cut_at_the_end()
FULL = FormatEnforcer(COUNTER, budget_tokens=10_000)(CUT)
TOTAL = FULL.extras.enforced.total_tokens


def _open(ids):
    """The open issues that cite nothing else than what is left."""
    rows = CUT.extras.s_ctx.open_issues
    return [row for row in rows if {c.chunk_id for c in row.citations} <= set(ids)]


def ranked(prompt):
    """Its facts and constraints, the least valuable first."""
    rows = [*prompt.extras.s_ctx.facts, *prompt.extras.s_ctx.constraints]
    return sorted(rows, key=lambda item: item.score)


@settings(max_examples=120, deadline=None)
@given(st.integers(0, TOTAL))
def test_what_is_over_the_budget_goes_from_the_least_valuable_up(less):
    try:
        done = FormatEnforcer(COUNTER, budget_tokens=TOTAL - less)(CUT)
    except BudgetExceeded as error:
        assert "fixed parts" in error.message and "--set prompt.budget_tokens" in error.hint
        return
    ids, repairs = done.final_selection_ids, done.extras.enforced.repairs
    assert done.extras.enforced.total_tokens <= TOTAL - less
    assert bool(repairs) == (less > 0)
    assert ids == CUT.final_selection_ids[: len(ids)] and set(done.extras.cuts) <= set(ids)
    left, s_ctx = ranked(done), done.extras.s_ctx
    if len(ids) > 1:  # nothing but passages went, with what cites them
        cited = [i for i in ranked(CUT) if i.citations[0].chunk_id in ids]
        assert left == cited
    if not ids:  # the best passage went last
        assert not any(s_ctx.parts)
    if len(ids) == 1:
        own = [i for i in ranked(CUT) if i.citations[0].chunk_id == ids[0]]
        assert left == own[len(own) - len(left) :]
        assert not left or list(s_ctx.open_issues) == _open(ids)  # facts go before open issues
    # a prompt that was enforced already is enforced anew for another budget
    again = FormatEnforcer(COUNTER, budget_tokens=TOTAL - less)(FULL)
    assert again.final_selection_ids == ids and again.extras.s_ctx == s_ctx


@pytest.mark.parametrize("wanted", ["a haiku", "a different tone", "no tables"])
def test_a_format_without_a_sentence_of_ours_stands_in_the_task_and_is_said(wanted):
    prompt = condensed()
    prompt.body["format"] = wanted
    done = PromptBuilder(COUNTER)(FormatEnforcer(COUNTER)(prompt))
    assert done.extras.enforced.format == {"requested": wanted, "instruction": ""}
    assert any(wanted in event.message for event in done.extras.events)
    assert f"### Format\n{wanted}" in done.Prompt_MD
