"""A small data root, hashed embeddings, no recording: what the faces need to be tried quickly."""

import functools
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main

from ragstream_app.cli import main
from ragstream_core.ingestion.scan import RACY_NS
from tests.app.model_answers import QUESTION
from tests.app.page_driver import AppTest, open_page
from tests.model_server import KEY
from tests.workspaces import ROOT, write_docs, write_gold

PAGES = {
    "guide/locks.md": (
        "# File lock\n\nThe Exact File Lock restricts a prompt to the files you inject. "
        "Retrieval is skipped while the lock is on.\n\n## Turning it on\n\n"
        "Use `--lock` together with `--file`. The lock must not be combined with search.\n"
    ),
    "guide/citations.md": (
        "# Citations\n\nEvery fact carries a citation with a short id. The short id leads to the "
        "chunk, the file hash and the generation.\n"
    ),
    "guide/storage.md": (
        "# Storage\n\nThe index is a catalog and a vector file. A commit is one transaction. "
        "Deleted documents leave the newest generation at once.\n"
    ),
    "settings.yaml": "retrieval:\n  top_k: 50\n  tau: 9.0\n",
}


@pytest.fixture(autouse=True, scope="session")
def packages_read_once() -> Iterator[None]:
    """A page under test looks for components in every installed package: once is enough."""
    from streamlit.components.v2 import manifest_scanner as scanner

    with pytest.MonkeyPatch.context() as patch:
        once = functools.cache(scanner.scan_component_manifests)
        patch.setattr(scanner, "scan_component_manifests", once)
        yield


@pytest.fixture(autouse=True, scope="session")
def commands_made_once() -> Iterator[None]:
    """A command is made from its function's signature for each process: of these tests, once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", functools.cache(typer.main.get_command))
        patch.setattr(main, "only", functools.cache(main.only))
        yield


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No settings from outside; hashed vectors; an own working directory."""
    for name in list(os.environ):
        if name.startswith(("RAGSTREAM_", "MEMORY_")):
            monkeypatch.delenv(name)
    root = tmp_path / "data"
    monkeypatch.setenv("RAGSTREAM_DATA_DIR", str(root))
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BACKEND", "hashed")
    monkeypatch.setenv("RAGSTREAM_RERANK__BACKEND", "none")
    monkeypatch.setenv("RAGSTREAM_VECTOR_STORE__COLLECTION", "false")
    monkeypatch.setenv("COLUMNS", "100")
    # a click of a test is through when the page is drawn again
    monkeypatch.setattr("ragstream_app.page.jobs.presses.PATIENCE_S", 60.0)
    monkeypatch.chdir(tmp_path)
    return root


@pytest.fixture
def data(environment: Path) -> Path:
    """A data root with one project of four documents, not ingested."""
    write_docs(environment, "manual", PAGES)
    return environment


@pytest.fixture
def indexed(data: Path, run) -> Path:
    """The same, ingested."""
    code, _, err = run("ingest", "manual")
    assert code == 0, err
    return data


@pytest.fixture
def settled(indexed: Path, run) -> Path:
    """The same, ingested again once no file is too young for its signature to be trusted."""
    time.sleep(RACY_NS / 1e9 + 0.1)
    code, _, err = run("ingest", "manual")
    assert code == 0, err
    return indexed


@pytest.fixture
def page(indexed: Path) -> AppTest:
    """The page over a small index, just opened."""
    return open_page()


@pytest.fixture
def gold(indexed: Path) -> Path:
    """One gold question of the project."""
    question = {"question": "How does the exact file lock work?", "file": "guide/locks.md"}
    return write_gold(indexed, question, project="manual")


@pytest.fixture
def marker(indexed: Path, run) -> str:
    """A marker that the prompt of `QUESTION` issues."""
    made = run("prompt", QUESTION, "-p", "manual")[1]
    found = re.search(r'id="([0-9a-f]+)" source="guide/locks.md"', made)
    return f"[source: locks.md, chunk: {found[1]}]"


@pytest.fixture
def recording(environment: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Runs are made in Dagster."""
    monkeypatch.setenv("DAGSTER_HOME", "")  # opening the instance sets it; restored afterwards
    return environment


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):
    """Run a command in this process; return exit code, stdout, stderr."""
    from ragstream_app.cli.main import main

    def call(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(list(words))
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def server(server, monkeypatch: pytest.MonkeyPatch):
    """The server of the root, reached as any other one."""
    monkeypatch.setenv("RAGSTREAM_PROVIDER__BASE_URL", server.url)
    monkeypatch.setenv("RAGSTREAM_PROVIDER__API_KEY", KEY)
    monkeypatch.setenv("RAGSTREAM_PROVIDER__MODEL", "toy-1")
    monkeypatch.setenv("RAGSTREAM_PROVIDER__BUDGET_S", "20")
    return server


@pytest.fixture
def write_pages():
    """Write the sample documents as another project."""
    return lambda root, project: write_docs(root, project, PAGES)


@pytest.fixture
def spawn():
    """Run the command line, or code, in a process of its own, from the current directory."""
    python_path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])

    def call(*words: str, code: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *(["-c", code] if code else ["-m", "ragstream_app.cli.main"]), *words],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "PYTHONPATH": python_path},
        )

    return call
