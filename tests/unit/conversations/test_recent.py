import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.conversations import recent_history
from ragstream_core.conversations.edits import apply_edits
from ragstream_core.conversations.journal.journal import Journal
from ragstream_core.conversations.journal.records import Asked, Cleared, Entry, TagEdit, Turn
from ragstream_core.conversations.recent_history import (
    WHOLE,
    Recent,
    Scope,
    has_session,
    layer_g,
    render_recent,
    text_of,
)
from ragstream_core.conversations.units import unit

WHEN = "2026-10-05T14:07:09+02:00"
SESSIONS = ("a", "b", "c")


def turn(n, session="a", **given_):
    return Turn(f"id-{n}", session, WHEN, f"question {n}", f"answer {n}", **given_)


kinds = st.sampled_from(["turn", "turn", "turn", "partial", "asked", "tag", "untag", "cleared"])
steps = st.lists(
    st.tuples(kinds, st.sampled_from(SESSIONS), st.integers(1, 12), st.integers(0, 2)), max_size=14
)


def records_of(found):
    records = []
    for n, (kind, session, first, more) in enumerate(found, 1):
        labels = {"tags": ("BLUE",) if more == 2 else (), "projects": ("x", "y")[: first % 3]}
        records.append(
            {
                "turn": turn(n, session, **labels),
                "partial": turn(n, session, status="partial"),
                "asked": Asked(f"id-{n}", session, WHEN, f"question {n}"),
                "tag": TagEdit(
                    f"e-{n}", f"id-{min(first, n - 1)}", WHEN, ("BLUE", "project:y")[: more + 1]
                ),
                "untag": TagEdit(f"e-{n}", f"id-{min(first, n - 1)}", WHEN, (), ("BLUE",)),
                "cleared": Cleared(f"e-{n}", WHEN, ((min(first, n), min(first + more, n)),), "x"),
            }[kind]
        )
    return records


def expected(entries, scope, upto):
    """The rule of C-40, said plainly."""
    gone = [r for e in entries if isinstance(e.record, Cleared) for r in e.record.seqs]
    folded = apply_edits(e for e in entries if e.seq <= upto)
    own, others = [], []
    for e in entries:
        if not isinstance(e.record, Turn) or e.record.status != "complete" or e.seq > upto:
            continue
        tags = folded.tags(e.record.id, e.record.tags)
        if "BLUE" in tags or any(a <= e.seq <= b for a, b in gone):
            continue
        is_of_project = "y" in e.record.projects or "project:y" in tags
        if e.record.session_id == scope.session:
            own.append(e)
        elif scope.fill == "all" or (scope.fill == "projects" and is_of_project):
            others.append(e)
    if not (scope.session and scope.k):
        return [], []
    own = own[-scope.k :]
    return own, others[len(others) - min(len(others), scope.k - len(own)) :]


scopes = st.builds(
    Scope,
    st.sampled_from(["", *SESSIONS, "new"]),
    st.integers(0, 5),
    st.sampled_from(["none", "projects", "all"]),
    st.just(("y",)),
    st.just(("BLUE",)),
)


@settings(max_examples=100, deadline=None)
@given(steps, scopes, st.integers(1, 15))
def test_layer_g_is_the_rule(found, scope, upto):
    with tempfile.TemporaryDirectory() as name:
        log = Journal(Path(name), segment_bytes=700)
        log.append(records_of(found))
        got = layer_g(log, scope, upto=upto)
        assert (list(got.own), list(got.others)) == expected(list(log.entries()), scope, upto)


def test_it_is_read_from_the_file_at_every_prompt(tmp_path):
    log, writer = Journal(tmp_path), Journal(tmp_path)
    assert layer_g(log, Scope("a", 4)) == Recent()
    writer.append([turn(1)])
    assert [e.seq for e in layer_g(log, Scope("a", 4)).pairs] == [1]
    path = tmp_path / "conversation.log"
    path.write_bytes(b"")
    assert layer_g(log, Scope("a", 4)) == Recent()


def test_clocks_do_not_order_it(tmp_path):
    log = Journal(tmp_path)
    times = ["2026-10-05T12:00:00+02:00", "2025-01-01T00:00:00+00:00", "2026-10-05T12:00:00+02:00"]
    for n, when in enumerate(times, 1):
        log.append([Turn(f"id-{n}", "a", when, "q", "a")])
    assert [e.seq for e in layer_g(log, Scope("a", 2)).pairs] == [2, 3]


def test_the_search_for_old_turns_of_a_session_ends(tmp_path, monkeypatch):
    log = Journal(tmp_path)
    log.append([turn(1, "old"), *(turn(n, "b") for n in range(2, 400))])
    old = Scope("old", 2, "all")
    assert [e.record.session_id for e in layer_g(log, old).pairs] == ["b", "old"]
    monkeypatch.setattr(recent_history, "MAX_SCAN_BYTES", 5_000)
    assert [e.seq for e in layer_g(log, old).pairs] == [398, 399]
    assert layer_g(log, Scope("old", 2)) == Recent()


