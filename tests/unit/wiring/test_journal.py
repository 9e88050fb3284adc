import datetime as dt
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from ragstream_core.conversations.journal.records import Turn
from ragstream_core.errors import Refused, UnknownPrompt, UsageError
from ragstream_core.services import external_reply
from ragstream_core.services.history_transfer import export_jsonl, export_markdown, import_jsonl
from ragstream_core.wiring import journal
from ragstream_core.wiring.workspace import open_workspace

TURN = Turn("", "demo", "", "Which port?", "8503.")


@pytest.fixture
def workspace(tmp_path):
    return open_workspace(tmp_path / "data")


def off(workspace):
    return open_workspace(workspace.data_dir, explicit={"history.persist": "false"})


def test_id_and_time_are_filled_in(workspace):
    entry = journal.append_turn(workspace, TURN)
    assert entry.seq == 1
    assert entry.record.id[14] == "7"
    assert dt.datetime.fromisoformat(entry.record.timestamp).tzinfo is not None
    (row,) = journal.show(open_workspace(workspace.data_dir))
    assert (row.user, row.assistant) == ("Which port?", "8503.")


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("2026-10-05T14:07:09Z", "2026-10-05T14:07:09Z"),
        ("2026-10-05 14:07+02:00", "2026-10-05 14:07+02:00"),
        ("20261005T140709+0200", "2026-10-05T14:07:09+02:00"),
        ("2026-W41-1T14:07+00:00", "2026-10-05T14:07:00+00:00"),
    ],
)
def test_every_time_begins_with_its_month_and_most_stay_as_written(workspace, written, kept):
    entry = journal.append_turn(workspace, replace(TURN, timestamp=written))
    assert entry.record.timestamp == kept


@pytest.mark.parametrize(
    "change",
    [
        {"session_id": "../x"}, {"session_id": ""}, {"timestamp": "noon"},
        {"timestamp": "2026-10-05T14:07:09"}, {"source": "dream"}, {"status": "unanswered"},
        {"importance": 1.5}, {"importance": float("nan")}, {"tags": ("a,b",)}, {"tags": (" ",)},
        {"user_text": 5}, {"user_text": "\ud800"}, {"projects": "handbook"}, {"projects": (1,)},
        {"importance": "high"}, {"versions": ("a.md",)}, {"speakers": ("one",)},
        {"tags": ("x" * 65,)}, {"tags": ("a\nb",)}, {"user_text": "", "assistant_text": ""},
    ],
)  # fmt: skip
def test_what_is_not_valid_writes_nothing(workspace, change):
    with pytest.raises(UsageError):
        journal.append_turn(workspace, replace(TURN, **change))
    assert not workspace.layout.history.exists()


def test_persist_off_refuses_every_write(workspace):
    shut = off(workspace)
    for write in (
        lambda: journal.append_turn(shut, TURN),
        lambda: external_reply.append_external(shut, TURN),
        lambda: import_jsonl(shut, ['{"user": "x"}']),
    ):
        with pytest.raises(Refused, match=r"history\.persist"):
            write()
    assert not workspace.layout.history.exists()


def test_tags_are_records_and_levels_are_capitals(workspace):
    entry = journal.append_turn(workspace, replace(TURN, tags=("gold", "mine", "gold")))
    assert entry.record.tags == ("GOLD", "mine")
    path = workspace.layout.history / "logs" / "conversation.log"
    before = path.read_bytes()
    _, now = journal.tag(workspace, "1", add=["silver"], remove=["gold"])
    assert now == ("mine", "SILVER")
    _, now = journal.tag(workspace, entry.record.id, remove=["mine"])
    assert now == ("SILVER",)
    assert path.read_bytes().startswith(before)
    assert journal.show(workspace)[0].tags == ("SILVER",)
    for which, add in (("7", ["x"]), ("1", [])):
        with pytest.raises(UsageError):
            journal.tag(workspace, which, add=add)


def test_two_conversations_of_one_second_have_two_names(workspace):
    """R10: the clock stands still or goes back; names stay apart and the order stays."""
    noon = dt.datetime(2026, 10, 5, 12, tzinfo=dt.UTC)
    names = []
    for n in range(3):
        names.append(journal.new_session(workspace, noon))
        journal.append_turn(workspace, replace(TURN, session_id=names[-1], user_text=f"q{n}"))
    assert names == ["20261005-120000", "20261005-120000-2", "20261005-120000-3"]
    earlier = noon - dt.timedelta(days=365)
    entry = journal.append_turn(
        workspace, replace(TURN, session_id="a", timestamp=earlier.isoformat(), user_text="q3")
    )
    assert entry.seq == 4
    assert [row.user for row in journal.show(workspace)] == ["q0", "q1", "q2", "q3"]


def test_conversations_that_begin_at_the_same_moment_have_a_name_each(workspace):
    noon = dt.datetime(2026, 10, 6, 12, tzinfo=dt.UTC)
    with ThreadPoolExecutor(8) as pool:
        names = list(pool.map(lambda _: journal.new_session(workspace, noon), range(16)))
    assert len(set(names)) == 16


def test_import_adds_what_is_not_there(workspace, tmp_path):
    journal.append_turn(workspace, TURN)
    journal.tag(workspace, "1", add=["GOLD"])
    lines = list(export_jsonl(workspace))
    assert import_jsonl(workspace, lines).added == 0
    other = open_workspace(tmp_path / "other")
    report = import_jsonl(other, lines)
    assert (report.added, report.skipped, report.sessions) == (2, 0, ("demo",))
    assert import_jsonl(other, lines).skipped == 2
    assert list(export_jsonl(other)) == lines
    assert export_markdown(other) == export_markdown(workspace)
    many = [f'{{"user": "fine {n}"}}' for n in range(600)]
    for bad in (
        '{"user": "x", "tags": ["a,b"]}',
        '{"user": "\\ud800"}',
        '{"user": "", "tags": []}',
    ):
        with pytest.raises(UsageError):
            import_jsonl(other, [*many, bad])
    assert list(export_jsonl(other)) == lines


def test_an_external_reply_needs_a_question(workspace):
    reply = replace(TURN, user_text="")
    with pytest.raises(UsageError, match="without its question"):
        external_reply.append_external(workspace, reply)
    with pytest.raises(UnknownPrompt):
        external_reply.append_external(workspace, reply, answers="abcdef")
    with pytest.raises(UsageError, match="without its text"):
        external_reply.append_external(workspace, replace(TURN, assistant_text=" "))
    entry, unknown = external_reply.append_external(
        workspace, replace(TURN, assistant_text="So [source: a.md, chunk: 0badcafe].")
    )
    assert entry.record.source == "external"
    assert unknown == ["[source: a.md, chunk: 0badcafe]"]
    assert entry.record.citations == ({"id": "0badcafe", "source": "a.md", "known": False},)
