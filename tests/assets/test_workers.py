"""Workers: batches, who embeds them, and each trouble before and while they do."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from ragstream_app.cli.main import main
from ragstream_assets.instance import instance_of
from ragstream_core.errors import ModelMismatch, ProjectLocked, RagstreamError, Stopped
from ragstream_core.ingestion import workers
from ragstream_core.ingestion.workers import embed_batch
from ragstream_core.models.embedders.hashed import HashedEmbedder
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.projects import AddRequest, add
from ragstream_core.wiring import fan_out, ingestion
from ragstream_core.wiring.workspace import open_workspace
from tests.assets.executing import execute, values_of
from tests.processes import until

REPOSITORY = Path(__file__).resolve().parents[2]
TEXTS = 4
WAIT_S = 120


def rows(url, table="ragstream_vectors"):
    with psycopg.connect(url) as db:
        return db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


@pytest.fixture
def shared(root, database, monkeypatch):
    """A data root that shares vectors; batches of two texts."""
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BACKEND", "hashed")
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__SHARED", database)
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BATCH_TEXTS", "2")
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BATCH_TIMEOUT_S", "5")
    return open_workspace(root)


def planned(space, run, *, rebuild=False):
    config = replace(ingestion.ingestion_config(space, "demo"), rebuild=rebuild)
    return fan_out.plan_batches(space, "demo", run, config)


def embedded(space, run, batch):
    return embed_batch(fan_out.require_workers(space), HashedEmbedder(), run, batch)


def test_each_step_may_be_done_again(shared, database):
    assert planned(shared, "run") == [2, 2]
    assert embedded(shared, "run", 0) == (2, 2)
    assert rows(database, "ragstream_batches") == 1, "a batch goes with its vectors"
    assert embedded(shared, "run", 0) == (0, 0)
    assert planned(shared, "later") == [2], "only what is missing"
    assert embedded(shared, "run", 1) == (0, 0), "the earlier plan is void"
    assert embedded(shared, "later", 0) == (2, 2)
    assert (rows(database), rows(database, "ragstream_batches")) == (TEXTS, 0)


def test_the_index_is_the_one_that_an_ingest_alone_would_have_made(shared, tmp_path):
    for batch in range(len(planned(shared, "run"))):
        embedded(shared, "run", batch)
    stats = ingest_project(shared, "demo")
    assert stats.chunks == {"embedded": 0, "shared": TEXTS, "reused": 0, "live": TEXTS}
    shutil.copytree(shared.data_dir / "doc_raw", tmp_path / "alone" / "doc_raw")
    alone = open_workspace(tmp_path / "alone", explicit={"embeddings.shared": ""})
    assert ingest_project(alone, "demo").digest == stats.digest


def test_a_damaged_vector_is_made_again_by_a_batch(shared, database):
    planned(shared, "run")
    ingest_project(shared, "demo")
    with psycopg.connect(database) as db:
        db.execute("UPDATE ragstream_vectors SET crc = crc # 1")
    assert embedded(shared, "run", 0) == (2, 2)


def test_a_worker_with_another_model_or_package_says_what_to_install(shared, database):
    planned(shared, "run")
    with pytest.raises(ModelMismatch, match="the batch is for") as error:
        embed_batch(fan_out.require_workers(shared), Other(), "run", 0)
    assert "start it again" in error.value.hint
    with psycopg.connect(database) as db:
        db.execute("UPDATE ragstream_batches SET format = 7, package = '9.9'")
    with pytest.raises(ModelMismatch, match=r"the batch is of 9\.9") as error:
        embedded(shared, "run", 0)
    assert "install RAGstream 9.9 on the worker" in error.value.hint


def test_a_text_that_was_damaged_is_not_embedded(shared, database):
    planned(shared, "run")
    with psycopg.connect(database) as db:
        db.execute("UPDATE ragstream_batches SET texts[1] = 'other words'")
    with pytest.raises(RagstreamError, match="texts of batch 0 are damaged"):
        embedded(shared, "run", 0)
    assert rows(database) == 0


def test_batches_of_the_version_with_a_broker_make_room(shared, database):
    with psycopg.connect(database) as db:
        db.execute("CREATE TABLE ragstream_schema (part text PRIMARY KEY, version int NOT NULL)")
        db.execute("INSERT INTO ragstream_schema VALUES ('text_batches', 1)")
        db.execute("CREATE TABLE ragstream_batches (run text, texts bytea[])")
        db.execute("INSERT INTO ragstream_batches VALUES ('left by a killed ingest', NULL)")
    assert planned(shared, "run") == [2, 2]
    with psycopg.connect(database) as db:
        parts = db.execute("SELECT part FROM ragstream_schema ORDER BY part").fetchall()
    assert parts == [("shared_vectors",), ("workers",)]
    assert rows(database, "ragstream_batches") == 2


class Other(HashedEmbedder):
    """Another model."""

    name, fingerprint = "other", "e" * 64


class Spoiled(HashedEmbedder):
    """A model of the same name that breaks at each batch."""

    def embed_documents(self, texts, *, progress=None):
        raise RuntimeError("out of memory\nand its stack")


def call(root, *words):
    return main(["--data", str(root), *words])


def warned(space, **how):
    """Ingest; return the one warning, after a look that all was embedded here."""
    stats = ingest_project(space, "demo", **how)
    assert stats.committed and stats.chunks["embedded"] == TEXTS
    (warning,) = stats.warnings
    return warning


def test_without_the_settings_workers_are_refused(root, monkeypatch, capfd):
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BACKEND", "hashed")
    for words in (("ingest", "demo", "--fan-out"), ("worker",), ("worker", "--check")):
        assert call(root, *words) == 2
        assert "embeddings.shared is not set" in capfd.readouterr().err
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BROKER", "redis://me:s3cret-word@host")
    assert call(root, "ingest", "demo", "--fan-out") == 2
    said = capfd.readouterr().err
    assert "no setting 'embeddings.broker' any more" in said and "s3cret" not in said
    assert "from the database of embeddings.shared" in said
    assert not (root / "index").exists()


def test_a_package_that_is_missing_is_named_with_its_extra(shared, root, monkeypatch, capfd):
    monkeypatch.setitem(sys.modules, "procrastinate", None)
    for words in (("ingest", "demo", "--fan-out"), ("worker",)):
        assert call(root, *words) != 0
        said = capfd.readouterr().err
        assert "needs procrastinate" in said and "ragstream[workers]" in said
    assert ingest_project(shared, "demo").warnings == (), "nobody asked for workers"


def test_without_a_worker_the_ingest_names_the_command(shared, root, monkeypatch, capfd):
    warning = warned(shared, fan_out=True)
    assert "no worker takes batches from queue cpu" in warning and "ragstream worker" in warning
    assert call(root, "embeddings", "status", "--json") == 0
    assert json.loads(capfd.readouterr().out)["workers"] is None


def test_who_only_shares_vectors_hears_nothing_of_workers(shared, database, root, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__FAN_OUT_AT", "2")
    space = open_workspace(root)
    assert ingest_project(space, "demo").warnings == ()
    planned(space, "run")  # from now on there are tables of workers
    (warning,) = ingest_project(space, "demo", rebuild=True).warnings
    assert "no worker takes batches from queue cpu" in warning


@pytest.fixture
def there(shared, database):
    """The same, with a worker that has signed in and takes nothing."""
    planned(shared, "nobody's")
    queue = workers.queue_name("cpu", HashedEmbedder().fingerprint)
    with psycopg.connect(database) as db:
        db.execute("INSERT INTO ragstream_workers VALUES ('one@here', %s, now())", (queue,))
    return shared


def test_a_small_ingest_asks_nobody(there):
    assert ingest_project(there, "demo").warnings == ()


def test_what_nobody_takes_is_embedded_here_and_leaves_the_database(there, database):
    told = []
    warning = warned(there, fan_out=True, progress=lambda *at: told.append(at))
    assert "no worker finished a batch within 5 s" in warning
    assert "ragstream ingest demo --fan-out" in warning
    assert ("workers", 0, 2) in told
    assert rows(database, "ragstream_batches") == rows(database, "procrastinate_jobs") == 0


def test_an_ingest_that_is_stopped_leaves_no_text_in_the_database(there, database):
    def stop(phase, done, total):
        if phase == "workers":
            raise Stopped("you stopped the ingest")

    with pytest.raises(Stopped):
        ingest_project(there, "demo", fan_out=True, progress=stop)
    assert rows(database, "ragstream_batches") == rows(database, "procrastinate_jobs") == 0
    assert not (there.data_dir / "index" / "demo").exists()


def test_a_second_fan_out_of_a_project_is_told_who_does_it(there, root, monkeypatch, database):
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__FAN_OUT_AT", "2")
    told = []

    def second(phase, done, total):
        if phase == "workers" and not told:
            with pytest.raises(ProjectLocked, match=f"process {os.getpid()} on ") as error:
                ingest_project(there, "demo", fan_out=True)
            told.append(str(error.value.hint))
            (warning,) = ingest_project(open_workspace(root), "demo").warnings
            told.append(warning)
            assert rows(database, "ragstream_batches") == 2, "those of the first stay"

    stats = ingest_project(there, "demo", fan_out=True, progress=second)
    assert told[0] == "wait for it to finish, then run the command again"
    assert told[1].startswith("the texts were embedded here: workers embed the texts of project")
    assert stats.chunks["live"] == TEXTS


def test_a_database_that_leaves_while_workers_are_awaited_costs_a_warning(there, postgres):
    def leave(phase, done, total):
        if phase == "workers":
            postgres.stop()

    try:
        stats = ingest_project(there, "demo", fan_out=True, progress=leave)
    finally:
        postgres.start()
    assert stats.committed and stats.chunks["embedded"] == TEXTS
    first, second = stats.warnings
    assert "vectors were made here, not shared" in first
    assert "the rest was embedded here" in second and "nobody answers there" in second


def test_workers_are_asked_for_all_texts_of_a_rebuild(shared, root, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__FAN_OUT_AT", "3")
    space = open_workspace(root)
    ingest_project(space, "demo")
    assert not fan_out.is_due(space, "demo")
    assert fan_out.is_due(space, "demo", rebuild=True)


def test_an_ingest_of_dagster_asks_workers_within_its_step(there, root, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__FAN_OUT_AT", "1")
    space = open_workspace(root)
    instance = instance_of(root)
    done = execute(space, instance, job="ingest_documents", project="demo")
    (event,) = [
        event for event in done.get_asset_materialization_events()
        if event.asset_key.path[-1] == "index"
    ]  # fmt: skip
    assert "no worker finished a batch" in values_of(event)["warnings"]
    assert [run.run_id for run in instance.get_runs()] == [done.run_id], "no run inside a step"


@contextlib.contextmanager
def worker(folder, *words, **environment):
    """Run a worker of this machine, with a data root of its own."""
    log = folder / "worker.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "ragstream_app.cli.main", "--data", str(folder / "worker"),
             "worker", *words],
            stdout=out, stderr=out, start_new_session=True,
            env={**os.environ, **environment, "PYTHONPATH": str(REPOSITORY)},
        )  # fmt: skip
    try:
        assert until(lambda: b"takes batches from" in log.read_bytes(), WAIT_S), log.read_text()
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(WAIT_S)


@pytest.mark.slow
def test_a_worker_embeds_what_an_ingest_hands_out(shared, root, database, tmp_path, capfd):
    told = []
    with worker(tmp_path, "--name", "first") as process:
        assert call(root, "embeddings", "status") == 0
        assert "workers of queue cpu: first@" in capfd.readouterr().out
        assert call(root, "worker", "--check", "--name", "first") == 0
        assert "takes batches from cpu" in capfd.readouterr().out
        for words in (("--queue", "gpu", "--name", "first"), ("--name", "other")):
            assert call(root, "worker", "--check", *words) == 1
            said = capfd.readouterr().err
            assert "does not take batches" in said and "ragstream worker --queue" in said
        stats = ingest_project(shared, "demo", fan_out=True, progress=lambda *at: told.append(at))
        assert stats.warnings == () and stats.chunks["shared"] == TEXTS
        assert ("workers", 2, 2) in told
        assert until(lambda: rows(database, "procrastinate_jobs") == 0, WAIT_S)
        assert rows(database, "ragstream_batches") == 0
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 0
    assert call(root, "worker", "--check", "--name", "first") == 1, "it has signed off"
    assert "batch 0: 2 of 2 texts embedded" in (tmp_path / "worker.log").read_text()


@pytest.mark.slow
def test_a_worker_of_another_model_gets_no_batch_and_is_named(
    shared, root, monkeypatch, capfd, tmp_path
):
    other = "tests.assets.test_workers:Other"
    with worker(tmp_path, RAGSTREAM_EMBEDDINGS__BACKEND=other):
        warning = warned(shared, fan_out=True)
    assert "no worker takes batches from queue cpu" in warning and "for hashed" in warning
    assert "for another model: ragstream@" in warning
    assert "the embedding settings of this machine, then `ragstream worker`" in warning


@pytest.mark.slow
def test_a_batch_that_no_worker_gets_done_is_embedded_here_and_says_why(
    shared, root, tmp_path, monkeypatch
):
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BATCH_TIMEOUT_S", "60")
    with worker(tmp_path, RAGSTREAM_EMBEDDINGS__BACKEND="tests.assets.test_workers:Spoiled"):
        warning = warned(open_workspace(root), fan_out=True)
    assert "handed out 4 times and no worker finished it: out of memory" in warning
    assert "its stack" not in warning and "ragstream ingest demo --fan-out" in warning


@pytest.mark.slow
def test_workers_embed_a_rebuild_that_takes_a_folder_for_gone(
    shared, root, tmp_path, database, capfd
):
    folders = [tmp_path / name for name in ("code", "wiki")]
    for folder in folders:
        folder.mkdir()
        (folder / "a.md").write_text(f"# A\n\nwords of {folder.name}\n")
    add(shared, "shop", AddRequest(tuple(folders)))
    ingest_project(shared, "shop")
    assert call(root, "embeddings", "clear", "--yes") == 0
    (root / "index" / "shop" / "catalog.sqlite").write_bytes(b"damaged")
    folders[1].rename(tmp_path / "away")
    capfd.readouterr()
    with worker(tmp_path):
        assert call(root, "ingest", "shop", "--rebuild", "--fan-out") != 0
        said = capfd.readouterr().err
        assert "some documents of shop are not there; nothing was changed" in said
        assert rows(database) == 0 and "Traceback" not in said
        assert call(root, "ingest", "shop", "--rebuild", "--yes", "--fan-out", "--json") == 0
    stats = json.loads(capfd.readouterr().out)
    assert stats["chunks"] == {"embedded": 0, "shared": 1, "reused": 0, "live": 1}
    assert not [line for line in stats["warnings"] if "worker" in line]
    assert (rows(database), rows(database, "ragstream_batches")) == (1, 0)