def test_a_session_that_is_only_spoken_of_is_not_there(tmp_path):
    log = Journal(tmp_path)
    log.append([Turn("x", "a", WHEN, 'said "session_id":"b" and \\"session_id\\":\\"b\\"', "ok")])
    assert has_session(log, "a")
    assert not has_session(log, "b")


# --- rendering ---


def entries(*turns):
    return [Entry(n, record, "", "", 0, 0) for n, record in enumerate(turns, 1)]


def whole(entry):
    """Return the text of a pair for which there is room."""
    return text_of(render_recent([entry], fits=lambda text: True))


def test_texts_stand_in_it_to_the_letter():
    said = "  one\r\n\n two\t\u2028"
    (entry,) = entries(Turn("x", "a", WHEN, said, said + "!", speakers=("Ann", "Bot")))
    when = "[5 October 2026, 14:07]"
    assert whole(entry) == f"{when} Ann: {said}\n{when} Bot: {said}!"


def test_an_empty_side_has_no_line():
    (entry,) = entries(Turn("x", "a", WHEN, "only asked"))
    assert whole(entry) == "[5 October 2026, 14:07] user: only asked"
    with pytest.raises(ValueError, match="no turn"):
        whole(Entry(1, Asked("x", "a", WHEN, "q"), "", "", 0, 0))


said = st.lists(st.sampled_from(["It rains. ", "wörd ", "\n", "…", "long" * 60, "Why?  "])).map(
    "".join
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(said, said), max_size=6), st.integers(0, 3_000))
def test_all_is_shown_where_it_fits_else_long_sides_are_cut(texts, budget):
    pairs = entries(*(Turn(f"{n}", "a", WHEN, q or "q", a) for n, (q, a) in enumerate(texts)))
    shown = render_recent(pairs, fits=lambda text: len(text) <= budget)
    assert len(text_of(shown)) <= budget
    assert [pair.entry for pair in shown] == pairs[len(pairs) - len(shown) :]
    for pair in shown:
        assert (pair.text == whole(pair.entry)) is pair.is_whole
        assert pair.is_whole or "[… cut: the first " in pair.text
        for first, last in () if pair.is_whole else pair.spans:
            part = unit(pair.entry.record)[0][first:last]
            assert "".join(part.split()) in "".join(pair.text.split())
    if len("\n\n".join(map(whole, pairs))) <= budget:
        assert len(shown) == len(pairs) and all(pair.is_whole for pair in shown)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(said, said), min_size=1, max_size=6), st.integers(200, 3_000))
def test_more_room_never_shows_fewer_pairs(texts, budget):
    pairs = entries(*(Turn(f"{n}", "a", WHEN, q or "q", a) for n, (q, a) in enumerate(texts)))
    few = render_recent(pairs, fits=lambda text: len(text) <= budget)
    more = render_recent(pairs, fits=lambda text: len(text) <= budget + 400)
    assert len(few) <= len(more)


def test_four_long_answers_are_all_there_the_newest_whole():
    answer = "The pump of hall nine is checked on Mondays by two people. " * 57  # 840 tokens
    pairs = entries(*(Turn(f"{n}", "a", WHEN, f"Question {n}?", answer) for n in range(4)))
    shown = render_recent(pairs, fits=lambda text: len(text) <= 2_000 * 4)
    assert [pair.is_whole for pair in shown] == [False, False, False, True]
    cut = shown[0].text.split("\n")
    assert cut[0].endswith("Question 0?") and cut[1].endswith("by two people.")
    part = len(cut[1].partition("assistant: ")[2])
    assert cut[2] == f"[… cut: the first {part} of {len(answer)} characters]"


def test_what_a_short_side_leaves_goes_to_the_long_ones():
    pairs = entries(Turn("x", "a", WHEN, "word " * 200, "Yes."), Turn("y", "a", WHEN, "q", "No."))
    shown = render_recent(pairs, fits=lambda text: len(text) <= 700)
    assert shown[1].is_whole and shown[0].text.endswith("assistant: Yes.")
    assert len(text_of(shown)) > 600


def test_a_cut_part_is_where_its_unit_has_it():
    said = "  \n One. " + "Two words here. " * 60
    (entry,) = entries(Turn("x", "a", WHEN, said, "\t"))
    (shown,) = render_recent([entry], fits=lambda text: len(text) <= 300)
    ((first, last),) = shown.spans
    assert unit(entry.record)[0][:last].endswith("Two words here.") and first == 0
    assert shown.spans != (WHOLE,)


def test_no_budget_no_text():
    assert render_recent(entries(turn(1)), fits=lambda text: not text) == ()
    assert render_recent([], fits=lambda text: True) == ()
