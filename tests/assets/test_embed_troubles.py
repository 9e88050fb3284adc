"""Bad input to shared vectors and workers: the ingest commits, and says what, where, what next."""

import psycopg
import pytest
import redis
from celery.result import EagerResult

from ragstream_app.cli.main import main
from ragstream_app.ingesting import ingest
from ragstream_assets import celery_executor
from ragstream_assets import fan_out as launcher
from ragstream_core.errors import Stopped, StoreFailed
from ragstream_core.index.view import open_view
from ragstream_core.services import fan_out
from ragstream_core.services.ingest import ingest_project
from ragstream_core.wiring.workspace import open_workspace
from tests.databases import RedisServer

TEXTS = 4
FULL = """
CREATE FUNCTION refuse() RETURNS trigger AS
$$BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END$$ LANGUAGE plpgsql;
CREATE TRIGGER full_disk BEFORE INSERT ON {} EXECUTE FUNCTION refuse()"""
FULL_FOR_TABLES = """
CREATE FUNCTION refuse() RETURNS event_trigger AS
$$BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END$$ LANGUAGE plpgsql;
CREATE EVENT TRIGGER full_disk ON ddl_command_start WHEN TAG IN ('CREATE INDEX')
EXECUTE FUNCTION refuse()"""


@pytest.fixture
def shared(root, database, monkeypatch):
    """A data root that shares vectors, with one document more than was ingested."""
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BACKEND", "hashed")
    ingest_project(open_workspace(root), "demo")
    (root / "doc_raw" / "demo" / "more.md").write_text("words that are new")
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__SHARED", database)
    return root


@pytest.fixture
def asked(shared, redis_server, monkeypatch):
    """The same with a broker, and a worker that nothing comes to."""
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BROKER", redis_server.url(9))
    one = celery_executor.Workers(["one"], [])
    monkeypatch.setattr(celery_executor, "workers_there", lambda *a, **k: one)
    monkeypatch.setattr(launcher, "PAUSE_S", 0.0)
    return shared


def prepared(url, statements):
    """Make the tables by a first use; then something happens to them."""
    from ragstream_core.models.embedders.text_batches import BATCHES
    from ragstream_core.platform.postgres import database_at

    place = database_at(url, setting="embeddings.shared")
    with place.connect() as db:
        BATCHES.ensure(db, place)
    with psycopg.connect(url) as db:
        db.execute(statements)


def ingested(root, **how):
    """Ingest; return the one warning, after a look that the index is whole."""
    stats = ingest(open_workspace(root), "demo", **how)
    assert stats.committed and stats.chunks["embedded"] == 1
    assert len(open_view(root / "index" / "demo").chunk_ids) == TEXTS + 1
    (warning,) = (words for words in stats.warnings if "fan-out" in words or "shared" in words)
    return warning


def test_a_full_disk_costs_a_warning(shared, database):
    ingest_project(open_workspace(shared), "demo")
    with psycopg.connect(database) as db:
        db.execute(FULL.format("ragstream_vectors").encode())
    (shared / "doc_raw" / "demo" / "more.md").write_text("words that are newer")
    warning = ingested(shared)
    assert database.partition("@")[2] in warning and "its disk is full" in warning
    assert "free space on the database's disk" in warning


def test_a_full_disk_while_texts_are_planned_costs_a_warning(asked, database):
    prepared(database, FULL.format("ragstream_batches").encode())
    warning = ingested(asked, fan_out=True)
    assert "its disk is full" in warning and "free space on the database's disk" in warning
    assert "ragstream ingest demo --fan-out" in warning


def test_a_full_disk_while_a_graph_is_built_costs_a_warning(root, database, monkeypatch):
    from ragstream_core.platform.postgres import database_at
    from ragstream_core.proposers.graph_tables import TABLES

    monkeypatch.setenv("RAGSTREAM_RETRIEVAL__STORE", "pgvector")
    monkeypatch.setenv("RAGSTREAM_VECTOR_STORE__URL", database)
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BACKEND", "hashed")
    place = database_at(database, setting="vector_store.url")
    with place.connect() as db:
        TABLES.ensure(db, place)
        db.execute(FULL_FOR_TABLES)
    stats = ingest_project(open_workspace(root), "demo")
    (warning,) = (words for words in stats.warnings if "pgvector" in words)
    assert stats.committed and "its disk is full" in warning
    assert "(vector_store.url)" in warning and "ragstream index check demo" in warning
    with psycopg.connect(database) as db:
        left = db.execute("SELECT count(*) FROM pg_tables WHERE tablename LIKE 'graph_demo%'")
        assert left.fetchone() == (0,)


def test_batches_of_another_version_cost_a_warning(asked, database):
    prepared(database, b"UPDATE ragstream_schema SET version = 9 WHERE part = 'text_batches'")
    warning = ingested(asked, fan_out=True)
    assert "tables of text_batches have version 9, this RAGstream reads version 1" in warning
    assert "install the newer RAGstream here too" in warning


