"""What is forgotten does not come back into the shared table, whoever is at work meanwhile."""

import threading
from dataclasses import replace

import psycopg
import pytest

from ragstream_core.errors import ProjectLocked
from ragstream_core.index import schema
from ragstream_core.ingestion.workers import TextBatches, embed_batch
from ragstream_core.models.embedders.hashed import HashedEmbedder
from ragstream_core.models.embedders.shared_vectors import VectorTable
from ragstream_core.services.forget import forget
from ragstream_core.services.ingest import ingest_project
from ragstream_core.wiring import fan_out, ingestion
from ragstream_core.wiring.workspace import open_workspace
from tests.processes import until
from tests.workspaces import docs_of, hashed_workspace, write_docs

SECRET = "# Vault\n\nThe vault opens with the phrase umbrella-marzipan-cathedral.\n"
WAIT_S = 60


class Former(HashedEmbedder):
    """The model of the index: with another one all its texts are embedded."""

    fingerprint = "f" * 64


@pytest.fixture
def space(tmp_path, database):
    """A project with a secret in its index, and a table of vectors that has none of it yet."""
    write_docs(tmp_path)
    former = open_workspace(
        tmp_path, explicit={"embeddings.backend": "tests.unit.wiring.test_shared_vectors:Former"}
    )
    (docs_of(former) / "secret.md").write_text(SECRET)
    ingest_project(former, "demo")
    return hashed_workspace(tmp_path, {"embeddings.shared": database})


@pytest.fixture
def left(database):
    """Counts the batches and the vectors in the database."""

    def count():
        with psycopg.connect(database) as db:
            return tuple(
                db.execute(f"SELECT count(*) FROM ragstream_{table}").fetchone()[0]
                for table in ("batches", "vectors")
            )

    return count


def planned(space, run, *, rebuild=False):
    config = replace(ingestion.ingestion_config(space, "demo"), rebuild=rebuild)
    return fan_out.plan_batches(space, "demo", run, config)


def embedded(space, run):
    return embed_batch(fan_out.require_workers(space), HashedEmbedder(), run, 0)


def test_a_text_that_is_forgotten_while_a_worker_embeds_it_is_not_added(space, left, monkeypatch):
    assert len(planned(space, "run", rebuild=True)) == 1
    real = HashedEmbedder.embed_documents

    def embed(model, texts, **more):
        made = real(model, texts, **more)
        forget(space, "demo", "secret.md", delete=True)
        return made

    monkeypatch.setattr(HashedEmbedder, "embed_documents", embed)
    assert embedded(space, "run") == (0, 0)
    assert left() == (0, 0)
    monkeypatch.undo()
    (texts,) = planned(space, "again", rebuild=True)
    assert embedded(space, "again") == (texts, texts)
    assert left() == (0, texts), "what stays is embedded by the next run"


def test_a_text_that_is_forgotten_while_a_worker_adds_its_vector_is_removed(
    space, left, database, monkeypatch
):
    planned(space, "run", rebuild=True)
    real, told = VectorTable.add, []
    forgetting = threading.Thread(
        target=lambda: told.append(forget(space, "demo", "secret.md", delete=True))
    )

    def waits():
        with psycopg.connect(database) as db:
            return db.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                " AND wait_event_type = 'Lock'"
            ).fetchone()[0]

    def add(table, vectors, **more):
        replaced = real(table, vectors, **more)
        forgetting.start()
        assert until(waits, WAIT_S), "forget does not wait for the worker"
        return replaced

    monkeypatch.setattr(VectorTable, "add", add)
    done = embedded(space, "run")
    forgetting.join(WAIT_S)
    assert told[0].texts == 1
    assert done.embedded > 1
    assert left() == (0, done.embedded - 1), "the others stay"


def test_nothing_is_forgotten_while_texts_are_handed_to_workers(space, left, monkeypatch):
    real, refused = TextBatches.write, []

    def write(table, *given, **more):
        with pytest.raises(ProjectLocked) as error:
            forget(space, "demo", "secret.md", delete=True)
        refused.append(error.value)
        real(table, *given, **more)

    monkeypatch.setattr(TextBatches, "write", write)
    planned(space, "run", rebuild=True)
    assert "project demo is being written by process" in refused[0].message
    forget(space, "demo", "secret.md", delete=True)
    assert left() == (0, 0)
    with schema.project_lock(space.index_dir("demo")), pytest.raises(ProjectLocked):
        planned(space, "run", rebuild=True)
    assert left() == (0, 0)


def test_a_project_without_an_index_is_planned_and_gets_no_folder(tmp_path, database, left):
    write_docs(tmp_path)
    space = hashed_workspace(tmp_path, {"embeddings.shared": database})
    assert planned(space, "run")
    assert not space.index_dir("demo").exists()
    assert left()[0] == 1
