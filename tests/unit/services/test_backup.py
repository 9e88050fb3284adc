"""A backup brings back the same digests and the same prompts; a damaged one brings nothing."""

import json
import shutil
from dataclasses import replace

import pytest

from ragstream_core.conversations.clearing import Choice
from ragstream_core.conversations.journal.records import Turn
from ragstream_core.errors import IntegrityError, ProjectLocked, Refused, UnknownProject, UsageError
from ragstream_core.index.check import Part
from ragstream_core.index.schema import project_lock
from ragstream_core.index.view import forget_views, open_view
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.services import generations, prompt_retention, verify
from ragstream_core.services.backup import HistoryState, IndexState, backup
from ragstream_core.services.clear_history import clear
from ragstream_core.services.history_update import embed
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.replay import replay_prompt
from ragstream_core.services.restore import restore
from ragstream_core.wiring.history_index import History
from ragstream_core.wiring.journal import append_turn, show
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.saved_prompts import save_prompt
from ragstream_core.wiring.stages import run_prompt
from tests.workspaces import docs_of, hashed_workspace, write_docs


def open_root(root):
    return hashed_workspace(root)


@pytest.fixture
def space(tmp_path):
    root = tmp_path / "data"
    write_docs(root)
    write_docs(root, "other")
    workspace = open_root(root)
    for name in ("demo", "other"):
        ingest_project(workspace, name)
    (root / "projects" / "demo").mkdir(parents=True)
    (root / "projects" / "demo" / "hard_rules.md").write_text("Cite everything.\n")
    return workspace


def ask(space, project="demo", **more):
    text = "Who may write to the catalog?"
    prompt = run_prompt(
        space, pin_inputs(space, PromptRequest(text=text, projects=(project,), **more))
    )
    return save_prompt(space, prompt).prompt_key


def test_what_comes_back_has_the_same_digest_and_replays(space, tmp_path):
    key = ask(space, files=("notes/limits.txt",))
    prompt_retention.keep(space, key)
    digest = open_view(space.index_dir("demo")).digest
    made = backup(space, tmp_path / "copy", documents=True)
    assert made.projects["demo"] == IndexState(1, digest)
    assert made.prompts == 1
    shutil.rmtree(space.data_dir)
    forget_views()
    new = open_root(tmp_path / "elsewhere")
    restore(new, tmp_path / "copy")
    assert open_view(new.index_dir("demo")).digest == digest
    assert replay_prompt(new, key).verdict == "identical"
    assert generations.generations(new, "demo")[0].kept_by == ("newest", key)
    for name in ("demo", "other"):
        assert verify.verify_project(new, name, part=Part(1, 1)).findings == []
    assert not ingest_project(new, "demo").committed


def test_a_document_of_the_name_of_the_list_is_copied_too(space, tmp_path):
    (docs_of(space) / "conf").mkdir()
    (docs_of(space) / "conf" / "backup.json").write_text('{"keep": "for a year"}')
    made = backup(space, tmp_path / "copy", documents=True)
    copied = tmp_path / "copy" / "doc_raw" / "demo" / "conf" / "backup.json"
    assert copied.read_text() == '{"keep": "for a year"}'
    files = [p for p in (tmp_path / "copy").rglob("*") if p.is_file()]
    assert (made.files, made.bytes) == (
        len(files) - 1, sum(p.stat().st_size for p in files if p.parent != tmp_path / "copy"),
    )  # fmt: skip
    new = open_root(tmp_path / "new")
    restore(new, tmp_path / "copy")
    assert (docs_of(new) / "conf" / "backup.json").read_text() == '{"keep": "for a year"}'


def test_one_project_takes_only_what_is_its_own(space, tmp_path):
    mine, others = ask(space), ask(space, "other")
    made = backup(space, tmp_path / "copy", ["demo"])
    assert sorted(made.projects) == ["demo"] and made.prompts == 1
    assert (tmp_path / "copy" / "prompts" / mine).is_dir()
    assert not (tmp_path / "copy" / "prompts" / others).exists()
    assert not (tmp_path / "copy" / "doc_raw").exists()
    assert (tmp_path / "copy" / "projects" / "demo" / "hard_rules.md").exists()
    with pytest.raises(UnknownProject):
        backup(space, tmp_path / "copy2", ["never"])


