"""Open Issues: no false alarm about numbers."""

from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.agents.open_issues import conflicts
from ragstream_core.agents.quotable import quotes_of
from ragstream_core.records import Chunk
from ragstream_core.terms import terms

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
