from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.conversations.edits import Edit, apply_edits, merged, visible_turns
from ragstream_core.conversations.journal.records import Cleared, Entry, TagEdit, Turn

TAGS = ("GOLD", "SILVER", "BLUE", "mine")
TURNS = ("a", "b")
labels = st.lists(st.sampled_from(TAGS), max_size=3).map(tuple)
edits = st.builds(TagEdit, st.just("e"), st.sampled_from(TURNS), st.just("t"), labels, labels)
ranges = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 6)), max_size=6).map(
    lambda pairs: [(first, first + more) for first, more in pairs]
)


def numbered(records):
    return [Entry(n, record, "", "", 0, 0) for n, record in enumerate(records, 1)]


def turn(name, tags=()):
    return Turn(name, "s", "2026-10-05T00:00:00+00:00", "q", "a", tags)


@settings(max_examples=100, deadline=None)
@given(labels, st.lists(edits, max_size=8))
def test_folding_is_applying_one_after_the_other(tags, records):
    folded = apply_edits(numbered(records))
    for name in TURNS:
        now = set(tags)
        for edit in records:
            if edit.turn == name:
                now = now - set(edit.remove) | set(edit.add)
        found = folded.tags(name, tags)
        assert set(found) == now
        assert len(found) == len(now)
        assert not set(folded.edits.get(name, Edit()).add) & set(
            folded.edits.get(name, Edit()).remove
        )


@settings(max_examples=100, deadline=None)
@given(labels, st.lists(edits, max_size=8), st.integers(0, 8))
def test_folding_in_two_parts_is_folding_at_once(tags, records, cut):
    first, second = apply_edits(numbered(records[:cut])), apply_edits(numbered(records[cut:]))
    whole = apply_edits(numbered(records))
    for name in TURNS:
        assert set(second.tags(name, first.tags(name, tags))) == set(whole.tags(name, tags))


@settings(max_examples=100, deadline=None)
@given(ranges)
def test_hidden_is_what_any_range_holds(found):
    notices = [Cleared(str(n), "t", (pair,), "range") for n, pair in enumerate(found)]
    folded = apply_edits(numbered(notices))
    for seq in range(40):
        assert folded.is_hidden(seq) == any(first <= seq <= last for first, last in found)


@settings(max_examples=100, deadline=None)
@given(ranges)
def test_merged_ranges_are_disjoint_and_ascending(found):
    joined = merged(found)
    assert all(a[1] + 1 < b[0] for a, b in zip(joined, joined[1:], strict=False))
    assert merged(joined) == joined


def test_visible_turns_carry_their_tags_of_now():
    entries = numbered(
        [
            turn("a", ("GOLD",)),
            turn("b"),
            TagEdit("e", "a", "t", ("mine",), ("GOLD",)),
            Cleared("c", "t", ((2, 2),), "range"),
        ]
    )
    found = [(e.seq, t.id, tags) for e, t, tags in visible_turns(entries, apply_edits(entries))]
    assert found == [(1, "a", ("mine",))]