def test_nothing_is_overwritten_unasked(space, tmp_path):
    backup(space, tmp_path / "copy")
    (docs_of(space) / "more.md").write_text("# More\n\nwhat came in later\n")
    ingest_project(space, "demo")
    with pytest.raises(Refused, match="another state"):
        backup(space, tmp_path / "copy")
    with pytest.raises(Refused):
        restore(space, tmp_path / "copy")
    assert backup(space, tmp_path / "copy", force=True).already is False
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(Refused, match="not a backup"):
        backup(space, tmp_path / "mine", force=True)
    assert (tmp_path / "mine" / "letter.txt").read_text() == "dear"


def test_who_was_killed_behind_the_last_step_may_ask_again(space, tmp_path):
    """It may be that only the answer was lost: the same state is found whole and said to be."""
    made = backup(space, tmp_path / "copy", (name for name in ["demo"]))
    again = backup(space, tmp_path / "copy", ["demo"])
    assert (made.already, again.already) == (False, True)
    assert replace(again, already=False) == made
    assert not list(tmp_path.glob(".copy.part"))
    ask(space)
    with pytest.raises(Refused, match="another state"):  # of prompts, which the digests tell
        backup(space, tmp_path / "copy", ["demo"])
    listed = json.loads((tmp_path / "copy" / "backup.json").read_text())["files"]
    (tmp_path / "copy" / next(iter(listed))).write_text("torn")
    with pytest.raises(Refused):
        backup(space, tmp_path / "copy", ["demo"])


def test_a_restore_goes_on_where_it_was_killed(space, tmp_path, monkeypatch):
    from ragstream_core.services import restore as restoring

    backup(space, tmp_path / "copy")
    new, real = open_root(tmp_path / "new"), restoring._restore_index

    def killed(workspace, source, name, listed):
        if name == "other":
            raise KeyboardInterrupt
        real(workspace, source, name, listed)

    monkeypatch.setattr(restoring, "_restore_index", killed)
    with pytest.raises(KeyboardInterrupt):
        restore(new, tmp_path / "copy")
    monkeypatch.undo()
    restore(new, tmp_path / "copy")
    for name in ("demo", "other"):
        assert open_view(new.index_dir(name)).digest == open_view(space.index_dir(name)).digest


@pytest.mark.parametrize("place", ["history/archive/x", "index/demo/x", "history/logs/x"])
def test_what_no_list_names_is_not_restored(space, tmp_path, place):
    talk(space)
    backup(space, tmp_path / "copy")
    (tmp_path / "copy" / place).parent.mkdir(exist_ok=True)
    (tmp_path / "copy" / place).write_text("unchecked")
    new = open_root(tmp_path / "new")
    restore(new, tmp_path / "copy")
    assert not [path for path in (tmp_path / "new").rglob("x")]


def test_turns_that_were_replaced_are_not_found_after_a_restore(space, tmp_path):
    """The backup's conversations were never embedded; those of now were."""
    append_turn(space, Turn("", "one", "2026-10-09T10:00:00+02:00", "Old?", "Old words."))
    backup(space, tmp_path / "copy")
    other = open_root(tmp_path / "other")
    append_turn(other, Turn("", "two", "2026-10-09T10:00:00+02:00", "New?", "Replaced words."))
    embed(other)
    restore(other, tmp_path / "copy", force=True)
    assert [row.turn.user_text for row in show(other)] == ["Old?"]
    assert not (other.data_dir / "history" / "index" / "catalog.sqlite").exists()
    assert History(other).check(Part(1, 1)) == []
    embed(other)
    assert History(other).check(Part(1, 1)) == []


def test_an_older_state_replaces_a_newer_one_only_by_force(space, tmp_path):
    digest = open_view(space.index_dir("demo")).digest
    backup(space, tmp_path / "copy")
    held = open_view(space.index_dir("demo"))
    (docs_of(space) / "catalog.md").write_text("# Catalog\n\nquite another text\n")
    (space.data_dir / "projects" / "demo" / "hard_rules.md").write_text("Cite nothing.\n")
    ingest_project(space, "demo")
    with pytest.raises(Refused):
        restore(space, tmp_path / "copy")
    restore(space, tmp_path / "copy", force=True)
    forget_views()
    assert open_view(space.index_dir("demo")).digest == digest == held.digest
    rules = space.data_dir / "projects" / "demo" / "hard_rules.md"
    assert rules.read_text() == "Cite everything.\n"
    assert ingest_project(space, "demo").generation == 2
    assert verify.verify_project(space, "demo", part=Part(1, 1)).findings == []
    assert not [p for p in space.layout.indexes.iterdir() if p.name.startswith(".")]


