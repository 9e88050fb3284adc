"""`retrieval.store` selects what proposes; scores, pools and replay stay what they are."""

import errno
import random
import shutil
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from ragstream_core.errors import (
    GenerationGone,
    InputUnavailable,
    StoreFailed,
    UnknownSetting,
    UsageError,
)
from ragstream_core.ingestion import scan
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.proposers import candidate_stores, chroma_collections
from ragstream_core.proposers.chroma import publisher, seal
from ragstream_core.proposers.chroma.collection import Collection
from ragstream_core.proposers.chroma.reader import close_readers, reader_of
from ragstream_core.proposers.exact import ExactStore
from ragstream_core.proposers.registry import VECTOR_STORES
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
            ingest_project(space(root, "catalog"), project)
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
        reader = reader_of(chroma_collections.collection_of(space(root, store), "demo"))
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
    chroma_collections.collection_of(workspace, "demo").sync(rebuild=True)
    verdict = replay_prompt(workspace, key)
    assert verdict.verdict == "input unavailable"
    assert "Chroma collection of demo" in verdict.reason


@pytest.mark.parametrize("harm", ["rebuilt", "damaged", "lost"])
def test_a_prompt_is_answered_by_the_collection_that_it_names_or_not_at_all(
    root, monkeypatch, harm
):
    """What is made right between the pinning and the question belongs to the next prompt."""
    workspace = space(root, "chroma")
    inputs = pin_inputs(workspace, PromptRequest(QUESTION, ("demo",)))
    collection = chroma_collections.collection_of(workspace, "demo")
    folder = seal.current(collection.chroma_dir)
    if harm == "rebuilt":
        collection.sync(rebuild=True)
    elif harm == "damaged":
        rows = folder / seal.DATABASE
        raw = rows.read_bytes()
        rows.write_bytes(raw[: len(raw) // 2])
    else:

        def failing(*_, **__):
            raise StoreFailed("no process", hint="try again")

        close_readers()
        monkeypatch.setattr(Collection, "keep_up", failing)
    with pytest.raises(InputUnavailable, match="Chroma collection of demo"):
        run_prompt(workspace, inputs, through="retrieval")
    monkeypatch.undo()
    again = pin_inputs(workspace, PromptRequest(QUESTION, ("demo",)))
    assert run_prompt(workspace, again, through="retrieval").base_context_chunks


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
    folder = root / "index" / "demo" / candidate_stores.STORES / "faiss"
    workspace = space(root, "faiss")
    wanted = search(workspace, QUESTION, ["demo"], k=5)
    (home,) = folder.iterdir()
    assert sorted(p.name for p in home.iterdir()) == ["vectors.faiss", "vectors_meta.json"]
    (home / "vectors.faiss").write_bytes(b"broken")
    candidate_stores._stores.clear()
    assert search(workspace, QUESTION, ["demo"], k=5) == wanted
    candidate_stores._stores.clear()
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
    kept = space(root, "catalog", **{"vector_store.collection": "true"})
    shutil.rmtree(root / "chroma_db", ignore_errors=True)
    assert ingestion.unchanged(space(root, "catalog"), "more") is not None
    assert ingestion.unchanged(kept, "more") is None
    stats = ingest_project(kept, "more")
    assert not stats.committed and not stats.warnings
    assert ingestion.unchanged(kept, "more") is not None
    assert chroma_collections.compare(kept, "more") == []


def test_a_collection_that_ingests_overtake_again_and_again_is_left_for_later(root, monkeypatch):
    tries = []

    def overtaken(self, **how):
        tries.append(how)
        raise GenerationGone(f"project demo no longer keeps generation {len(tries)}")

    kept = space(root, "catalog", **{"vector_store.collection": "true"})
    monkeypatch.setattr(Collection, "keep_up", overtaken)
    left = chroma_collections.keep_up(kept, "demo")
    assert len(tries) == chroma_collections.TRIES and not left.failed
    assert left.why == f"left for later: project demo no longer keeps generation {len(tries)}"


def test_a_collection_that_cannot_be_made_is_a_warning(root, monkeypatch):
    def refuse(*_, **__):
        raise OSError(28, "no space left on device")

    kept = space(root, "catalog", **{"vector_store.collection": "true"})
    shutil.rmtree(root / "chroma_db", ignore_errors=True)
    with monkeypatch.context() as full:
        full.setattr(publisher, "publish_dir", refuse)
        (warning,) = ingest_project(kept, "demo").warnings
    assert "no space left" in warning and "next: " in warning and "index check demo" in warning
    idle = ingestion.unchanged(kept, "demo")
    assert not idle.committed and "not tried again" in idle.warnings[0]
    state = ingestion.status(kept, "demo").collection
    assert (state.kept, state.generation, state.self_recall) == (True, 0, None)
    assert "no space left" in state.problem and "index check demo" in state.next
    checked = verify.verify_project(kept, "demo")
    assert checked.healed == ["the Chroma collection"] and not checked.findings
    assert checked.collection.self_recall == 1.0 and not checked.collection.problem
    assert ingestion.unchanged(kept, "demo").warnings == ()
