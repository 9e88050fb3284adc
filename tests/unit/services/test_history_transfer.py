"""All GOLD turns of the last month into this project: one command, undone by one."""

import datetime as dt
import json
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from ragstream_core.conversations.clearing import choice_of
from ragstream_core.conversations.journal.records import Asked, TagEdit, Turn
from ragstream_core.errors import UnknownProject, UsageError
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.services import history_transfer
from ragstream_core.services.clear_history import clear
from ragstream_core.services.history_transfer import adopt, import_jsonl, read_lines
from ragstream_core.services.history_update import embed
from ragstream_core.services.import_conversations import is_of_rows
from ragstream_core.wiring.journal import append_records, journal, show
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.stages import run_prompt
from tests.workspaces import ingested_workspace

NOW = dt.datetime(2026, 11, 20, tzinfo=dt.UTC)


def turn(n, *tags, month="11", **more):
    text = f"The catalog is written by robot number {n} and by nobody else."
    when = f"2026-{month}-10T10:00:00+00:00"
    return Turn("", f"s{n % 2}", when, "Who writes the catalog?", text, tags=tags, **more)


@pytest.fixture
def space(tmp_path):
    few = {"history.projects": "current", "history.recency_k": 0}
    workspace = ingested_workspace(tmp_path, few)
    append_records(
        workspace,
        [turn(1, "GOLD"), turn(2), turn(3, "GOLD", month="08"), turn(4, "GOLD", "note"),
         turn(5, "GOLD", projects=("demo",)), Asked("", "s1", "", "Unanswered?")],
    )  # fmt: skip
    embed(workspace)
    return workspace


def found(space):
    prompt = run_prompt(
        space, pin_inputs(space, PromptRequest("Who writes the catalog?", ("demo",)), NOW)
    )
    past = (i.split("::")[2] for i in prompt.views_by_stage["retrieval"] if i[:9] == "history::")
    return sorted(int(numbers.partition("-")[0]) for numbers in past)


def test_gold_of_the_last_month_and_nothing_else_is_found_at_once(space):
    assert found(space) == [5]
    rows = adopt(space, "demo", tags=["GOLD"], days=30, now=NOW)
    assert [row.seq for row in rows] == [1, 4]
    assert found(space) == [1, 4, 5]
    assert adopt(space, "demo", tags=["GOLD"], days=30, now=NOW) == []
    embed(space)
    assert found(space) == [1, 4, 5]
    undone = adopt(space, "demo", tags=["GOLD"], undo=True)
    assert [row.seq for row in undone] == [1, 4]
    assert found(space) == [5]


def test_a_dry_run_writes_nothing(space):
    before = show(space)
    assert [row.seq for row in adopt(space, "demo", session="s1", dry_run=True)] == [1, 3]
    assert show(space) == before


def test_it_needs_a_project_and_a_choice(space):
    with pytest.raises(UnknownProject):
        adopt(space, "nowhere", tags=["GOLD"])
    with pytest.raises(UsageError, match="no turns are selected"):
        adopt(space, "demo")


def test_rows_with_a_byte_order_mark_are_read(space, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"user": "Who waits?", "assistant": "Others."}\r\n')
    assert is_of_rows(path)
    assert import_jsonl(space, read_lines(path), session="old").added == 1
    assert [row.user for row in show(space, "old")] == ["Who waits?"]


def test_two_imports_of_rows_at_once_add_every_row_once(space):
    before = len(show(space))
    lines = [json.dumps({"user": f"Which port has server {n}?", "assistant": str(n)})
             for n in range(40)]  # fmt: skip
    both = Barrier(4)

    def bring(_):
        both.wait()
        return import_jsonl(space, lines, session="servers").added

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(bring, range(4))) == [0, 0, 0, 40]
    assert len(show(space)) == before + 40


def test_a_turn_that_is_cleared_while_it_is_adopted_is_not_named_again(space, monkeypatch):
    looked = history_transfer.turn_rows
    gone = []

    def then_cleared(*args, **more):
        rows = looked(*args, **more)
        if not gone:
            gone.append(clear(space, choice_of(session="s1")))
        return rows

    monkeypatch.setattr(history_transfer, "turn_rows", then_cleared)
    adopt(space, "demo", tags=["GOLD"])
    cleared = [e.record for e in journal(space).entries() if isinstance(e.record, TagEdit)]
    known = {row.id for row in show(space)}
    assert cleared and {edit.turn for edit in cleared} <= known
