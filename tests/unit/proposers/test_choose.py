"""`retrieval.store` selects what proposes; scores, pools and replay stay what they are."""

import errno
import json
import random
import shutil
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from ragstream_core.errors import (
    InputUnavailable,
    StoreFailed,
    UnknownSetting,
    UsageError,
)
from ragstream_core.ingestion import scan
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.proposers import plain
from ragstream_core.proposers.chroma import collection as publisher
from ragstream_core.proposers.chroma import seal
from ragstream_core.proposers.chroma.reader import close_readers, reader_of
from ragstream_core.proposers.collections import COLLECTION, collection_of, compare
from ragstream_core.proposers.plain import VECTOR_STORES, ExactStore
from ragstream_core.services import verify
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.replay import replay_prompt
from ragstream_core.services.search import search
from ragstream_core.wiring import ingestion
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.saved_prompts import save_prompt
from ragstream_core.wiring.stages import run_prompt
from ragstream_core.wiring.workspace import open_workspace

QUESTION = "word3 word17 word250 word99"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    chance, words = random.Random(1), [f"word{i}" for i in range(300)]
    for project in ("demo", "more"):
        folder = root / "doc_raw" / project
        folder.mkdir(parents=True)
        for i in range(260):
            text = f"# T{i}\n\n{project} {' '.join(chance.choices(words, k=40))}\n"
            (folder / f"f{i:03}.md").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "RACY_NS", 0)
        for project in ("demo", "more"):
            ingest_project(space(root, "chroma"), project)
    yield root
    close_readers()


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(scan, "RACY_NS", 0)  # files of a test are always young


def space(root, store, **settings):
    return open_workspace(
        root, explicit={"embeddings.backend": "hashed", "retrieval.store": store, **settings}
    )


class Counted(ExactStore):
    """Counts its searches."""

    searches = 0

    def search(self, query, k):
        type(self).searches += 1
        return super().search(query, k)


@pytest.fixture
def counted():
    VECTOR_STORES.register("counted", Counted)
    Counted.searches = 0
    yield
    VECTOR_STORES.unregister("counted")


@pytest.mark.parametrize("store", ["exact", "faiss", "chroma", "counted"])
def test_a_store_finds_what_the_catalog_finds_with_its_scores(root, store, counted):
    wanted = search(space(root, "catalog"), QUESTION, ["demo", "more"], k=40)
    found = search(space(root, store), QUESTION, ["demo", "more"], k=40)
    assert found == wanted
    assert {row.chunk_id.split("::")[0] for row in found}
    if store == "counted":
        assert Counted.searches == 2
    if store == "chroma":
        reader = reader_of(COLLECTION.folder(space(root, store), "demo"), "demo")
        assert reader._open is not None  # it was asked
        assert reader.near("another digest", None, 5) is None


def test_files_switched_off_stay_off(root, counted):
    depth = {"retrieval.depth": 40}  # a longer list would be most of these few rows
    workspace = space(root, "counted", **depth)
    off = tuple(f"demo/f{i:03}.md" for i in range(40))
    request = PromptRequest(QUESTION, ("demo",), off=off)
    prompt = run_prompt(workspace, pin_inputs(workspace, request), through="retrieval")
    assert Counted.searches == 1
    sources = {chunk.source for chunk in prompt.base_context_chunks}
    assert sources
    assert not sources & {path.partition("/")[2] for path in off}
    plain = space(root, "catalog", **depth)
    same = run_prompt(plain, pin_inputs(plain, request), through="retrieval")
    assert prompt.extras.scores == same.extras.scores


def test_a_replay_says_when_the_graph_that_proposed_is_gone(root):
    workspace = space(root, "chroma")
    prompt = run_prompt(workspace, pin_inputs(workspace, PromptRequest(QUESTION, ("demo",))))
    key = save_prompt(workspace, prompt).prompt_key
    assert replay_prompt(workspace, key).verdict == "identical"
    collection_of(workspace, "demo").sync(rebuild=True)
    verdict = replay_prompt(workspace, key)
    assert verdict.verdict == "input unavailable"
    assert "Chroma collection of demo" in verdict.reason


