"""Asked again with nothing changed, a prompt comes from its record, whole and checked."""

import datetime as dt
import json
import shutil

import pytest

from ragstream_core.prompts.chain import OPS
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.prompts.recorded import (
    ASKED_NAME,
    STATES_NAME,
    Asking,
    note_asked,
    pack_states,
    times_asked,
    unpack_states,
)
from ragstream_core.records import to_json
from ragstream_core.records.identity import canonical_json
from ragstream_core.services.explain import explanation
from ragstream_core.services.forget import forget
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.prompt_retention import gc
from ragstream_core.wiring import models, stages
from ragstream_core.wiring.make_prompt import make_prompt, make_stages
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.saved_prompts import recall, save_prompt
from tests.unit.wiring.test_llm_stages import ALL, Thinking
from tests.workspaces import docs_of, hashed_workspace, write_docs

NOW = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
QUESTION = "Who holds the project lock, and what does settings.yaml say of theta?"


@pytest.fixture(scope="module")
def ingested(tmp_path_factory):
    root = tmp_path_factory.mktemp("recalling")
    write_docs(root)
    ingest_project(opened(root), "demo")
    return root


def opened(root, **more):
    return hashed_workspace(root, more)


@pytest.fixture
def space(ingested, tmp_path):
    root = tmp_path / "data"
    shutil.copytree(ingested, root)
    return opened(root)


def ask(space, minutes=0, fresh=False, on_step=None, **more):
    request = PromptRequest(**{"text": QUESTION, "projects": ("demo",), **more})
    now = NOW + dt.timedelta(minutes=minutes)
    return make_prompt(space, request, now=now, fresh=fresh, on_step=on_step)


@pytest.fixture
def ran(monkeypatch):
    """The ops that ran."""
    seen, real = [], stages.make_stage

    def stage(self, op, prompt, **given):
        seen.append(op)
        return real(self, op, prompt, **given)

    monkeypatch.setattr(stages, "make_stage", stage)
    return seen


def whole(prompt):
    data = to_json(prompt)
    data["extras"] = {k: v for k, v in data["extras"].items() if k != "inputs"}
    return canonical_json(data)


def test_no_stage_runs_and_every_step_is_what_it_was(space, ran):
    first = ask(space)
    assert ran == list(OPS)
    told = []
    again = ask(space, minutes=90, on_step=lambda op, after: told.append((op, list(after.passed))))
    assert ran == list(OPS)
    assert again.record.prompt_key == first.record.prompt_key and not first.asked
    assert [a.at for a in again.asked] == [NOW.isoformat()]
    assert list(again.passed) == list(first.passed)
    for step, made in first.passed.items():
        assert whole(again.passed[step]) == whole(made), step
    assert [op for op, _ in told] == list(OPS) and told[-1][1] == list(OPS)
    assert again.inputs.now == (NOW + dt.timedelta(minutes=90)).isoformat()


def test_explain_tells_every_time_it_was_asked(space):
    key = ask(space).record.prompt_key
    ask(space, minutes=1)
    ask(space, minutes=2, fresh=True)
    asked = explanation(space, key).to_json()["asked"]
    assert [row["ran"] for row in asked] == [True, False, True]
    assert [row["at"][14:16] for row in asked] == ["04", "05", "06"]


def test_stages_go_on_from_a_recalled_prompt(space, ran):
    expected = make_stages(space, ask(space), OPS[6:], settings={"prompt.max_facts": "1"})
    ran.clear()
    found = make_stages(space, ask(space, minutes=5), OPS[6:], settings={"prompt.max_facts": "1"})
    assert ran == list(OPS[6:])
    assert found.record.prompt_key == expected.record.prompt_key
    assert not found.asked


def test_a_stage_pressed_again_without_a_change_leaves_the_record_able_to_answer(space, ran):
    first = ask(space)
    inputs = space.store.record(first.record.prompt_key).inputs
    save_prompt(space, first.super_prompt, run_id="another")
    found = ask(space, minutes=1)
    assert found.asked and not found.notes and found.record.run_id == "another"
    assert found.record.inputs == inputs and ran == list(OPS)


@pytest.mark.parametrize(
    "change",
    [
        lambda s: {"text": QUESTION + " Now?"},
        lambda s: {"settings": {"gate.theta": "0.3"}},
        lambda s: {"files": ("catalog.md",)},
        lambda s: {"lock": True},
        lambda s: {"fresh": True},
        lambda s: (_docs(s) / "settings.yaml").write_text("gate:\n  theta: 0.7\n") and {},
        lambda s: (_docs(s) / "settings.yaml").write_bytes(b"\xff\xfe\x00theta") and {},
        lambda s: (_docs(s) / "settings.yaml").unlink() or {},
        lambda s: _ingest(s, "new.md", "# New\n\nNobody holds the project lock.\n"),
    ],
    ids=["text", "setting", "file", "lock", "fresh", "bytes", "no text", "gone", "generation"],
)  # fmt: skip
def test_whatever_has_changed_the_chain_runs(space, ran, change):
    ask(space)
    ran.clear()
    found = ask(space, **change(space))
    assert ran == list(OPS) and not found.asked and not found.notes


def _docs(space):
    return docs_of(space)


def _ingest(space, name, text):
    (_docs(space) / name).write_text(text)
    ingest_project(space, "demo")
    return {}


def test_an_unused_file_may_change(space, ran):
    ask(space)
    (_docs(space) / "notes" / "limits.txt").touch()
    assert ask(space, minutes=1).asked


