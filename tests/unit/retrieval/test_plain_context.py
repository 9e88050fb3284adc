"""Passages as one text: each under its head, never above a budget, the last one cut."""

import re

from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.retrieval.plain_context import ContextLimits, Passage, context_parts
from ragstream_core.text.token_estimates import HeuristicTokenCounter

COUNTER = HeuristicTokenCounter()
HEAD = re.compile(r"\[source: [^\n]*#\d+ \| score: -?\d\.\d{3}\]")
TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=200)
PASSAGES = st.lists(
    st.builds(
        lambda name, number, score, text: Passage("id", name, number, score, text),
        st.text(max_size=20), st.integers(0, 99), st.floats(-1, 1), TEXT,
    ),
    max_size=8,
)  # fmt: skip
SEPARATOR = st.sampled_from(["\n\n", "\n---\n", "", " "])


def limits(chars=10_000, tokens=10_000, **given):
    return ContextLimits(chars, tokens, **given)


@given(PASSAGES, st.integers(0, 900), st.integers(0, 250), SEPARATOR, SEPARATOR)
def test_neither_budget_is_ever_exceeded(passages, chars, tokens, between, below):
    allowed = limits(chars, tokens, separator=between, head_separator=below)
    parts = list(context_parts(passages, allowed, COUNTER))
    text = "".join(part.text for part in parts)
    assert len(text) <= chars and COUNTER.count(text) <= tokens
    assert [part.passage for part in parts] == passages[: len(parts)]
    assert all(part.whole for part in parts[:-1])


@given(PASSAGES, SEPARATOR)
def test_with_room_for_all_everything_is_there_in_order(passages, between):
    parts = list(context_parts(passages, limits(separator=between), COUNTER))
    assert all(part.whole for part in parts)
    whole = between.join(f"{p.head}\n{p.text}" for p in passages)
    assert "".join(part.text for part in parts) == whole


@given(PASSAGES)
def test_each_head_has_the_form_of_the_specification(passages):
    for passage in passages:
        assert HEAD.fullmatch(passage.head), passage.head


@given(PASSAGES.filter(bool), st.data())
def test_what_does_not_fit_is_cut_and_never_left_out_while_a_letter_fits(passages, data):
    whole = "".join(part.text for part in context_parts(passages, limits(), COUNTER))
    chars = data.draw(st.integers(0, len(whole)))
    parts = list(context_parts(passages, limits(chars), COUNTER))
    left = chars - sum(len(part.text) for part in parts)
    if parts and not parts[-1].whole:
        start = parts[-1].passage.text
        shown = parts[-1].text.rpartition(parts[-1].passage.head + "\n")[2]
        assert shown and start.startswith(shown)
    elif len(parts) < len(passages):
        lead = "\n\n" * bool(parts) + passages[len(parts)].head + "\n"
        assert left <= len(lead)


def test_a_cut_ends_with_a_word():
    passage = Passage("id", "a.md", 0, 0.5, "seven words stand here and no more")
    (part,) = context_parts([passage], limits(len(passage.head) + 1 + 14), COUNTER)
    assert part.text == "[source: a.md#0 | score: 0.500]\nseven words" and not part.whole
