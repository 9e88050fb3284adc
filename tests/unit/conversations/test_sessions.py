import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.conversations import sessions
from ragstream_core.conversations.journal.journal import Journal
from ragstream_core.conversations.journal.records import Asked, Cleared, TagEdit, Turn
from ragstream_core.conversations.journal.segments import parse_line
from ragstream_core.conversations.sessions import session_log_name, write_session_logs
from ragstream_core.errors import UsageError

WHEN = "2026-10-05T14:07:09+02:00"
SESSIONS = ("a", "b", "20261005-140709")
kinds = st.tuples(
    st.sampled_from(["turn", "turn", "asked", "tag", "cleared"]), st.sampled_from(SESSIONS)
)


def record(n, kind, session):
    return {
        "turn": Turn(f"id-{n}", session, WHEN, f"q{n}", f"a{n}"),
        "asked": Asked(f"id-{n}", session, WHEN, f"q{n}"),
        "tag": TagEdit(f"id-{n}", "id-1", WHEN, ("GOLD",)),
        "cleared": Cleared(f"id-{n}", WHEN, ((1, max(1, n // 2)),), "range"),
    }[kind]


def contents(folder):
    return {path.name: path.read_bytes() for path in Path(folder).glob("session-*.log")}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(kinds, max_size=4), max_size=5))
def test_in_parts_is_as_at_once(parts):
    with tempfile.TemporaryDirectory() as logs, tempfile.TemporaryDirectory() as whole:
        log, n = Journal(Path(logs)), 0
        for part in parts:
            before = log.newest().seq
            log.append([record(n := n + 1, *kind) for kind in part])
            write_session_logs(log, Path(logs), since=before)
        write_session_logs(log, Path(whole))
        assert contents(logs) == contents(whole)


def test_each_holds_the_journals_own_lines_of_its_session(tmp_path):
    log = Journal(tmp_path)
    log.append([record(1, "turn", "a"), record(2, "turn", "b"), record(3, "asked", "a")])
    changed = write_session_logs(log, tmp_path)
    assert sorted(path.name for path in changed) == ["session-a.log", "session-b.log"]
    journal_lines = (tmp_path / "conversation.log").read_bytes().splitlines(True)
    assert (tmp_path / "session-a.log").read_bytes() == journal_lines[0] + journal_lines[2]
    for line in journal_lines:
        assert parse_line(line) is not None


def test_turns_that_are_cleared_while_the_logs_are_written_do_not_stay_in_them(
    tmp_path, monkeypatch
):
    log = Journal(tmp_path)
    log.append([record(1, "turn", "a"), record(2, "turn", "b")])
    real, begun = sessions._write, []

    def late(folder, lines):
        if not begun:
            begun.append(folder)
            log.append([Cleared("id-3", WHEN, ((1, 1),), "session")])
            write_session_logs(log, folder)  # as the other process does that clears
        return real(folder, lines)

    monkeypatch.setattr(sessions, "_write", late)
    write_session_logs(log, tmp_path)
    assert [path.name for path in tmp_path.glob("session-*")] == ["session-b.log"]


def test_nothing_new_writes_nothing(tmp_path):
    log = Journal(tmp_path)
    assert write_session_logs(log, tmp_path / "none") == []
    assert not (tmp_path / "none").exists()
    log.append([record(1, "turn", "a")])
    assert len(write_session_logs(log, tmp_path)) == 1
    before = (tmp_path / "session-a.log").stat()
    assert write_session_logs(log, tmp_path, since=1) == []
    log.append([record(2, "tag", "a")])
    assert write_session_logs(log, tmp_path, since=1) == []
    assert (tmp_path / "session-a.log").stat().st_ino == before.st_ino


@pytest.mark.parametrize("hurt", [b"", b"garbage\n", None])
def test_a_lost_or_damaged_one_is_written_again(tmp_path, hurt):
    log = Journal(tmp_path)
    log.append([record(n, "turn", "a") for n in (1, 2)])
    write_session_logs(log, tmp_path)
    path = tmp_path / "session-a.log"
    if hurt is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes() + hurt)
    log.append([record(3, "turn", "a")])
    write_session_logs(log, tmp_path, since=2)
    seqs = [parse_line(line).seq for line in path.read_bytes().splitlines(True)]
    assert seqs == [1, 2, 3]


def test_cleared_turns_are_gone_and_so_are_empty_sessions(tmp_path):
    log = Journal(tmp_path)
    log.append([record(1, "turn", "a"), record(2, "turn", "b")])
    write_session_logs(log, tmp_path)
    log.append([Cleared("c", WHEN, ((1, 1),), "session")])
    write_session_logs(log, tmp_path, since=2)
    assert list(contents(tmp_path)) == ["session-b.log"]


def test_a_name_that_leads_elsewhere_gets_no_file(tmp_path):
    log = Journal(tmp_path / "logs")
    log.append([record(1, "turn", "../../out"), record(2, "turn", "a")])
    write_session_logs(log, tmp_path / "logs")
    assert list(contents(tmp_path / "logs")) == ["session-a.log"]
    assert not (tmp_path.parent / "out.log").exists()
    with pytest.raises(UsageError):
        session_log_name("../x")
