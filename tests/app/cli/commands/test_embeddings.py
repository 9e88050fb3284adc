"""Shared vectors on the command line: two data roots, one database, and troubles with it."""

import json
import sqlite3

import psycopg
import pytest

from ragstream_app.cli.main import main
from ragstream_core.ingestion.workers import TextBatches, queue_name, tables
from ragstream_core.models.embedders.hashed import HashedEmbedder
from ragstream_core.platform.postgres import database_at
from tests.workspaces import confirm, write_docs


@pytest.fixture
def run(tmp_path, monkeypatch, capfd):
    """Run a command over a data root; return its exit code and what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BACKEND", "hashed")

    def call(root, *words):
        capfd.readouterr()
        code = main(["--data", str(tmp_path / root), *words])
        said = capfd.readouterr()
        return code, said.out, said.err

    return call


@pytest.fixture
def shared(monkeypatch, database):
    """Share vectors with the user's password in the address, as people write it."""
    url = database.replace("ragstream@", "ragstream:s3cret-word@")
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__SHARED", url)
    return url


def ingested(run, tmp_path, root):
    write_docs(tmp_path / root)
    code, out, err = run(root, "ingest", "demo", "--json")
    assert code == 0, err
    return json.loads(out)


def digest(tmp_path, root):
    with sqlite3.connect(tmp_path / root / "index" / "demo" / "catalog.sqlite") as db:
        return db.execute("SELECT digest FROM generations").fetchall()


def test_a_second_deployment_embeds_nothing(run, shared, tmp_path):
    one, two = ingested(run, tmp_path, "one"), ingested(run, tmp_path, "two")
    texts = one["chunks"]["embedded"]
    assert texts and one["chunks"]["shared"] == 0
    assert (two["chunks"]["embedded"], two["chunks"]["shared"]) == (0, texts)
    assert one["warnings"] == two["warnings"] == []
    assert digest(tmp_path, "one") == digest(tmp_path, "two")
    (vectors_one,) = (tmp_path / "one" / "index" / "demo").glob("vectors-*.f32")
    vectors_two = tmp_path / "two" / "index" / "demo" / vectors_one.name
    assert vectors_one.read_bytes() == vectors_two.read_bytes()
    write_docs(tmp_path / "three")
    code, out, _ = run("three", "ingest", "demo")
    assert code == 0 and "shared" in out

    code, out, _ = run("one", "embeddings", "status", "--json")
    (model,) = json.loads(out)["models"]
    assert (code, model["vectors"], model["dimension"]) == (0, texts, 384)
    code, out, _ = run("one", "embeddings", "status")
    assert "configured here" in out and "reached" in out
    assert f"{texts} vectors" in run("one", "doctor")[1]


def test_the_forecast_learns_nothing_from_vectors_that_were_taken_over(run, shared, tmp_path):
    ingested(run, tmp_path, "one")
    ingested(run, tmp_path, "two")
    with sqlite3.connect(tmp_path / "two" / "index" / "demo" / "catalog.sqlite") as db:
        (provenance,) = db.execute("SELECT provenance FROM generations").fetchone()
    assert json.loads(provenance)["embedded"] == "0"


def test_the_password_is_shown_nowhere(run, shared, tmp_path):
    ingested(run, tmp_path, "one")
    for words in (("status",), ("doctor",), ("embeddings", "status"), ("config", "show")):
        said = run("one", *words)
        assert "s3cret-word" not in said[1] + said[2]
    for path in (tmp_path / "one").rglob("*"):
        assert path.is_dir() or b"s3cret-word" not in path.read_bytes(), path


def test_a_password_in_a_file_that_is_shared_is_refused(run, tmp_path, database):
    with_password = database.replace("ragstream@", "ragstream:s3cret-word@")
    file = tmp_path / "ragstream.yaml"
    file.write_text(f"embeddings:\n  shared: {with_password}\n")
    code, _, err = run("one", "embeddings", "status")
    assert code == 2 and "RAGSTREAM_EMBEDDINGS__SHARED" in err and "s3cret" not in err
    file.write_text(f"embeddings:\n  shared: {database}\n")
    confirm(file)
    assert run("one", "embeddings", "status")[0] == 0


