"""A question that a turn answers is answered in a conversation: named with its day, no fact."""

import pytest

from ragstream_core.answers.extract import said_in
from ragstream_core.conversations.journal.records import Turn
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.prompts.render import NEAREST_ONLY, SAID_BEFORE
from ragstream_core.records.s_ctx import IN_CONVERSATION
from ragstream_core.services.chat import ChatSession
from ragstream_core.services.history_update import embed
from ragstream_core.wiring.journal import append_turn
from tests.unit.services.memory.conftest import unreachable
from tests.workspaces import ask, ingested_workspace

CAT = "Which name did we choose for the grey cat?"
SAID = "We take Dis as the name of the grey cat!"
WORDS = {
    CAT: (f"Which name has the grey cat? {SAID}", "A good choice."),
    "What is the lowest gear of my touring bike?": (
        "Which gear is the lowest on my touring bike?", "The lowest gear is 24 to 34."),
    "What hydration did you recommend for my sourdough?": (
        "My sourdough is dry.", "For sourdough I recommend a hydration of 78 percent."),
}  # fmt: skip


@pytest.fixture
def space(tmp_path):
    found = ingested_workspace(tmp_path)
    for n, (user, assistant) in enumerate(WORDS.values(), 1):
        append_turn(found, Turn("", f"s{n}", f"2025-04-{17 + n}T10:00:00+00:00", user, assistant))
    embed(found)
    return found


@pytest.mark.parametrize("question", WORDS)
def test_it_is_answered_in_a_conversation_and_named_with_its_day(space, question):
    prompt = ask(space, question)
    (answer,) = prompt.extras.answers
    assert answer.word == IN_CONVERSATION and answer.nearest.chunk_id.startswith("history::")
    (issue,) = said_in(prompt)
    assert f"Answered in a conversation of {18 + list(WORDS).index(question)} April 2025" in (
        issue.text
    )
    text = prompt.extras.super_prompt
    assert issue.text in text and issue.citations[0].short_id in text
    assert "Not found:" not in text and NEAREST_ONLY not in text
    assert all("general knowledge" not in w.message for w in prompt.extras.warnings)
    s_ctx = prompt.extras.s_ctx
    cited = [c.chunk_id for f in (*s_ctx.facts, *s_ctx.constraints) for c in f.citations]
    assert not any(i.startswith("history::") for i in cited)
    if prompt.extras.nothing_relevant:
        assert SAID_BEFORE in text


def test_the_extract_shows_the_answering_line(space):
    turn = ChatSession(space, PromptRequest("any", ("demo",)), model=unreachable()).ask(CAT)
    assert turn.origin == "extract" and SAID in turn.answer.text
    assert "18 April 2025" in turn.answer.text and "your conversations" in turn.answer.text


@pytest.mark.parametrize(
    "question", ["Which colour do the forklifts have at night on Mars?", "Who paints the harbour?"]
)
def test_another_subject_is_still_not_found(space, question):
    prompt = ask(space, question)
    assert [answer.word for answer in prompt.extras.answers] == ["not found"]
    assert not said_in(prompt)


def test_what_the_documents_answer_is_answered_by_them(space):
    append_turn(space, Turn("", "locks", "", "Who holds the project lock?", "One writer does."))
    embed(space)
    prompt = ask(space, "Who holds the project lock?")
    assert [answer.word for answer in prompt.extras.answers] == ["answered"]
    assert not said_in(prompt)


def test_a_question_that_was_only_asked_answers_nothing(space):
    append_turn(space, Turn("", "zoo", "", "Which zebra paints the tall harbour crane?", ""))
    embed(space)
    prompt = ask(space, "Which zebra paints the tall harbour crane?")
    assert [answer.word for answer in prompt.extras.answers] == ["not found"]
