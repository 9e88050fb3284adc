"""A small data root with hashed embeddings: fast, no weights, everything else is real."""

from pathlib import Path

import pytest

from ragstream_assets import instance, recorder
from ragstream_core.build.workspace import Workspace, open_workspace
from ragstream_core.ingestion import scan
from ragstream_core.orchestration.inputs import PromptRequest

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
    space.ingest("demo")
    return space


@pytest.fixture
def request_():
    return PromptRequest(QUESTION, ("demo",))


@pytest.fixture
def home(space):
    return instance.instance_of(space.data_dir)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(recorder, "WAIT_S", 30.0)
    monkeypatch.setattr(scan, "RACY_NS", 0)  # files of a test are always young
