"""Importing exports into the journal: once, all of it, and nothing of what was refused."""

from __future__ import annotations

import datetime as dt
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from ragstream_core.conversations.clearing import Choice
from ragstream_core.conversations.journal.records import Turn
from ragstream_core.errors import OperationFailed, Refused, UnknownProject, UsageError
from ragstream_core.services import import_conversations as importing
from ragstream_core.services.clear_history import clear
from ragstream_core.services.import_conversations import (
    changed_states,
    follow_logs,
    import_conversations,
)
from ragstream_core.wiring.journal import journal
from ragstream_core.wiring.workspace import open_workspace
from tests.unit.conversations.importers import exports

NOW = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)


@pytest.fixture
def space(tmp_path):
    (tmp_path / "data" / "doc_raw" / "pumps").mkdir(parents=True)
    return open_workspace(tmp_path / "data", explicit={"embeddings.backend": "hashed"})


def turns(space) -> list[Turn]:
    return [e.record for e in journal(space).entries() if isinstance(e.record, Turn)]


def chats(folder, count=3):
    rows = [exports.two_turns(f"c-{n}", f"Chat {n}") for n in range(count)]
    return exports.write_json(folder / "conversations.json", rows)


def test_a_newer_export_adds_only_what_is_new(space, tmp_path):
    path = chats(tmp_path / "export", 2)
    first = import_conversations(space, path, now=NOW)
    assert (first.added, first.existing, first.problems) == (4, 0, ())
    chats(tmp_path / "export", 3)
    again = import_conversations(space, path, now=NOW)
    assert (again.added, again.existing) == (2, 4)
    assert [row.added for row in again.conversations] == [0, 0, 2]
    assert [t.user_text for t in turns(space)] == ["How is the file locked?", "And on NFS?"] * 3
    assert {t.session_id for t in turns(space)} == {row.session for row in again.conversations}


def test_a_dry_run_tells_the_same_and_writes_nothing(space, tmp_path):
    path = chats(tmp_path / "export")
    told = import_conversations(space, path, dry_run=True, now=NOW)
    assert turns(space) == []
    done = import_conversations(space, path, now=NOW)
    assert told == replace(done, dry_run=True)


@pytest.mark.parametrize("broken_at", [0, 1, 2])
def test_an_import_that_broke_off_is_finished_by_the_same_again(
    space, tmp_path, monkeypatch, broken_at
):
    path = chats(tmp_path / "export", 4)
    monkeypatch.setattr(importing, "BATCH", 3)
    write, calls = importing.append_records, []

    def failing(workspace, records):
        calls.append(1)
        if len(calls) > broken_at:
            raise OperationFailed("the disk is full")
        return write(workspace, records)

    monkeypatch.setattr(importing, "append_records", failing)
    with pytest.raises(OperationFailed):
        import_conversations(space, path, now=NOW)
    monkeypatch.setattr(importing, "append_records", write)
    import_conversations(space, path, now=NOW)
    ids = [turn.id for turn in turns(space)]
    assert len(ids) == len(set(ids)) == 8


def test_a_session_that_goes_on_gives_its_last_question_when_it_is_answered(space, tmp_path):
    rows = exports.claude_code(
        exports.user("One?"), exports.agent(exports.words("1.")),
        exports.user("Two?"), exports.agent(exports.tool("Bash", command="ls"), stop="tool_use"),
        exports.agent(exports.words("2.")),
    )  # fmt: skip
    log = exports.write_jsonl(tmp_path / "log" / "s.jsonl", rows[:4])
    at = dt.datetime.fromisoformat(rows[3]["timestamp"]) + dt.timedelta(minutes=1)
    first = import_conversations(space, log, now=at)
    assert (first.added, first.unfinished) == (1, 1)
    exports.write_jsonl(log, rows)
    second = import_conversations(space, log, now=at)
    assert (second.added, second.existing, second.unfinished) == (1, 1, 0)
    assert [t.assistant_text for t in turns(space)] == ["1.", "[tool: Bash ls]\n\n2."]


def test_a_session_that_was_left_gives_what_there_is_of_its_last_answer(space, tmp_path):
    rows = exports.claude_code(
        exports.user("Two?"), exports.agent(exports.words("Wait."), stop=None)
    )
    log = exports.write_jsonl(tmp_path / "log" / "s.jsonl", rows)
    assert import_conversations(space, log, now=NOW).added == 1
    assert [t.status for t in turns(space)] == ["partial"]


def test_secrets_are_named_and_broken_records_are_a_line_each(space, tmp_path):
    row = exports.two_turns()
    key = "sk-" + "Ab3" * 12
    row["mapping"]["c-1q1"]["message"]["content"]["parts"] = [f"My key is {key}"]
    path = exports.write_json(tmp_path / "conversations.json", [row, 7, {"mapping": 3}])
    done = import_conversations(space, path, now=NOW)
    assert done.secrets == {done.conversations[0].session: ("openai-key",)}
    assert [problem.where.rpartition(", ")[2] for problem in done.problems] == [
        "record 2", "record 3",
    ]  # fmt: skip
    assert key not in str(done)