def test_dagsters_database_that_is_away_costs_a_warning(asked, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_DAGSTER__STORAGE", "postgresql://ragstream@127.0.0.1:1/none")
    warning = ingested(asked, fan_out=True)
    assert "(dagster.storage)" in warning and "nobody answers there" in warning
    assert "ragstream ingest demo --fan-out" in warning


def test_who_stops_an_ingest_while_workers_embed_stops_it(asked):
    def stop(phase, done, total):
        if phase == "workers":
            raise Stopped("you stopped the ingest")

    with pytest.raises(Stopped):
        ingest(open_workspace(asked), "demo", fan_out=True, progress=stop)
    assert len(open_view(asked / "index" / "demo").chunk_ids) == TEXTS


@pytest.fixture
def guarded(postgres, database):
    """The address of a database for a user who has to give a password."""
    with postgres.connect() as admin:
        (rules,) = admin.execute("SHOW hba_file").fetchone()
        with open(rules, encoding="utf-8") as file:
            before = file.read()
        admin.execute("CREATE ROLE careful LOGIN SUPERUSER PASSWORD 'right-word'")
        with open(rules, "w", encoding="utf-8") as file:
            file.write(f"host all careful 127.0.0.1/32 scram-sha-256\n{before}")
        admin.execute("SELECT pg_reload_conf()")
        yield database.replace("ragstream@", "careful:{}@")
        with open(rules, "w", encoding="utf-8") as file:
            file.write(before)
        admin.execute("SELECT pg_reload_conf()")
        with psycopg.connect(database) as db:  # its tables are there
            db.execute("REASSIGN OWNED BY careful TO ragstream")
            db.execute("DROP ROLE careful")


def test_a_wrong_password_costs_a_warning_that_does_not_hold_it(shared, guarded, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__SHARED", guarded.format("wrong-word"))
    warning = ingested(shared)
    assert "password authentication failed" in warning and "~/.pgpass" in warning
    assert "wrong-word" not in warning
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__SHARED", guarded.format("right-word"))
    (shared / "doc_raw" / "demo" / "more.md").write_text("words that are newer")
    stats = ingest(open_workspace(shared), "demo")
    assert stats.committed and not stats.warnings


def test_a_broker_with_another_password_costs_a_warning_and_begins_no_worker(
    shared, tmp_path, monkeypatch, capfd
):
    server = RedisServer(tmp_path)
    try:
        with redis.Redis.from_url(server.url()) as broker:
            broker.config_set("requirepass", "right-word")
        for password in ("", ":wrong-word@"):
            url = server.url().replace("redis://", f"redis://{password}")
            monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BROKER", url)
            said = launcher.fan_out(open_workspace(shared), "demo")
            assert "does not let us in" in said and "redis://:PASSWORD@" in said
            assert "wrong-word" not in said and str(server.port) in said
            assert main(["--data", str(shared), "worker"]) == 1, "it would try for ever"
            told = capfd.readouterr().err
            assert "does not let us in" in told and "wrong-word" not in told
    finally:
        server.stop()


class Worker:
    """A worker in this process that cannot run what it is given for some times."""

    def __init__(self, app, failures):
        self._task, self._failures = real_task(app), failures

    def si(self, **given):
        signature = self._task.si(**given)
        signature.apply_async = lambda **options: self._run(signature)
        return signature

    def _run(self, signature):
        if self._failures:
            return EagerResult("id", self._failures.pop(), "FAILURE")
        return signature.apply()


real_task = celery_executor.create_task


@pytest.fixture
def lost_its_database(asked, monkeypatch):
    """Two batches; lists what the worker raises outside its steps, last one first."""
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BATCH_TEXTS", "1")
    (asked / "doc_raw" / "demo" / "again.md").write_text("and other words")
    failures = []
    monkeypatch.setattr(celery_executor, "create_task", lambda app: Worker(app, failures))
    return failures


@pytest.mark.timeout(300)  # it hung
def test_a_batch_that_no_worker_could_begin_is_handed_out_again_beside_one_that_failed(
    lost_its_database, asked, monkeypatch
):
    lost_its_database.append(RuntimeError("too many retries for DB connection"))
    real, refused = fan_out.embed_batch, []

    def embed_batch(*given):
        if not refused:
            refused.append(given)
            raise StoreFailed("the database is away")
        return real(*given)

    monkeypatch.setattr(fan_out, "embed_batch", embed_batch)
    stats = ingest(open_workspace(asked), "demo", fan_out=True)
    assert refused and not lost_its_database
    assert stats.warnings == ()
    assert stats.chunks["shared"] == 2 and stats.chunks["embedded"] == 0


def test_a_batch_that_no_worker_can_begin_is_embedded_here(lost_its_database, asked, monkeypatch):
    monkeypatch.setattr(launcher, "ATTEMPTS", 1)
    told = [RuntimeError("another Dagster\nand its stack")] * 2 * celery_executor.HAND_OUTS
    lost_its_database.extend(told)
    stats = ingest(open_workspace(asked), "demo", fan_out=True)
    assert stats.committed and stats.chunks["embedded"] == 2
    (warning,) = stats.warnings
    assert "handed out 4 times and no worker finished it: RuntimeError: another Dagster" in warning
    assert "its stack" not in warning and "ragstream ingest demo --fan-out" in warning
