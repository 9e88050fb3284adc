"""A real `ragstream serve` on loopback, as a process of its own, for tests that are its clients."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.workspaces import ROOT

WAIT_S = 60.0


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

    def request(self, method: str, path: str, **given) -> httpx.Response:
        """Send a request with the token, unless other headers are given."""
        given.setdefault("headers", {"Authorization": f"Bearer {self.token}"})
        return httpx.request(method, f"{self.url}{path}", timeout=WAIT_S, trust_env=False, **given)

    def chat(self, text="How does the exact file lock restrict a prompt?", **more):
        """Ask one question of the project ``manual``."""
        asked = {"model": "ragstream/manual", "messages": [{"role": "user", "content": text}]}
        return self.request("POST", "/v1/chat/completions", json={**asked, **more})


@contextlib.contextmanager
def serving(data: Path, *words: str, **settings: str) -> Iterator[Served]:
    """Serve a data root; ``settings`` are ``SECTION__KEY`` of the environment, in lower case."""
    own = {f"RAGSTREAM_{name.upper()}": text for name, text in settings.items()}
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **own}
    log = data.parent / "serve.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "ragstream_app.cli.main", "serve", "--port", "0", *words],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
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
        process.wait(20)
        process.stdout.close()