def test_turns_can_be_labelled_with_a_project(space, tmp_path):
    path = chats(tmp_path / "export", 1)
    import_conversations(space, path, use_in=["pumps"], now=NOW)
    assert {turn.projects for turn in turns(space)} == {("pumps",)}
    with pytest.raises(UnknownProject):
        import_conversations(space, path, use_in=["valves"], now=NOW)


def test_what_cannot_be_done_is_refused_before_anything_is_written(space, tmp_path):
    path = chats(tmp_path / "export", 1)
    with pytest.raises(UsageError, match="no format 'whatsapp'"):
        import_conversations(space, path, form="whatsapp")
    silent = open_workspace(space.data_dir, explicit={"history.persist": "false"})
    with pytest.raises(Refused):
        import_conversations(silent, path)
    assert import_conversations(silent, path, dry_run=True).added == 2
    assert turns(space) == []


def test_progress_is_told_by_bytes(space, tmp_path):
    told = []
    path = chats(tmp_path / "export", 2)
    import_conversations(space, path, now=NOW, progress=lambda *step: told.append(step))
    size = path.stat().st_size
    assert {(phase, total) for phase, _, total in told} == {("bytes", size)}
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)
    assert told[-1][1] == size


# --- logs that are followed ---

WHEN = dt.datetime(2025, 11, 5, 12, tzinfo=dt.UTC)


@pytest.fixture
def logs(tmp_path):
    return tmp_path / "claude" / "projects"


@pytest.fixture
def following(space, logs):
    (space.data_dir / "doc_raw" / "pumps").mkdir(exist_ok=True)
    return open_workspace(space.data_dir, explicit={"paths.agent_logs": str(logs)})


def session(logs, answered, name="s"):
    """Write a log of so many answered questions, as of `WHEN`."""
    rows = exports.claude_code(
        *(row for n in range(answered)
          for row in (exports.user(f"{name}{n}?"), exports.agent(exports.words(f"{n}."))))
    )  # fmt: skip
    for row in rows:
        row["uuid"] = name + row["uuid"]
        row["parentUuid"] = row["parentUuid"] and name + row["parentUuid"]
    path = exports.write_jsonl(logs / "-home-me-pumps" / f"{name}.jsonl", rows)
    os.utime(path, (WHEN.timestamp(), WHEN.timestamp() + answered))
    return path


def test_following_adds_what_grew_and_looks_at_nothing_else(following, logs, monkeypatch):
    assert follow_logs(following, now=WHEN).added == 0
    session(logs, 1)
    session(logs, 1, "t")
    assert follow_logs(following, now=WHEN).added == 2
    assert changed_states(following, now=WHEN) == {}
    grown = session(logs, 3)
    assert list(changed_states(following, now=WHEN)) == [str(grown)]
    read, files = [], importing.reader.export_files
    monkeypatch.setattr(
        importing.reader, "export_files", lambda path: read.append(path) or files(path)
    )
    assert follow_logs(following, now=WHEN).added == 2
    assert read == [grown]
    assert follow_logs(following, now=WHEN).added == 0
    assert [t.user_text for t in turns(following)] == ["s0?", "t0?", "s1?", "s2?"]
    assert {t.projects for t in turns(following)} == {("pumps",)}


def test_a_log_written_anew_or_gone_loses_and_doubles_nothing(following, logs):
    path = session(logs, 2)
    follow_logs(following, now=WHEN)
    path.unlink()
    assert follow_logs(following, now=WHEN).added == 0
    session(logs, 3)
    assert follow_logs(following, now=WHEN).added == 1
    assert len(turns(following)) == 3


@pytest.mark.parametrize(
    "damage", [None, "", "{", '{"v": 9}', '{"v": 1, "files": 3}', "[" * 99_999]
)
def test_what_is_remembered_may_be_lost(following, logs, damage):
    session(logs, 2)
    follow_logs(following, now=WHEN)
    remembered = following.data_dir / "history" / "followed_logs.json"
    remembered.unlink() if damage is None else remembered.write_text(damage)
    session(logs, 3)
    assert follow_logs(following, now=WHEN).added == 1
    assert len(turns(following)) == 3


def test_a_manual_import_between_two_looks_is_known(following, logs):
    path = session(logs, 1)
    follow_logs(following, now=WHEN)
    session(logs, 2)
    assert import_conversations(following, path, now=WHEN).added == 1
    assert follow_logs(following, now=WHEN).added == 0
    session(logs, 3)
    assert follow_logs(following, now=WHEN).added == 1


def test_cleared_turns_do_not_come_back_by_following(following, logs):
    session(logs, 2)
    (row,) = follow_logs(following, now=WHEN).conversations
    clear(following, Choice(row.session))
    session(logs, 3)
    assert follow_logs(following, now=WHEN).added == 1
    assert [t.user_text for t in turns(following)] == ["s2?"]


