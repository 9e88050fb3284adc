"""A project is searched by a graph in PostgreSQL: built, kept, damaged, away, pinned, replayed."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

from ragstream_core.errors import OperationFailed, UnknownSetting
from ragstream_core.index import remove
from ragstream_core.index.schema import read
from ragstream_core.index.view import open_view
from ragstream_core.ingestion import scan
from ragstream_core.platform.postgres import Database, database_at
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.proposers import (
    choose,
    graph,
    graph_index,
    graph_receipt,
    graph_tables,
    kept,
)
from ragstream_core.services import verify
from ragstream_core.services.forget import forget
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.replay import replay_prompt
from ragstream_core.services.search import search
from ragstream_core.wiring import ingestion
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.saved_prompts import save_prompt
from ragstream_core.wiring.stages import run_prompt
from ragstream_core.wiring.workspace import open_workspace
from tests.processes import until

QUESTION = "word3 word17 word250 word99"
WORDS = [f"word{i}" for i in range(300)]
FILES = 260
NOWHERE = "postgresql://ragstream@127.0.0.1:1/none"


@pytest.fixture(autouse=True)
def settled(monkeypatch):
    monkeypatch.setattr(scan, "RACY_NS", 0)  # files of a test are always young


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


def space(root, url, store="pgvector", **more):
    explicit = {"retrieval.store": store, "vector_store.url": url, "retrieval.approximate_at": 0}
    explicit |= {"embeddings.backend": "hashed", "vector_store.collection": "false", **more}
    return open_workspace(root, explicit=explicit)


def keep_up(workspace, **how):
    (done,) = kept.bring_up_to_date(workspace, "demo", stores=[graph.GRAPH], **how)
    return done


def receipt(root):
    return graph_receipt.read(root / "index" / "demo")


def graphs(postgres, database):
    with postgres.connect(database.rpartition("/")[2]) as db:
        names = "SELECT tablename FROM pg_tables WHERE tablename LIKE 'graph\\_%' ORDER BY 1"
        return [name for (name,) in db.execute(names)]


def ask(workspace):
    return run_prompt(workspace, pin_inputs(workspace, PromptRequest(QUESTION, ("demo",))))


def text_of(prompt):
    parts = (prompt.System_MD, prompt.Prompt_MD, prompt.S_CTX_MD, prompt.Attachments_MD)
    assert prompt.Prompt_MD and prompt.Attachments_MD
    return parts


def warnings_of(prompt):
    return [note.message for note in prompt.extras.warnings if note.stage == "retrieval"]


def test_a_prompt_by_the_graph_is_that_of_exact_search_and_names_its_seal(
    root, database, postgres, monkeypatch
):
    asked = []
    near = graph_tables.search

    def noted(*args, **more):
        found = near(*args, **more)
        asked.append([len(names) for names in found])
        return found

    monkeypatch.setattr("ragstream_core.proposers.graph_index.search", noted)
    few = {"retrieval.depth": 20, "retrieval.top_k": 20}
    large, exact = space(root, database, **few), space(root, "", "catalog", **few)
    assert not ingest_project(large, "demo").warnings
    (name,) = graphs(postgres, database)
    assert name.startswith("graph_demo_g1_") and receipt(root).name == name
    assert search(large, QUESTION, ["demo"], k=15) == search(exact, QUESTION, ["demo"], k=15)
    asked.clear()
    by_graph, by_all = ask(large), ask(exact)
    assert asked and all(count == 40 for counts in asked for count in counts)
    assert text_of(by_graph) == text_of(by_all)
    assert by_graph.extras.scores == by_all.extras.scores
    assert by_graph.extras.inputs.models["store"].startswith("pgvector ")
    assert "store" not in by_all.extras.inputs.models
    assert not warnings_of(by_graph)
    assert ingestion.unchanged(large, "demo") is not None
    state = ingestion.status(large, "demo").stores["pgvector"]
    assert state.own | {"generation": 1, "rows": FILES, "recall": 1.0} == state.own
    assert "100.0%" in state.sentence
    assert kept.figures(large, "demo")["pgvector_recall"] == 1.0


def test_later_generations_and_older_ones_are_searched_by_the_same_graph(root, database, postgres):
    few = {"retrieval.depth": 20, "retrieval.top_k": 20}
    large, exact = space(root, database, **few), space(root, "", "catalog", **few)
    ingest_project(large, "demo")
    key = save_prompt(large, ask(large)).prompt_key
    before = graphs(postgres, database)
    chance = random.Random(9)
    write(root, 3, chance)
    write(root, 900, chance)
    (root / "doc_raw" / "demo" / "f010.md").unlink()
    ingest_project(large, "demo")
    assert graphs(postgres, database) == before
    found = receipt(root)
    assert (found.generation, found.built_of, found.later, found.gone) == (2, 1, 2, 2)
    assert text_of(ask(large)) == text_of(ask(exact))
    assert replay_prompt(large, key).verdict == "identical"


def new_process():
    graph_index._rows_of.cache_clear()
    graph_index._held_by.cache_clear()


def never(*_):
    raise AssertionError("asked for what the folder notes")


def test_the_first_question_of_a_process_reads_what_the_ingest_noted(root, database, monkeypatch):
    large, exact = space(root, database), space(root, "", "catalog")
    ingest_project(large, "demo")
    write(root, 900, random.Random(9))
    ingest_project(large, "demo")
    expected = search(exact, QUESTION, ["demo"], k=15)
    new_process()
    with monkeypatch.context() as patch:
        patch.setattr(graph_index, "names_of", never)
        patch.setattr(graph_index, "names_in", never)
        assert search(large, QUESTION, ["demo"], k=15) == expected
    noted = root / "index" / "demo" / graph_receipt.GRAPHS / "rows.bin"
    whole = noted.read_bytes()
    for torn in (b"", whole[:-8], whole[:-1] + b"?", b"{}\n", b"[]\n" + whole, None):
        noted.unlink() if torn is None else noted.write_bytes(torn)
        new_process()
        assert search(large, QUESTION, ["demo"], k=15) == expected
    new_process()
    assert ingestion.unchanged(large, "demo") is None
    ingest_project(large, "demo")
    assert noted.read_bytes() == whole
    assert ingestion.unchanged(large, "demo") is not None


def test_a_graph_that_too_much_came_after_is_built_anew_and_the_old_one_goes(
    root, database, postgres, monkeypatch
):
    monkeypatch.setattr(graph_index, "LATER_ROWS", 1)
    monkeypatch.setattr(graph_index, "LATER_SHARE", 300)
    large = space(root, database)
    ingest_project(large, "demo")
    key = save_prompt(large, ask(large)).prompt_key
    before = graphs(postgres, database)
    for number in (3, 4, 5):
        write(root, number, random.Random(number))
    ingest_project(large, "demo")
    (name,) = graphs(postgres, database)
    assert [name] != before and "_g2_" in name and receipt(root).former == ()
    verdict = replay_prompt(large, key)
    assert verdict.verdict == "input unavailable" and "was replaced" in verdict.reason


@pytest.mark.parametrize("change", ["REINDEX INDEX {}_near", "TRUNCATE {}", "VACUUM FULL {}"])
def test_a_graph_that_is_another_now_does_not_replay(root, database, postgres, change):
    large = space(root, database)
    ingest_project(large, "demo")
    key = save_prompt(large, ask(large)).prompt_key
    with postgres.connect(database.rpartition("/")[2]) as db:
        db.execute(change.format(receipt(root).name))
    assert replay_prompt(large, key).verdict == "input unavailable"
    assert text_of(ask(large))


def test_a_database_that_is_away_is_named_and_every_row_is_scored(root, database):
    large = space(root, database)
    ingest_project(large, "demo")
    wanted = text_of(ask(large))
    key = save_prompt(large, ask(large)).prompt_key
    away = space(root, NOWHERE)
    prompt = ask(away)
    assert text_of(prompt) == wanted
    (warning,) = warnings_of(prompt)
    assert "every chunk of demo was scored: the database of pgvector's graph" in warning
    assert "ragstream index check demo" in warning
    assert search(away, QUESTION, ["demo"], k=3) == search(large, QUESTION, ["demo"], k=3)
    assert replay_prompt(away, key).verdict == "input unavailable"
    report = verify.verify_project(away, "demo")
    (finding,) = report.findings
    assert finding.check == "graph" and "127.0.0.1:1" in finding.message
    assert finding.run == (
        "check host, port and firewall; is PostgreSQL running?; then `ragstream index check demo`"
    )
    assert replay_prompt(large, key).verdict == "identical"


def test_a_database_that_is_away_is_asked_once_for_all_projects(root, database, monkeypatch):
    shutil.copytree(root / "doc_raw" / "demo", root / "doc_raw" / "other")
    large = space(root, database)
    for project in ("demo", "other"):
        ingest_project(large, project)
    asked = []
    connect = Database.connect
    monkeypatch.setattr(Database, "connect", lambda self: asked.append(1) or connect(self))
    pins = pin_inputs(large, PromptRequest(QUESTION, ("demo", "other"))).pins
    asked.clear()
    away = space(root, NOWHERE)
    told = choose.pinned(away, away.config.chain(), pins)
    assert told["store_note"].count(graph.UNREACHABLE) == 2 and "store" not in told
    assert asked == [1]


def test_an_ingest_while_it_is_away_warns_and_the_next_check_makes_it_good(root, database):
    away, large = space(root, NOWHERE), space(root, database)
    (warning,) = ingest_project(away, "demo").warnings
    assert "pgvector's graph was not brought up to date" in warning
    assert "vector_store.url" in warning and "ragstream index check demo" in warning
    idle = ingestion.unchanged(away, "demo")
    assert idle is not None and idle.warnings
    assert ingestion.status(away, "demo").stores["pgvector"].problem
    assert verify.verify_project(large, "demo").findings == []
    assert ingestion.status(large, "demo").stores["pgvector"].problem == ""


def test_a_user_who_may_not_make_pgvector_known_is_told_where_and_who_may(root, postgres):
    with postgres.connect() as admin:
        admin.execute("CREATE ROLE modest LOGIN")
        admin.execute("CREATE DATABASE bare OWNER modest")
    try:
        bare = space(root, postgres.url("bare").replace("ragstream@", "modest@"))
        (warning,) = ingest_project(bare, "demo").warnings
        assert "/bare (vector_store.url): its user may not make pgvector known" in warning
        assert "as its administrator: CREATE EXTENSION vector; then `ragstream index" in warning
        (finding,) = verify.verify_project(bare, "demo").findings
        assert "CREATE EXTENSION vector" in finding.run
        assert len(search(bare, QUESTION, ["demo"], k=3)) == 3
    finally:
        postgres.drop("bare")
        with postgres.connect() as admin:
            admin.execute("DROP ROLE modest")


def test_a_database_that_restarts_between_two_questions_is_no_error(root, database, postgres):
    large = space(root, database)
    ingest_project(large, "demo")
    wanted = ask(large)
    for how in (signal.SIGINT, signal.SIGKILL):
        postgres.restart(how)
        again = ask(large)
        assert text_of(again) == text_of(wanted) and not warnings_of(again)
        assert again.extras.inputs.models == wanted.extras.inputs.models


def test_damage_is_found_by_index_check_and_made_good(root, database, postgres):
    large = space(root, database)
    ingest_project(large, "demo")
    with postgres.connect(database.rpartition("/")[2]) as db:
        name = receipt(root).name
        db.execute(
            f"UPDATE {name} SET near = (SELECT near FROM {name} ORDER BY name LIMIT 1)"
            f" WHERE name = (SELECT max(name) FROM {name})"
        )
    report = verify.verify_project(large, "demo")
    assert graph.GRAPH.healed in report.healed and not report.findings
    assert verify.verify_project(large, "demo").healed == []
    with postgres.connect(database.rpartition("/")[2]) as db:
        db.execute(f"DROP TABLE {receipt(root).name}")
    (warning,) = warnings_of(ask(large))
    assert "its graph is not in the database" in warning
    assert graph.GRAPH.healed in verify.verify_project(large, "demo").healed
    assert not warnings_of(ask(large))


def test_another_machine_finds_the_graph_of_the_same_vectors(root, database, postgres):
    large = space(root, database)
    ingest_project(large, "demo")
    before, key = graphs(postgres, database), save_prompt(large, ask(large)).prompt_key
    (root / "index" / "demo" / graph_receipt.GRAPHS / "graph.json").unlink()
    assert keep_up(large).made == "found"
    assert graphs(postgres, database) == before and receipt(root).mine
    assert replay_prompt(large, key).verdict == "identical"


def test_forgetting_a_file_takes_the_vectors_out_of_the_database(root, database, postgres):
    large = space(root, database)
    ingest_project(large, "demo")
    with pytest.raises(OperationFailed, match="are still in postgresql://") as caught:
        forget(space(root, NOWHERE), "demo", "f003.md", delete=True)
    assert receipt(root).name in caught.value.message
    forget(large, "demo", "f003.md")
    assert graphs(postgres, database) == []
    assert search(large, QUESTION, ["demo"], k=3)


def test_what_is_forgotten_while_a_graph_waits_for_its_lock_does_not_come_back(
    root, database, postgres, monkeypatch
):
    large = space(root, database)
    ingest_project(large, "demo")
    lock = graph._lock

    def late(index_dir, project):
        meanwhile.undo()  # an erasure takes the lock too
        forget(large, "demo", "f003.md", delete=True)
        return lock(index_dir, project)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(graph, "_lock", late)
        assert keep_up(large, rebuild=True).made == "built"
    (name,) = graphs(postgres, database)
    with postgres.connect(database.rpartition("/")[2]) as db:
        assert db.execute(f"SELECT count(*) FROM {name}").fetchone() == (FILES - 1,)


def test_forgetting_waits_for_a_graph_that_is_being_made(root, database, postgres, monkeypatch):
    large = space(root, database)
    ingest_project(large, "demo")
    build, seen = graph_tables.build, []

    def slow(db, source, name):
        thread = threading.Thread(target=forget, args=(large, "demo", "f003.md"))
        (root / "doc_raw" / "demo" / "f003.md").unlink()
        thread.start()
        index = root / "index" / "demo"
        assert until(lambda: tombstones(index) == ["f003.md"])
        seen.append(thread)
        return build(db, source, name)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(graph_tables, "build", slow)
        assert keep_up(large, rebuild=True).made == "built"
    seen[0].join()
    assert graphs(postgres, database) == []


def tombstones(index_dir):
    return read(index_dir, remove.tombstones)


def test_forgetting_takes_graphs_whose_making_was_killed(root, database, postgres, monkeypatch):
    large = space(root, database)
    ingest_project(large, "demo")
    with monkeypatch.context() as killed:
        killed.setattr(graph_receipt, "write", None)
        with pytest.raises(TypeError):
            keep_up(large, rebuild=True)
    assert len(graphs(postgres, database)) == 2
    forget(large, "demo", "f003.md", delete=True)
    assert graphs(postgres, database) == []


def test_a_graph_whose_making_was_killed_goes_with_the_next_one(
    root, database, postgres, monkeypatch
):
    large = space(root, database)
    ingest_project(large, "demo")
    with monkeypatch.context() as killed:
        killed.setattr(graph_receipt, "write", None)
        for _ in range(2):
            with pytest.raises(TypeError):
                keep_up(large, rebuild=True)
    assert not keep_up(large, again=True).warning
    assert graphs(postgres, database) == [receipt(root).name]


def test_a_machine_with_a_new_name_still_forgets(root, database, postgres, monkeypatch):
    large = space(root, database)
    ingest_project(large, "demo")
    monkeypatch.setattr(graph_index, "_maker", lambda _: "another")
    write(root, 3, random.Random(9))
    ingest_project(large, "demo")
    assert receipt(root).mine
    forget(large, "demo", "f003.md", delete=True)
    assert graphs(postgres, database) == []


def test_vectors_in_the_database_of_before_are_named(root, database, postgres):
    ingest_project(space(root, database), "demo")
    second = postgres.create(f"{database.rpartition('/')[2]}_b")
    try:
        name, other = receipt(root).name, space(root, second)
        place = database_at(second, setting="vector_store.url")
        with place.connect() as db:
            graph_tables.TABLES.ensure(db, place)
            graph_tables.require_extension(db, place)
        with pytest.raises(OperationFailed, match="they are not there") as caught:
            forget(other, "demo", "f003.md", delete=True)
        assert database.rpartition("@")[2] in caught.value.message and name in caught.value.message
        write(root, 4, random.Random(9))
        (warning,) = ingest_project(other, "demo").warnings
        assert database.rpartition("@")[2] in warning and f"DROP TABLE {name}" in warning
        assert graphs(postgres, database) == [name]
    finally:
        postgres.drop(second.rpartition("/")[2])


def test_a_password_is_in_no_message_and_no_file_of_ours(root, database, postgres):
    secret = "hunter" + "2secret"
    url = database.replace("ragstream@", f"ragstream:{secret}@")
    large = space(root, url)
    ingest_project(large, "demo")
    save_prompt(large, ask(large))
    with postgres.connect() as db:
        db.execute("DROP ROLE IF EXISTS nobody_here")
    wrong = space(root, url.replace("ragstream:", "nobody_here:"))
    (finding,) = verify.verify_project(wrong, "demo").findings
    told = json.dumps([finding._asdict(), ingestion.status(wrong, "demo").to_json()])
    assert "nobody_here" in told and secret not in told
    for path in root.rglob("*"):
        assert not path.is_file() or secret.encode() not in path.read_bytes(), path


def test_the_store_needs_an_address(root):
    with pytest.raises(UnknownSetting, match="needs vector_store.url"):
        space(root, "")
    with pytest.raises(UnknownSetting, match="no address of a database"):
        space(root, "mysql://somewhere/x")


@pytest.mark.slow
def test_a_builder_that_is_killed_leaves_the_old_graph_or_the_new_one(root, database, postgres):
    large = space(root, database)
    ingest_project(large, "demo")
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from ragstream_core.wiring.workspace import open_workspace\n"
        "from ragstream_core.proposers import kept\n"
        f"space = open_workspace(Path({str(root)!r}), explicit={{'embeddings.backend': 'hashed',"
        f" 'retrieval.store': 'pgvector', 'vector_store.url': {database!r}}})\n"
        "print('go', flush=True)\n"
        "while True: kept.bring_up_to_date(space, 'demo', rebuild=True)\n"
    )
    chance = random.Random(4)
    wanted = text_of(ask(large))
    for _ in range(8):
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert child.stdout.readline() == b"go\n"
        time.sleep(chance.random() * 0.4)  # any moment is a fair one
        os.kill(child.pid, signal.SIGKILL)
        child.communicate()
        prompt = ask(large)
        assert text_of(prompt) == wanted
    done = keep_up(large, verify=True, again=True)
    assert not done.warning
    assert graphs(postgres, database) == [receipt(root).name]
    assert not warnings_of(ask(large))
    view = open_view(root / "index" / "demo")
    with database_at(database, setting="vector_store.url").connect() as db:
        assert graph_tables.seal(db, receipt(root).name)
        assert len(graph_tables.names_in(db, receipt(root).name)) == len(view.chunk_ids)
