"""Old spans rolled up: chosen words with their sources, once, and nothing that somebody valued."""

import numpy as np

from ragstream_core.conversations.eligible_turns import Filters, eligible
from ragstream_core.conversations.journal.records import Turn
from ragstream_core.conversations.summaries import SOURCE, SPAN_TURNS, citing, promoted, rolled_up
from ragstream_core.index.selection import build
from ragstream_core.records.identity import sha256_hex
from tests.history_rows import columns, mark, row, vectors_of

OLD = [
    row(n, f"[2026-10-05 14:07] user: The torque of wheel bolt {n} matters. More of it.")
    for n in range(1, SPAN_TURNS + 1)
]
NEW = [row(n, f"[2027-10-05 14:07] user: something new {n}") for n in range(500, 503)]


def rolled(rows, after_days=180.0):
    return rolled_up(rows, vectors_of(rows), after_days=after_days)


def test_an_old_span_becomes_one_titled_row_with_its_sources():
    rows, vectors = rolled([*OLD, *NEW])
    (made,) = [r for r in rows if r.source == SOURCE]
    assert made.chunk_id == f"history::s::1-{SPAN_TURNS}::0"
    title, *quotes = made.text.splitlines()
    assert title.startswith(f"Summary of turns 1 to {SPAN_TURNS}: ")
    assert {"torque", "wheel", "bolt"} <= set(title.replace(",", "").split())
    said = {r.text.partition(". More")[0] + "." for r in OLD}
    assert quotes and {q.removeprefix("- ") for q in quotes} <= said
    assert '"turns":["id-' in made.versions
    assert [r for r in rows if r is not made] == NEW
    assert vectors.shape == (len(rows), vectors_of(NEW).shape[1])
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)


def test_what_somebody_valued_stays_beside_it_and_blue_is_not_quoted():
    blue = OLD[4]._replace(text=OLD[4].text.replace("bolt 5", "bolt SECRET"), tags=("BLUE",))
    rows = [
        OLD[0]._replace(tags=("GOLD",)), OLD[1]._replace(importance=0.5), *OLD[2:4], blue,
        *OLD[5:], row(13, OLD[4].text), *NEW,
    ]  # fmt: skip
    found, _ = rolled(rows)
    assert [r.seq for r in found if r.source != SOURCE] == [1, 2, 5, 500, 501, 502]
    (made,) = [r for r in found if r.source == SOURCE]
    assert "SECRET" not in made.text and made.seq_last == 13
    everything, _ = rolled_up([blue] * 12 + NEW, vectors_of([blue] * 12 + NEW), after_days=180.0)
    assert len(everything) == 15  # nothing of a BLUE span is rolled up


def test_young_turns_and_a_span_that_is_not_full_are_left_alone():
    assert rolled([*OLD, *NEW], after_days=5000)[0] == [*OLD, *NEW]
    assert rolled([*OLD[1:], *NEW])[0] == [*OLD[1:], *NEW]
    assert rolled([])[0] == []


def test_sessions_and_projects_are_never_mixed():
    rows = [r._replace(session="ab"[n % 2]) for n, r in enumerate(OLD)]
    assert rolled([*rows, *NEW])[0] == [*rows, *NEW]
    rows = [r._replace(projects=("xy"[n // 6],)) for n, r in enumerate(OLD)]
    assert rolled([*rows, *NEW])[0] == [*rows, *NEW]


def test_a_cleared_turn_hides_the_summary_that_may_quote_it():
    rows, _ = rolled([*OLD, *NEW])
    found = eligible(columns(rows), Filters(), hidden=[(5, 5)])
    hidden = [r.source for r, held in zip(rows, found.mask, strict=True) if not held]
    assert hidden == [SOURCE]


def test_the_same_rows_give_the_same_snapshot():
    rows = [*OLD, *NEW]
    made = [
        build(some, vectors_of(some), mark=mark(), cap=50, summarise_after=180.0)
        for some in (rows, rows[::-1])
    ]
    assert made[0].digest == made[1].digest
    assert made[0].meta["rows"] == 4
    assert made[0].digest != build(rows, vectors_of(rows), mark=mark(), cap=50).digest


def cites(n, *cited, known=True):
    ids = [{"id": sha256_hex(c)[:8], "source": "history/s/1", "known": known} for c in cited]
    return Turn(f"id-{n}", "s", "", "q", "a", citations=tuple(ids))


def test_a_summary_is_promoted_once_two_answers_cite_it():
    one, other = "history::s::1-12::0", "history::s::13-24::0"
    turns = [cites(1, one), cites(2, one, other), cites(3, other, known=False)]
    assert promoted(citing([one, other], turns), ()) == [one]
    assert promoted(citing([one, other], [*turns, cites(4, other)]), ()) == [one, other]
    assert promoted(citing([one, other], [cites(1, one), cites(2)]), ()) == []
    assert promoted(citing([one], turns), {one}) == []  # promoted before, or taken off by somebody


def test_a_promoted_summary_is_the_same_summary_with_its_tag():
    (plain,) = [r for r in rolled([*OLD, *NEW])[0] if r.source == SOURCE]
    tags = {plain.chunk_id: ("SILVER",)}
    rows, _ = rolled_up([*OLD, *NEW], vectors_of([*OLD, *NEW]), after_days=180.0, tags=tags)
    (made,) = [r for r in rows if r.source == SOURCE]
    assert made == plain._replace(tags=("SILVER",)) and made.turn_id == plain.chunk_id
