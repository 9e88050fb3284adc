"""What messages ask: laws of how they become a question and the pairs before it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_app.api.conversation import MOST_CHARS, asked_in, sources_text
from ragstream_app.api.errors import ApiError
from ragstream_app.api.forms import Message
from ragstream_core.answers.citations import Citation
from ragstream_core.settings.values import MAX_VOICE_CHARS

WORDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30).filter(str.strip)
ROLES = st.sampled_from(["system", "developer", "user", "assistant"])
CITED = Citation("1a2b3c4d", "guide/locks.md", known=True, verified=True, page_number=3)


def said(role, content):
    return Message(role=role, content=content)


@given(st.lists(st.tuples(ROLES, WORDS), max_size=12), WORDS)
def test_no_word_is_lost_and_none_is_said_twice(before, question):
    messages = [said(*pair) for pair in (*before, ("user", question))]
    found = asked_in(messages)
    assert found.question == question
    talk = [words for role, words in before if role in ("user", "assistant")]
    shown = "\n\n".join(text for pair in found.pairs for text in pair if text)
    assert shown == "\n\n".join(talk)
    assert all(any(pair) for pair in found.pairs)
    told = "\n".join(w.strip() for role, w in before if role in ("system", "developer")).strip()
    fits = len(told) <= MAX_VOICE_CHARS
    assert found.system == (told if fits else "")
    assert bool(found.warnings) == (not fits)


@given(WORDS, WORDS, st.integers(0, 3))
def test_turns_stay_turns(asked, answered, more):
    messages = [said("user", asked), said("assistant", answered)] * (more + 1)
    found = asked_in([*messages, said("user", "And now?")])
    assert found.pairs == ((asked, answered),) * (more + 1)


def test_the_list_of_sources_is_taken_off_and_nothing_else():
    tail = sources_text([CITED, CITED, Citation("x", "y\n.md", reason="not issued")])
    assert tail.count("\n- ") == 2 and "guide/locks.md, page 3 [1a2b3c4d]" in tail
    assert "y .md [x], not verified: not issued" in tail
    for answer in ("Short.", "Sources:\n- none\n\nare rare.", "One\n\nSources:\n\ntwo", ""):
        messages = [said("user", "a"), said("assistant", answer + tail), said("user", "b")]
        assert asked_in(messages).pairs == (("a", answer),)
    assert sources_text([]) == ""


def test_a_question_that_no_prompt_can_hold():
    assert asked_in([said("user", "x" * MOST_CHARS)]).question
    with pytest.raises(ApiError) as error:
        asked_in([said("user", "x" * (MOST_CHARS + 1))])
    assert error.value.code == "context_length_exceeded"
