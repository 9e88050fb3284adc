"""The kept ledger: what is read back is what was decided."""

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.prompts.explain import load_decisions
from ragstream_core.prompts.store import LEDGER, _parquet
from ragstream_core.records import Decision

TEXTS = st.text(st.characters(codec="utf-8"), max_size=40) | st.just("2026-01-02T03:04:05")
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
COUNTS = st.integers(-(2**63), 2**63 - 1)
ROWS = st.builds(
    Decision, TEXTS, TEXTS, COUNTS, NUMBERS, st.booleans(), TEXTS, TEXTS, COUNTS, COUNTS,
    st.dictionaries(TEXTS, NUMBERS, max_size=3),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(ROWS, max_size=8))
def test_a_ledger_is_read_back_as_it_was_kept(rows):
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "decisions.parquet").write_bytes(_parquet(rows))
        found = load_decisions(Path(folder))
    assert found == rows
    assert [repr(row.score) for row in found] == [repr(row.score) for row in rows]


def test_every_field_of_a_decision_is_kept():
    assert set(LEDGER) == set(Decision._fields)
