"""What is worth remembering: the labelled turns, the limits, the answers of models, the bullets."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.conversations.facts.candidate import (
    Candidate,
    Limits,
    TurnText,
    keywords,
    objection,
    overlap,
    repetition,
    seems_secret,
)
from ragstream_core.conversations.facts.llm_form import (
    MOST,
    MemoryDecision,
    candidate_of,
    decisions,
)
from ragstream_core.conversations.facts.records import bullets, with_lines
from ragstream_core.conversations.facts.rules import candidates
from ragstream_core.text.sentences import sentence_spans
from ragstream_core.wiring.remembered_facts import is_secret
from tests.facts_corpus.judging import WANTED, judged, labelled, written

CORPORA = ("tuned", "held_out", "harm", "languages_tuned", "languages_held_out")
HARM = ("secret", "transcript")
one_line = st.text(
    st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp"), exclude_characters="\x85"),
    min_size=1, max_size=40,
).map(lambda s: " ".join(s.split())).filter(bool)  # fmt: skip


def said(text, quote=None, confidence=0.9, target="user"):
    return Candidate(target, text, quote or text, confidence, "llm")


@pytest.mark.parametrize("name", CORPORA)
def test_what_is_written_of_labelled_turns_is_right_and_harmless(name):
    score = judged(name)
    assert score.precision >= 0.9 and score.recall >= 0.9, (score.wrong, score.missed)
    for turn in labelled(name):
        facts = written(turn)
        assert turn.kind not in HARM or len(facts) == len(turn.facts), turn.user
        for fact in facts:
            assert fact.quote in turn.user and not is_secret(fact.text)


def test_the_corpora_hold_every_class_and_no_turn_twice():
    turns = [turn for name in CORPORA for turn in labelled(name)]
    assert len(turns) >= 200 and len(labelled("held_out")) >= 80
    assert len({turn.user for turn in turns}) == len(turns)
    for name in ("tuned", "held_out"):
        kinds = {turn.kind for turn in labelled(name)}
        assert {*WANTED, *HARM, "junk", "paraphrase", "recall", "assistant"} <= kinds


@pytest.mark.parametrize("name", CORPORA)
def test_a_model_that_proposes_everything_gets_no_secret_and_no_transcript_through(name):
    for turn in labelled(name):
        if turn.kind not in HARM:
            continue
        spans = [(0, len(turn.user)), *sentence_spans(turn.user)]
        for a, b in spans:
            quote = turn.user[a:b]
            fact = said(" ".join(quote.split()), quote, 1.0)
            why = objection(fact, TurnText(turn.user, (turn.answer,)), Limits(), is_secret)
            assert why or not re.search(r"\d", quote), quote


@pytest.mark.parametrize(
    ("confidence", "sure"), [(0.69, False), (0.6999, False), (0.7, True), (1.0, True)]
)
def test_seven_tenths_are_sure_enough(confidence, sure):
    fact = said("The user works as a dentist.", "I work as a dentist", confidence)
    why = objection(fact, TurnText("I work as a dentist."), Limits(), is_secret)
    assert (why == "") is sure and (sure or "not sure enough" in why)


def words(n, start=0):
    letters = "abcdefghijklmnopqrstuvwxyz"
    return [f"qq{letters[i // 26]}{letters[i % 26]}x" for i in range(start, start + n)]


def test_at_sixty_hundredths_a_fact_is_not_new():
    new = words(100)
    for shared, is_new in ((59, True), (60, False)):
        old = " ".join([*new[:shared], *words(100, 200)])
        share, why = repetition(" ".join(new), [old], Limits())
        assert share == shared / 100 and (why == "") is is_new


@given(st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)))
def test_the_overlap_is_a_share_that_only_grows_with_what_is_there(new, old, more):
    share = overlap(map(str, new), map(str, old))
    assert 0 <= share <= overlap(map(str, new), map(str, old | more)) <= 1
    assert (share == 1) == (new <= old)


@pytest.mark.parametrize(
    ("user", "fact", "why"),
    [
        ("I work as a diver.", said("The user works as a pilot.", "I work as a pilot"), "no words"),
        ("I work as a diver.", said("The user owns a red yacht.", "I work as a diver"), "not say"),
        ("> I work as a diver.", said("The user works as a diver.", "I work as a diver"), "quot"),
        ("I work as a diver?", said("The user works as a diver.", "I work as a diver?"), "quest"),
        (
            "If I work as a diver, ok.",
            said("The user works as a diver.", "I work as a diver"),
            "pl",
        ),
        ("I work as a diver.", said("The user.", "I work as a diver"), "vague"),
        ("I work as a diver.", said("The user works\nas a diver.", "I work as a diver"), "vague"),
    ],
)
def test_a_model_is_believed_nothing_that_the_user_did_not_say(user, fact, why):
    assert why in objection(fact, TurnText(user), Limits(), is_secret)


def test_a_secret_in_the_sentence_before_the_quote_counts():
    fact = said("The user works as a diver.", "I work as a diver")
    whole = TurnText("The door code is 4711 and I work as a diver.")
    assert "secret" in objection(fact, whole, Limits(), is_secret)


def test_three_of_five_words_must_be_the_users():
    own = TurnText("I dive with friends in Bergen.")
    for text, why in (
        ("The user dives with friends in Bergen for pearls and gold.", ""),
        ("The user dives with friends for pearls, gold and coral.", "the user did not say so"),
    ):
        fact = said(text, "I dive with friends in Bergen")
        assert objection(fact, own, Limits(), is_secret) == why


def test_what_was_recalled_is_not_said():
    fact = said("The user works as a harbour pilot.", "I work as a harbour pilot")
    turn = "I work as a harbour pilot."
    assert objection(fact, TurnText(turn), Limits(), is_secret) == ""
    for recalled in ("You: i work as a Harbour-Pilot!", "> I work as a harbour\npilot"):
        assert "recalled" in objection(fact, TurnText(turn, (recalled,)), Limits(), is_secret)


DECISION = {
    "should_write": True, "target": "user", "summary": "The user is a diver.",
    "confidence": 0.9, "quote": "I'm a diver",
}  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(DECISION),
        json.dumps([DECISION]),
        f"```json\n{json.dumps([DECISION], indent=2)}\n```",
        f"Sure! Here you are:\n{json.dumps(DECISION)}\nAnything else? {{broken",
        f"[thinking {{not: json}}] {json.dumps([DECISION])}",
        json.dumps([DECISION, {"should_write": "perhaps"}, 7, None]),
        json.dumps({**DECISION, "confidence": "0.9", "remark": "extra"}),
    ],
)
def test_json_is_found_in_whatever_a_model_says(text):
    assert decisions(text) == [MemoryDecision(**DECISION)]


@pytest.mark.parametrize("text", ["", "No.", "{", "[[[", "{'a': 1}", '{"a": '])
def test_where_there_is_no_json_there_is_no_decision(text):
    assert decisions(text) is None


@pytest.mark.parametrize(
    "change",
    [{"confidence": 1.2}, {"confidence": -0.1}, {"confidence": float("nan")}, {"target": "dog"}],
)
def test_a_decision_out_of_range_is_none(change):
    assert decisions(json.dumps({**DECISION, **change})) == []


def test_of_very_many_decisions_the_first_are_read():
    rows = [{**DECISION, "summary": f"The user is diver {n}."} for n in range(40)]
    assert decisions(json.dumps(rows)) == [MemoryDecision(**row) for row in rows[:MOST]]


@pytest.mark.parametrize("change", [{"should_write": False}, {"target": "none"}, {"summary": " "}])
def test_a_decision_not_to_write_proposes_nothing(change):
    assert candidate_of(MemoryDecision(**{**DECISION, **change})) is None


@given(st.text(max_size=300))
def test_any_text_is_read_without_an_error_and_quoted_verbatim(text):
    decisions(text)
    for fact in candidates(text):
        assert fact.quote in text and len(fact.text.splitlines()) == 1 and keywords(fact.text)


@pytest.mark.parametrize(
    "text", ['"' + " " * 5_000, "I am a " * 800, "a:" * 2_900, "1-" * 2_900, "<a> " * 1_400,
             "every day " * 580, "I prefer " + "x" * 5_000, "`" * 5_900, ("> " * 20 + "\n") * 140]
)  # fmt: skip
def test_hostile_turns_are_read_to_their_end(text):
    assert all(fact.quote in text for fact in candidates(text))


@given(
    st.lists(one_line, max_size=6), st.lists(one_line, max_size=4), st.lists(one_line, max_size=4)
)
def test_lines_are_added_and_dropped_and_no_other_is_touched(there, add, drop):
    before = "# Mine\n\n" + "".join(f"- {fact}\n" for fact in there) + "a last remark"
    after = with_lines(before, add=add, drop=drop)
    kept = [fact for fact in there if fact not in drop]
    new = [fact for fact in dict.fromkeys(add) if fact not in kept]
    assert bullets(after) == [*kept, *new]
    assert after.startswith("# Mine\n\n") and "a last remark" in after
    assert all(re.fullmatch(r"- \S.*", line) for line in after.splitlines()[2:] if line[:2] == "- ")
    assert with_lines(after, add=add, drop=[]) == after


@pytest.mark.parametrize(
    "text",
    ["The user works on the third floor of 40 Main Street.", "The company uses PostgreSQL 16.",
     "The company's fiscal year starts on 1 April.", "The user runs marathons in under 4 hours.",
     "The company bills in CHF since 2019."],
)  # fmt: skip
def test_ordinary_facts_are_no_secrets(text):
    assert not seems_secret(text)


@pytest.mark.parametrize(
    "text",
    ["We use a combination of Kafka and Flink.", "Our office opens at 09:00 every Monday.",
     "I work on login pages at Acme.", "The company's shop opens at 8 every day.",
     "The user works on token counting at Acme.", "The company uses a wallet provider.",
     "Our practice opens 08:30 to 17:00 on Mondays."],
)  # fmt: skip
def test_ordinary_words_are_no_talk_of_secrets(text):
    assert not seems_secret(text)


@pytest.mark.parametrize(
    "text",
    ["The combination of the safe is 12 to the left.", "Our safe opens with 4711.",
     "My login page password is swordfish.", "The password field takes hunter22.",
     "Our vault opens at 4711.", "The safe opens at 09-00-12.", "The combination of my locker",
     "The username field says anna", "The token store: s3cr3tstuff"],
)  # fmt: skip
def test_what_tells_a_secret_is_one_whatever_stands_around_it(text):
    assert seems_secret(text)


def kept(text):
    from ragstream_core.conversations.facts.candidate import Limits
    from ragstream_core.conversations.facts.rules import candidates as found_in

    turn = TurnText(text)
    made = [c for c in found_in(text) if not objection(c, turn, Limits(), seems_secret)]
    return [candidate.text for candidate in made]


@pytest.mark.parametrize(
    "text",
    ["I am a nurse, mostly.", "Mostly, I am a nurse.", "I am a nurse in a way.", "I am a nurse, "
     "I guess.", "I am a nurse, sort of.", "We generally use Kafka.", "I usually work at Acme.",
     "I live in Zurich, I think.", "My name is Anna, for now."],
)  # fmt: skip
def test_no_hedged_statement_is_sure_enough(text):
    assert kept(text) == []


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("I live in Zurich.", "The user lives in Zurich."),
        ("My name is Anna.", "The user's name is Anna."),
        ("Hi, I currently work as a nurse.", "The user works as a nurse."),
        ("I'm based in New York.", "The user is based in New York."),
        ("I am from the Netherlands.", "The user is from the Netherlands."),
        ("I live in fear of the next release.", None),
        ("My name is missing in the list.", None),
        ("I am currently stuck at this step.", None),
    ],
)
def test_who_and_where_the_user_is_is_remembered(text, fact):
    assert kept(text) == ([fact] if fact else [])


def test_a_model_is_as_little_sure_of_a_hedge():
    from ragstream_core.conversations.facts.candidate import Limits

    said = "I am a nurse, more or less, and mostly at night."
    fact = Candidate("user", "The user is a nurse.", "I am a nurse", 1.0, "llm")
    assert "hedge" in objection(fact, TurnText(said), Limits(), seems_secret)
