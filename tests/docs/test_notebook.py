"""The example notebook runs, and what it shows is what the library shows now.

`python -m tests.docs.test_notebook` writes its outputs again.
"""

import json
import re
import tempfile
from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "docs" / "notebooks" / "ragstream.ipynb"
COMMAND = "python -m tests.docs.test_notebook"
ENVIRONMENT = {
    "RAGSTREAM_PROVIDER__BASE_URL": "http://127.0.0.1:9/v1",  # nobody: the answer is an extract
    "RAGSTREAM_VECTOR_STORE__COLLECTION": "false",
    "PYTHONPATH": str(ROOT),
}
ID = re.compile(r"\b[0-9a-f]{8,64}\b")


def executed(folder):
    """Return the notebook with the outputs of now; an error in a cell is an error here."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        patch.setenv("IPYTHONDIR", str(folder / "ipython"))
        patch.setenv("TMPDIR", str(folder))
        kernel = AsyncKernelManager(kernel_name="python3", transport="ipc", ip=str(folder / "k"))
        where = {"metadata": {"path": str(folder)}}
        client = NotebookClient(
            notebook, km=kernel, timeout=120, resources=where, record_timing=False
        )
        client.execute()
    notebook.metadata.language_info = {"name": "python"}
    return notebook


def outputs(notebook):
    """Return what the cells show, without ids, which are digests of settings and versions."""
    shown = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    return [ID.sub("ID", json.dumps(cell, sort_keys=True)) for cell in shown]


def test_it_runs_and_shows_what_is_stored(tmp_path):
    stored, now = nbformat.read(NOTEBOOK, as_version=4), executed(tmp_path)
    for was, found in zip(outputs(stored), outputs(now), strict=True):
        assert was == found, f"write it again: {COMMAND}"
    html = [o.data["text/html"] for c in now.cells for o in c.get("outputs", ()) if "data" in o]
    assert len(html) == 6, "each result has a rich form"
    assert "Super-Prompt" in html[2] and "locks.md" in html[2] and "<details" in html[2]


def test_it_is_stored_without_anything_of_a_machine():
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert not re.search(r"/(?:tmp|home|Users|work)/|\.ipython|iopub", text)
    nbformat.validate(nbformat.reads(text, as_version=4))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as work:
        nbformat.write(executed(Path(work)), NOTEBOOK)
