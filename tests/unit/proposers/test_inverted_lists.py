"""Large projects are searched by inverted lists: made, kept up, found damaged, pinned, replayed."""

import gc
import json
import mmap
import random
import subprocess
import sys
import weakref
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from ragstream_core.errors import ExtraMissing, InputUnavailable
from ragstream_core.index.view import forget_views, open_view
from ragstream_core.ingestion import scan
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.proposers import kept, list_file, list_index, list_training
from ragstream_core.proposers.derived_store import MEASURED
from ragstream_core.proposers.inverted_lists import LISTS as STORE
from ragstream_core.proposers.inverted_lists import InvertedLists
from ragstream_core.proposers.list_paths import FOLDER
from ragstream_core.services import generations, verify
from ragstream_core.services.forget import forget
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.replay import replay_prompt
from ragstream_core.services.search import search
from ragstream_core.wiring import ingestion
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.saved_prompts import save_prompt
from ragstream_core.wiring.stages import run_prompt
from ragstream_core.wiring.workspace import open_workspace

QUESTION = "word3 word17 word250 word99"
WORDS = [f"word{i}" for i in range(300)]
FILES = 260


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(scan, "RACY_NS", 0)  # files of a test are always young
    monkeypatch.setattr(list_training, "ROWS_A_LIST", 16)


@pytest.fixture
def root(tmp_path):
    chance = random.Random(1)
    for i in range(FILES):
        write(tmp_path, i, chance)
    return tmp_path


def write(root, number, chance):
    path = root / "doc_raw" / "demo" / f"f{number:03}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"# T{number}\n\n{' '.join(chance.choices(WORDS, k=40))}\n")


def space(root, at=100, **more):
    explicit = {"embeddings.backend": "hashed", "retrieval.approximate_at": at, **more}
    return open_workspace(root, explicit={"vector_store.collection": "false", **explicit})


def put(path, data):
    """Put other bytes in the place of a file; what has it mapped keeps the old ones.

    A mapped file that is cut short in its place ends the process that reads it (SIGBUS).
    """
    new = path.with_name("new")
    new.write_bytes(data)
    new.replace(path)


def the_file(root):
    (path,) = (root / "index" / "demo" / FOLDER).glob("lists-*")
    return path


def ask(workspace):
    return run_prompt(workspace, pin_inputs(workspace, PromptRequest(QUESTION, ("demo",))))


def text_of(prompt):
    parts = (prompt.System_MD, prompt.Prompt_MD, prompt.S_CTX_MD, prompt.Attachments_MD)
    assert prompt.Prompt_MD and prompt.Attachments_MD
    return parts


def keep_up(workspace, **how):
    (done,) = kept.bring_up_to_date(workspace, "demo", stores=[STORE], **how)
    return done


def near_of(workspace, view):
    found = STORE.near(workspace, workspace.config.chain().retrieval, view, "", view.vectors, 1)
    return found and [row in near for row, near in enumerate(found)]


def warnings_of(prompt):
    return [note.message for note in prompt.extras.warnings if note.stage == "retrieval"]


def test_what_is_forgotten_while_they_are_made_does_not_come_back(root, monkeypatch):
    large = space(root)
    ingest_project(large, "demo")
    old, sync = the_file(root), list_index.IvfIndex.sync
    write(root, 4, random.Random(7))

    def meanwhile(index, view, **how):
        done = sync(index, view, **how)
        if (root / "doc_raw" / "demo" / "f003.md").exists():
            forget(large, "demo", "f003.md", delete=True)
            done.file.path.parent.mkdir(exist_ok=True)
            done.file.path.write_bytes(b"what another process writes at that moment")
        return done

    monkeypatch.setattr(list_index.IvfIndex, "sync", meanwhile)
    assert not ingest_project(large, "demo").warnings
    assert the_file(root) != old
    view = open_view(root / "index" / "demo")
    assert list_index.opened(the_file(root)).meta["digest"] == view.digest
    assert len(view.chunk_ids) == FILES - 1


