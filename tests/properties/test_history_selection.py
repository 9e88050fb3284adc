"""Laws of selection: tags and importance override, time only fades, no clock breaks anything."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.conversations.columns import capped, value_of
from ragstream_core.conversations.eligible_turns import Filters, bias, eligible
from ragstream_core.conversations.recent_history import WHOLE
from ragstream_core.settings.prompts import HistoryConfig
from tests.history_rows import DAY_NS, START_NS, columns, row

TAGS = st.lists(st.sampled_from(["GOLD", "SILVER", "BLUE", "note"]), unique=True, max_size=3)
TIMES = st.integers(START_NS - 4000 * DAY_NS, START_NS + 4000 * DAY_NS)
ENDS = st.sampled_from([1 - 2**63, 2**63 - 1])
"""The times of turns before 1678 and after 2262."""
WEIGHTS = st.floats(0, 1)
SETTINGS = st.builds(
    HistoryConfig,
    gold_bias=st.floats(0.01, 1), silver_bias=WEIGHTS, importance_weight=WEIGHTS,
    recency_weight=WEIGHTS, damping=WEIGHTS,
)  # fmt: skip
ROW = st.builds(
    lambda when, tags, weight, session, project: row(
        1, timestamp_ns=when, tags=tuple(tags), importance=weight, session=session,
        projects=(project,),
    ),
    TIMES, TAGS, st.floats(0, 1), st.sampled_from("abc"), st.sampled_from("xyz"),
)  # fmt: skip
ROWS = st.lists(ROW, min_size=1, max_size=12).map(
    lambda rows: [r._replace(seq=n, turn_id=f"id-{n}") for n, r in enumerate(rows, 1)]
)


@given(ROWS, SETTINGS, TIMES, st.lists(ENDS, max_size=2))
def test_every_term_stays_in_its_range_whatever_the_clock_says(rows, settings, now, ends):
    rows = [*rows, *(row(90 + n, timestamp_ns=end) for n, end in enumerate(ends))]
    found = bias(columns(rows), settings, now)
    for values, low, high in (
        (found.importance, 0, settings.importance_weight),
        (found.recency, 0, settings.recency_weight),
        (found.tag, 0, max(settings.gold_bias, settings.silver_bias)),
        (found.damping, -settings.damping, 0),
    ):
        assert values.min() >= low - 1e-6 and values.max() <= high + 1e-6
        assert np.array_equal(values, np.round(values, 6))
    assert np.isfinite(found.total).all()


@given(ROWS, SETTINGS, TIMES, st.data())
def test_gold_outranks_an_equal_untagged_turn(rows, settings, now, data):
    twin = data.draw(st.sampled_from(rows))._replace(seq=99)
    pair = [*rows, twin._replace(tags=()), twin._replace(tags=("GOLD",))]
    total = bias(columns(pair), settings, now).total
    assert total[-1] > total[-2]


@given(ROWS, SETTINGS, TIMES, st.integers(0, 4000 * DAY_NS))
def test_older_is_never_fresher(rows, settings, now, older):
    (first, *rest) = rows
    pair = [*rest, first, first._replace(seq=99, timestamp_ns=first.timestamp_ns - older)]
    found = bias(columns(pair), settings, now)
    assert found.recency[-1] <= found.recency[-2]
    assert found.damping[-1] <= found.damping[-2]


@given(ROWS, SETTINGS, TIMES)
def test_importance_overrides_age(rows, settings, now):
    pair = [*rows, row(98, timestamp_ns=START_NS - 9000 * DAY_NS, importance=1.0),
            row(99, timestamp_ns=now, importance=0.0)]  # fmt: skip
    total = bias(columns(pair), settings, now).total
    assert total[-2] >= total[-1] - 1e-6


@given(ROWS, TAGS, TIMES)
def test_what_is_excluded_is_never_found_and_the_rest_of_the_rules_only_take_away(
    rows, always, now
):
    wide = eligible(columns(rows), Filters(exclude_tags=("BLUE",), now_ns=now))
    narrow = eligible(
        columns(rows),
        Filters(("a",), ("note",), ("x",), 30, tuple(always), ("BLUE",), now),
        hidden=[(2, 3)],
        shown={1: [WHOLE]},
    )
    blue = np.array(["BLUE" in r.tags for r in rows])
    assert np.array_equal(wide.mask, ~blue)
    assert not (narrow.mask & ~wide.mask).any()
    assert sum(narrow.counts().values()) + int(narrow.mask.sum()) == len(rows)


@given(ROWS, st.integers(1, 14))
def test_the_cap_keeps_the_most_important(rows, cap):
    kept = capped(rows, cap)
    assert len(kept) == min(cap, len(rows))
    gone = [value_of(r.tags, r.importance) for i, r in enumerate(rows) if i not in kept]
    stay = [value_of(rows[i].tags, rows[i].importance) for i in kept]
    assert not gone or max(gone) <= min(stay)