def test_every_flipped_byte_of_a_backup_is_found_before_anything_is_written(space, tmp_path):
    backup(space, tmp_path / "copy")
    listed = json.loads((tmp_path / "copy" / "backup.json").read_text())["files"]
    new = open_root(tmp_path / "elsewhere")
    for relative in listed:
        path = tmp_path / "copy" / relative
        intact = path.read_bytes()
        raw = bytearray(intact)
        raw[len(raw) // 2] ^= 8
        path.write_bytes(raw)
        with pytest.raises(IntegrityError, match="not what was backed up"):
            restore(new, tmp_path / "copy")
        path.write_bytes(intact)
    assert not (tmp_path / "elsewhere").exists()
    restore(new, tmp_path / "copy")


@pytest.mark.parametrize("name", ["../../evil", "/etc/evil", "projects/../../evil"])
def test_a_backup_cannot_write_outside_of_the_root(space, tmp_path, name):
    backup(space, tmp_path / "copy")
    path = tmp_path / "copy" / "backup.json"
    listed = json.loads(path.read_text())
    listed["files"][name] = "0" * 64
    path.write_text(json.dumps(listed))
    with pytest.raises(IntegrityError):
        restore(open_root(tmp_path / "elsewhere"), tmp_path / "copy")


def test_a_folder_that_is_no_backup_is_refused(space, tmp_path):
    (tmp_path / "x").mkdir()
    for text in ("", "{", "[]", '{"version": 9, "files": {}, "projects": {}}'):
        (tmp_path / "x" / "backup.json").write_text(text)
        with pytest.raises(UsageError):
            restore(space, tmp_path / "x")


def test_a_project_that_is_being_written_is_not_copied(space, tmp_path):
    with project_lock(space.index_dir("other")), pytest.raises(ProjectLocked):
        backup(space, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_damaged_index_is_not_passed_on_as_a_backup(space, tmp_path):
    (vectors,) = space.index_dir("demo").glob("*.f32")
    raw = bytearray(vectors.read_bytes())
    raw[33] ^= 2
    vectors.write_bytes(raw)
    with pytest.raises(IntegrityError, match="not sound"):
        backup(space, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def talk(space):
    for n, session in enumerate(["one", "two", "one"]):
        when = f"2026-10-0{n + 1}T10:00:00+02:00"
        append_turn(space, Turn("", session, when, f"Question {n}?", f"Answer {n}."))


def test_conversations_come_back_and_nothing_is_embedded_again(space, tmp_path):
    talk(space)
    embed(space)
    clear(space, Choice("two"), archive=True)
    mark = embed(space)
    made = backup(space, tmp_path / "copy")
    assert made.history == HistoryState(4, mark.generation, mark.digest)
    names = {p.name for p in (tmp_path / "copy" / "history").rglob("*") if p.is_file()}
    assert "conversation.log" in names and "catalog.sqlite" in names
    assert not names & {"history_store.arrow", "session-one.log", ".lock", ".sessions.json"}
    new = open_root(tmp_path / "elsewhere")
    restore(new, tmp_path / "copy")
    assert show(new) == show(space) and len(show(new)) == 2
    assert History(new).check(Part(1, 1)) == []
    assert embed(new).embedded == 0 and embed(new).generation == mark.generation
    assert (new.data_dir / "history" / "logs" / "session-one.log").exists()
    assert new.layout.history_snapshot.exists()
    assert len(list((new.data_dir / "history" / "archive").iterdir())) == 1
    talk(new)
    assert embed(new).turns == 3 and len(show(new)) == 5


def test_other_conversations_are_replaced_only_by_force(space, tmp_path):
    talk(space)
    backup(space, tmp_path / "copy")
    other = open_root(tmp_path / "elsewhere")
    talk(other)
    embed(other)
    before = show(other)
    with pytest.raises(Refused, match="other conversations"):
        restore(other, tmp_path / "copy")
    assert show(other) == before
    restore(other, tmp_path / "copy", force=True)
    assert show(other) == show(space) != before
    append_turn(other, Turn("", "one", "2026-10-09T10:00:00+02:00", "And now?", "Goes on."))
    embed(other, rebuild=True)
    assert History(other).check(Part(1, 1)) == []
    restore(other, tmp_path / "copy", force=True)
    restore(other, tmp_path / "copy", force=True)
    assert show(other) == show(space)


def test_a_backup_of_one_project_or_of_none_has_no_conversations(space, tmp_path):
    assert backup(space, tmp_path / "empty").to_json()["history"] == {}
    talk(space)
    assert backup(space, tmp_path / "copy", ["demo"]).history is None
    assert not (tmp_path / "copy" / "history").exists()
    restore(open_root(tmp_path / "elsewhere"), tmp_path / "copy")
    assert not (tmp_path / "elsewhere" / "history").exists()