def test_an_ingest_makes_them_above_the_setting_only(root):
    assert not ingest_project(space(root, at=1_000_000), "demo").warnings
    assert not (root / "index" / "demo" / FOLDER).exists()
    assert ingestion.unchanged(space(root, at=1_000_000), "demo") is not None
    large = space(root)
    assert ingestion.unchanged(large, "demo") is None
    assert not ingest_project(large, "demo").warnings
    assert ingestion.unchanged(large, "demo") is not None
    state = ingestion.status(large, "demo").stores["inverted_lists"]
    assert state.own | {"wanted": True, "generation": 1, "lists": 16} == state.own
    assert state.own["recall"] == 1.0 and "16 of 16" in state.sentence
    assert not ingestion.status(space(root, at=0), "demo").stores["inverted_lists"].own["wanted"]
    assert kept.figures(large, "demo")["inverted_lists_recall"] == 1.0
    assert kept.figures(space(root, at=0), "demo") == {}


def test_with_every_list_looked_at_a_prompt_is_that_of_exact_search_in_bytes(root):
    large = space(root)
    ingest_project(large, "demo")
    exact = space(root, at=0)
    assert search(large, QUESTION, ["demo"], k=40) == search(exact, QUESTION, ["demo"], k=40)
    by_lists, by_all = ask(large), ask(exact)
    assert text_of(by_lists) == text_of(by_all)
    assert by_lists.extras.scores == by_all.extras.scores
    assert by_lists.extras.inputs.models["store"].startswith("faiss_ivf ")
    assert "store" not in by_all.extras.inputs.models
    assert not warnings_of(by_lists)


def test_the_lists_are_asked_and_fewer_of_them_name_fewer_rows(root, monkeypatch):
    asked = []
    near = InvertedLists.near

    def noted(*given):
        found = near(*given)
        asked.append(len(found[0]))
        return found

    monkeypatch.setattr(InvertedLists, "near", noted)
    few = space(root, **{"retrieval.nprobe": 2, "retrieval.depth": 5, "retrieval.top_k": 5})
    ingest_project(few, "demo")
    assert search(few, QUESTION, ["demo"], k=3)
    assert 5 <= asked[0] < FILES / 2


def test_a_delta_keeps_the_training_and_equals_lists_made_anew(root):
    large = space(root)
    ingest_project(large, "demo")
    before = list_index.opened(the_file(root)).training.digest
    chance = random.Random(9)
    write(root, 3, chance)
    write(root, 900, chance)
    (root / "doc_raw" / "demo" / "f010.md").unlink()
    ingest_project(large, "demo")
    updated = the_file(root)
    data = updated.read_bytes()
    assert list_index.opened(updated).training.digest == before
    updated.unlink()
    assert keep_up(large).made == "rebuilt"
    again = list_index.opened(the_file(root))
    assert again.training.digest != before  # the rows are others now
    assert np.array_equal(again.ids(), list_index.IvfFile(write_to(root, data)).ids())


def write_to(root, data):
    (root / "copy").write_bytes(data)
    return root / "copy"


def test_the_same_rows_give_the_same_bytes(root):
    large = space(root)
    ingest_project(large, "demo")
    data = the_file(root).read_bytes()
    assert keep_up(large, rebuild=True).made == "rebuilt"
    assert the_file(root).read_bytes() == data


def test_damage_is_named_questions_go_on_and_index_check_repairs(root):
    large = space(root)
    ingest_project(large, "demo")
    wanted = text_of(ask(large))
    path = the_file(root)
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    put(path, data)
    prompt = ask(large)
    assert text_of(prompt) == wanted
    (warning,) = warnings_of(prompt)
    assert "every chunk of demo was scored" in warning and "damaged" in warning
    assert "ragstream index check demo" in warning
    assert "store" not in prompt.extras.inputs.models
    report = verify.verify_project(large, "demo")
    assert STORE.healed in report.healed and not report.findings
    assert report.stores["inverted_lists"].own["recall"] == 1.0
    assert not warnings_of(ask(large))


def test_a_wrong_code_with_a_right_seal_is_found_by_index_check(root):
    large = space(root)
    ingest_project(large, "demo")
    path = the_file(root)
    file = list_index.opened(path)
    from ragstream_core.proposers.list_file import Entries, blocks

    rows = list_index.entries_of(open_view(root / "index" / "demo"))
    turned = Entries(rows.ids, rows.matrix[::-1], rows.rows)
    said = {k: file.meta[k] for k in ("digest", "generation", "embed_fp", "epoch")}
    put(path, b"".join(blocks(said, file.training, added=turned)))
    assert verify.verify_project(large, "demo").healed == [STORE.healed]
    assert verify.verify_project(large, "demo").healed == []


