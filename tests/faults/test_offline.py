"""No byte leaves: the whole main job in a network namespace that has no route at all."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.unit.orchestration.conftest import write_docs

UNSHARE = shutil.which("unshare")
ALLOWED = UNSHARE is not None and not subprocess.run(
    [UNSHARE, "-n", "true"], capture_output=True, check=False
).returncode  # fmt: skip


@pytest.mark.model
@pytest.mark.skipif(not ALLOWED, reason="needs the right to make a network namespace")
def test_ingest_and_prompt_work_without_any_network(tmp_path, models_dir):
    write_docs(tmp_path)
    shutil.copytree(models_dir, tmp_path / "models")
    base = [UNSHARE, "-n", sys.executable, "-m", "ragstream_app.cli", "--data", str(tmp_path)]
    env = {k: v for k, v in os.environ.items() if not k.startswith("RAGSTREAM_")}
    for words in (
        ["ingest", "demo", "--json"],
        ["prompt", "How many writers hold the project lock?", "-p", "demo", "--json"],
    ):
        done = subprocess.run([*base, *words], capture_output=True, text=True, env=env, check=False)
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        assert answer["run_id"], "recorded as a Dagster run"
    assert "One writer holds the project lock" in answer["super_prompt"]


def test_nothing_looks_up_or_connects_to_another_host(tmp_path):
    """An audit hook sees every connect and look-up of a plain ingest and prompt."""
    write_docs(tmp_path)
    code = """
import sys
calls = []
sys.addaudithook(lambda event, args: calls.append((event, args[1:]))
                 if event in ("socket.connect", "socket.getaddrinfo") else None)
from ragstream_core.config import quiet_environment; quiet_environment()
from ragstream_core.build.workspace import open_workspace
from ragstream_core.orchestration.inputs import PromptRequest
space = open_workspace(sys.argv[1], explicit={"embeddings.backend": "hashed"})
space.ingest("demo")
space.finish(space.run(space.pin(PromptRequest("Who may write?", ("demo",)))))
print(calls)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
