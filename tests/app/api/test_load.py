"""Sixteen people at once while documents change: each is answered, and memory stays where it is."""

import os
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from ragstream_core.services.ingest import ingest_project
from tests.app.conftest import PAGES
from tests.app.serving import QUICK, serving
from tests.lengths import by_length
from tests.processes import memory_mb
from tests.workspaces import hashed_workspace, write_docs

PEOPLE = 16
ROUNDS = by_length(4, 8, 400)
GROWTH = 1.25
"""Of the second half; a leak of a tenth of a prompt each time would be far more."""


@pytest.mark.slow
def test_many_people_are_answered_while_documents_change(tmp_path):
    data = tmp_path / "data"
    write_docs(data, "manual", PAGES)
    ingest_project(hashed_workspace(data), "manual")
    ended, ingests = threading.Event(), []

    def change():
        while not ended.is_set():
            write_docs(data, "manual", {"news.md": f"# News\n\nEdition {len(ingests)} is out.\n"})
            ingests.append(ingest(data))

    with serving(data, provider__base_url="http://127.0.0.1:9/v1") as served:

        def person(number, half):
            return [
                served.chat(f"How does the lock work? Case {half}, {number}, {n}.").status_code
                for n in range(ROUNDS)
            ]

        changing = threading.Thread(target=change)
        changing.start()
        statuses, memory = Counter(), []
        try:
            for half in range(2):
                with ThreadPoolExecutor(PEOPLE) as pool:
                    for found in pool.map(person, range(PEOPLE), [half] * PEOPLE):
                        statuses.update(found)
                memory.append(memory_mb(served.process.pid))
        finally:
            ended.set()
            changing.join()
        assert "Traceback" not in served.log.read_text()
    assert statuses == {200: 2 * PEOPLE * ROUNDS}
    assert ingests and set(ingests) == {0}
    assert memory[1] < memory[0] * GROWTH, memory


def ingest(data):
    """Ingest the project as another process does; return its exit status."""
    own = {f"RAGSTREAM_{name.upper()}": value for name, value in QUICK.items()}
    command = [sys.executable, "-m", "ragstream_app.cli.main", "--data", data, "ingest", "manual"]
    return subprocess.run(
        command, env={**os.environ, **own}, capture_output=True, check=False, timeout=300
    ).returncode
