"""Questions as statements, by table; and what a statement never is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.agents.a3_nli_gate import NliGate
from ragstream_core.agents.hypotheses import hypothesis_of
from ragstream_core.records import Chunk, SuperPrompt
from ragstream_core.records.stage_results import QueryPiece


@pytest.mark.parametrize(
    ("piece", "statement"),
    [
        ("Who may write to the catalog?", "Somebody may write to the catalog."),
        ("Who is the owner of the lock?", "The owner of the lock is somebody."),
        ("Who was elected in 1990?", "Somebody was elected in 1990."),
        ("What is the default port?", "The default port is something."),
        ("What are generations?", "Generations are something."),
        ("What drops a candidate?", "Something drops a candidate."),
        ("What is stored in the catalog?", "Something is stored in the catalog."),
        ("Which file holds the rows?", "Some file holds the rows."),
        ("Where is the lock taken?", "The lock is taken somewhere."),
        ("Where is the catalog?", "The catalog is somewhere."),
        ("Where is the first deleted file?", "The first deleted file is somewhere."),
        ("What is the shared lock?", "The shared lock is something."),
        ("How is a row kept by the index?", "A row is kept by the index in some way."),
        ("When is a file parsed again?", "A file is parsed again at some time."),
        ("Why was the pump stopped?", "The pump was stopped for some reason."),
        ("How is a deleted file treated?", "A deleted file is treated in some way."),
        ("How do I set theta?", "You can set theta in some way."),
        ("and where can I find the log?", "You can find the log somewhere."),
        ("How many generations are kept?", "Some amount of generations are kept."),
        ("Is there a second pass?", "There is a second pass."),
        ("Explain how the gate works.", "The text tells how the gate works."),
        ("The gate drops candidates", "The gate drops candidates."),
        ("Wer schreibt den Katalog?", "Jemand schreibt den Katalog."),
        ("Was ist eine Dichtung?", "Eine Dichtung ist etwas."),
        ("Wo liegt der Katalog?", "Der Katalog liegt irgendwo."),
        # what cannot be turned is asked about the text
        ("How does the gate decide?", "The text answers: How does the gate decide."),
        ("Does it scale?", "The text answers: Does it scale."),
        ("Warum leckt die Pumpe?", "Der Text beantwortet: Warum leckt die Pumpe."),
        ("水泵的压力是多少？", "The text answers: 水泵的压力是多少."),
        ("What is it? And why?", "The text answers: What is it? And why."),
    ],
)
def test_a_question_becomes_a_statement(piece, statement):
    assert hypothesis_of(piece) == statement


WORDS = st.sampled_from(
    [
        "who",
        "What",
        "is",
        "the",
        "gate",
        "How",
        "do",
        "I",
        "?",
        "kept",
        "where",
        "explain",
        ".",
        "!",
    ]
)


@given(st.lists(WORDS, max_size=9).map(" ".join) | st.text(max_size=60))
def test_what_comes_out_is_one_statement_and_always_the_same(piece):
    said = hypothesis_of(piece)
    assert said.endswith(".") and not said.endswith("?.")
    assert "\n" not in said and said == hypothesis_of(piece)


def test_the_model_is_asked_about_statements_and_the_prompt_keeps_its_pieces():
    heard = []

    def entailment(pieces, passages):
        heard.extend(pieces)
        return [0.9] * len(passages)

    prompt = SuperPrompt(body={"task": "Who may write?"})
    prompt.base_context_chunks = [Chunk("c", "a.md", "text", (0, 4), {})]
    prompt.views_by_stage["reranked"] = ["c"]
    prompt.extras.query_pieces = (QueryPiece("q1", "Who may write?"),)
    done = NliGate(0.25, entailment=entailment)(prompt)
    assert heard == ["Somebody may write."]
    assert done.extras.query_pieces == prompt.extras.query_pieces