@pytest.mark.parametrize("harm", ["rebuilt", "damaged", "lost"])
def test_a_prompt_is_answered_by_the_collection_that_it_names_or_not_at_all(root, harm):
    """What is made right between the pinning and the question belongs to the next prompt."""
    workspace = space(root, "chroma")
    inputs = pin_inputs(workspace, PromptRequest(QUESTION, ("demo",)))
    collection = collection_of(workspace, "demo")
    folder = seal.current(collection.chroma_dir)
    if harm == "rebuilt":
        collection.sync(rebuild=True)
    elif harm == "damaged":
        rows = folder / seal.DATABASE
        raw = rows.read_bytes()
        rows.write_bytes(raw[: len(raw) // 2])
    else:
        shutil.rmtree(folder)
    if harm != "lost":  # this process has opened what the prompt names
        assert run_prompt(workspace, inputs, through="retrieval").base_context_chunks
    close_readers()
    with pytest.raises(InputUnavailable, match="Chroma collection of demo"):
        run_prompt(workspace, inputs, through="retrieval")
    again = pin_inputs(workspace, PromptRequest(QUESTION, ("demo",)))
    assert run_prompt(workspace, again, through="retrieval").base_context_chunks
    if harm != "rebuilt":  # nothing is made inside a prompt
        assert "store" not in again.models and "index check demo" in again.models["store_note"]
        assert ingestion.unchanged(workspace, "demo") is None
        assert not ingest_project(workspace, "demo").warnings
    assert pin_inputs(workspace, PromptRequest(QUESTION, ("demo",))).models["store"]


@pytest.mark.parametrize("harm", ["behind", "damaged", "full disk", "no process"])
def test_a_collection_that_cannot_be_asked_fails_no_prompt_and_is_named(root, monkeypatch, harm):
    workspace = space(root, "chroma")
    chroma_dir = collection_of(workspace, "more").chroma_dir
    kept_aside = root / "aside"
    shutil.copytree(chroma_dir, kept_aside, dirs_exist_ok=True)
    close_readers()

    def refuse(*_, **__):
        raise (
            OSError(errno.ENOSPC, "No space left on device")
            if harm == "full disk"
            else (StoreFailed("no process", hint="try again"))
        )

    folder = seal.current(chroma_dir)
    receipt = json.loads((folder / seal.RECEIPT).read_text())
    with monkeypatch.context() as patch:
        if harm == "behind":
            (folder / seal.RECEIPT).write_text(json.dumps(receipt | {"digest": "d" * 64}))
        elif harm == "damaged":
            (folder / seal.DATABASE).write_bytes(b"broken")
        elif harm == "full disk":
            patch.setattr("ragstream_core.proposers.chroma.reader.copy_of", refuse)
        else:
            patch.setattr("ragstream_core.proposers.chroma.reader.ChromaProcess", refuse)
        inputs = pin_inputs(workspace, PromptRequest(QUESTION, ("more",)))
        prompt = run_prompt(workspace, inputs, through="retrieval")
        found = search(workspace, QUESTION, ["more"], k=5)
    (warning,) = [note.message for note in prompt.extras.warnings if note.stage == "retrieval"]
    assert "every chunk of more was scored: its Chroma collection" in warning
    assert "ragstream index check more" in warning and "store" not in inputs.models
    assert found == search(space(root, "catalog"), QUESTION, ["more"], k=5)
    shutil.rmtree(chroma_dir)
    kept_aside.rename(chroma_dir)


def test_threads_fill_a_store_once_and_a_full_disk_fails_no_question(root, monkeypatch, caplog):
    filled = []

    class Slow(ExactStore):
        def add(self, *given):
            filled.append(len(given[0]))
            time.sleep(0.2)
            super().add(*given)

        def save(self):
            raise OSError(errno.ENOSPC, "No space left on device")

    VECTOR_STORES.register("slow", Slow)
    try:
        with ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(search, space(root, "slow"), QUESTION, ["demo"], k=5)
                     for _ in range(4)]  # fmt: skip
            wanted = search(space(root, "catalog"), QUESTION, ["demo"], k=5)
            assert [one.result() for one in asked] == [wanted] * 4
    finally:
        VECTOR_STORES.unregister("slow")
    assert len(filled) == 1
    assert "No space left" in caplog.text


def test_faiss_keeps_two_files_for_the_newest_rows_and_makes_them_again(root):
    folder = root / "index" / "demo" / plain.STORES / "faiss"
    workspace = space(root, "faiss")
    wanted = search(workspace, QUESTION, ["demo"], k=5)
    (home,) = folder.iterdir()
    assert sorted(p.name for p in home.iterdir()) == ["vectors.faiss", "vectors_meta.json"]
    (home / "vectors.faiss").write_bytes(b"broken")
    plain._filled.clear()
    assert search(workspace, QUESTION, ["demo"], k=5) == wanted
    plain._filled.clear()
    assert search(workspace, QUESTION, ["demo"], k=5) == wanted


def test_the_name_of_seed_003_selects_too_and_the_newer_name_wins(root):
    alias = open_workspace(root, explicit={"vector_store.backend": "faiss"})
    assert alias.config.chain().retrieval.store == "faiss"
    both = open_workspace(
        root, explicit={"vector_store.backend": "faiss", "retrieval.store": "catalog"}
    )
    assert both.config.chain().retrieval.store == "catalog"


def test_what_is_no_store_is_refused_at_start(root):
    with pytest.raises(UnknownSetting, match="no vector store"):
        space(root, "nothing")
    with pytest.raises(UsageError, match="does not satisfy"):
        space(root, "collections:Counter")
    with pytest.raises(UnknownSetting, match="cannot import"):
        open_workspace(root, explicit={"vector_store.backend": "no.such:store"})
    with pytest.raises(UnknownSetting, match="no vector store"):
        workspace = space(root, "catalog")
        pin_inputs(
            workspace, PromptRequest("x", ("demo",), settings={"retrieval.store": "nothing"})
        )


def test_an_ingest_keeps_the_collection_and_a_no_op_knows_when_it_is_behind(root):
    kept_root = space(root, "catalog", **{"vector_store.collection": "true"})
    shutil.rmtree(root / "chroma_db", ignore_errors=True)
    assert ingestion.unchanged(space(root, "catalog"), "more") is not None
    assert ingestion.unchanged(kept_root, "more") is None
    stats = ingest_project(kept_root, "more")
    assert not stats.committed and not stats.warnings
    assert ingestion.unchanged(kept_root, "more") is not None
    assert compare(kept_root, "more") == []


def test_a_collection_that_cannot_be_made_is_a_warning(root, monkeypatch):
    def refuse(*_, **__):
        raise OSError(28, "no space left on device")

    kept_root = space(root, "catalog", **{"vector_store.collection": "true"})
    shutil.rmtree(root / "chroma_db", ignore_errors=True)
    with monkeypatch.context() as full:
        full.setattr(publisher, "publish_dir", refuse)
        (warning,) = ingest_project(kept_root, "demo").warnings
    assert "no space left" in warning and "next: " in warning and "index check demo" in warning
    idle = ingestion.unchanged(kept_root, "demo")
    assert not idle.committed and "not tried again" in idle.warnings[0]
    state = ingestion.status(kept_root, "demo").stores["collection"]
    assert state.own | {"kept": True, "generation": 0, "self_recall": None} == state.own
    assert "no space left" in state.problem and "index check demo" in state.next
    checked = verify.verify_project(kept_root, "demo")
    assert checked.healed == ["the Chroma collection"] and not checked.findings
    assert (
        checked.stores["collection"].own["self_recall"] == 1.0
        and not checked.stores["collection"].problem
    )
    assert ingestion.unchanged(kept_root, "demo").warnings == ()
