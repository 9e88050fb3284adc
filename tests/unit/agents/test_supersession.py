"""Documents that say that another has taken their place."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.agents.a4_condenser import Condenser
from ragstream_core.agents.context.supersession import (
    ALSO,
    LATER,
    Replaced,
    superseded,
    with_successors,
)
from ragstream_core.agents.retrieval import RetrievalStage
from ragstream_core.records import Chunk, Hit, SuperPrompt
from ragstream_core.records.stage_results import QueryPiece
from ragstream_core.text.token_estimates import HeuristicTokenCounter
from tests.unit.agents.test_condense import kept


def chunk(source, text):
    return Chunk(source, source, text, (0, len(text)), {})


OLD = chunk("adr/0002-broker.md", "# ADR 2: RabbitMQ\n\nWe use RabbitMQ as our message broker.")
NEW = chunk("adr/0007-broker.md", "# ADR 7: Kafka\n\nWe use Kafka as our message broker.")


@pytest.mark.parametrize(
    "line",
    [
        "Status: superseded by ADR 7",
        "**Status**: Superseded by [ADR 7](0007-broker.md)",
        "superseded_by: ADR-0007",
        "Replaced by ADR 7.",
        "Ersetzt durch ADR 7",
        "Status: abgelöst durch ADR 7",
        "Remplacé par ADR 7",
        "Sustituido por ADR 7",
        "Estado: reemplazado por ADR 7",
    ],
)
def test_the_older_says_it(line):
    old = chunk(OLD.source, f"{OLD.snippet}\n\n{line}\n")
    assert superseded([old, NEW])[OLD.source][:2] == (NEW.source, True)
    alone = superseded([old])[OLD.source]
    assert not alone.found and "ADR" in alone.told


@pytest.mark.parametrize(
    "line",
    ["Supersedes ADR 2", "Replaces ADR-0002.", "Ersetzt ADR 2", "Annule et remplace ADR 2",
     "Sustituye a ADR 2", "supersedes: 0002-broker.md"],
)  # fmt: skip
def test_the_newer_says_it(line):
    new = chunk(NEW.source, f"{NEW.snippet}\n\n{line}\n")
    assert superseded([OLD, new]) == {OLD.source: Replaced(NEW.source, True)}


@pytest.mark.parametrize("word", ["superseded", "deprecated", "überholt", "obsolète", "obsoleto"])
def test_a_status_without_a_successor(word):
    old = chunk("a.md", f"---\nstatus: {word}\n---\n# A\n")
    assert superseded([old])["a.md"] == Replaced("", False)


def test_names_of_versions():
    rows = [chunk(f"d/offer_v{n}.md", "x") for n in (1, 2, 10)]
    assert {s: r.by for s, r in superseded(rows).items()} == {
        "d/offer_v1.md": "d/offer_v10.md",
        "d/offer_v2.md": "d/offer_v10.md",
    }
    assert {row.word for row in superseded(rows).values()} == {LATER}
    assert superseded([chunk("a/x_v1.md", "x"), chunk("b/x_v2.md", "x")]) == {}


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (("api/users_v1.md", "api/users_v2.md"), "Returns a list."),
        (("docs/rest-api-v1.md", "docs/rest-api-v2.md"), "Returns a list."),
        (("terms_v1.md", "terms_v2.md"), "Version 1 is still valid for old customers."),
        (("agb_v1.md", "agb_v2.md"), "Version 1 gilt weiter für alte Verträge."),
        (("cgv_v1.md", "cgv_v2.md"), "La version 1 reste en vigueur."),
        (("cg_v1.md", "cg_v2.md"), "La versión 1 sigue vigente."),
    ],
)
def test_two_versions_may_both_be_current(names, text):
    old, new = (chunk(name, text) for name in names)
    (row,) = superseded([old, new]).values()
    assert (row.word, row.is_outdated) == (ALSO, False)
    assert row.told == f"there is also {names[1]}"


def test_folders_of_two_versions_supersede_nothing():
    assert superseded([chunk("api/v1/users.md", "x"), chunk("api/v2/users.md", "x")]) == {}


def test_an_interface_that_says_it_is_superseded_is():
    old = chunk("api/users_v1.md", "Superseded by users_v2")
    assert superseded([old, chunk("api/users_v2.md", "x")])[old.source].is_outdated


def test_an_earlier_version_that_goes_on_may_answer():
    question = "How many users are in a page of the list?"
    texts = ("# Users\n\nA page of the list holds 50 users.", "# Users\n\nAsk by a cursor.")
    words = {}
    for folder in ("api", "offers"):
        prompt = kept(*texts, question=question)
        rows = prompt.base_context_chunks
        renamed = [replace(row, source=f"{folder}/users_v{n}.md") for n, row in enumerate(rows, 1)]
        prompt.base_context_chunks = renamed
        result = Condenser(HeuristicTokenCounter())(prompt)
        (words[folder],) = [answer.word for answer in result.extras.answers]
        headings = [fact.heading for fact in result.extras.s_ctx.facts if "50" in fact.text]
        told = "there is also" if folder == "api" else "there is a later version:"
        assert headings[0].endswith(f"{told} {folder}/users_v2.md")
    assert words == {"api": "answered", "offers": "perhaps"}


@given(st.lists(st.text(alphabet="abc xyz.\n#", max_size=60), min_size=1, max_size=5))
def test_documents_that_nobody_supersedes_stay_as_they_are(texts):
    rows = [chunk(f"{n}.md", text) for n, text in enumerate(texts)]
    assert superseded(rows) == {}
    assert with_successors(rows[:2], rows, {}) == rows[:2]


def test_what_a_program_replaces_supersedes_no_document():
    text = "The function replaces tabs.\n\nA cache was replaced by a list in version 7.\n"
    assert superseded([chunk("a.md", text), OLD, NEW]) == {}


def test_the_successor_stands_behind_the_older():
    old = chunk(OLD.source, OLD.snippet + "\n\nSuperseded by ADR 7")
    other = chunk("o.md", "Other.")
    marks = superseded([old, other, NEW])
    assert with_successors([old, other], [old, other, NEW], marks) == [old, NEW, other]
    assert with_successors([NEW, old], [NEW, old], marks) == [NEW, old]


def test_the_prompt_names_the_successor_and_never_says_answered_by_the_older():
    old = "# ADR 2\n\nStatus: superseded by ADR 7\n\nWe use RabbitMQ as our message broker here."
    new = "# ADR 7\n\nSupersedes ADR 2\n\nKafka carries all events between services now."
    prompt = kept(old, new, question="Which message broker do we use?")
    older, newer = prompt.base_context_chunks
    prompt.views_by_stage = {"a3": [older.id]}
    result = Condenser(HeuristicTokenCounter())(prompt)
    assert result.final_selection_ids == [older.id, newer.id]
    (fact,) = [f for f in result.extras.s_ctx.facts if f.citations[0].chunk_id == older.id]
    assert "superseded by d1.md" in fact.heading
    kinds = {issue.kind for issue in result.extras.s_ctx.open_issues}
    assert "superseded" in kinds
    (row,) = [r for r in result.extras.decisions if r.chunk_id == newer.id]
    assert row.reason.endswith("successor of d0.md")
    for answer in result.extras.answers:
        assert (answer.word, answer.nearest and answer.nearest.source) != ("answered", "d0.md")


def retrieved(documents, asked, by_name, top_k=1):
    """Retrieve with a search that finds ``asked`` for the question, ``by_name`` for a name."""
    texts = {
        (i := f"{path}::x::0"): Chunk(i, path, text, (0, len(text)), {})
        for path, text in documents.items()
    }
    searched = []

    def search(whole, pieces, off):
        searched.append(whole)
        found = asked if whole == "Which broker?" else by_name.get(whole, [])
        return [Hit(f"{path}::x::0", 1.0 - n / 9, 0.5, 0.5, 1.0, {}, (0.5,))
                for n, path in enumerate(found)]  # fmt: skip

    prompt = SuperPrompt()
    prompt.extras.query_pieces = (QueryPiece("q1", "Which broker?"),)
    done = RetrievalStage(search, lambda ids: [texts[i] for i in ids], top_k)(prompt)
    return done, searched


CHAIN = {
    "adr/2.md": "# ADR 2\n\nStatus: superseded by ADR 7\n\nRabbitMQ.",
    "adr/7.md": "# ADR 7\n\nStatus: superseded by ADR 9\n\nKafka.",
    "adr/9.md": "# ADR 9\n\nPulsar.",
    "o.md": "Other.",
}


def test_a_successor_that_the_question_does_not_find_is_found_by_its_name():
    names = {"ADR 7": ["o.md", "adr/7.md"], "ADR 9": ["adr/9.md"]}
    done, searched = retrieved(CHAIN, ["adr/2.md", "o.md"], names)
    assert searched == ["Which broker?", "ADR 7", "ADR 9"]
    assert [c.source for c in done.base_context_chunks] == ["adr/2.md", "adr/7.md", "adr/9.md"]
    assert done.views_by_stage["retrieval"] == ["adr/2.md::x::0"]
    marks = superseded(done.base_context_chunks)
    shown = with_successors(done.base_context_chunks[:1], done.base_context_chunks, marks)
    assert [c.source for c in shown] == ["adr/2.md", "adr/7.md", "adr/9.md"]


def test_what_was_found_behind_the_first_candidates_keeps_its_scores():
    done, _ = retrieved(CHAIN, ["adr/2.md", "adr/7.md"], {"ADR 7": ["adr/7.md"]})
    assert set(done.extras.scores) == {"adr/2.md::x::0", "adr/7.md::x::0"}


def test_nobody_searches_where_nothing_is_superseded_or_the_successor_was_found():
    assert retrieved(CHAIN, ["o.md"], {})[1] == ["Which broker?"]
    assert retrieved(CHAIN, ["adr/7.md", "adr/9.md"], {}, 2)[1] == ["Which broker?"]


def test_a_name_that_nothing_bears_changes_nothing():
    done, _ = retrieved(CHAIN, ["adr/2.md"], {"ADR 7": ["o.md"]})
    assert [c.source for c in done.base_context_chunks] == ["adr/2.md"]
