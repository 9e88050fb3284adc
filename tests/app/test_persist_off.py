"""Persist off: a prompt changes no file, whichever way it is asked (R-195)."""

import io
import json
import tempfile

import pytest

from ragstream_app.page.prompt_session import PromptSession, press, press_all
from ragstream_core.models.embedders.token_cache import TokenVectorCache
from ragstream_core.prompts.chain import BUTTONS, OPS
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.wiring.make_prompt import make_prompt, make_stages
from ragstream_core.wiring.workspace import open_workspace
from tests.copies import holders
from tests.workspaces import files_below

CANARY = "Zebulon Quatermain"
QUESTION = f"What does {CANARY} know about the exact file lock?"
OFF = {"history.persist": "false"}


@pytest.fixture
def root(data, run, recording, monkeypatch, tmp_path):
    """Ingested and asked once in the ordinary way, and by the job, so that every file is there."""
    temp = tmp_path / "temp"
    temp.mkdir()
    monkeypatch.setenv("TMPDIR", str(temp))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("RAGSTREAM_RERANK__BACKEND", "maxsim")
    assert run("ingest", "manual")[0] == 0
    assert run("prompt", "How is a file locked?", "-p", "manual", "--dagster")[0] == 0
    (data / "doc_raw" / "manual" / "secret.txt").write_text("bytes that nobody ingested\n" * 3)
    return tmp_path


def test_the_commands_change_no_file(root, run, monkeypatch):
    before = files_below(root)
    options = ("-p", "manual", "--file", "secret.txt", "--json")
    code, out, err = run("prompt", QUESTION, *options, "--no-persist")
    made = json.loads(out)
    assert (
        code == 0 and CANARY in made["super_prompt"] and "nobody ingested" in made["super_prompt"]
    )
    assert (made["prompt_key"], made["run_id"]) == ("", "") and made["tokens"] > 0, err
    assert run("prompt", QUESTION, *options, "--set", "history.persist=off")[0] == 0
    code, out, err = run("prompt", QUESTION, "-p", "manual", "--no-persist")
    assert code == 0 and "nothing is kept of it" in err and "explain" not in err
    monkeypatch.setenv("RAGSTREAM_HISTORY__PERSIST", "false")
    assert run("prompt", QUESTION, "-p", "manual", "--through", "a3")[0] == 0
    assert run("search", QUESTION, "-p", "manual")[0] == 0
    assert run("prompt", f"{CANARY}: lock?", "-p", "manual", "--file", "no-such.txt")[0] != 0
    assert files_below(root) == before


def test_conversations_are_not_written_either(root, run, monkeypatch):
    words = ("--session", "a", "--user", QUESTION, "--assistant", f"{CANARY} knows.")
    with monkeypatch.context() as patch:
        patch.setenv("RAGSTREAM_HISTORY__PERSIST", "false")
        before = files_below(root)
        for more in ((), ("--external",)):
            code, _, err = run("history", "append", *words, *more)
            assert code != 0 and "history.persist is off" in err
        patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"user": "Zebulon Quatermain"}')))
        assert run("history", "import", "-")[0] != 0
        assert run("prompt", QUESTION, "-p", "manual", "--session", "a")[0] == 0
        assert files_below(root) == before
    assert run("history", "append", "--session", "a", "--user", "And now?", "--assistant", "Yes.")
    assert run("history", "embed")[0] == 0
    assert run("prompt", "And now?", "-p", "manual", "--session", "a")[0] == 0
    before = files_below(root)
    code, out, err = run("prompt", QUESTION, "-p", "manual", "--session", "a", "--no-persist")
    assert code == 0 and "And now?" in out, err  # it is read, and nothing is written
    assert files_below(root) == before and holders(root, CANARY) == []


def test_the_first_prompt_after_an_ingest_changes_no_file(data, run, tmp_path):
    assert run("ingest", "manual")[0] == 0
    before = files_below(tmp_path)
    assert run("prompt", QUESTION, "-p", "manual", "--no-persist")[0] == 0
    assert files_below(tmp_path) == before
    assert run("prompt", QUESTION, "-p", "manual")[0] == 0
    assert list(tmp_path.rglob("rows-newest.bin"))


def test_the_buttons_change_no_file(root):
    before = files_below(root)
    desk = PromptSession()
    press_all(desk, PromptRequest(QUESTION, ("manual",), settings=OFF), open_workspace())
    assert CANARY in desk.last.super_prompt.extras.super_prompt
    assert not any(step.key for step in desk.steps.values())
    assert files_below(root) == before


def test_the_same_prompt_comes_out_of_it(root, run):
    made = [
        json.loads(run("prompt", QUESTION, "-p", "manual", "--json", *more)[1])["super_prompt"]
        for more in (["--no-persist"], [])
    ]
    assert made[0] == made[1]


def test_switched_off_on_the_way_nothing_more_is_written(root):
    workspace = open_workspace()
    step = make_prompt(workspace, PromptRequest(QUESTION, ("manual",)), through=OPS[0])
    before = files_below(root)
    for op in OPS[1:]:
        step = make_stages(workspace, step, (op,), settings=OFF if op == OPS[1] else None)
    assert step.record.prompt_key == ""
    assert files_below(root) == before


def test_switched_on_later_it_writes_nothing_of_before(root):
    workspace = open_workspace(explicit=OFF)
    desk = PromptSession()
    press(desk, BUTTONS[0], PromptRequest(QUESTION, ("manual",)), workspace)
    step = make_prompt(workspace, PromptRequest(QUESTION, ("manual",)), through=OPS[0])
    before = files_below(root)
    on = open_workspace()
    for button in BUTTONS[1:]:
        press(desk, button, PromptRequest("something else", ("manual",)), on)
    for op in OPS[1:]:
        step = make_stages(on, step, (op,), settings={"history.persist": "true"})
    assert files_below(root) == before
    make_prompt(on, PromptRequest("How is a file locked?", ("manual",)))
    assert holders(root, CANARY) == [] and files_below(root) != before


def test_a_run_started_in_dagster_is_refused(root):
    from ragstream_assets.definitions import defs
    from ragstream_assets.instance import instance_of
    from ragstream_assets.prompts import JOB
    from ragstream_assets.resources import adopt

    workspace = open_workspace()
    asked = workspace.store.put_request(PromptRequest("How is a file locked?", ("manual",)))
    result = defs.resolve_job_def(JOB).execute_in_process(
        run_config={
            "resources": {"workspace": {"config": adopt(workspace)}},
            "ops": {OPS[0]: {"config": {"prompt_ref": asked, "settings": OFF}}},
        },
        instance=instance_of(workspace.data_dir),
        raise_on_error=False,
    )
    assert not result.success
    events = [e for e in result.all_events if e.is_step_failure]
    assert "history.persist is off" in str(events[0].event_specific_data)
    assert not (workspace.data_dir / "prompts" / "runs" / result.run_id).exists()


def test_a_cache_that_may_only_be_read_leaves_no_trace(tmp_path):
    import numpy as np

    rows = np.ones((3, 4), np.float16)
    TokenVectorCache(tmp_path).put("a" * 16, rows)
    (tmp_path / "bb").mkdir()
    (tmp_path / "bb" / f"{'b' * 16}.f16").write_bytes(b"torn")
    before = files_below(tmp_path)
    cache = TokenVectorCache(tmp_path, read_only=True)
    assert np.array_equal(cache.get("a" * 16), rows) and cache.get("b" * 16) is None
    cache.put("c" * 16, rows)
    assert files_below(tmp_path) == before
