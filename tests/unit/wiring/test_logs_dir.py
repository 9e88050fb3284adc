"""`paths.logs`: one setting says where the journal and the debug logs lie (R-030, R-282)."""

import datetime as dt
import os

import pytest

from ragstream_core.conversations.clearing import Choice
from ragstream_core.conversations.journal.records import Turn
from ragstream_core.errors import Refused
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.services.backup import backup
from ragstream_core.services.clear_history import clear
from ragstream_core.services.disk_usage import disk_usage
from ragstream_core.services.forget import forget
from ragstream_core.services.history_update import embed
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.restore import restore
from ragstream_core.wiring.journal import append_turn, journal, show
from ragstream_core.wiring.prompt_inputs import pin_history, pin_inputs
from ragstream_core.wiring.saved_prompts import save_prompt
from ragstream_core.wiring.stages import run_prompt
from ragstream_core.wiring.workspace import open_workspace
from tests.workspaces import write_docs

CANARY = "Quatermain keeps the marzipan"
SETTINGS = {
    "embeddings.backend": "hashed", "rerank.backend": "maxsim", "debug.enabled": True,
    "debug.vars_enabled": True,
}  # fmt: skip


def opened(tmp_path, name="data", **settings):
    return open_workspace(tmp_path / name, explicit={**SETTINGS, **settings})


@pytest.fixture(params=["yaml", "environment"])
def space(request, tmp_path, monkeypatch):
    """A root whose logs lie elsewhere, with a conversation, a prompt of it and debug logs."""
    write_docs(tmp_path / "data")
    where = str(tmp_path / "logs of mine")
    config = tmp_path / "mine.yaml"
    config.write_text(f"paths:\n  logs: {where!r}\n" if request.param == "yaml" else "{}\n")
    if request.param == "environment":
        monkeypatch.setenv("RAGSTREAM_PATHS__LOGS", where)
    made = open_workspace(tmp_path / "data", config_path=config, explicit=SETTINGS)
    ingest_project(made, "demo")
    append_turn(made, Turn("", "secret", "2026-10-05T14:07:00+02:00", f"{CANARY}?", f"{CANARY}."))
    now = dt.datetime.fromisoformat("2026-10-06T10:00:00+02:00")
    asked = PromptRequest("Who may write to the catalog?", ("demo",), session="secret")
    save_prompt(made, run_prompt(made, pin_inputs(made, asked, now)))
    return made


@pytest.fixture
def logs(tmp_path):
    return tmp_path / "logs of mine"


def holding(folder):
    files = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path.name for path in files if CANARY.encode() in path.read_bytes())


def test_journal_and_debug_logs_lie_where_it_says(space, logs, tmp_path):
    names = {path.name.partition("_20")[0] for path in logs.iterdir() if path.name[0] != "."}
    assert names == {"conversation.log", "debug_trace", "debug_vars"}
    assert not (tmp_path / "data" / "history" / "logs").exists()
    assert not (tmp_path / "data" / "logs").exists()
    assert disk_usage(space).history["journal"] > 0
    assert str(logs) in [area.path for area in disk_usage(space).areas]


def test_clearing_leaves_no_copy_there_and_no_other_file_is_touched(space, logs):
    (logs / "mine.txt").write_text(CANARY)
    embed(space)
    assert {"conversation.log", "mine.txt", "session-secret.log"} <= set(holding(logs))
    report = clear(space, Choice("secret"))
    assert holding(logs) == ["mine.txt"] and report.warnings == []
    assert holding(space.data_dir) == []


def test_files_with_names_like_ours_are_others_all_the_same(space, logs):
    others = ["conversation notes.txt", "session plan.md", "debug_my_notes.txt", "debug_vars_x.log"]
    for name in others:
        (logs / name).write_text(CANARY)
    embed(space)
    assert clear(space, Choice("secret")).warnings == []
    assert holding(logs) == sorted(others)


def test_what_a_kill_left_of_a_sessions_log_goes_with_the_turns(space, logs):
    embed(space)
    left = logs / ".session-secret.log.x7.tmp"
    left.write_bytes((logs / "session-secret.log").read_bytes())
    clear(space, Choice("secret"))
    assert holding(logs) == [] and not left.exists()


def test_forgetting_a_document_drops_the_variables_there(space, logs):
    assert list(logs.glob("debug_vars_*"))
    forget(space, "demo", "catalog.md", delete=True)
    assert not list(logs.glob("debug_vars_*"))
    assert (logs / "conversation.log").exists()


def test_a_backup_holds_the_journal_and_brings_it_back_elsewhere(space, logs, tmp_path):
    embed(space)
    backup(space, tmp_path / "copy")
    assert (tmp_path / "copy" / "history" / "logs" / "conversation.log").exists()
    new = opened(tmp_path, "new", **{"paths.logs": str(tmp_path / "other")})
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "debug_trace_20261005-100000_sess01.log").write_text("kept")
    restore(new, tmp_path / "copy")
    assert show(new) == show(space) and len(show(new)) == 1
    assert (tmp_path / "other" / "debug_trace_20261005-100000_sess01.log").read_text() == "kept"
    assert not (new.data_dir / "history" / "logs").exists()


def test_bringing_conversations_back_leaves_the_files_of_others_there(space, logs, tmp_path):
    backup(space, tmp_path / "copy")
    append_turn(space, Turn("", "later", "2026-10-05T14:08:00+02:00", "C?", "D."))
    assert (logs / "session-later.log").exists() or embed(space)
    (logs / "conversation notes.txt").write_text("mine")
    (logs / "sub" / "deep").mkdir(parents=True)
    (logs / "sub" / "deep" / "x.md").write_text("mine too")
    (logs / "gone").symlink_to("nowhere")
    os.mkfifo(logs / "pipe")
    logs.chmod(0o755)
    debug = {path.name: path.stat().st_mtime_ns for path in logs.glob("debug_*")}
    restore(space, tmp_path / "copy", force=True)
    assert [row.session for row in show(space)] == ["secret"]
    assert (logs / "conversation notes.txt").read_text() == "mine"
    assert (logs / "sub" / "deep" / "x.md").read_text() == "mine too"
    assert (logs / "gone").is_symlink() and (logs / "pipe").is_fifo()
    assert logs.stat().st_mode & 0o777 == 0o755
    assert debug and {p.name: p.stat().st_mtime_ns for p in logs.glob("debug_*")} == debug
    assert not (logs / "session-later.log").exists()
    assert not list(logs.parent.glob(".*"))


def test_conversations_that_lie_elsewhere_are_not_passed_by(tmp_path):
    usual = opened(tmp_path)
    append_turn(usual, Turn("", "one", "2026-10-05T14:07:00+02:00", "A?", "B."))
    moved = tmp_path / "moved"
    for touch in (show, journal, lambda space: pin_history(space, "one", "")):
        with pytest.raises(Refused, match="the conversations lie in") as refused:
            touch(opened(tmp_path, **{"paths.logs": str(moved)}))
        assert f"mv {usual.layout.logs}/* {moved}/" in refused.value.hint
    usual.layout.logs.rename(moved)
    assert len(show(opened(tmp_path, **{"paths.logs": str(moved)}))) == 1


def test_logs_among_documents_are_refused(tmp_path):
    space = opened(tmp_path, **{"paths.logs": str(tmp_path / "data" / "doc_raw" / "demo")})
    with pytest.raises(Refused, match="where documents lie"):
        append_turn(space, Turn("", "one", "2026-10-05T14:07:00+02:00", "A?", "B."))
