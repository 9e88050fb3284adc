import datetime as dt
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.conversations.journal.journal import Journal
from ragstream_core.conversations.journal.records import (
    Asked,
    Cleared,
    TagEdit,
    Turn,
    session_name,
    uuid7,
)
from ragstream_core.conversations.sessions import SessionRow, sessions_of, turn_rows
from ragstream_core.conversations.transfer import exported, imported, jsonl_lines, markdown
from ragstream_core.errors import IntegrityError, UsageError

NOW = dt.datetime(2026, 10, 5, 14, 7, 9, tzinfo=dt.UTC)
WHEN = "2026-10-05T14:07:09+02:00"
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
kinds = st.tuples(st.sampled_from(["turn", "asked", "tag"]), st.sampled_from("ab"), texts)


def record(n, kind, session, text):
    return {
        "turn": Turn(f"id-{n}", session, WHEN, text, text[::-1], (text[:1],), importance=0.25),
        "asked": Asked(f"id-{n}", session, WHEN, text),
        "tag": TagEdit(f"id-{n}", f"id-{max(1, n - 1)}", WHEN, (text[:1],), ("x",)),
    }[kind]


def filled(folder, *records):
    log = Journal(Path(folder))
    log.append(records)
    return log


def read(lines, **given_):
    return imported(lines, **{"now": NOW, "session": "new"} | given_)


@settings(max_examples=60, deadline=None)
@given(st.lists(kinds, max_size=8), st.sampled_from(["", "a"]))
def test_what_is_exported_comes_back_equal(found, session):
    with tempfile.TemporaryDirectory() as name:
        records = [record(n, *kind) for n, kind in enumerate(found, 1)]
        log = filled(name, *records)
        out = list(exported(log, session))
        lines = "".join(jsonl_lines(out)).split("\n")
        assert read(lines) == [entry.record for entry in out]
        if not session:
            spoken = {r.id for r in records if isinstance(r, Turn | Asked)}
            assert [e.record for e in out] == [
                r for r in records if not isinstance(r, TagEdit) or r.turn in spoken
            ]


def test_cleared_turns_and_notices_stay_behind(tmp_path):
    log = filled(
        tmp_path,
        record(1, "turn", "a", "one"),
        record(2, "turn", "a", "two"),
        TagEdit("e", "id-1", WHEN, ("GOLD",)),
        Cleared("c", WHEN, ((1, 1),), "range"),
    )
    assert [e.record.id for e in exported(log)] == ["id-2"]


def test_an_altered_row_is_refused(tmp_path):
    (line,) = jsonl_lines(exported(filled(tmp_path, record(1, "turn", "a", "one"))))
    with pytest.raises(IntegrityError, match="line 1 is not what was exported"):
        read([line.replace("one", "two")])
    with pytest.raises(IntegrityError, match="format 2"):
        read([line.replace('"v": 1', '"v": 2')])


def test_plain_rows_have_ids_of_their_content():
    rows = [
        {"user": "hi", "assistant": "yes", "timestamp": "2026-10-05T14:07:09", "tags": ["GOLD"]},
        {"user": "hi", "assistant": "yes"},
        {"user": "hi", "assistant": "yes"},
        {"user": "x", "speakers": ["Ann", "Bob"], "session": "s", "id": "given"},
    ]
    lines = ["", *(json.dumps(row) for row in rows)]
    first, second = read(lines), read(lines, now=NOW + dt.timedelta(days=1))
    assert [turn.id for turn in first] == [turn.id for turn in second]
    assert len({turn.id for turn in first}) == 4
    assert first[0].timestamp == "2026-10-05T14:07:09+00:00"
    assert first[1].timestamp == NOW.isoformat()
    assert [turn.session_id for turn in first] == ["new", "new", "new", "s"]
    assert (first[3].id, first[3].speakers) == ("given", ("Ann", "Bob"))
    assert {turn.source for turn in first} == {"file"}


@pytest.mark.parametrize(
    "line",
    [
        "{", "[]", "{}", '{"user": 1}', '{"user": "x", "speakers": ["one"]}', "[" * 100_000,
        '{"user": "x", "mood": "good"}', '{"user": "x", "timestamp": "yesterday"}',
        '{"user": "x", "tags": "GOLD"}',
    ],
)  # fmt: skip
def test_what_is_no_row_is_named_by_its_line(line):
    with pytest.raises(UsageError, match="line 2"):
        read(['{"user": "x"}', line])


def test_markdown_quotes_what_was_said(tmp_path):
    log = filled(tmp_path, Turn("x", "a", WHEN, "# not a heading\n\nq", "a", ("GOLD",)))
    text = markdown(turn_rows(log))
    assert "# a\n" in text
    assert "`GOLD`" in text
    assert "> # not a heading\n>\n> q" in text


# --- rows ---


def test_rows_carry_tags_of_now_and_unanswered_questions(tmp_path):
    log = filled(
        tmp_path,
        Turn("t1", "a", WHEN, "one", "1", ("GOLD",)),
        Asked("q1", "a", WHEN, "two"),
        Asked("q2", "b", WHEN, "three"),
        Turn("t2", "a", WHEN, "two", "2", asked="q1"),
        TagEdit("e", "t1", WHEN, ("mine",), ("GOLD",)),
    )
    rows = turn_rows(log)
    assert [(r.id, r.turn.status) for r in rows] == [
        ("t1", "complete"), ("q2", "unanswered"), ("t2", "complete")
    ]  # fmt: skip
    assert rows[0].tags == ("mine",)
    assert [r.id for r in turn_rows(log, "a", last=1)] == ["t2"]
    assert [r.id for r in turn_rows(log, tags=["mine"])] == ["t1"]
    assert sessions_of(rows) == [
        SessionRow("b", 1, WHEN, WHEN, 3, {}, "three"),
        SessionRow("a", 2, WHEN, WHEN, 4, {"mine": 1}, "one"),
    ]  # fmt: skip


# --- ids ---


@given(st.integers(0, (1 << 48) - 1), st.binary(min_size=10, max_size=10))
def test_uuid7_has_its_time_in_front(ms, chance):
    found = uuid7(ms, chance)
    assert int(found.replace("-", "")[:12], 16) == ms
    assert found[14] == "7"
    assert found[19] in "89ab"


def test_names_of_new_sessions():
    assert session_name(NOW) == "20261005-140709"
    assert session_name(NOW, 2) == "20261005-140709-2"
    with pytest.raises(ValueError, match="10 random bytes"):
        uuid7(1, b"")
