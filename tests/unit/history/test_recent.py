from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.history import recent
from ragstream_core.history.journal import Journal
from ragstream_core.history.recent import (
    Recent,
    has_session,
    layer_g,
    pair_text,
    render_recent,
)
from ragstream_core.history.records import Asked, Cleared, Entry, TagEdit, Turn

WHEN = "2026-10-05T14:07:09+02:00"
SESSIONS = ("a", "b", "c")


def turn(n, session="a", **given_):
    return Turn(f"id-{n}", session, WHEN, f"question {n}", f"answer {n}", **given_)


kinds = st.sampled_from(["turn", "turn", "turn", "partial", "asked", "tag", "cleared"])
steps = st.lists(
    st.tuples(kinds, st.sampled_from(SESSIONS), st.integers(1, 12), st.integers(0, 2)), max_size=14
)


def records_of(found):
    records = []
    for n, (kind, session, first, more) in enumerate(found, 1):
        records.append(
            {
                "turn": turn(n, session),
                "partial": turn(n, session, status="partial"),
                "asked": Asked(f"id-{n}", session, WHEN, f"question {n}"),
                "tag": TagEdit(f"id-{n}", f"id-{first}", WHEN, ("GOLD",)),
                "cleared": Cleared(f"id-{n}", WHEN, ((min(first, n), min(first + more, n)),), "x"),
            }[kind]
        )
    return records


def expected(entries, session, k, upto):
    """The rule of C-40, said plainly."""
    gone = [r for e in entries if isinstance(e.record, Cleared) for r in e.record.seqs]
    pairs = [
        e
        for e in entries
        if isinstance(e.record, Turn)
        and e.record.status == "complete"
        and e.seq <= upto
        and not any(a <= e.seq <= b for a, b in gone)
    ]
    own = [e for e in pairs if e.record.session_id == session][len(pairs) and -k :] if k else []
    others = [e for e in pairs if e.record.session_id != session]
    fill = others[len(others) - min(len(others), k - len(own)) :]
    return sorted([*own, *fill], key=lambda e: e.seq)


@settings(max_examples=80, deadline=None)
@given(steps, st.sampled_from(["", *SESSIONS, "new"]), st.integers(0, 5), st.integers(1, 15))
def test_layer_g_is_the_rule(found, session, k, upto):
    with tempfile.TemporaryDirectory() as name:
        log = Journal(Path(name), segment_bytes=700)
        log.append(records_of(found))
        got = layer_g(log, session=session, k=k, upto=upto)
        want = expected(list(log.entries()), session, k, upto)
        assert list(got.pairs) == want
        assert (got.first_seq, got.last_seq) == ((want[0].seq, want[-1].seq) if want else (0, 0))


def test_it_is_read_from_the_file_at_every_prompt(tmp_path):
    log, writer = Journal(tmp_path), Journal(tmp_path)
    assert layer_g(log, session="a", k=4) == Recent()
    writer.append([turn(1)])
    assert [e.seq for e in layer_g(log, session="a", k=4).pairs] == [1]
    path = tmp_path / "conversation.log"
    path.write_bytes(b"")
    assert layer_g(log, session="a", k=4) == Recent()


def test_clocks_do_not_order_it(tmp_path):
    log = Journal(tmp_path)
    times = ["2026-10-05T12:00:00+02:00", "2025-01-01T00:00:00+00:00", "2026-10-05T12:00:00+02:00"]
    for n, when in enumerate(times, 1):
        log.append([Turn(f"id-{n}", "a", when, "q", "a")])
    assert [e.seq for e in layer_g(log, session="a", k=2).pairs] == [2, 3]


def test_the_search_for_old_turns_of_a_session_ends(tmp_path, monkeypatch):
    log = Journal(tmp_path)
    log.append([turn(1, "old"), *(turn(n, "b") for n in range(2, 400))])
    assert [e.record.session_id for e in layer_g(log, session="old", k=2).pairs] == ["old", "b"]
    monkeypatch.setattr(recent, "MAX_SCAN_BYTES", 5_000)
    assert [e.seq for e in layer_g(log, session="old", k=2).pairs] == [398, 399]


def test_a_session_that_is_only_spoken_of_is_not_there(tmp_path):
    log = Journal(tmp_path)
    log.append([Turn("x", "a", WHEN, 'said "session_id":"b" and \\"session_id\\":\\"b\\"', "ok")])
    assert has_session(log, "a")
    assert not has_session(log, "b")


# --- rendering ---


def entries(*turns):
    return [Entry(n, record, "", "", 0, 0) for n, record in enumerate(turns, 1)]


def test_texts_stand_in_it_to_the_letter():
    said = "  one\r\n\n two\t\u2028"
    (entry,) = entries(Turn("x", "a", WHEN, said, said + "!", speakers=("Ann", "Bot")))
    when = "[5 October 2026, 14:07]"
    assert pair_text(entry) == f"{when} Ann: {said}\n{when} Bot: {said}!"


def test_an_empty_side_has_no_line():
    (entry,) = entries(Turn("x", "a", WHEN, "only asked"))
    assert pair_text(entry) == "[5 October 2026, 14:07] user: only asked"
    with pytest.raises(ValueError, match="no turn"):
        pair_text(Entry(1, Asked("x", "a", WHEN, "q"), "", "", 0, 0))


@settings(max_examples=80, deadline=None)
@given(st.lists(st.text(max_size=60), max_size=6), st.integers(0, 300), st.integers(1, 5))
def test_whole_pairs_within_the_budget_the_newest_first(texts, budget, width):
    def count(text):
        return -(-len(text) // width)

    pairs = entries(*(Turn(f"{n}", "a", WHEN, f"q{n}", text) for n, text in enumerate(texts)))
    text, shown, dropped = render_recent(pairs, count=count, budget_tokens=budget)
    assert count(text) <= budget
    assert len(shown) + dropped == len(pairs)
    assert list(shown) == pairs[len(pairs) - len(shown) :]
    whole = [pair_text(entry) for entry in shown]
    if len(shown) != 1 or text == whole[0]:
        assert text == "\n\n".join(whole)
    else:
        assert "cut" in text
        assert text.startswith(whole[0][:1])
        assert count(whole[0]) > budget
    if dropped and shown and "cut" not in text:
        longer = "\n\n".join(pair_text(entry) for entry in pairs[dropped - 1 :])
        assert count(longer) > budget


def test_a_newest_pair_over_the_budget_is_cut_and_says_so():
    (entry,) = entries(Turn("x", "a", WHEN, "q", "word " * 500))
    text, shown, dropped = render_recent([entry], count=len, budget_tokens=200)
    assert len(text) <= 200
    assert text.startswith("[5 October 2026, 14:07] user: q\n")
    assert f"of {len(pair_text(entry))} characters" in text
    assert (shown, dropped) == ((entry,), 0)


def test_no_budget_no_text():
    (entry,) = entries(turn(1))
    assert render_recent([entry], count=len, budget_tokens=0) == ("", (), 1)
    assert render_recent([], count=len, budget_tokens=9) == ("", (), 0)
