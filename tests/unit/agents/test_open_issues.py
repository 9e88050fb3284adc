"""Open Issues: no false alarm about numbers, no word called missing that was read."""

from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.agents.a4_condenser import Condenser
from ragstream_core.agents.open_issues import MAX_CONFLICTS, conflicts
from ragstream_core.agents.quotable import quotes_of
from ragstream_core.prompting.tokens import HeuristicTokenCounter
from ragstream_core.records import Chunk
from ragstream_core.terms import terms
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
    assert len(found) == (f"{one}" != f"{other}")


@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=8, unique=True))
def test_a_file_does_not_disagree_with_itself_and_the_list_is_short(numbers):
    here = [quote for number in numbers for quote in said("a.md", number)]
    assert conflicts(here, here) == []
    there = [quote for n, number in enumerate(numbers) for quote in said(f"{n}.md", number)]
    pairs = len(numbers) * (len(numbers) - 1) // 2
    assert len(conflicts(there, there)) == min(MAX_CONFLICTS, pairs)


def test_where_nothing_is_relevant_only_words_that_nobody_read_are_missing():
    question = "Bake sourdough on a mapped file"
    prompt = Condenser(COUNTER)(kept(GATE, INDEX, question=question, cosine=0.1))
    assert prompt.extras["nothing_relevant"]
    (issue,) = texts_of(prompt, "open_issues")
    assert "(found nowhere: Bake, sourdough)" in issue


def test_without_a_passage_nothing_is_said_about_words():
    for prompt in (kept(), kept(GATE)):  # none found, or none that fits
        (issue,) = texts_of(Condenser(COUNTER, budget_tokens=0)(prompt), "open_issues")
        assert issue.startswith("No passage clearly answers") and "nowhere" not in issue