def test_a_database_that_is_away_costs_a_warning_and_no_ingest(
    run, tmp_path, monkeypatch, database
):
    nowhere = "postgresql://me:s3cret-word@127.0.0.1:1/name"
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__SHARED", nowhere)
    stats = ingested(run, tmp_path, "one")
    assert stats["committed"] and stats["chunks"]["embedded"] > 0
    (warning,) = stats["warnings"]
    assert "vectors were made here, not shared" in warning and "firewall" in warning
    assert "s3cret" not in warning
    for words in (("embeddings", "status"), ("embeddings", "clear", "--yes")):
        code, _, err = run("one", *words)
        assert code == 1 and "nobody answers" in err and "Traceback" not in err
    assert "nobody answers" in run("one", "doctor")[1]
    monkeypatch.delenv("RAGSTREAM_EMBEDDINGS__SHARED")
    plain = ingested(run, tmp_path, "plain")
    assert "shared" not in plain["chunks"] and digest(tmp_path, "plain") == digest(tmp_path, "one")


@pytest.mark.parametrize("url", ["mysql://host/x", "postgresql://host", "here"])
def test_a_wrong_address_is_refused_before_anything_is_done(run, tmp_path, monkeypatch, url):
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__SHARED", url)
    write_docs(tmp_path / "one")
    code, _, err = run("one", "ingest", "demo")
    assert code == 2 and "is no address of a database" in err
    assert not list((tmp_path / "one" / "index").glob("*/catalog.sqlite"))


def test_tables_of_another_version_cost_a_warning_and_no_ingest(run, shared, tmp_path, database):
    ingested(run, tmp_path, "one")
    with psycopg.connect(database) as db:
        db.execute("UPDATE ragstream_schema SET version = 99")
    (warning,) = ingested(run, tmp_path, "two")["warnings"]
    assert "have version 99" in warning and "newer RAGstream" in warning
    assert digest(tmp_path, "one") == digest(tmp_path, "two")
    assert run("one", "embeddings", "status")[0] == 3


def test_clear_removes_what_is_chosen(run, shared, tmp_path, database):
    texts = ingested(run, tmp_path, "one")["chunks"]["embedded"]
    assert run("one", "embeddings", "clear")[0] == 3
    code, _, err = run("one", "embeddings", "clear", "--model", "nobody")
    assert code == 2 and "embeddings status" in err
    code, out, _ = run("one", "embeddings", "clear", "--dry-run", "--json")
    assert json.loads(out) == {"vectors": texts, "dry_run": True}
    assert "0 vectors removed" in run("one", "embeddings", "clear", "--older-than", "1")[1]
    with psycopg.connect(database) as db:
        db.execute("UPDATE ragstream_vectors SET made = made - interval '2 days'")
    assert f"{texts} vectors removed" in run("one", "embeddings", "clear", "--older-than", "1")[1]
    assert json.loads(run("one", "embeddings", "status", "--json")[1])["models"] == []


def test_clear_takes_one_model_unless_several_are_meant(run, shared, tmp_path, database):
    texts = ingested(run, tmp_path, "one")["chunks"]["embedded"]
    with psycopg.connect(database, autocommit=True) as db:
        ((name, fp),) = db.execute("SELECT model, embed_fp FROM ragstream_embedders")
        db.execute(
            "INSERT INTO ragstream_embedders (embed_fp, model, dimension) VALUES (%s, %s, 3)",
            (other := fp[:10] + "g" * 54, name),
        )
        for short in (fp[0], fp[:7]):
            code, _, err = run("one", "embeddings", "clear", "--model", short, "--yes")
            assert code == 2 and "too short" in err and "8 digits" in err
        for both in (fp[:8], name):
            code, _, err = run("one", "embeddings", "clear", "--model", both)
            assert code == 3 and fp[:12] in err and other[:12] in err and "--yes" in err
            assert run("one", "embeddings", "clear", "--model", both, "--dry-run")[0] == 0
        assert db.execute("SELECT count(*) FROM ragstream_vectors").fetchone() == (texts,)
        assert run("one", "embeddings", "clear", "--model", fp[:11])[0] == 0
        assert db.execute("SELECT embed_fp FROM ragstream_embedders").fetchall() == [(other,)]
        ingested(run, tmp_path, "two")
        assert f"{texts} vectors" in run("one", "embeddings", "clear", "--model", name, "--yes")[1]


def test_without_the_setting_the_commands_name_it(run, tmp_path):
    code, _, err = run("one", "embeddings", "status")
    assert code == 2 and "embeddings.shared is not set" in err


