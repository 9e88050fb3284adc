"""Which turns answer, by the estimate that documents are judged by, and where they stand."""

import pytest

from ragstream_core.agents.context.answer_estimate import Estimate
from ragstream_core.agents.context.answer_signs import Signs
from ragstream_core.agents.context.coverage import Piece, Weights
from ragstream_core.agents.context.open_issues import Judged
from ragstream_core.agents.context.passage_selection import stemmed_terms
from ragstream_core.agents.context.said_before import found_in_turns
from ragstream_core.prompts.blocks import Layout, compose
from ragstream_core.records import Chunk
from ragstream_core.records.s_ctx import (
    ANSWERED,
    IN_CONVERSATION,
    NOT_FOUND,
    PERHAPS,
    PieceAnswer,
)
from ragstream_core.records.stage_results import Scores
from tests.unit.agents.test_condense import kept

QUESTION = "How fast must I be for 21 km in two hours?"
TURN = (
    "[6 May 2024, 10:01] user: I run the half marathon on Sunday. What do I need?\n"
    "[6 May 2024, 10:01] assistant: You need 5:27 min per kilometre. Drink at each stand."
)
OTHER = "[7 May 2024, 09:00] user: We take Juniper!\n[7 May 2024, 09:00] assistant: Fine."


def turn(n, text, session="s"):
    return Chunk(f"history::{n}", f"history/{session}/{n}", text, (0, len(text)),
                 {"session_id": session})  # fmt: skip


def estimated(word, passage, text):
    """Return an estimate whose nearest sentence begins with ``text`` in the texts given to it."""

    def of(piece, said):
        at = said[passage][0].index(text)
        signs = Signs({}, passage, (at, at + len(text)), "")
        of.said = said
        return Estimate(word, 0.5, 0.9, signs, {}, 0.5)

    return of


def judged(estimate, *turns, question=QUESTION, word=NOT_FOUND):
    piece = Piece("q1", question, stemmed_terms(question))
    rows = [Judged(PieceAnswer("q1", question, word), None, "")]
    scores = {t.id: Scores(piece_cosines=(0.6,)) for t in turns}
    return found_in_turns(rows, [piece], turns, terms=stemmed_terms, weight=Weights.of([]),
                          scores=scores, estimated=estimate)  # fmt: skip


def test_a_turn_that_answers_in_other_words_answers():
    says = estimated(ANSWERED, 0, "You need 5:27 min per kilometre.")
    ((row,), (issue,)) = judged(says, turn(1, TURN))
    assert row.answer.word == IN_CONVERSATION and row.answer.nearest.chunk_id == "history::1"
    assert "of 6 May 2024" in issue.text and "5:27 min" in issue.text
    ((text, cosine),) = says.said
    assert cosine == 0.6 and "user:" not in text and "2024" not in text


def test_what_answers_a_question_stands_behind_it():
    says = estimated(ANSWERED, 1, "What do I need?")
    _, (issue,) = judged(says, turn(1, OTHER), turn(2, TURN))
    assert "5:27 min" in issue.text and issue.citations[0].chunk_id == "history::2"


@pytest.mark.parametrize("word", [PERHAPS, NOT_FOUND])
def test_a_turn_that_may_answer_does_not(word):
    question = "I run the half marathon on Sunday. What do I need?"  # the turn's own words
    says = estimated(word, 0, "What do I need?")
    ((row,), issues) = judged(says, turn(1, TURN), question=question)
    assert row.answer.word == NOT_FOUND and not issues


def test_without_token_vectors_the_words_decide():
    question = "What do I need for the half marathon on Sunday?"
    ((row,), _) = judged(lambda *_: None, turn(1, TURN), question=question)
    assert row.answer.word == IN_CONVERSATION
    ((row,), _) = judged(lambda *_: None, turn(1, OTHER), question=question)
    assert row.answer.word == NOT_FOUND


def test_what_the_documents_answer_is_theirs():
    says = estimated(ANSWERED, 0, "You need")
    ((row,), issues) = judged(says, turn(1, TURN), word=ANSWERED)
    assert row.answer.word == ANSWERED and not issues


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ([IN_CONVERSATION], "RECENT HISTORY"),
        ([IN_CONVERSATION, IN_CONVERSATION], "RECENT HISTORY"),
        ([IN_CONVERSATION, PERHAPS], "ATTACHMENTS"),
        ([NOT_FOUND], "ATTACHMENTS"),
    ],
)
def test_what_answers_stands_before_what_is_nearest(words, first):
    prompt = kept("# A\nOf something else.", question=QUESTION)
    said = turn(1, TURN)
    document = prompt.base_context_chunks[0]
    prompt.base_context_chunks.append(said)
    prompt.final_selection_ids = [document.id, said.id]
    prompt.extras.answers = tuple(
        PieceAnswer(f"q{n}", QUESTION, word) for n, word in enumerate(words)
    )
    text = compose(prompt, Layout()).text
    at = {name: text.index(f"] {name}") for name in ("ATTACHMENTS", "RECENT HISTORY")}
    assert min(at, key=at.get) == first
    assert text.index("<<DOC 1") < text.index("<<DOC 2")