def test_missing_lists_are_named_and_made_by_the_next_ingest(root):
    large = space(root)
    ingest_project(space(root, at=0), "demo")
    (warning,) = warnings_of(ask(large))
    assert "no inverted lists of generation 1" in warning
    state = ingestion.status(large, "demo").stores["inverted_lists"]
    assert state.problem and state.next == "ragstream index check demo"
    ingest_project(large, "demo")
    assert not warnings_of(ask(large))


def test_a_prompt_is_replayed_from_its_training_and_says_when_that_is_gone(root):
    large = space(root, **{"retrieval.nprobe": 4})
    ingest_project(large, "demo")
    key = save_prompt(large, ask(large)).prompt_key
    assert replay_prompt(large, key).verdict == "identical"
    write(root, 900, random.Random(9))
    ingest_project(large, "demo")  # another generation, the same training
    assert replay_prompt(large, key).verdict == "identical"
    the_file(root).unlink()
    verdict = replay_prompt(large, key)
    assert verdict.verdict == "input unavailable"
    assert "inverted lists of demo" in verdict.reason


def test_a_full_disk_is_a_warning_and_not_tried_again_for_the_generation(root, monkeypatch):
    def refuse(*_, **__):
        raise OSError(28, "no space left on device")

    large = space(root)
    with monkeypatch.context() as full:
        full.setattr(list_index, "write_blocks", refuse)
        (warning,) = ingest_project(large, "demo").warnings
    assert "no space left" in warning and "ragstream index check demo" in warning
    idle = ingestion.unchanged(large, "demo")
    assert idle is not None and "no space left" in idle.warnings[0]
    state = ingestion.status(large, "demo").stores["inverted_lists"]
    assert "no space left" in state.problem and "index check demo" in state.next
    assert verify.verify_project(large, "demo").healed == []  # made for the first time
    assert not ingestion.status(large, "demo").stores["inverted_lists"].problem
    assert ingestion.unchanged(large, "demo").warnings == ()


def test_forgetting_a_file_takes_its_codes_away(root):
    large = space(root)
    ingest_project(large, "demo")
    forget(large, "demo", "f003.md", delete=True)
    assert not list((root / "index" / "demo" / FOLDER).glob("lists-*"))
    assert search(large, QUESTION, ["demo"], k=3)