def test_forgetting_a_file_takes_its_vectors_and_waiting_texts_away(
    run, shared, tmp_path, database, monkeypatch
):
    folder = tmp_path / "one" / "doc_raw" / "demo"
    before = ingested(run, tmp_path, "one")["chunks"]["embedded"]
    (folder / "secret.md").write_text("# Salaries\n\nThe canary of Zebulon is worth doubloons.\n")
    write_docs(tmp_path / "one")
    assert run("one", "ingest", "demo")[0] == 0
    place = database_at(database, setting="embeddings.shared")
    with psycopg.connect(database, autocommit=True) as db, place.connect() as mine:
        held = db.execute("SELECT text_hash FROM ragstream_vectors").fetchall()
        assert len(held) > before
        batches = TextBatches(mine, place)
        for run_id, (key,) in zip(("first", "last"), (held[0], held[-1]), strict=True):
            batches.write(run_id, 0, {key.hex(): "text"}, owner="me", embed_fp="fp")
        monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__SHARED", "postgresql://me@127.0.0.1:1/none")
        code, _, err = run("one", "forget", "secret.md", "-p", "demo", "--delete")
        assert code != 0 and "may still be shared" in err and "127.0.0.1:1" in err
        monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__SHARED", shared)
        assert run("one", "forget", "secret.md", "-p", "demo")[0] == 0
        assert db.execute("SELECT count(*) FROM ragstream_vectors").fetchone() == (before,)
        assert db.execute("SELECT run FROM ragstream_batches").fetchall() == [("first",)]


def test_clearing_takes_texts_away_that_still_wait_for_workers(run, shared, tmp_path, database):
    ingested(run, tmp_path, "one")
    place = database_at(database, setting="embeddings.shared")
    with place.connect() as db:
        TextBatches(db, place).write("r", 0, {"ab" * 32: "text"}, owner="me", embed_fp="fp")
        assert "texts that wait for workers: 1" in run("one", "embeddings", "status")[1]
        assert json.loads(run("one", "embeddings", "status", "--json")[1])["waiting"] == 1
        for words, left in ((("--older-than", "1"), 1), (("--dry-run",), 1), (("--yes",), 0)):
            assert run("one", "embeddings", "clear", *words)[0] == 0
            assert db.execute("SELECT count(*) FROM ragstream_batches").fetchone() == (left,)


def test_the_doctor_names_workers_and_what_waits(run, shared, tmp_path, database):
    def looks():
        found = json.loads(run("one", "doctor", "--json")[1])
        return {row["name"]: row for row in found if row["name"] in ("shared", "workers")}

    write_docs(tmp_path / "one")
    assert set(looks()) == {"shared"}, "no worker was ever started there"
    place = database_at(database, setting="embeddings.shared")
    with place.connect() as db:
        tables().ensure(db, place)
        found = looks()
        assert "0 vectors of the model configured here" in found["shared"]["detail"]
        assert found["workers"]["level"] == "warn"
        assert "ragstream worker" in found["workers"]["next_step"]
        queue = queue_name("cpu", HashedEmbedder().fingerprint)
        db.execute("INSERT INTO ragstream_workers VALUES ('one@here', %s, now())", (queue,))
        found = looks()["workers"]
        assert found["level"] == "ok" and "workers of queue cpu: one@here" in found["detail"]
        db.execute("UPDATE ragstream_workers SET seen = now() - interval '1 minute'")
        assert looks()["workers"]["level"] == "warn", "nothing was heard of it"


def test_the_doctor_asks_every_database_that_is_set(run, tmp_path, database, monkeypatch):
    def looks():
        found = json.loads(run("one", "doctor", "--json")[1])
        return {row["name"]: row for row in found if row["name"] in ("records", "graphs")}

    write_docs(tmp_path / "one")
    monkeypatch.setenv("RAGSTREAM_VECTOR_STORE__URL", database)
    assert looks() == {}, "nobody is asked unless it is chosen"
    monkeypatch.setenv("RAGSTREAM_RETRIEVAL__STORE", "pgvector")
    monkeypatch.setenv("RAGSTREAM_DAGSTER__STORAGE", database)
    found = looks()
    assert [row["level"] for row in found.values()] == ["ok", "ok"]
    assert "pgvector 0." in found["graphs"]["detail"]
    nowhere = "postgresql://me:s3cret-word@127.0.0.1:1/none"
    for name in ("VECTOR_STORE__URL", "DAGSTER__STORAGE"):
        monkeypatch.setenv(f"RAGSTREAM_{name}", nowhere)
    for row in looks().values():
        assert row["level"] == "fail" and "nobody answers there" in row["detail"]
        assert "check host" in row["next_step"] and "s3cret" not in str(row)
