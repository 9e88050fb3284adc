"""Bad input to shared vectors and workers: the ingest commits, and says what, where, what next."""

import psycopg
import pytest

from ragstream_app.cli.main import main
from ragstream_core.index.view import open_view
from ragstream_core.ingestion import workers
from ragstream_core.models.embedders.hashed import HashedEmbedder
from ragstream_core.services.ingest import ingest, ingest_project
from ragstream_core.wiring.workspace import open_workspace

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
def asked(shared, database, monkeypatch):
    """The same, with a worker that has signed in and takes nothing."""
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BATCH_TIMEOUT_S", "5")
    queue = workers.queue_name("cpu", HashedEmbedder().fingerprint)
    prepared(database, b"")
    with psycopg.connect(database) as db:
        db.execute("INSERT INTO ragstream_workers VALUES ('one@here', %s, now())", (queue,))
    return shared


def prepared(url, statements):
    """Make the tables by a first use; then something happens to them."""
    from ragstream_core.platform.postgres import database_at

    place = database_at(url, setting="embeddings.shared")
    with place.connect() as db:
        workers.tables().ensure(db, place)
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
    prepared(database, b"UPDATE ragstream_schema SET version = 9 WHERE part = 'workers'")
    warning = ingested(asked, fan_out=True)
    assert "tables of workers have version 9, this RAGstream reads version 1" in warning
    assert "install the newer RAGstream here too" in warning


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


def test_a_wrong_password_costs_a_warning_that_does_not_hold_it(
    shared, guarded, monkeypatch, capfd
):
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__SHARED", guarded.format("wrong-word"))
    warning = ingested(shared)
    assert "password authentication failed" in warning and "~/.pgpass" in warning
    assert "wrong-word" not in warning
    assert main(["--data", str(shared), "worker"]) == 1, "it would try for ever"
    told = capfd.readouterr().err
    assert "password authentication failed" in told and "wrong-word" not in told
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__SHARED", guarded.format("right-word"))
    (shared / "doc_raw" / "demo" / "more.md").write_text("words that are newer")
    stats = ingest_project(open_workspace(shared), "demo")
    assert stats.committed and not stats.warnings
