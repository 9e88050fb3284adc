"""Job `embed_texts`: at home, on a worker, and each trouble before and during it."""

import json
import os
import signal
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import dagster as dg
import psycopg
import pytest
from dagster._core.definitions.job_base import InMemoryJob

from ragstream_app.cli.main import main
from ragstream_app.ingesting import ingest
from ragstream_assets import fan_out as launcher
from ragstream_assets import worker_executor
from ragstream_assets.celery_executor import Workers, workers_there
from ragstream_assets.definitions import defs
from ragstream_assets.instance import instance_of
from ragstream_core.errors import (
    ExtraMissing,
    ModelMismatch,
    ProjectLocked,
    RagstreamError,
    UnknownSetting,
)
from ragstream_core.services import fan_out
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.projects import AddRequest, add
from ragstream_core.wiring.workspace import open_workspace
from tests.assets.executing import execute, values_of
from tests.databases import RedisServer
from tests.processes import until

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
clusters: [{name: here, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: here, context: {cluster: here, user: me}}]
users: [{name: me, user: {}}]
"""
REPOSITORY = Path(__file__).resolve().parents[2]
TEXTS = 4
WAIT_S = 120
ONE = Workers(["one"], [])


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


def run_config(space, **execution):
    place = {"config": {"data_dir": str(space.data_dir)}}
    config = {"resources": {"workspace": place, "worker": place}}
    return config | ({"execution": {"config": execution}} if execution else {})


def at_home(space, **execution):
    instance = instance_of(space.data_dir)
    instance.add_dynamic_partitions("project", ["demo"])
    job = defs.resolve_job_def("embed_texts")
    return job.execute_in_process(
        run_config=run_config(space, **execution), partition_key="demo", instance=instance,
        raise_on_error=False,
    )  # fmt: skip


def test_at_home_the_job_embeds_what_the_ingest_then_takes(shared, database):
    done = at_home(shared)
    assert done.success
    steps = sorted(event.step_key for event in done.all_events if event.is_step_success)
    assert steps == ["embed_batch[batch_0]", "embed_batch[batch_1]", "plan", "settle"]
    assert (rows(database), rows(database, "ragstream_batches")) == (TEXTS, 0)
    stats = ingest(shared, "demo")
    assert stats.chunks == {"embedded": 0, "shared": TEXTS, "reused": 0, "live": TEXTS}
    again = at_home(shared)
    assert again.success
    assert sum(event.is_step_success for event in again.all_events) == 2, "plan and settle"


def test_each_step_may_be_done_again(shared, database):
    assert fan_out.plan_batches(shared, "demo", "run") == [2, 2]
    first = fan_out.embed_batch(shared, "run", 0)
    assert (first.texts, first.embedded) == (2, 2)
    assert fan_out.embed_batch(shared, "run", 0).embedded == 0
    assert fan_out.plan_batches(shared, "demo", "later") == [2], "only what is missing"
    assert fan_out.embed_batch(shared, "run", 1).texts == 0, "the earlier plan is void"
    with pytest.raises(RagstreamError, match="2 of 2 texts have no vector"):
        fan_out.settle(shared, "later")
    assert fan_out.embed_batch(shared, "later", 0).embedded == 2
    assert fan_out.settle(shared, "later") == 2
    assert fan_out.settle(shared, "later") == 0
    assert (rows(database), rows(database, "ragstream_batches")) == (TEXTS, 0)


def executor(space, **chosen):
    """Return the executor that a run with this choice has."""
    from ragstream_assets.worker_executor import here_or_workers

    job, instance = defs.resolve_job_def("embed_texts"), instance_of(space.data_dir)
    context = dg.InitExecutorContext(InMemoryJob(job), here_or_workers, chosen, instance)
    return here_or_workers.executor_creation_fn(context)


def test_kubernetes_is_a_choice_that_says_what_it_needs(shared, monkeypatch):
    monkeypatch.setattr(worker_executor.util, "find_spec", lambda name: None)
    with pytest.raises(ExtraMissing, match="needs the package dagster-k8s") as error:
        executor(shared, k8s={})
    assert error.value.hint == f"pip install dagster-k8s=={metadata.version('dagster-postgres')}"


def test_kubernetes_options_are_those_of_its_executor(shared, tmp_path):
    pytest.importorskip("dagster_k8s")
    with pytest.raises(UnknownSetting, match="no option job_imag") as error:
        executor(shared, k8s={"job_imag": "ragstream"})
    assert "job_image" in error.value.hint
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    options = {"kubeconfig_file": str(kubeconfig), "load_incluster_config": False}
    made = executor(shared, k8s={"job_image": "ragstream", "job_namespace": "team", **options})
    assert type(made.inner).__name__ == "StepDelegatingExecutor"


def test_a_damaged_vector_is_made_again_by_a_batch(shared, database):
    fan_out.plan_batches(shared, "demo", "run")
    fan_out.embed_batch(shared, "run", 0)
    with psycopg.connect(database) as db:
        db.execute("UPDATE ragstream_vectors SET crc = crc # 1")
    assert fan_out.embed_batch(shared, "run", 0).embedded == 2
    assert fan_out.embed_batch(shared, "run", 0).embedded == 0


def test_a_worker_with_another_model_or_package_says_what_to_install(shared, database, root):
    fan_out.plan_batches(shared, "demo", "run")
    other = open_workspace(
        root, explicit={"embeddings.backend": "tests.assets.test_embed_texts:Other"}
    )
    with pytest.raises(ModelMismatch, match="the batch is for") as error:
        fan_out.embed_batch(other, "run", 0)
    assert "start it again" in error.value.hint
    with psycopg.connect(database) as db:
        db.execute("UPDATE ragstream_batches SET format = 7, package = '9.9'")
    with pytest.raises(ModelMismatch, match=r"the batch is of 9\.9") as error:
        fan_out.embed_batch(shared, "run", 0)
    assert "install RAGstream 9.9 on the worker" in error.value.hint


def test_a_text_that_was_damaged_is_not_embedded(shared, database):
    fan_out.plan_batches(shared, "demo", "run")
    with psycopg.connect(database) as db:
        db.execute("UPDATE ragstream_batches SET texts[1] = 'other words'")
    with pytest.raises(RagstreamError, match="texts of batch 0 are damaged"):
        fan_out.embed_batch(shared, "run", 0)
    assert rows(database) == 0


class Other:
    """Another model."""

    name, fingerprint, dimension, window, truncated_inputs = "other", "e" * 64, 3, 9, 0

    def count(self, text):
        return 1

    def embed_documents(self, texts, *, progress=None):
        raise AssertionError

    embed_queries = token_vectors = embed_documents


@pytest.fixture
def redis(tmp_path):
    server = RedisServer(tmp_path)
    yield server
    server.stop()


def call(root, *words):
    return main(["--data", str(root), *words])


def test_a_broker_without_the_settings_is_refused(root, monkeypatch, capfd, redis):
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BACKEND", "hashed")
    for words in (("ingest", "demo", "--fan-out"), ("worker",)):
        assert call(root, *words) == 2
        assert "embeddings.broker is not set" in capfd.readouterr().err
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BROKER", redis.url())
    for words in (("ingest", "demo", "--fan-out"), ("worker",)):
        assert call(root, *words) == 2
        assert "embeddings.shared is not set" in capfd.readouterr().err
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BROKER", "amqp://me:s3cret-word@host")
    assert call(root, "ingest", "demo", "--fan-out") == 2
    said = capfd.readouterr().err
    assert "no address of a Redis" in said and "s3cret" not in said
    assert not (root / "index").exists()


def test_fan_out_needs_recorded_runs(shared, root, redis, monkeypatch, capfd):
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BROKER", redis.url())


def test_a_broker_that_is_away_costs_a_warning_and_no_ingest(shared, root, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BROKER", "redis://:s3cret-word@127.0.0.1:1/0")
    stats = ingest(open_workspace(root), "demo", fan_out=True)
    assert stats.committed and stats.chunks["embedded"] == TEXTS
    (warning,) = stats.warnings
    assert "does not answer" in warning and "start Redis" in warning and "s3cret" not in warning


def test_without_a_worker_the_ingest_names_the_command(shared, root, redis, monkeypatch, capfd):
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BROKER", redis.url())
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__FAN_OUT_AT", "2")
    stats = ingest(open_workspace(root), "demo")  # asked by itself: there are more
    assert stats.committed and stats.chunks["embedded"] == TEXTS
    (warning,) = stats.warnings
    assert "no worker takes batches from queue cpu" in warning and "ragstream worker" in warning
    capfd.readouterr()
    assert call(root, "embeddings", "status", "--json") == 0
    assert json.loads(capfd.readouterr().out)["workers"] == []


def test_a_small_ingest_asks_nobody(shared, root, redis, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BROKER", redis.url())
    stats = ingest(open_workspace(root), "demo")
    assert stats.committed and stats.warnings == ()


@pytest.fixture
def planned_only(shared, root, redis, monkeypatch):
    """A broker with one worker of which nothing is heard: texts are planned, and no more."""
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BROKER", redis.url())
    monkeypatch.setattr("ragstream_assets.celery_executor.workers_there", lambda *a, **k: ONE)
    monkeypatch.setattr(launcher, "PAUSE_S", 0.0)

    def plan(workspace, project, run_id, *more):
        fan_out.plan_batches(workspace, project, run_id)
        return "nothing was heard of it"

    monkeypatch.setattr(launcher, "_run", plan)
    return open_workspace(root)


def test_no_text_stays_in_the_database_when_workers_did_not_embed(planned_only, database):
    assert "nothing was heard of it" in launcher.fan_out(planned_only, "demo")
    assert rows(database, "ragstream_batches") == 0


def test_a_database_that_is_away_at_the_end_is_no_failure(planned_only, monkeypatch, postgres):
    def away(*args, **more):
        postgres.stop()
        return ""

    monkeypatch.setattr(launcher, "_run", away)
    try:
        assert launcher.fan_out(planned_only, "demo") == ""
    finally:
        postgres.start()


def test_a_second_fan_out_of_a_project_is_told_who_does_it(planned_only, monkeypatch, database):
    told = []

    def twice(workspace, project, run_id, *more):
        assert fan_out.plan_batches(workspace, project, run_id) == [2, 2]
        with pytest.raises(ProjectLocked, match=f"process {os.getpid()} on ") as error:
            launcher.fan_out(workspace, project)
        told.append(str(error.value.hint))
        assert rows(database, "ragstream_batches") == 2, "those of the first stay"
        return ""

    monkeypatch.setattr(launcher, "_run", twice)
    assert launcher.fan_out(planned_only, "demo") == ""
    assert told == ["wait for it to finish, then run the command again"]
    assert launcher.fan_out(planned_only, "demo") == "", "it is free afterwards"


def test_an_ingest_that_asks_by_itself_embeds_here_while_another_one_has_the_workers(
    planned_only, monkeypatch
):
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__FAN_OUT_AT", "2")
    space = open_workspace(planned_only.data_dir)
    with launcher._alone(space, "demo"):
        stats = ingest(space, "demo")
    assert stats.committed and stats.chunks["embedded"] == TEXTS
    (warning,) = stats.warnings
    assert warning.startswith("the texts were embedded here: workers embed the texts of project")
    assert f"process {os.getpid()} on " in warning


def test_workers_are_asked_for_all_texts_of_a_rebuild(planned_only, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__FAN_OUT_AT", "3")
    space = open_workspace(planned_only.data_dir)
    ingest_project(space, "demo")
    assert not launcher.is_due(space, "demo")
    assert launcher.is_due(space, "demo", rebuild=True)


def ingested_by_dagster(space):
    """Run the job of an ingest as the daemon does for a sensor."""
    done = execute(space, instance_of(space.data_dir), job="ingest_documents", project="demo")
    assert done.success
    (event,) = [
        event for event in done.get_asset_materialization_events()
        if event.asset_key.path[-1] == "index"
    ]  # fmt: skip
    return values_of(event)


def test_an_ingest_of_a_sensor_asks_workers_too(shared, root, redis, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BROKER", redis.url())
    assert "worker" not in str(ingested_by_dagster(open_workspace(root)))
    (root / "doc_raw" / "demo" / "lock.md").write_text("other words")
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__FAN_OUT_AT", "1")
    said = ingested_by_dagster(open_workspace(root))
    assert "no worker takes batches from queue cpu" in said["warnings"]


@pytest.mark.slow
def test_workers_embed_for_a_sensor(worker, root, monkeypatch, database):
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__QUEUE", "gpu")
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__FAN_OUT_AT", "2")
    space = open_workspace(root)
    assert "worker" not in ingested_by_dagster(space)["warnings"]
    instance = instance_of(space.data_dir)
    (run,) = instance.get_runs(dg.RunsFilter(job_name="embed_texts"))
    assert run.status is dg.DagsterRunStatus.SUCCESS
    assert (rows(database), rows(database, "ragstream_batches")) == (TEXTS, 0)


@pytest.mark.slow
def test_a_worker_is_asked_whether_it_takes_batches(worker, root, capfd):
    assert call(root, "worker", "--check", "--queue", "gpu") == 0
    assert "takes batches from gpu" in capfd.readouterr().out
    for words in (("--queue", "cpu"), ("--queue", "gpu", "--name", "other")):
        assert call(root, "worker", "--check", *words) == 1
        said = capfd.readouterr().err
        assert "does not take batches" in said and "ragstream worker --queue" in said
    config = open_workspace(root).config
    ((name,), none) = workers_there(config, "gpu")
    assert workers_there(config, "gpu", any_of_them=True) == ([name], none) == ([name], [])
    assert workers_there(config, "cpu", any_of_them=True) == ([], [])
    os.killpg(worker.pid, signal.SIGKILL)
    worker.wait(WAIT_S)
    assert call(root, "worker", "--check", "--queue", "gpu") == 1


def test_a_worker_that_finds_its_batch_gone_says_so_and_fails_nothing(shared, monkeypatch):
    real = fan_out.plan_batches

    def plan(workspace, project, run, **more):
        sizes = real(workspace, project, run, **more)
        fan_out.forget_batches(workspace, project)
        return sizes

    monkeypatch.setattr(fan_out, "plan_batches", plan)
    done = at_home(shared)
    assert done.success
    said = [entry.user_message for entry in instance_of(shared.data_dir).all_logs(done.run_id)]
    assert "batch 0 is gone: its run has ended or was planned anew" in said
    (warning,) = (line for line in said if "planned texts were removed" in line)
    assert warning.startswith(f"{TEXTS} of {TEXTS} ") and "embeddings clear" in warning


@pytest.mark.slow
def test_texts_that_are_removed_meanwhile_are_planned_again(worker, root, database, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__QUEUE", "gpu")
    monkeypatch.setattr(launcher, "PAUSE_S", 0.0)
    real, plans = fan_out.plan_batches, []

    def plan(workspace, project, run, **more):
        plans.append(real(workspace, project, run, **more))
        if len(plans) == 1:
            fan_out.forget_batches(workspace, project)
        return plans[-1]

    monkeypatch.setattr(fan_out, "plan_batches", plan)
    stats = ingest(open_workspace(root), "demo", fan_out=True)
    assert plans == [[2, 2], [2, 2]]
    assert stats.warnings == () and stats.chunks["shared"] == TEXTS


def test_what_celery_loses_by_default_is_set(root, monkeypatch):
    from dagster_celery.make_app import make_app

    from ragstream_assets.celery_executor import app_args

    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BROKER", "redis://host/0")
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BATCH_TIMEOUT_S", "77")
    app = make_app(app_args(open_workspace(root).config))
    conf = app.conf
    assert conf.task_acks_late and conf.task_reject_on_worker_lost
    assert conf.worker_prefetch_multiplier == 1
    assert conf.broker_transport_options["visibility_timeout"] == 77
    assert conf.broker_connection_retry_on_startup and conf.broker_connection_max_retries is None
    assert conf.result_backend_always_retry and conf.redis_retry_on_timeout
    assert list(conf.accept_content) == ["json"] and conf.task_serializer == "json"
    assert conf.result_backend == conf.broker_url == "redis://host/0"


@pytest.fixture
def worker(shared, root, redis, monkeypatch, tmp_path):
    """A worker process of this machine, with a data root of its own."""
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BROKER", redis.url())
    log = tmp_path / "worker.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "ragstream_app.cli.main", "--data", str(tmp_path / "worker"),
             "worker", "--queue", "gpu"],
            stdout=out, stderr=out, env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            start_new_session=True,
        )  # fmt: skip
    assert until(lambda: b"takes batches from gpu" in log.read_bytes(), WAIT_S), log.read_text()
    yield process
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        process.wait(WAIT_S)
    assert b"s3cret" not in log.read_bytes()


@pytest.mark.slow
def test_a_worker_of_another_model_gets_no_batch_and_is_named(
    worker, root, database, monkeypatch, capfd
):
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__QUEUE", "gpu")
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BACKEND", "onnx")
    stats = ingest(open_workspace(root), "demo", fan_out=True)
    assert stats.committed and stats.chunks["embedded"] == TEXTS
    (warning,) = stats.warnings
    assert "no worker takes batches from queue gpu" in warning and "for onnx, " in warning
    assert "for another model: ragstream@" in warning
    assert "the embedding settings of this machine, then `ragstream worker --queue gpu`" in warning
    assert not instance_of(root).get_runs(dg.RunsFilter(job_name="embed_texts"))
    capfd.readouterr()
    assert call(root, "worker", "--check", "--queue", "gpu") == 1
    assert "of another model: ragstream@" in capfd.readouterr().err
    assert call(root, "embeddings", "status") == 0
    assert "`ragstream worker`; of another model: ragstream@" in capfd.readouterr().out


@pytest.mark.slow
def test_a_worker_embeds_what_an_ingest_hands_out(worker, root, database, monkeypatch, capfd):
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__QUEUE", "gpu")
    told = []
    capfd.readouterr()
    assert call(root, "embeddings", "status") == 0
    assert "workers of queue gpu: ragstream@" in capfd.readouterr().out
    space = open_workspace(root)
    stats = ingest(space, "demo", fan_out=True, progress=lambda *at: told.append(at))
    assert stats.warnings == () and stats.chunks["shared"] == TEXTS
    assert ("workers", 2, 2) in told
    assert rows(database, "ragstream_batches") == 0
    runs = instance_of(space.data_dir).get_runs(dg.RunsFilter(job_name="embed_texts"))
    assert [run.status for run in runs] == [dg.DagsterRunStatus.SUCCESS]
    assert runs[0].tags["dagster/partition"] == "demo"
    assert database not in str(runs[0].run_config) and "redis" not in str(runs[0].run_config)
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__QUEUE", "cpu")
    (root / "doc_raw" / "demo" / "new.md").write_text("words that are new")
    stats = ingest(open_workspace(root), "demo", fan_out=True)
    assert "no worker takes batches from queue cpu" in stats.warnings[0]
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(WAIT_S) == 0


@pytest.mark.slow
def test_workers_embed_a_rebuild_that_takes_a_folder_for_gone(
    worker, root, tmp_path, database, monkeypatch, capfd
):
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__QUEUE", "gpu")
    monkeypatch.setattr(launcher, "PAUSE_S", 0.0)
    folders = [tmp_path / name for name in ("code", "wiki")]
    for folder in folders:
        folder.mkdir()
        (folder / "a.md").write_text(f"# A\n\nwords of {folder.name}\n")
    space = open_workspace(root)
    add(space, "shop", AddRequest(tuple(folders)))
    ingest_project(space, "shop")
    assert call(root, "embeddings", "clear", "--yes") == 0
    (root / "index" / "shop" / "catalog.sqlite").write_bytes(b"damaged")
    folders[1].rename(tmp_path / "away")
    capfd.readouterr()
    assert call(root, "ingest", "shop", "--rebuild", "--fan-out") != 0
    said = capfd.readouterr().err
    assert "some documents of shop are not there; nothing was changed" in said
    assert rows(database) == 0 and "Traceback" not in said
    assert call(root, "ingest", "shop", "--rebuild", "--yes", "--fan-out", "--json") == 0
    stats = json.loads(capfd.readouterr().out)
    assert stats["chunks"] == {"embedded": 0, "shared": 1, "reused": 0, "live": 1}
    assert not [line for line in stats["warnings"] if "worker" in line]
    (run,) = instance_of(space.data_dir).get_runs(dg.RunsFilter(job_name="embed_texts"), limit=1)
    assert run.status is dg.DagsterRunStatus.SUCCESS
    assert (rows(database), rows(database, "ragstream_batches")) == (1, 0)
