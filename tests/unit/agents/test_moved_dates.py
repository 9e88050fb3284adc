"""Which sentences give one event another day, and which do not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.agents.a4_condenser import Condenser
from ragstream_core.agents.context.coverage import Piece
from ragstream_core.agents.context.moved_dates import Day, days_in, moved_dates, told_on
from ragstream_core.agents.context.passage_selection import stemmed_terms
from ragstream_core.prompts.doubt import doubt_of
from ragstream_core.records import Chunk
from ragstream_core.text.token_estimates import HeuristicTokenCounter
from tests.unit.agents.test_condense import kept

PILOT = "When does the pilot in Sundsvall start?"
FEBRUARY = "# Steering group, 12 February 2026\n\nThe pilot in Sundsvall starts on 20 April."


def chunk(source, text):
    heading = text.splitlines()[0].lstrip("# ") if text.startswith("#") else ""
    return Chunk(source, source, text, (0, len(text)), {"heading": heading})


def found(question, *documents):
    chunks = [chunk(f"{n}.md", text) for n, text in enumerate(documents)]
    piece = Piece("q1", question, stemmed_terms(question))
    rows = moved_dates(chunks, chunks, [piece], stemmed_terms)
    return [(row.old.source, row.new.source) for row in rows]


MOVED = [
    (PILOT, FEBRUARY, "# Go / no-go Sundsvall, 16 April 2026\n\nNo-go. New date: 4 May 2026."),
    (PILOT, FEBRUARY, "# Minutes, 16 April 2026\n\nThe pilot in Sundsvall moves to 4 May, because "
     "two sensors lose readings."),
    (PILOT, FEBRUARY, "# Minutes\n\nThe pilot in Sundsvall was moved from 20 April to 4 May."),
    (PILOT, FEBRUARY, "# Minutes\n\nDate: 2026-04-16\n\nThe pilot in Sundsvall starts on 4 May "
     "instead of 20 April."),
    (PILOT, FEBRUARY, "# Minutes, 16 April 2026\n\nThe Sundsvall pilot begins on 4 May."),
    ("When does the trial at the ferry quay start?",
     "# Trial operation\n\nThe trial at the ferry quay starts on 9 March. Only ferries take part.",
     "# Trial operation\n\nNew date for the ferry quay: 13 April. Cargo ships stay in May."),
    ("When is the report due?", "The report is due on 3 June.",
     "The report's deadline was pushed back to 17 June."),
    ("Wann beginnt der Probebetrieb in Husum?",
     "# Lenkungskreis, 3. Februar 2026\n\nDer Probebetrieb in Husum beginnt am 20. April.",
     "# Lenkungskreis, 7. April 2026\n\nDer Probebetrieb in Husum wird auf den 4. Mai verschoben."),
    ("Wann beginnt der Probebetrieb in Husum?",
     "# Lenkungskreis, 3. Februar 2026\n\nDer Probebetrieb in Husum beginnt am 20.04.2026.",
     "# Husum, 7. April 2026\n\nNeuer Termin: 04.05.2026, sagt der Lenkungskreis."),
    ("Quand commence le pilote à Rennes ?",
     "# Réunion du 12 février 2026\n\nLe pilote à Rennes commence le 20 avril.",
     "# Réunion du 16 avril 2026\n\nLe pilote à Rennes est reporté au 4 mai."),
    ("¿Cuándo empieza el piloto en Vigo?",
     "# Reunión del 12 de febrero de 2026\n\nEl piloto en Vigo empieza el 20 de abril.",
     "# Reunión del 16 de abril de 2026\n\nEl piloto en Vigo se aplaza al 4 de mayo."),
]  # fmt: skip
TWO_EVENTS = [
    "# Minutes, 16 April 2026\n\nThe training in Sundsvall has been moved to 11 May.",
    "# Minutes, 16 April 2026\n\nThe pilot in Gävle has been moved to 11 May.",
    "# Gävle, 16 April 2026\n\nThe pilot has been moved to 11 May.",
    "# Minutes, 16 April 2026\n\nThe pilot in Sundsvall ends on 30 June.",
    "# Minutes, 16 April 2026\n\nThe pilot in Gävle starts on 4 May.",
    "# Minutes, 16 April 2026\n\nThe training in Sundsvall starts on 4 May.",
    "# Minutes, 16 April 2026\n\nThe pilot in Sundsvall starts on 20 April 2026.",
    "# Minutes, 16 April 2026\n\nNew date: 4 May 2026 for the steering group.",
    "# Minutes, 16 April 2026\n\nThe pilot in Sundsvall runs from 20 April to 30 June.",
    "# Minutes, 16 April 2026\n\nTen people were in the pilot in Sundsvall on 3 April.",
    "# Minutes, 16 April 2026\n\nIn Sundsvall the scanners were moved on 3 April.",
    "# Notes\n\nThe pilot in Sundsvall starts on 4 May.",
]


@pytest.mark.parametrize(("question", "older", "newer"), MOVED)
def test_a_day_that_has_moved(question, older, newer):
    assert found(question, older, newer) == [("0.md", "1.md")]
    assert found(question, newer, older) == [("1.md", "0.md")]


@pytest.mark.parametrize("other", TWO_EVENTS)
def test_two_events_with_two_days(other):
    assert found(PILOT, FEBRUARY, other) == []
    assert found(PILOT, other, FEBRUARY) == []


@pytest.mark.parametrize(
    ("question", "left", "right"),
    [
        ("When is the next meeting?", "# 12 February 2026\n\nNext meeting: 12 March.",
         "# 12 March 2026\n\nThe next meeting was moved to 20 April."),
        ("When does the course start?", "# First aid, 3 March 2026\n\nThe course starts on 7 May.",
         "# Forklifts, 9 March 2026\n\nThe course starts on 9 June."),
        ("Which pump is heavier?", "The pump K-10 weighs 12 kg.", "The pump K-20 weighs 18 kg."),
        ("What about Sundsvall?", "# Sundsvall\n\nWe were in Sundsvall on 3 May 2024.",
         "# Sundsvall\n\nNew date: 4 May 2026."),
    ],
)  # fmt: skip
def test_no_conflicts(question, left, right):
    assert found(question, left, right) == []


def test_the_older_one_has_to_speak_to_the_question():
    assert found("How many scanners are spare?", *MOVED[0][1:]) == []


def test_what_was_found_and_is_not_shown_moves_a_day_as_well():
    older, newer = chunk("a.md", FEBRUARY), chunk("b.md", MOVED[0][2])
    piece = [Piece("q1", PILOT, stemmed_terms(PILOT))]
    (row,) = moved_dates([older], [older, newer], piece, stemmed_terms)
    assert (row.old_told, row.new_told) == ("2026-02-12", "2026-04-16")
    assert row.conflict.endswith("(2026-04-16) (newer: b.md)")
    assert moved_dates([newer], [older, newer], piece, stemmed_terms) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("on 4 May 2026", Day(5, 4, 2026)),
        ("May 4th, 2026", Day(5, 4, 2026)),
        ("2026-05-04", Day(5, 4, 2026)),
        ("am 4. Mai", Day(5, 4)),
        ("am 04.05.", Day(5, 4)),
        ("le 1er mai 2026", Day(5, 1, 2026)),
        ("el 4 de mayo de 2026", Day(5, 4, 2026)),
    ],
)
def test_days_of_four_languages(text, expected):
    ((_, day),) = days_in(text)
    assert day == expected


@pytest.mark.parametrize(
    "text", ["version 1.2.3", "10.0.0.1", "3/4/2026", "we may 3 times", "13.13"]
)
def test_what_is_no_day(text):
    assert days_in(text) == []


def test_the_day_of_a_document():
    assert told_on("m/2026-02-12-x.md", []) == Day(2, 12, 2026)
    assert told_on("m/20260212.md", []) == Day(2, 12, 2026)
    assert told_on("a.md", ["# Minutes of 12 February 2026\n"]) == Day(2, 12, 2026)
    assert told_on("a.md", ["From: A\nDate: 2026-02-12\n"]) == Day(2, 12, 2026)
    assert told_on("a.md", ["It began on 12 February 2026."]) is None


@given(st.lists(st.sampled_from([text for row in MOVED for text in row[1:]] + TWO_EVENTS),
                min_size=1, max_size=4), st.sampled_from([row[0] for row in MOVED]))  # fmt: skip
def test_never_both_ways_and_never_one_day(documents, question):
    rows = found(question, *documents)
    assert not {(b, a) for a, b in rows} & set(rows)
    assert all(a != b for a, b in rows)


def test_the_prompt_shows_both_and_says_which_is_newer():
    prompt = kept(FEBRUARY, MOVED[0][2], question=PILOT)
    older, newer = prompt.base_context_chunks
    prompt.views_by_stage = {"a3": [older.id]}
    result = Condenser(HeuristicTokenCounter())(prompt)
    assert result.final_selection_ids == [older.id, newer.id]
    first, second = result.extras.s_ctx.facts[:2]
    assert "20 April" in first.text and first.heading.endswith("12 February 2026; newer: d1.md")
    assert "4 May 2026" in second.text and second.citations[0].chunk_id == newer.id
    (issue,) = [i for i in result.extras.s_ctx.open_issues if i.kind == "conflict"]
    assert "(2026-02-12) against" in issue.text and issue.text.endswith("(newer: d1.md)")
    assert [answer.word for answer in result.extras.answers] == ["perhaps"]
    assert doubt_of(result) == "Your documents name two dates; the newer one stands in d1.md."
    (row,) = [r for r in result.extras.decisions if r.chunk_id == newer.id]
    assert row.reason.endswith("a newer date than in d0.md")


def test_what_the_newer_document_says_of_a_superseded_one_is_a_fact():
    head = "# ADR 2\n\nDate: 2025-09-10\nStatus: superseded by ADR 7\n\n"
    old = f"{head}## Decision\n\nWe use RabbitMQ as our message broker."
    new = "# ADR 7\n\nSupersedes ADR 2\n\n## Decision\n\nKafka carries events on three brokers now."
    result = Condenser(HeuristicTokenCounter())(
        kept(old, new, question="What did we decide about the message broker?")
    )
    (fact,) = [f for f in result.extras.s_ctx.facts if "RabbitMQ" in f.text]
    assert fact.heading.endswith("of 2025-09-10; superseded by d1.md")
    assert any("Kafka" in fact.text for fact in result.extras.s_ctx.facts)