def test_without_the_extra_every_row_is_scored_and_the_store_by_name_is_refused(root, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    large = space(root)
    assert not ingest_project(large, "demo").warnings
    assert not warnings_of(ask(large))
    state = ingestion.status(large, "demo").stores["inverted_lists"]
    assert "'faiss' is not installed" in state.problem and "ragstream[faiss]" in state.next
    with pytest.raises(ExtraMissing):
        ask(space(root, **{"retrieval.store": "faiss_ivf"}))


def test_the_store_by_name_has_lists_of_the_smallest_project(root):
    named = space(root, at=0, **{"retrieval.store": "faiss_ivf"})
    assert not ingest_project(named, "demo").warnings
    assert ask(named).extras.inputs.models["store"].startswith("faiss_ivf ")


def test_small_projects_load_no_engine(root):
    ingest_project(space(root, at=1_000_000), "demo")
    code = (
        "import sys\nfrom ragstream_core.wiring.workspace import open_workspace\n"
        "from ragstream_core.prompts.inputs import PromptRequest\n"
        "from ragstream_core.wiring.prompt_inputs import pin_inputs\n"
        "from ragstream_core.wiring.stages import run_prompt\n"
        "from ragstream_core.services.search import search\n"
        f"from pathlib import Path\nspace = open_workspace(Path({str(root)!r}), "
        "explicit={'embeddings.backend': 'hashed'})\n"
        "search(space, 'word3', ['demo'], k=3)\n"
        "run_prompt(space, pin_inputs(space, PromptRequest('word3', ('demo',))))\n"
        "print([m for m in ('faiss', 'psycopg', 'ragstream_core.proposers.list_training') "
        "if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.replace("'", '"')) == []


def test_another_process_that_makes_them_is_named(root, monkeypatch):
    from ragstream_core.platform.locks import FolderLock

    large = space(root, at=0)
    ingest_project(large, "demo")
    folder = root / "index" / "demo" / FOLDER
    other = FolderLock(folder, "the inverted lists")
    with other.held():
        done = keep_up(space(root), again=True)
    other.close()
    assert "the file of the inverted lists of project demo is being written by" in done.warning
    assert kept.due(space(root), "demo", open_view(root / "index" / "demo").pinned)
    assert keep_up(space(root)).made == "rebuilt"


def compacted(root, **more):
    """Return a project whose vectors were moved by `gc`, and its view and lists before that."""
    large = space(root, **{"ingestion.retain_generations": 1, **more})
    ingest_project(large, "demo")
    for i in range(0, 200, 2):
        (root / "doc_raw" / "demo" / f"f{i:03}.md").unlink()
    ingest_project(large, "demo")
    before = open_view(root / "index" / "demo")
    data = the_file(root).read_bytes()
    generations.gc(large, "demo")
    return large, before, data


def found_themselves(root, view):
    return near_of(space(root), view)


def test_every_row_finds_itself_after_gc_has_moved_the_vectors(root):
    large, before, _ = compacted(root)
    training = list_index.opened(the_file(root)).training.digest
    for forgotten in (False, True):
        if forgotten:
            forget_views()
        view = open_view(root / "index" / "demo")
        assert view.loaded.file.epoch > before.loaded.file.epoch and view.digest == before.digest
        assert all(found_themselves(root, view))
    assert found_themselves(root, before) is None  # an older view: every row is scored
    again = list_index.IvfIndex(root / "index" / "demo").again(before, training)
    ids = [before.loaded.rows_at(near) for near in again.search(before.vectors, 1, 16)]
    assert all(row in near for row, near in enumerate(ids))
    assert ingestion.unchanged(large, "demo") is not None


def test_lists_of_moved_vectors_are_named_and_made_again_with_the_same_training(root):
    large, _, data = compacted(root)
    made = the_file(root).read_bytes()
    put(the_file(root), data)
    training = list_index.IvfFile(write_to(root, data)).training.digest
    prompt = ask(large)
    (warning,) = warnings_of(prompt)
    assert "the vectors were moved" in warning and "ragstream index check demo" in warning
    assert "store" not in prompt.extras.inputs.models
    assert ingestion.status(large, "demo").stores["inverted_lists"].problem
    assert ingestion.unchanged(large, "demo") is None
    done = keep_up(large)
    assert (done.made, done.reason) == ("rebuilt", list_index.MOVED)
    assert the_file(root).read_bytes() == made
    assert list_index.opened(the_file(root)).training.digest == training
    assert ask(large).extras.inputs.models["store"] == f"faiss_ivf {training}"


def test_a_prompt_is_replayed_after_gc(root):
    large = space(root, **{"retrieval.nprobe": 4, "ingestion.retain_generations": 1})
    ingest_project(large, "demo")
    for i in range(0, 200, 2):
        (root / "doc_raw" / "demo" / f"f{i:03}.md").unlink()
    ingest_project(large, "demo")
    key = save_prompt(large, ask(large)).prompt_key
    epoch = open_view(root / "index" / "demo").loaded.file.epoch
    generations.gc(large, "demo")
    assert open_view(root / "index" / "demo").loaded.file.epoch > epoch
    assert replay_prompt(large, key).verdict == "identical"


@pytest.mark.parametrize("step", ["write_blocks", "opened"])
def test_a_disk_that_refuses_is_a_warning_of_the_ingest(root, monkeypatch, step):
    def refuse(*_, **__):
        raise OSError(13, "permission denied")

    with monkeypatch.context() as full:
        full.setattr(f"ragstream_core.proposers.list_index.{step}", refuse)
        (warning,) = ingest_project(space(root), "demo").warnings
    assert "permission denied" in warning and "index check demo" in warning


def test_a_lock_that_cannot_be_made_is_a_warning_of_the_ingest(root):
    (root / "index" / "demo" / FOLDER / ".lock").mkdir(parents=True)
    (warning,) = ingest_project(space(root), "demo").warnings
    assert "the inverted lists were not made" in warning


def test_what_faiss_refuses_while_recall_is_measured_is_a_warning(root, monkeypatch):
    def refuse(*_, **__):
        raise RuntimeError("std::bad_alloc")

    monkeypatch.setattr(list_file.IvfFile, "search", refuse)
    (warning,) = ingest_project(space(root), "demo").warnings
    assert "std::bad_alloc" in warning


def test_lists_that_cannot_be_read_for_now_keep_their_training(root, monkeypatch):
    large = space(root)
    ingest_project(large, "demo")
    data = the_file(root).read_bytes()

    def refuse(*_, **__):
        raise OSError(24, "Too many open files", str(root))

    list_index._opened.cache_clear()
    with monkeypatch.context() as full:
        full.setattr(list_file, "mmap", SimpleNamespace(mmap=refuse, ACCESS_READ=mmap.ACCESS_READ))
        (warning,) = warnings_of(ask(large))
        assert "cannot be read: Too many open files" in warning and str(root) not in warning
        assert search(large, QUESTION, ["demo"], k=3)
        assert "Too many" in keep_up(large, again=True).warning
    assert the_file(root).read_bytes() == data
    assert keep_up(large, again=True).made == "unchanged"


def test_a_pinned_training_that_is_gone_when_the_prompt_runs_is_said(root):
    large = space(root)
    ingest_project(large, "demo")
    inputs = pin_inputs(large, PromptRequest(QUESTION, ("demo",)))
    the_file(root).unlink()
    with pytest.raises(InputUnavailable, match="inverted lists of demo"):
        run_prompt(large, inputs)


def test_lists_that_go_while_a_prompt_is_pinned_leave_no_half_of_an_answer(root, monkeypatch):
    large = space(root)
    ingest_project(large, "demo")
    training = list_index.opened(the_file(root)).training.digest
    checked = list_index.IvfIndex.checked

    def swept(self, view):
        found = checked(self, view)
        the_file(root).unlink()
        return found

    with monkeypatch.context() as sweeping:
        sweeping.setattr(list_index.IvfIndex, "checked", swept)
        inputs = pin_inputs(large, PromptRequest(QUESTION, ("demo",)))
    assert inputs.models["store"] == f"faiss_ivf {training}"


def test_the_recall_is_measured_again_after_a_retraining(root):
    large = space(root)
    ingest_project(large, "demo")
    note = root / "index" / "demo" / FOLDER / MEASURED
    row = json.loads(note.read_text())
    note.write_text(json.dumps({**row, "training": "another", "recall": 0.1}))
    assert ingestion.status(large, "demo").stores["inverted_lists"].own["recall"] is None
    keep_up(large)
    assert json.loads(note.read_text()) == row


def test_what_is_removed_is_not_kept_mapped(root):
    large = space(root)
    ingest_project(large, "demo")
    old = weakref.ref(list_index.opened(the_file(root)))
    write(root, 900, random.Random(9))
    ingest_project(large, "demo")
    gc.collect()
    assert old() is None


def test_a_pull_keeps_the_training_and_makes_the_lists_again(root, tmp_path_factory):
    from ragstream_core.services.publish_index import publish
    from ragstream_core.services.pull_index import pull

    place = str(tmp_path_factory.mktemp("place"))
    reader_root = tmp_path_factory.mktemp("reader")
    writer, reader = space(root), space(reader_root)
    ingest_project(writer, "demo")
    publish(writer, "demo", place)
    pull(reader, place)
    first = list_index.opened(the_file(reader_root)).training.digest
    write(root, 900, random.Random(9))
    ingest_project(writer, "demo")
    publish(writer, "demo", place)
    pull(reader, place)
    assert list_index.opened(the_file(reader_root)).training.digest == first
    assert the_file(reader_root).read_bytes() == the_file(root).read_bytes()
    here, there = (ask(space).extras.inputs for space in (reader, writer))
    assert here == replace(there, now=here.now)
    view = open_view(reader_root / "index" / "demo")
    assert all(near_of(reader, view))
    pull(reader, place, verify=True)  # the same generation: its lists stay usable
    assert ask(reader).extras.inputs.models["store"] == f"faiss_ivf {first}"