@pytest.mark.parametrize("name", [STATES_NAME, "super_prompt.md", "record.json"])
@pytest.mark.parametrize("damage", [b"", b"nonsense", None])
def test_a_damaged_record_is_said_and_the_chain_runs_again(space, ran, name, damage):
    first = ask(space)
    path = space.store.root / first.record.prompt_key / name
    data = path.read_bytes()
    path.write_bytes(data[:-9] + b"........." if damage is None else damage)
    ran.clear()
    found = ask(space, minutes=1)
    assert ran == list(OPS) and not found.asked
    assert f"the record {first.record.prompt_key[:12]} could not answer" in found.notes[0]
    assert found.record.prompt_key == first.record.prompt_key
    assert ask(space, minutes=2).asked


@pytest.mark.parametrize("name", [STATES_NAME, "record.json", ASKED_NAME, ""])
def test_what_is_gone_is_made_again_without_a_word(space, ran, name):
    first = ask(space)
    folder = space.store.root / first.record.prompt_key
    (folder / name).unlink() if name else shutil.rmtree(folder)
    ran.clear()
    found = ask(space, minutes=1)
    assert ran == list(OPS) and not found.asked and not found.notes
    assert ask(space, minutes=2).asked


def test_forgotten_and_expired_prompts_answer_nothing(space, ran):
    ask(space)
    (_docs(space) / "catalog.md").unlink()
    forget(space, "demo", "catalog.md")
    ran.clear()
    assert not ask(space, minutes=1).asked
    ask(space, minutes=2)
    later = NOW.timestamp() + 10 * 365 * 86_400
    assert len(gc(space, now=later).prompts) == 1
    assert list((space.store.root / "asked").glob("*")) == []
    assert not ask(space, minutes=3).asked


def test_a_prompt_that_may_not_be_kept_leaves_and_takes_nothing(space, ran):
    ask(space)
    before = sorted(space.store.root.rglob("*"))
    for minutes in (1, 2):
        found = ask(space, minutes=minutes, settings={"history.persist": "false"})
        assert not found.asked and found.record.prompt_key == ""
    assert sorted(space.store.root.rglob("*")) == before
    assert ran == [*OPS, *OPS, *OPS]


def test_where_the_time_counts_only_the_same_time_answers(space, ran):
    settings = {"history.recency_weight": 0.1, "history.days": 30}
    from ragstream_core.conversations.journal.records import Turn
    from ragstream_core.services.history_update import embed
    from ragstream_core.wiring.journal import append_turn

    for n in range(8):
        when = f"2026-01-0{1 + n // 8}T00:0{n}:00+00:00"
        append_turn(space, Turn("", "old", when, f"Who holds lock {n}?", f"Robot {n} holds it."))
    embed(space)
    first = ask(space, settings=settings)
    assert first.record.inputs["now"]
    assert not ask(space, minutes=1, settings=settings).asked
    assert ask(space, settings=settings).asked


def test_a_language_models_answer_is_taken_from_the_record(space, ran, monkeypatch):
    model = Thinking()
    monkeypatch.setattr(models, "chat_model", lambda config: model)
    first = ask(space, settings=ALL)
    asked = len(model.asked)
    again = ask(space, minutes=1, settings=ALL)
    assert again.asked and again.record.prompt_key == first.record.prompt_key
    assert len(model.asked) == asked
    other = opened(space.data_dir, **{"provider.model": "another"})
    assert not ask(other, minutes=2, settings=ALL).asked


def test_where_a_model_gave_no_answer_it_is_asked_again(space, monkeypatch):
    model = Thinking(Condensed=lambda value: "nothing of the kind")
    monkeypatch.setattr(models, "chat_model", lambda config: model)
    assert not ask(space, settings=ALL).asked
    assert not ask(space, minutes=1, settings=ALL).asked


def test_the_debug_log_sees_stages_run(space, ran):
    logged = opened(space.data_dir, **{"debug.enabled": True})
    ask(logged)
    assert not ask(logged, minutes=1).asked


def test_through_a_stage_the_chain_runs(space, ran):
    ask(space)
    ran.clear()
    request = PromptRequest(QUESTION, ("demo",))
    assert make_prompt(space, request, through="retrieval", now=NOW).record is None
    assert ran == list(OPS[:4])


def test_two_at_once_leave_one_record_that_answers(space):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as pool:
        keys = {r.record.prompt_key for r in pool.map(lambda n: ask(space, n), range(8))}
    assert len(keys) == 1
    found, said = recall(space, pin_inputs(space, PromptRequest(QUESTION, ("demo",)), NOW))
    assert found is not None and not said
    assert len(times_asked(space.store.root / keys.pop())) == 9


def test_states_are_equal_bytes_and_come_back(space):
    made = ask(space)
    passed = dict(made.passed)
    data = pack_states(passed)
    back = unpack_states(data, made.inputs.to_json())
    assert pack_states(back) == data
    assert [canonical_json(to_json(p)) for p in back.values()] == [
        canonical_json(to_json(p)) for p in passed.values()
    ]


def test_a_torn_line_of_times_is_left_out(tmp_path):
    note_asked(tmp_path, Asking("2026-01-01", ran=True))
    with (tmp_path / ASKED_NAME).open("a") as file:
        file.write('{"at": "2026-\n' + json.dumps({"at": "2026-01-03", "ran": False}) + "\n[]\n")
    assert [asking.at for asking in times_asked(tmp_path)] == ["2026-01-01", "2026-01-03"]
    assert times_asked(tmp_path / "none") == []
