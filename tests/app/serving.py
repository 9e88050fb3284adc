"""A real `ragstream serve` on loopback, as a process of its own, for tests that are its clients."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import httpx2
import openai

from tests.workspaces import ROOT

WAIT_S = 60.0
QUICK = {
    "embeddings__backend": "hashed",
    "rerank__backend": "none",
    "vector_store__collection": "false",
}
"""As `environment` of the tests of the faces has it."""
QUESTION = "How does the exact file lock restrict a prompt?"


@dataclass
class Served:
    """A server that answers.

    Attributes:
        url: Without a slash at the end.
        token: Its bearer token.
        process: Its process.
        log: What it wrote to stderr.
        said: What it wrote to stdout before it served.
    """

    url: str
    token: str
    process: subprocess.Popen[bytes]
    log: Path
    said: str

    def request(self, method: str, path: str, **given: Any) -> httpx.Response:
        """Send a request with the token, unless other headers are given."""
        given.setdefault("headers", {"Authorization": f"Bearer {self.token}"})
        return httpx.request(method, f"{self.url}{path}", timeout=WAIT_S, trust_env=False, **given)

    def chat(self, text: str = QUESTION, **more: object) -> httpx.Response:
        """Ask one question of the project ``manual``."""
        asked = {"model": "ragstream/manual", "messages": [{"role": "user", "content": text}]}
        return self.request("POST", "/v1/chat/completions", json={**asked, **more})

    def openai(self, **given: Any) -> openai.OpenAI:
        """Return OpenAI's own client of it."""
        http = httpx2.Client(trust_env=False, timeout=WAIT_S)
        return openai.OpenAI(
            base_url=f"{self.url}/v1", api_key=self.token, http_client=http, **given
        )


@contextlib.contextmanager
def serving(data: Path, *words: str, **settings: str) -> Iterator[Served]:
    """Serve a data root; ``settings`` are ``section__key``, over `QUICK`."""
    own = {f"RAGSTREAM_{name.upper()}": text for name, text in {**QUICK, **settings}.items()}
    outer = {k: v for k, v in os.environ.items() if not k.startswith(("RAGSTREAM_", "MEMORY_"))}
    environment = {**outer, **own, "PYTHONPATH": str(ROOT), "RAGSTREAM_DATA_DIR": str(data)}
    log = data.parent / "serve.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "ragstream_app.cli.main", "serve", "--port", "0", *words],
            env=environment,
            cwd=data.parent,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
    assert process.stdout
    try:
        said = ""
        for line in process.stdout:
            said += line.decode()
            if line.startswith(b"Ctrl-C"):
                break
        assert said, log.read_text()
        url = said.split()[2].removesuffix("/v1")
        token = (data / "api-token").read_text().strip()
        yield Served(url, token, process, log, said)
    finally:
        process.terminate()
        process.wait(240)
        process.stdout.close()


def error_of(response: httpx.Response) -> tuple[int, str]:
    """Return status and code of an error, which has OpenAI's form."""
    assert response.headers["content-type"] == "application/json"
    assert set(response.json()) == {"error"}
    found = response.json()["error"]
    assert set(found) == {"message", "type", "param", "code"} and found["message"]
    return response.status_code, found["code"]
