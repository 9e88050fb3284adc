"""kill -9 of every process of `ragstream up`: it is there again, and the next ticks do the rest.

Each time a new document is put into a project, and the process that ingests it is killed too.
Recovered means: the servers answer, and the document is in the index, within two ticks of the
folder sensor. ``LENGTH=full`` kills each of them 20 times, else twice.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ragstream_app.server.processes import HOST, answers
from ragstream_assets.sensors import INTERVAL_S
from ragstream_core.index.view import forget_views, open_view
from ragstream_core.services.ingest import ingest_project
from ragstream_core.wiring.workspace import open_workspace
from tests.lengths import FULL
from tests.processes import alive, children, command_of, free_port, until

ROOT = Path(__file__).parents[2]
ROUNDS = 20 if FULL else 1
TICKS_S = 2 * INTERVAL_S + 30.0
"""Two ticks, and the time an ingest and a busy machine take."""
FIRST = "first.md"
SERVERS = {
    "page": "ragstream_app.server.page",
    "web server": "ragstream_assets.servers.web",
    "daemon": "ragstream_assets.servers.daemon",
}
ROUND = (
    ("page", "web server", RUN := "run"),
    ("daemon", "code server of the web server"),
    ("code server of the daemon",),
)
"""Those in a row are killed with one new document; a run is killed once there is one."""
THERE = {*SERVERS, *(f"code server of the {name}" for name in ("daemon", "web server"))}


@dataclass
class Up:
    """A running `ragstream up`."""

    process: subprocess.Popen[bytes]
    data: Path
    dagster: str
    page: str

    def pids(self) -> dict[str, list[int]]:
        """The processes there are now, by what they are for."""
        found: dict[str, list[int]] = {name: [] for name in sum(ROUND, ())}
        for pid in children(self.process.pid):
            for name, word in SERVERS.items():
                if word in command_of(pid):
                    found[name].append(pid)
                    codes = [child for child in children(pid) if "grpc" in command_of(child)]
                    found.setdefault(f"code server of the {name}", []).extend(codes)
        for server in found["code server of the daemon"]:
            found[RUN] += [p for p in children(server) if "spawn_main" in command_of(p)]
        return found

    def healthy(self) -> bool:
        return (
            all(pids for name, pids in self.pids().items() if name in THERE)
            and answers(f"{self.dagster}/server_info")
            and answers(f"{self.page}/_stcore/health")
        )

    def indexed(self) -> set[str]:
        forget_views()
        with contextlib.suppress(Exception):  # not ingested yet, or being committed
            space = open_workspace(self.data, explicit={"embeddings.backend": "hashed"})
            return set(open_view(space.index_dir("demo")).paths)
        return set()

    def ask(self, query: str) -> dict:
        body = json.dumps({"query": query}).encode()
        request = urllib.request.Request(
            f"{self.dagster}/graphql", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["data"]


@pytest.fixture(scope="module")
def up(tmp_path_factory) -> Iterator[Up]:
    root = tmp_path_factory.mktemp("kills")
    data = root / "data"
    (data / "doc_raw" / "demo").mkdir(parents=True)
    (data / "doc_raw" / "demo" / FIRST).write_text("# First\n\nWhat was there before.\n")
    ports = free_port(), free_port()
    env = {k: v for k, v in os.environ.items() if not k.startswith(("RAGSTREAM_", "MEMORY_"))}
    env |= {
        "PYTHONPATH": str(ROOT),
        "RAGSTREAM_DATA_DIR": str(data),
        "RAGSTREAM_EMBEDDINGS__BACKEND": "hashed",
        "RAGSTREAM_RERANK__BACKEND": "none",
        "RAGSTREAM_VECTOR_STORE__COLLECTION": "false",
    }
    command = [sys.executable, "-m", "ragstream_app.cli.main", "up", "--port", str(ports[0])]
    with (root / "up.log").open("wb") as out:
        process = subprocess.Popen(
            [*command, "--page-port", str(ports[1])], stdout=out, stderr=out, env=env, cwd=root
        )
    running = Up(process, data, f"http://{HOST}:{ports[0]}", f"http://{HOST}:{ports[1]}")
    try:
        assert until(running.healthy, 120), (root / "up.log").read_text()
        assert until(lambda: FIRST in running.indexed(), TICKS_S)
        yield running
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(120)


@pytest.mark.slow
def test_every_process_may_be_killed(up):
    killed, slowest, written = dict.fromkeys(sum(ROUND, ()), 0), dict.fromkeys(ROUND, 0.0), {FIRST}
    for number in range(ROUNDS):
        for together in ROUND:
            name = f"{number}-{together[0].replace(' ', '-')}.md"
            (up.data / "doc_raw" / "demo" / name).write_text(f"# {name}\n\nRound {number}.\n")
            written.add(name)
            for target in together:
                killed[target] += _kill(up, target)
            began = time.monotonic()
            assert until(up.healthy, TICKS_S), (together, up.pids())
            assert until(lambda: up.indexed() == written, TICKS_S), (together, up.indexed())
            slowest[together] = max(slowest[together], time.monotonic() - began)
            assert up.process.poll() is None
    print(killed, {row[0]: f"recovered within {slowest[row]:.0f} s" for row in ROUND})
    assert all(killed[target] >= ROUNDS for target in killed), killed
    _nothing_is_left(up)


def _kill(up: Up, target: str) -> int:
    """Kill what there is of a target; return how many that were."""
    assert until(lambda: up.pids()[target], TICKS_S), up.pids()
    pids = up.pids()[target]
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(pids)


def _nothing_is_left(up: Up) -> None:
    """No run is open, no lock is held, and what the runs say is true."""
    closed = "{ runsOrError { ... on Runs { results { runId status } } } }"

    def statuses() -> set[str]:
        return {run["status"] for run in up.ask(closed)["runsOrError"]["results"]}

    assert until(lambda: statuses() <= {"SUCCESS", "FAILURE"}, TICKS_S), statuses()
    assert until(lambda: not up.pids()[RUN]), "the process of a run ends with it"
    forget_views()
    space = open_workspace(up.data, explicit={"embeddings.backend": "hashed"})
    assert ingest_project(space, "demo").chunks.get("embedded", 0) == 0, (
        "the lock is free, nothing is due"
    )


@pytest.mark.slow
def test_the_end_leaves_no_process(up):
    started = {pid for pids in up.pids().values() for pid in pids}
    up.process.send_signal(signal.SIGTERM)
    assert up.process.wait(240) == 128 + signal.SIGTERM
    assert until(lambda: not any(map(alive, started)))
