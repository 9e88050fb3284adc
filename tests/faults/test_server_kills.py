"""kill -9 of every process of `ragstream up`: nothing is lost, and the next ticks do the rest.

A run and the code servers are Dagster's to bring back, that of the pages when somebody reloads it.
A server that dies ends them all, and whoever started `up` starts it again. Each time a new document
is put into a project. Recovered means: the servers answer, and the document is in the index, within
two ticks of the folder sensor. ``LENGTH=full`` kills each of them 20 times, else once.
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
    "web server": "ragstream_app.server.dagster_servers web",
    "daemon": "ragstream_app.server.dagster_servers daemon",
}
CODE_SERVERS = ("code server of the daemon", OF_PAGES := "code server of the web server")
ROUND = (RUN := "run", *CODE_SERVERS, *SERVERS)
"""Killed one by one, each with a new document; a run is killed once there is one."""
RELOAD = 'mutation { reloadRepositoryLocation(repositoryLocationName: "ragstream") { __typename } }'


@dataclass
class Up:
    """A `ragstream up`, started as often as needed."""

    data: Path
    ports: tuple[int, int]
    process: subprocess.Popen[bytes] | None = None

    @property
    def dagster(self) -> str:
        return f"http://{HOST}:{self.ports[0]}"

    @property
    def log(self) -> Path:
        return self.data.parent / "up.log"

    def start(self) -> None:
        env = {k: v for k, v in os.environ.items() if not k.startswith(("RAGSTREAM_", "MEMORY_"))}
        env |= {
            "PYTHONPATH": str(ROOT),
            "RAGSTREAM_DATA_DIR": str(self.data),
            "RAGSTREAM_EMBEDDINGS__BACKEND": "hashed",
            "RAGSTREAM_RERANK__BACKEND": "none",
            "RAGSTREAM_VECTOR_STORE__COLLECTION": "false",
        }
        command = [sys.executable, "-m", "ragstream_app.cli.main", "up"]
        command += ["--port", str(self.ports[0]), "--page-port", str(self.ports[1])]
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                command, stdout=out, stderr=out, env=env, cwd=self.data.parent
            )
        assert until(self.healthy, 120), self.log.read_text()

    def pids(self) -> dict[str, list[int]]:
        """The processes there are now, by what they are for."""
        found: dict[str, list[int]] = {name: [] for name in ROUND}
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
            all(self.pids()[name] for name in (*SERVERS, *CODE_SERVERS))
            and answers(f"{self.dagster}/server_info")
            and answers(f"http://{HOST}:{self.ports[1]}/_stcore/health")
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
    running = Up(data, (free_port(), free_port()))
    try:
        running.start()
        assert until(lambda: FIRST in running.indexed(), TICKS_S)
        yield running
    finally:
        running.process.send_signal(signal.SIGTERM)
        running.process.wait(120)


@pytest.mark.slow
def test_every_process_may_be_killed(up):
    killed, slowest, written = dict.fromkeys(ROUND, 0), dict.fromkeys(ROUND, 0.0), {FIRST}
    for number in range(ROUNDS):
        for target in ROUND:
            name = f"{number}-{target.replace(' ', '-')}.md"
            (up.data / "doc_raw" / "demo" / name).write_text(f"# {name}\n\nRound {number}.\n")
            written.add(name)
            there = {pid for pids in up.pids().values() for pid in pids}
            killed[target] += _kill(up, target)
            began = time.monotonic()
            if target in SERVERS:
                assert up.process.wait(TICKS_S) == 1, up.log.read_text()
                assert "ended by SIGKILL" in up.log.read_text()
                assert until(lambda there=there: not any(map(alive, there)))
                up.start()
            if target == OF_PAGES:
                up.ask(RELOAD)
            assert until(up.healthy, TICKS_S), (target, up.pids())
            assert until(lambda: up.indexed() == written, TICKS_S), (target, up.indexed())
            slowest[target] = max(slowest[target], time.monotonic() - began)
            assert up.process.poll() is None
    print(killed, {name: f"recovered within {took:.0f} s" for name, took in slowest.items()})
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
