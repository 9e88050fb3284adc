"""A running `ragstream up` for the browser tests, and screenshots of what a tab shows."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Page

from ragstream_app.server.processes import answers
from tests.processes import free_port

ROOT = Path(__file__).parents[2]
SHOTS = ROOT / "build" / "screenshots"
START_S = 240.0
LOCKS = (
    "# File lock\n\nThe Exact File Lock restricts a prompt to the files you inject. Retrieval is "
    "skipped while the lock is on.\n\n## Turning it on\n\nUse `--lock` together with `--file`.\n"
)
CITATIONS = (
    "# Citations\n\nEvery fact carries a citation with a short id. The short id leads to the "
    "chunk, the file hash and the generation.\n"
)


@dataclass(frozen=True, slots=True)
class Site:
    """A running `ragstream up` and its data root."""

    data: Path
    page: str
    dagster: str
    environment: dict[str, str]

    def ragstream(self, *words: str) -> str:
        """Run a command on the same data root; return what it printed."""
        command = [sys.executable, "-m", "ragstream_app.cli.main", *words]
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, cwd=self.data.parent
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def write(self, project: str, name: str, text: str) -> None:
        """Put a document into a project."""
        path = self.data / "doc_raw" / project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


@dataclass(slots=True)
class Seen:
    """What a tab asked of the network."""

    own: set[str]
    foreign: list[str] = field(default_factory=list)

    def note(self, url: str) -> None:
        """Remember a request that went elsewhere."""
        parts = urlsplit(url)
        if parts.scheme in ("http", "https", "ws", "wss") and parts.netloc not in self.own:
            self.foreign.append(url)


@contextlib.contextmanager
def running(
    data: Path,
    *words: str,
    environment: dict[str, str] | None = None,
    ingest: Sequence[str] = (),
    page_alone: bool = False,
) -> Iterator[Site]:
    """Start `ragstream up` on free ports over a data root; stop it whatever happens.

    The projects in ``ingest`` are ingested before, else the folder sensor may be at it already.
    With ``page_alone`` only the page's server is started, as `up` does it; nothing is recorded.
    """
    ports = free_port(), free_port()
    settings = {
        "RAGSTREAM_DATA_DIR": str(data),
        "RAGSTREAM_EMBEDDINGS__BACKEND": "hashed",
        "RAGSTREAM_RERANK__BACKEND": "none",
        "RAGSTREAM_VECTOR_STORE__COLLECTION": "false",
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": str(ROOT),
    }
    outside = {k: v for k, v in os.environ.items() if not k.startswith(("RAGSTREAM_", "MEMORY_"))}
    everything = {**outside, **settings, **(environment or {})}
    site = Site(data, *(f"http://127.0.0.1:{port}" for port in reversed(ports)), everything)
    flags = ["--port", str(ports[0]), "--page-port", str(ports[1])]
    command = [sys.executable, "-m", "ragstream_app.cli.main", "up", *flags, *words]
    if page_alone:
        everything |= {"RAGSTREAM_PAGE__PORT": str(ports[1])}
        command = [sys.executable, "-m", "ragstream_app.server.page"]
    for project in ingest:
        site.ragstream("ingest", project)
    log, health = data.parent / "up.log", f"{site.page}/_stcore/health"
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=everything, cwd=data.parent)
    try:
        deadline = time.monotonic() + START_S
        while b"Ctrl-C" not in log.read_bytes() and not (page_alone and answers(health)):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield site
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(120)


def shot(page: Page, name: str) -> Path:
    """Keep a screenshot; return where."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    path = SHOTS / f"{name}.png"
    page.screenshot(path=path)
    return path