def test_an_unfinished_answer_is_taken_after_a_day_of_silence(following, logs):
    rows = exports.claude_code(exports.user("Long?"), exports.agent(exports.words("…"), stop=None))
    path = exports.write_jsonl(logs / "u.jsonl", rows)
    at = dt.datetime.fromisoformat(rows[-1]["timestamp"])
    os.utime(path, (at.timestamp(), at.timestamp()))
    assert follow_logs(following, now=at + dt.timedelta(hours=2)).unfinished == 1
    assert changed_states(following, now=at + dt.timedelta(hours=3)) == {}
    assert follow_logs(following, now=at + dt.timedelta(hours=25)).added == 1


def test_an_answer_that_went_on_after_a_day_adds_what_it_went_on_with(following, logs):
    rows = exports.claude_code(
        exports.user("Long?"), exports.agent(exports.words("First."), stop=None),
        exports.agent(exports.words("Second."), stop=None), exports.agent(exports.words("Last.")),
    )  # fmt: skip
    at = dt.datetime.fromisoformat(rows[-1]["timestamp"])
    for days, count in enumerate((1, 2, 3, 4, 4), 1):
        path = exports.write_jsonl(logs / "u.jsonl", rows[:count])
        os.utime(path, (at.timestamp(), at.timestamp()))
        follow_logs(following, now=at + dt.timedelta(days=2 * days))
    assert [(t.user_text, t.assistant_text, t.status) for t in turns(following)] == [
        ("Long?", "", "partial"), ("", "First.", "partial"), ("", "Second.", "partial"),
        ("", "Last.", "complete"),
    ]  # fmt: skip
    assert len({t.session_id for t in turns(following)}) == 1
    again = import_conversations(following, path, now=at + dt.timedelta(days=20))
    assert (again.added, again.existing) == (0, 1)


def test_of_a_cleared_answer_that_went_on_only_the_rest_comes(following, logs):
    rows = exports.claude_code(
        exports.user("Long?"), exports.agent(exports.words("First."), stop=None),
        exports.agent(exports.words("Last.")),
    )  # fmt: skip
    at = dt.datetime.fromisoformat(rows[-1]["timestamp"])
    path = exports.write_jsonl(logs / "u.jsonl", rows[:2])
    os.utime(path, (at.timestamp(), at.timestamp()))
    (row,) = follow_logs(following, now=at + dt.timedelta(days=2)).conversations
    clear(following, Choice(row.session))
    exports.write_jsonl(logs / "u.jsonl", rows)
    follow_logs(following, now=at + dt.timedelta(days=3))
    assert [(t.user_text, t.assistant_text) for t in turns(following)] == [("", "Last.")]


def test_two_imports_at_once_add_each_turn_once(following, logs, tmp_path):
    path = session(logs, 40)
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(follow_logs, following, now=WHEN) for _ in range(2)]
        jobs += [pool.submit(import_conversations, following, path, now=WHEN) for _ in range(2)]
        assert sum(job.result().added for job in jobs) == 40
    assert len({t.id for t in turns(following)}) == len(turns(following)) == 40


def test_a_log_that_cannot_be_read_is_tried_again_and_holds_up_no_other(
    following, logs, monkeypatch
):
    bad, _ = session(logs, 1), session(logs, 1, "t")
    files = importing.reader.export_files

    def unreadable(path):
        found = files(path)
        if path == bad:
            found = [replace(file, open=lambda: (logs / "none").open("rb")) for file in found]
        return found

    monkeypatch.setattr(importing.reader, "export_files", unreadable)
    assert follow_logs(following, now=WHEN).added == 1
    monkeypatch.setattr(importing.reader, "export_files", files)
    assert list(changed_states(following, now=WHEN)) == [str(bad)]
    assert follow_logs(following, now=WHEN).added == 1


def test_a_turn_that_the_journal_refuses_is_a_problem_and_stops_nothing(space, tmp_path):
    rows = [exports.two_turns(f"c-{n}", f"Chat {n}") for n in range(3)]
    rows[1]["mapping"]["c-1a1"]["message"]["content"]["parts"] = ["x" * (9 << 20)]
    done = import_conversations(
        space, exports.write_json(tmp_path / "conversations.json", rows), now=NOW
    )
    assert [row.added for row in done.conversations] == [2, 1, 2]
    assert len(done.problems) == 1
    assert len(turns(space)) == 5


def test_a_title_that_holds_a_secret_is_told_nowhere(space, tmp_path):
    key = "sk-" + "Ab3" * 12
    row = exports.two_turns(title=f"key {key}")
    path = exports.write_json(tmp_path / "conversations.json", [row])
    done = import_conversations(space, path, now=NOW)
    assert key not in str(done) + str([turn.imported for turn in turns(space)])


def test_turns_cleared_after_a_manual_import_do_not_come_back_by_following(following, logs):
    path = session(logs, 2)
    (row,) = import_conversations(following, path, now=WHEN).conversations
    clear(following, Choice(row.session))
    assert follow_logs(following, now=WHEN).added == 0
    assert import_conversations(following, path, now=WHEN).added == 2
