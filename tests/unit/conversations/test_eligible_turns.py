"""Rules of eligibility one by one and together, and what each term adds."""

import numpy as np
import pytest

from ragstream_core.conversations.columns import capped, lexical_of, value_of
from ragstream_core.conversations.edits import Edit, Folded
from ragstream_core.conversations.eligible_turns import RULES, Filters, bias, eligible
from ragstream_core.conversations.recent_history import WHOLE
from ragstream_core.settings.prompts import HistoryConfig
from ragstream_core.text.bm25 import Bm25
from ragstream_core.text.terms import terms
from tests.history_rows import DAY_NS, START_NS, columns, row

NOW = START_NS + 100 * DAY_NS
ROWS = [
    row(1, session="a", projects=("x",), tags=("GOLD",)),
    row(2, session="a", projects=("x", "y")),
    row(3, session="b", projects=("y",), tags=("BLUE",)),
    row(4, session="b", tags=("SILVER", "note")),
    row(90, session="c", projects=("y",), tags=("GOLD",)),
    row(95, session="c"),
]


def found(filters=None, **given):
    result = eligible(columns(ROWS), filters or Filters(now_ns=NOW), **given)
    return [r.seq for r, held in zip(ROWS, result.mask, strict=True) if held]


@pytest.mark.parametrize(
    ("given", "seqs"),
    [
        ({}, [1, 2, 3, 4, 90, 95]),
        ({"sessions": ("a",)}, [1, 2]),
        ({"sessions": ("a", "c")}, [1, 2, 90, 95]),
        ({"tags": ("GOLD",)}, [1, 90]),
        ({"tags": ("GOLD", "note")}, [1, 4, 90]),
        ({"projects": ("y",)}, [2, 3, 90]),
        ({"days": 10.0}, [90, 95]),
        ({"days": 10.0, "tags": ("GOLD",)}, [90]),
        ({"since_ns": NOW - 10 * DAY_NS}, [90, 95]),
        ({"since_ns": NOW - 5 * DAY_NS, "days": 10.0}, [95]),
        ({"exclude_tags": ("BLUE",)}, [1, 2, 4, 90, 95]),
        ({"sessions": ("b",), "exclude_tags": ("BLUE",)}, [4]),
        ({"projects": ("y",), "sessions": ("a", "b"), "exclude_tags": ("BLUE",)}, [2]),
        ({"projects": ("z",), "always_tags": ("GOLD",)}, [1, 90]),
        ({"projects": ("z",), "always_tags": ("GOLD",), "days": 30.0}, [90]),
        ({"sessions": ("b",), "always_tags": ("BLUE",), "exclude_tags": ("BLUE",)}, [4]),
        ({"tags": ("note",), "always_tags": ("GOLD",)}, [1, 4, 90]),
        ({"sessions": ("b",), "always_tags": ("GOLD",)}, [1, 3, 4, 90]),
        ({"projects": ("z",), "always_tags": ("GOLD@30d",)}, [90]),
        ({"projects": ("z",), "always_tags": ("GOLD@30d", "SILVER")}, [4, 90]),
        ({"projects": ("z",), "always_tags": ("GOLD@soon",)}, []),
    ],
)
def test_filters_alone_and_together(given, seqs):
    assert found(Filters(now_ns=NOW, **given)) == seqs


def test_all_gold_turns_of_the_last_month_into_this_project_is_one_setting():
    settings = HistoryConfig(projects=("current",), always_tags=("GOLD",), days=30)
    filters = Filters.of(settings, session="new", projects=("z",), now_ns=NOW)
    assert found(filters) == [90]


def test_a_turn_that_was_adopted_belongs_to_the_project():
    rows = columns([row(1, tags=("project:z",)), row(2, projects=("z",)), row(3, projects=("x",))])
    filters = Filters.of(HistoryConfig(projects=("current",)), session="", projects=("z",),
                         now_ns=NOW)  # fmt: skip
    assert eligible(rows, filters).mask.tolist() == [True, True, False]


def test_current_is_the_prompts_own_session_and_all_its_projects():
    settings = HistoryConfig(sessions=("current", "b"), projects=("current",), exclude_tags=())
    filters = Filters.of(settings, session="a", projects=("y", "w"), now_ns=NOW)
    assert filters.sessions == ("a", "b") and filters.projects == ("y", "w")
    assert found(filters) == [2, 3]


