"""kill -9 of imports of conversations: started again, nothing is lost or there twice."""

import datetime as dt

import pytest

from ragstream_core.conversations.journal.records import Turn
from ragstream_core.services import import_conversations as importing
from ragstream_core.wiring.journal import journal
from ragstream_core.wiring.workspace import open_workspace
from tests.faults.harness import DONE, Child, Killer
from tests.lengths import by_length
from tests.unit.conversations.importers import exports

KILLS = by_length(3, 15, 100)
CHATS = 40
NOW = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)


def turns(root):
    log = journal(open_workspace(root))
    return [entry.record for entry in log.entries() if isinstance(entry.record, Turn)]


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(importing, "BATCH", 2)


@pytest.mark.sweep
@pytest.mark.parametrize("follows", [False, True])
def test_an_import_killed_at_random_moments_is_finished_by_the_next(
    tmp_path, small_batches, follows
):
    killer = Killer(94)
    logs = tmp_path / "logs"
    for n in range(CHATS):
        rows = exports.claude_code(exports.user(f"{n}?"), exports.agent(exports.words("Yes.")))
        for row in rows:
            row["uuid"] = f"{n}{row['uuid']}"
            row["parentUuid"] = row["parentUuid"] and f"{n}{row['parentUuid']}"
        exports.write_jsonl(logs / f"{n}.jsonl", rows)

    def run(root):
        space = open_workspace(root, explicit={"paths.agent_logs": str(logs)})
        if follows:
            importing.follow_logs(space, now=NOW)
        else:
            importing.import_conversations(space, logs, now=NOW)

    for n in killer.times(KILLS):
        root = tmp_path / f"data{n}"
        for _ in range(2):
            killer.strike(Child(lambda root=root: run(root), tmp_path / "said"))
        last = Child(lambda root=root: run(root), tmp_path / "said")
        last.go()
        assert last.wait() == DONE, last.words()
        assert sorted(turn.user_text for turn in turns(root)) == sorted(
            f"{n}?" for n in range(CHATS)
        )
    print(f"\n{killer.line()}")


@pytest.mark.sweep
def test_answers_that_go_on_between_kills_come_once(tmp_path, small_batches):
    killer = Killer(95)
    for n in range(KILLS):
        root, logs = tmp_path / f"data{n}", tmp_path / f"logs{n}"
        rows = {chat: _long_answer(chat) for chat in range(CHATS)}
        for day, count in enumerate((2, 3, 4)):
            for chat, lines in rows.items():
                exports.write_jsonl(logs / f"{chat}.jsonl", lines[:count])
            at = NOW + dt.timedelta(days=2 * day)

            def run(root=root, logs=logs, at=at):
                space = open_workspace(root, explicit={"paths.agent_logs": str(logs)})
                importing.follow_logs(space, now=at)

            killer.strike(Child(run, tmp_path / "said"))
            if day == 2:
                last = Child(run, tmp_path / "said")
                last.go()
                assert last.wait() == DONE, last.words()
        said = " ".join(f"{turn.user_text} {turn.assistant_text}" for turn in turns(root)).split()
        assert sorted(said) == sorted(
            f"{chat}{word}" for chat in rows for word in ("?", "a", "b", "c")
        )
    print(f"\n{killer.line()}")


def _long_answer(chat):
    rows = exports.claude_code(
        exports.user(f"{chat}?"),
        exports.agent(exports.words(f"{chat}a"), stop=None),
        exports.agent(exports.words(f"{chat}b"), stop=None),
        exports.agent(exports.words(f"{chat}c")),
    )
    for row in rows:
        row["uuid"] = f"{chat}{row['uuid']}"
        row["parentUuid"] = row["parentUuid"] and f"{chat}{row['parentUuid']}"
    return rows
