"""Programs that other people wrote: `llm` as a client, schemathesis as a critic, curl."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.app.serving import QUESTION, serving
from tests.workspaces import write_docs

LIMIT_S = 300


@pytest.fixture
def llm(served, model, tmp_path):
    """The program `llm` with a model that is our server's."""
    folder = tmp_path / "llm"
    folder.mkdir()
    (folder / "extra-openai-models.yaml").write_text(
        "- model_id: manual\n  model_name: ragstream/manual\n"
        f"  api_base: {served.url}/v1\n  api_key_name: ragstream\n"
    )
    (folder / "keys.json").write_text(json.dumps({"ragstream": served.token}))
    environment = {**os.environ, "LLM_USER_PATH": str(folder), "NO_PROXY": "127.0.0.1"}

    def call(*words):
        done = subprocess.run(
            [sys.executable, "-m", "llm", *words],
            env=environment, capture_output=True, text=True, timeout=LIMIT_S,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    return call


@pytest.mark.slow
def test_llm_asks_goes_on_and_shows_the_sources(llm, model):
    code, out, err = llm("-m", "manual", QUESTION)
    assert code == 0, err
    assert out.startswith("Only **injected** files count") and "- guide/locks.md [" in out
    code, out, err = llm("-c", f"{QUESTION} And two?", "--no-stream")
    assert code == 0, err
    sent = model.seen[-1][2]["messages"][1]["content"]
    assert f"| user: {QUESTION}" in sent, "llm sends the conversation, and it is shown"
    code, out, err = llm("-m", "manual", "-s", "You are a librarian.", "-o", "temperature", "0.5",
                         QUESTION)  # fmt: skip
    assert code == 0, err
    assert model.seen[-1][2]["temperature"] == 0.5


def test_llm_shows_what_is_wrong(llm, model):
    code, _, err = llm("-m", "manual", "...")
    assert code != 0 and "the prompt" in err


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl here")
def test_the_line_that_is_printed_lists_the_models(served):
    line = next(text for text in served.said.splitlines() if text.startswith("try"))
    line = line.removeprefix("try").strip().replace("$(ragstream serve --show-token)", served.token)
    done = subprocess.run(["sh", "-c", line], capture_output=True, timeout=LIMIT_S)
    assert json.loads(done.stdout)["data"][0]["id"] == "ragstream/manual"


CHECKS = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance",
    "response_schema_conformance", "negative_data_rejection", "ignored_auth",
)  # fmt: skip
"""Without `unsupported_method`: the guard refuses what is not JSON before it is a method."""


@pytest.mark.slow
def test_the_description_says_what_the_server_does(root, tmp_path):
    """The examples of the description ask a project that is there, so that some are answered."""
    from ragstream_core.services.ingest import ingest_project
    from tests.workspaces import hashed_workspace

    write_docs(root, "handbook")
    ingest_project(hashed_workspace(root), "handbook")
    program = Path(sys.executable).with_name("schemathesis")
    with serving(root, provider__base_url="http://127.0.0.1:9/v1") as found:
        done = subprocess.run(
            [program, "run", f"{found.url}/openapi.json", "--checks", ",".join(CHECKS),
             "--header", f"Authorization: Bearer {found.token}", "--max-examples", "15",
             "--phases", "examples,coverage,fuzzing", "--seed", "1", "--no-color",
             "--request-timeout", "120"],
            capture_output=True, text=True, timeout=LIMIT_S, cwd=tmp_path,
            env={**os.environ, "NO_PROXY": "127.0.0.1"},
        )  # fmt: skip
        assert done.returncode == 0, "\n".join(
            line[:300] for line in done.stdout.splitlines()[-80:]
        )
        assert "Traceback" not in found.log.read_text()
