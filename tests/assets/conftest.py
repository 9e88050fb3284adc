"""A small data root with hashed embeddings: fast, no weights, everything else is real."""

import shutil
from pathlib import Path

import pytest
from dagster._core.storage.defs_state.base import set_defs_state_storage

from ragstream_assets import instance
from ragstream_core.conversations.journal.records import Turn
from ragstream_core.ingestion import scan
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.services.ingest import ingest_project
from ragstream_core.wiring.journal import append_records
from ragstream_core.wiring.workspace import Workspace, open_workspace
from tests.assets.executing import execute

DOCS = {
    "lock.md": "# Locks\n\nAn ingest holds the lock of its project. A second ingest stops at once "
    "and names the holder. The lock is free when the process ends.\n",
    "crash.md": "# Crashes\n\nA killed ingest leaves the last committed generation as it was. The "
    "next ingest resumes and embeds only texts without a vector.\n",
    "setup.txt": "Install the package. Put documents below doc_raw. Run the ingest command.\n",
    "limits.rst": "Limits\n======\n\nFiles over twenty megabytes are skipped with a reason.\n",
}
QUESTION = "# Task\nWhat does a killed ingest leave behind, and what does the next ingest embed?"


def _make_project(root: Path, project: str) -> Path:
    folder = root / "doc_raw" / project
    folder.mkdir(parents=True)
    for name, text in DOCS.items():
        (folder / name).write_text(text, encoding="utf-8")
    return root


def _open_root(root: Path, **settings: str) -> Workspace:
    return open_workspace(root, explicit={"embeddings.backend": "hashed", **settings})


@pytest.fixture(autouse=True, scope="session")
def quick_tables(tables_read_once):
    """All of these tests open Dagster's storage."""


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DAGSTER_HOME", "")  # restored afterwards: dagster_home() sets it
    yield _make_project(tmp_path / "data", "demo")
    instance.drop_instances()


@pytest.fixture
def space(root):
    return _open_root(root)


@pytest.fixture
def open_root():
    """Opens a data root with other settings."""
    return _open_root


@pytest.fixture
def make_project(root):
    """Puts the sample documents into another project."""
    return lambda project: _make_project(root, project)


@pytest.fixture
def ingested(space):
    ingest_project(space, "demo")
    return space


@pytest.fixture
def request_():
    return PromptRequest(QUESTION, ("demo",))


@pytest.fixture(scope="session")
def fresh_home(tmp_path_factory):
    """Dagster's home after its first opening: making the tables takes longer than most tests."""
    data_dir = tmp_path_factory.mktemp("fresh") / "data"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAGSTER_HOME", "")
        instance.instance_of(data_dir).all_instigator_state()
        instance.drop_instances()
        return instance.dagster_home(data_dir)


@pytest.fixture
def home(space, fresh_home):
    if not (space.data_dir / "dagster_home").exists():
        shutil.copytree(fresh_home, space.data_dir / "dagster_home")
    return instance.instance_of(space.data_dir)


def _say(space, n, *, when="2026-10-05T14:07:00+02:00", session="talks", **given):
    turn = Turn(f"turn-{n}", session, when, f"What is number {n}?", f"It is {n * 7}.", **given)
    return append_records(space, [turn])[0]


def _embed(space, home, *, job="embed_history", config=None, ops=None, **given):
    ops = {"publish_snapshot": config or {}, **(ops or {})}
    return execute(space, home, job=job, ops=ops, **given)


@pytest.fixture
def say():
    """Puts one turn of its own words into the journal; returns its entry."""
    return _say


@pytest.fixture
def embed():
    """Runs a job of the history in this process."""
    return _embed


@pytest.fixture(autouse=True)
def young_files(monkeypatch):
    monkeypatch.setattr(scan, "RACY_NS", 0)  # files of a test are always young


@pytest.fixture(autouse=True)
def no_state_of_other_instances():
    """What Dagster leaves in a variable of the thread is of an instance that is gone by then."""
    with set_defs_state_storage(None):
        yield