def test_cleared_and_shown_turns_are_out_and_the_first_rule_is_named():
    shown = {1: [WHOLE], 2: [WHOLE]}
    result = eligible(
        columns(ROWS), Filters(("a",), now_ns=NOW), hidden=[(1, 1), (4, 90)], shown=shown
    )
    assert [tuple(RULES)[rule] for rule in result.rules] == [
        "cleared", "recent", "sessions", "cleared", "cleared", "sessions",
    ]  # fmt: skip
    assert result.counts() == {"cleared": 3, "recent": 1, "sessions": 2}
    assert not result.mask.any()


def test_only_what_stands_in_recent_history_is_out():
    rows = [
        row(1, start=0, end=60), row(1, idx=1, start=61, end=200),
        row(1, idx=2, start=180, end=300), row(2), row(1, seq_last=4, source="summary"),
    ]  # fmt: skip
    for spans, out in [([(0, 60), (61, 250)], [0, 1]), ([WHOLE], [0, 1, 2]), ([], [])]:
        result = eligible(columns(rows), Filters(now_ns=NOW), shown={1: spans})
        assert np.flatnonzero(result.rules == [*RULES].index("recent")).tolist() == out


def test_every_rule_has_words_for_people():
    assert all(RULES.values()) and len(set(RULES.values())) == len(RULES)


def test_tags_of_now_decide():
    folded = Folded({"id-2": Edit(("BLUE",)), "id-3": Edit((), ("BLUE",)), "gone": Edit(("GOLD",))})
    now = columns(ROWS).edited(folded)
    filters = Filters(exclude_tags=("BLUE",), now_ns=NOW)
    assert eligible(now, filters).mask.tolist() == [True, False, True, True, True, True]
    assert columns(ROWS).edited(Folded()).tags[0] == ("GOLD",)
    untouched = columns(ROWS)
    assert untouched.edited(Folded({"gone": Edit(("GOLD",))})) is untouched


def test_each_signal_has_a_column_of_its_own():
    settings = HistoryConfig(recency_weight=0.05, damping=0.2)
    rows = [*ROWS[:4], row(98, importance=0.5)]
    found = bias(columns(rows), settings, NOW)
    assert found.tag.tolist() == [0.3, 0, 0, 0.1, 0]
    assert found.importance.tolist() == [0, 0, 0, 0, 0.05]
    assert found.recency[0] == 0.05  # GOLD does not fade
    assert 0 < found.recency[1] < found.recency[2] < found.recency[4] <= 0.05
    assert found.damping[0] == 0 and -0.2 <= found.damping[1] < -0.19
    assert found.parts(1) == {"recency": found.recency[1], "damping": found.damping[1]}
    assert np.allclose(
        found.total, found.tag + found.importance + found.recency + found.damping, atol=1e-6
    )


def test_without_a_turn_there_is_nothing_to_add():
    empty = columns([])
    assert bias(empty, HistoryConfig(), NOW).total.tolist() == []
    assert eligible(empty, Filters(sessions=("a",), tags=("GOLD",), now_ns=NOW)).counts() == {}


def test_the_least_important_leave_first_then_the_oldest():
    rows = [row(n, importance=0.4 if n % 2 else 0.0) for n in range(1, 7)]
    rows += [row(7, tags=("BLUE",), importance=1.0), row(8, tags=("GOLD",))]
    kept = {rows[i].seq for i in capped(rows, 5)}
    assert kept == {1, 3, 5, 8, 6}
    assert capped(rows, 100) == list(range(8))
    assert value_of(("GOLD", "BLUE"), 1.0) == -1.0 < value_of((), 0.0)
    assert value_of(("SILVER",), 0.2) == 0.5 and value_of(("SILVER",), 0.7) == 0.7


def test_an_answer_is_found_by_its_question_also_when_that_left():
    rows = [
        row(1, "user: which torque has the wheel bolt"),
        row(2, "user: 120 Nm"),
        row(3, "user: thanks", session="other"),
        row(4, "user: which colour"),
    ]
    arrays = lexical_of(rows, [1, 2, 3])
    scores = Bm25([arrays]).scores(terms("torque wheel bolt"))
    assert scores[0] > 0 and scores[1] == 0  # another session is no neighbour
    assert scores[2] == 0  # two turns away


def test_of_equal_turns_the_one_that_said_it_comes_first():
    rows = [row(n, f"user: some words here {n}") for n in range(1, 6)]
    rows[2] = row(3, "user: the torque here 3")
    scores = Bm25([lexical_of(rows, range(5))]).scores(terms("torque"))
    assert scores[2] > scores[1] == scores[3] > scores[0] == 0
