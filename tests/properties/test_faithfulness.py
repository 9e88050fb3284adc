"""Laws of faithfulness: range, monotony, verbatim quotes, order, repetition; any text at all."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.answers.answer import REFUSAL
from ragstream_core.answers.citations import Issued
from ragstream_core.evaluation.agreement import sentences_of
from ragstream_core.evaluation.faithfulness import Answered, judged, totals
from ragstream_core.evaluation.gold_answers import compared, f1
from ragstream_core.evaluation.judges import QuoteJudge
from ragstream_core.models.embedders.hashed import HashedEmbedder
from ragstream_core.prompts.citations import answer_marker

JUDGE = QuoteJudge(HashedEmbedder().embed_documents)
SAID = [
    "The Exact File Lock restricts a prompt to the files you inject.",
    "Retrieval is skipped while the lock is on.",
    "A commit is one transaction of 20 pages.",
    "Deleted documents never leave the older generations.",
    "Rollo agreed to swear fealty to King Charles III of West Francia in 911.",
]
PASSAGE = " ".join(SAID)
ELSEWHERE = "The weather of Bergen is wet. It rains on 231 days of a year."
ISSUED = {
    "aaaaaaaa": Issued("aaaaaaaa", "guide/locks.md", "guide/locks.md::x::0", PASSAGE),
    "bbbbbbbb": Issued("bbbbbbbb", "weather.md", "weather.md::x::0", ELSEWHERE),
}
HERE, THERE = answer_marker("locks.md", "aaaaaaaa"), answer_marker("weather.md", "bbbbbbbb")
FALSE = [
    "The Exact File Lock does not restrict a prompt to the files you inject.",
    "A commit is one transaction of 21 pages.",
    "Charles agreed to swear fealty to King Rollo III of West Francia in 911.",
    "Ollama signs every prompt with a certificate from Geneva.",
]
CLAIMS = st.sampled_from([*(f"{s} {HERE}" for s in SAID), *(f"{s} {THERE}" for s in SAID),
                          *SAID, *(f"{s} {HERE}" for s in FALSE),
                          f"{SAID[0]} [source: x.md, chunk: 00000000]"])  # fmt: skip
ANY = st.one_of(
    st.text(max_size=120),
    CLAIMS,
    st.sampled_from(["# A heading", "Is it?", REFUSAL, "| a | b |", "- ", "```\nx\n```", HERE]),
)


def judge(answer, issued=ISSUED):
    return judged(Answered("?", answer, issued), JUDGE)


@settings(max_examples=300, deadline=None)
@given(st.lists(ANY, max_size=5).map("\n\n".join))
def test_any_answer_has_a_score_in_range_and_the_same_again(answer):
    found = judge(answer)
    assert found.score is None or 0 <= found.score <= 1
    assert all(0 <= verdict.score <= 1 for verdict in found.verdicts)
    assert found.supported <= len(found.verdicts) == found.counts().claims
    assert judge(answer).to_json() == found.to_json()
    assert (found.score is None) == (not found.verdicts)
    for row in found.to_json()["sentences"]:
        assert ("supported" in row) == (row["kind"] == "claim")


@settings(max_examples=150, deadline=None)
@given(st.lists(CLAIMS, min_size=1, max_size=5), st.sampled_from(FALSE), st.booleans())
def test_one_more_unsupported_sentence_never_raises_the_score(lines, false, cited):
    before = judge("\n\n".join(lines))
    after = judge("\n\n".join([*lines, f"{false} {HERE}" if cited else false]))
    assert after.score <= before.score
    assert after.supported == before.supported


@settings(max_examples=150, deadline=None)
@given(st.lists(CLAIMS, min_size=1, max_size=6), st.randoms())
def test_the_order_of_sentences_does_not_matter(lines, dice):
    mixed = list(lines)
    dice.shuffle(mixed)
    assert judge("\n\n".join(mixed)).score == judge("\n\n".join(lines)).score


WORDS = st.lists(st.from_regex(r"[a-zA-Z]{2,9}", fullmatch=True), min_size=3, max_size=12)
SENTENCES = st.lists(WORDS.map(lambda words: f"{' '.join(words).capitalize()}."), min_size=1)


@settings(max_examples=200, deadline=None)
@given(SENTENCES.filter(lambda found: len(found) <= 6), st.data())
def test_a_sentence_of_the_passage_is_supported_word_for_word(said, data):
    shown = {"cccccccc": Issued("cccccccc", "a.md", "a.md::x::0", " ".join(said))}
    one = data.draw(st.sampled_from(said))
    found = judge(f"{one} {answer_marker('a.md', 'cccccccc')}", shown)
    assert all(v.supported and v.rule == "quote" and v.score == 1.0 for v in found.verdicts)
    assert [s.cited for s in sentences_of(one, shown)] == [()]


@pytest.mark.parametrize("text", FALSE)
def test_what_was_changed_is_not_supported(text):
    (verdict,) = judge(f"{text} {HERE}").verdicts
    assert not verdict.supported


@settings(max_examples=100, deadline=None)
@given(st.lists(CLAIMS, min_size=1, max_size=4), st.randoms())
def test_the_summary_is_that_of_its_answers_in_any_order(lines, dice):
    found = [judge(line) for line in lines]
    whole = totals(found)
    assert whole.claims == sum(len(one.verdicts) for one in found)
    assert whole.supported + whole.uncited + whole.unknown_citations <= whole.claims
    mixed = list(found)
    dice.shuffle(mixed)
    assert totals(mixed) == whole


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60), st.text(max_size=60))
def test_f1_is_symmetric_and_one_for_the_answer_itself(said, right):
    assert f1(said, right) == f1(right, said)
    assert 0 <= f1(said, right) <= 1
    assert compared(right, (said, right)).exact_match == 1.0
    assert compared(right, (right,)).f1 == 1.0
