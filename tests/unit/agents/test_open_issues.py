"""Open Issues: no false alarm about numbers, no word called missing that was read."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.agents.a4_condenser import Condenser
from ragstream_core.agents.a5_format_enforcer import FormatEnforcer
from ragstream_core.agents.context.open_issues import MAX_CONFLICTS, conflicts
from ragstream_core.agents.context.quotable import quotes_of
from ragstream_core.agents.prompt_builder import PromptBuilder
from ragstream_core.prompts.render import NEAREST_ONLY
from ragstream_core.records import Chunk
from ragstream_core.records.extras import entry_from
from ragstream_core.text.terms import terms
from ragstream_core.text.token_estimates import HeuristicTokenCounter
from tests.unit.agents.test_condense import GATE, INDEX, kept, texts_of

COUNTER = HeuristicTokenCounter()
NUMBERS = st.one_of(
    st.integers(0, 10**9), st.decimals(0, 10**6, places=2, allow_nan=False, allow_infinity=False)
)


def said(source, number):
    text = f"The budget of the whole prompt is {number} tokens by default."
    return quotes_of(Chunk(source, source, text, (0, len(text)), {}), 0, terms)


@given(NUMBERS, NUMBERS)
def test_files_disagree_where_a_number_differs_however_it_is_written(one, other):
    plain, grouped, third = said("a.md", one), said("b.md", f"{one:,}"), said("c.md", f"{other:,}")
    assert conflicts(plain, [*plain, *grouped]) == []
    found = conflicts(plain, [*plain, *third])
    assert len(found) == (one != other)


@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=8, unique=True))
def test_one_file_disagrees_with_itself_as_two_do_and_the_list_is_short(numbers):
    pairs = len(numbers) * (len(numbers) - 1) // 2
    here = [quote for number in numbers for quote in said("a.md", number)]
    there = [quote for n, number in enumerate(numbers) for quote in said(f"{n}.md", number)]
    for quotes in (here, there):
        assert len(conflicts(quotes, quotes)) == min(MAX_CONFLICTS, pairs)


def test_only_words_that_no_shown_passage_has_are_missing():
    question = "Bake sourdough bread for the index"
    prompt = Condenser(COUNTER)(kept(GATE, INDEX, question=question, cosine=0.1))
    (issue,) = texts_of(prompt, "open_issues")
    assert "(in no passage here: Bake, sourdough, bread)" in issue


@pytest.mark.parametrize("word", ["may", "can", "would", "could", "should", "there", "some"])
def test_a_word_that_says_nothing_by_itself_is_never_missing(word):
    question = f"How loud {word} the neighbour's heat pump be at night?"
    prompt = Condenser(COUNTER)(kept(GATE, INDEX, question=question, cosine=0.1))
    (issue,) = texts_of(prompt, "open_issues")
    missing = issue.rpartition("(in no passage here: ")[2]
    assert "loud" in missing and word not in missing.strip(")").split(", ")


def test_without_a_passage_nothing_is_said_about_words():
    for prompt in (kept(), kept(GATE)):  # none found, or none that fits
        (issue,) = texts_of(Condenser(COUNTER, budget_tokens=0)(prompt), "open_issues")
        assert (
            issue.startswith("Not found: no passage clearly answers")
            and "no passage here" not in issue
        )


def with_file(prompt, text, path="conf/pump.yml"):
    row = {"id": "f1", "path": path, "text": text, "sha256": "b" * 64, "mode": "FULL",
           "chars": len(text)}  # fmt: skip
    prompt.extras.files = entry_from("files", [row])
    return prompt


@pytest.mark.parametrize("passages", [(), (INDEX,)])
def test_an_injected_file_is_evidence(passages):
    question = "Explain the seal pressure in conf/pump.yml.|Which valve has a leak?"
    alone = Condenser(COUNTER)(kept(*passages, question=question, cosine=0.1))
    assert alone.extras.nothing_relevant
    prompt = with_file(kept(*passages, question=question, cosine=0.1), "seal:\n  pressure: 3\n")
    done = PromptBuilder(COUNTER)(FormatEnforcer(COUNTER)(Condenser(COUNTER)(prompt)))
    assert NEAREST_ONLY not in done.extras.super_prompt
    (warning,) = done.extras.warnings
    assert warning.message.startswith("No passage clearly answers “Which valve has")
    (issue,) = texts_of(done, "open_issues")
    assert "“Which valve has a leak?” (in no passage here: valve, leak)" in issue


def test_a_model_that_sees_no_file_cannot_call_open_what_a_file_answers():
    def ask(messages, schema, check):
        said = schema(facts=[], constraints=[], open_pieces=["q0", "q1"])
        return said, check(said)

    question = "Explain the seal pressure in conf/pump.yml.|Which valve has a leak?"
    prompt = with_file(kept(INDEX, question=question), "seal:\n  pressure: 3\n")
    issues = Condenser(COUNTER, ask=ask)(prompt).extras.s_ctx.open_issues
    assert [issue.piece_id for issue in issues] == ["q1"]


@pytest.mark.parametrize(
    "question",
    [
        "Write the similarity gate and set theta.",
        "Please summarise the similarity gate and explain theta.",
        "Schreibe: similarity gate, theta. Erkläre theta.",
        "Could you translate the similarity gate's theta?",
    ],
)
def test_a_word_that_tells_what_to_do_is_never_missing(question):
    prompt = Condenser(COUNTER)(kept(GATE, question=question, cosine=0.4))
    assert texts_of(prompt, "open_issues") == []


def test_words_begin_where_they_begin_in_every_alphabet():
    prompt = Condenser(COUNTER)(kept(GATE, question="Was misst der Öldruck in Łódź?", cosine=0.4))
    (issue,) = texts_of(prompt, "open_issues")
    assert "Öldruck" in issue and "Łódź" in issue and "ldruck, " not in issue.replace("Öldruck", "")


def audited_again(text, *, cosine):
    """A piece that the audit asked again with a domain, as A4 sees it in the second pass."""
    prompt = kept(GATE, question=f"gate: {text}", cosine=cosine)
    prompt.extras.pass_no = 2
    (piece,) = prompt.extras.query_pieces
    prompt.extras.query_pieces = (replace(piece, asked=text),)
    return Condenser(COUNTER)(prompt)


@pytest.mark.parametrize("cosine", [0.4, 0.9])
def test_a_word_that_the_audit_added_answers_nothing(cosine):
    (issue,) = texts_of(audited_again("Which broker logs errors?", cosine=cosine), "open_issues")
    assert "“Which broker logs errors?” (in no passage here: broker, logs, errors)" in issue
    assert texts_of(audited_again("the similarity theta", cosine=cosine), "open_issues") == []


def test_a_file_that_the_audit_asks_for_is_no_question_of_the_person():
    prompt = kept(GATE, question="Where is theta?|conf/pump.yml Where is theta?")
    first, second = prompt.extras.query_pieces
    prompt.extras.query_pieces = (first, replace(second, asked=""))
    assert texts_of(Condenser(COUNTER)(prompt), "open_issues") == []


def test_what_a_person_tells_beside_a_question_is_no_open_issue():
    told, asked = "We had an outage last night.", "Which broker logs errors?"
    both = Condenser(COUNTER)(kept(GATE, question=f"{told}|{asked}", cosine=0.1))
    (issue,) = texts_of(both, "open_issues")
    assert asked in issue
    assert [answer.piece_id for answer in both.extras.answers] == ["q1"]
    (alone,) = texts_of(Condenser(COUNTER)(kept(GATE, question=told, cosine=0.1)), "open_issues")
    assert told in alone  # nothing else is asked: then this is


def test_a_word_of_duty_is_not_what_a_question_is_about():
    said = "# Failover\n\nDo not fail over because replication lags.\n"
    prompt = Condenser(COUNTER)(kept(said, GATE, question="When must I not fail over?", cosine=0.2))
    assert not prompt.extras.nothing_relevant
