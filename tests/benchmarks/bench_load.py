"""How long a question takes among 16 people, an ingest and a worker, against one person alone.

Twelve ask over HTTP, four in the page. People read an answer before they ask again: the pauses are
drawn from an exponential distribution. Between the two sides nothing differs but the other people,
the ingest and the worker that embeds for it.

python -m tests.benchmarks.bench_load [--minutes 60]
"""

import argparse
import contextlib
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from tests.benchmarks.bench_prompt import QUESTIONS, prepare
from tests.benchmarks.bench_serve import BACKEND, SETTINGS
from tests.benchmarks.measure import environment, table
from tests.databases import PostgresServer
from tests.page_session import PageError, PageSession
from tests.processes import free_port, memory_mb, until

PEOPLE, TABS, PAUSE_S = 12, 4, 12.0
ALONE, WARM = 60, 5
MINUTES = 3.0
PAGES_A_ROUND = 20
Ask = Callable[[str], bool]
"""Asks a question and waits for the whole answer; returns whether there was one."""


class Crowd:
    """People who ask in one way, and what came of it.

    Attributes:
        errors: Questions without an answer.
        seconds: Of each answer.
    """

    def __init__(self) -> None:
        self.errors = 0
        self.seconds: list[float] = []

    def ask(self, ask: Ask, text: str) -> None:
        """Ask one question; wait for the whole answer."""
        began = time.perf_counter()
        self.errors += not ask(text)
        self.seconds.append(time.perf_counter() - began)

    def person(self, open_: Callable[[], Ask], number: int, until: float) -> None:
        """Ask and read until a time of `time.monotonic`."""
        pauses, ask = random.Random(number), open_()
        call = 0
        while (pause := pauses.expovariate(1 / PAUSE_S)) < until - time.monotonic():
            time.sleep(pause)
            self.ask(ask, f"{QUESTIONS[(number + call) % len(QUESTIONS)]} Case {number}, {call}.")
            call += 1

    @property
    def p95(self) -> float:
        """The time that 19 of 20 answers stay below, in seconds."""
        return statistics.quantiles(self.seconds, n=20)[-1]


@contextlib.contextmanager
def ingesting(data: Path, env: dict[str, str]) -> Iterator[list[int]]:
    """Add pages and ingest them, again and again; the list has the exit status of each ingest."""
    ended, done = threading.Event(), list[int]()
    docs = data / "doc_raw" / "handbook"

    def loop() -> None:
        while not ended.is_set():
            for page in range(PAGES_A_ROUND):
                text = f"# Page {page}\n\nIn round {len(done)} the value of {page} was changed.\n"
                (docs / f"round-{page}.md").write_text(text)
            done.append(subprocess.run(_command(data, "ingest", "handbook"), env=env,
                                       capture_output=True, check=False).returncode)  # fmt: skip

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield done
    finally:
        ended.set()
        thread.join()


def over_http(url: str, token: str) -> Callable[[], Ask]:
    """Return what opens a client of the HTTP interface."""
    headers = {"Authorization": f"Bearer {token}"}

    def ask(text: str) -> bool:
        body = {"model": "ragstream/handbook", "messages": [{"role": "user", "content": text}]}
        with httpx.Client(headers=headers, timeout=300, trust_env=False) as client:
            return client.post(f"{url}/chat/completions", json=body).status_code == 200

    return lambda: ask


def in_the_page(port: int) -> Callable[[], Ask]:
    """Return what opens a tab."""

    def opened() -> Ask:
        tab = PageSession(port)

        def ask(text: str) -> bool:
            try:
                return bool(tab.ask(text))
            except PageError:
                return False

        return ask

    return opened


@contextlib.contextmanager
def served(
    command: list[str], env: dict[str, str], stderr: int | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Run a server until its first line and beyond; end it afterwards."""
    out = subprocess.PIPE
    with subprocess.Popen(command, env=env, stdout=out, stderr=stderr, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


@contextlib.contextmanager
def embedding(data: Path, env: dict[str, str]) -> Iterator[dict[str, str]]:
    """Run a database and a worker; yield the environment of an ingest that asks it."""
    home = data.parent / "servers"
    home.mkdir()
    with contextlib.ExitStack() as stack:
        postgres = PostgresServer()
        stack.callback(postgres.close)
        made = env | {
            "RAGSTREAM_EMBEDDINGS__SHARED": postgres.url(),
            "RAGSTREAM_EMBEDDINGS__FAN_OUT_AT": "1",
        }
        command = _command(home / "worker", "worker")
        worker = stack.enter_context(served(command, made, subprocess.STDOUT))
        assert worker.stdout is not None
        next(line for line in worker.stdout if "takes batches" in line)
        threading.Thread(target=worker.stdout.read, daemon=True).start()
        yield made


def measure(minutes: float) -> list[list[object]]:
    """Return the rows of the table."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        data = Path(folder, "data")
        prepare(data)
        port = free_port()
        named = {f"RAGSTREAM_{n.upper().replace('.', '__')}": v for n, v in SETTINGS.items()}
        env = environment(**named, **{BACKEND: "tests.benchmarks.bench_serve:at_once"},
                          RAGSTREAM_PAGE__PORT=str(port), RAGSTREAM_DATA_DIR=str(data))  # fmt: skip
        server = stack.enter_context(served(_command(data, "serve", "--port", "0"), env))
        page = stack.enter_context(served([sys.executable, "-m", "ragstream_app.server.page"], env))
        assert server.stdout is not None
        url = server.stdout.readline().split()[2]
        assert until(lambda: _listens(port))
        ways = {
            "HTTP": (PEOPLE, over_http(url, (data / "api-token").read_text().strip()), server),
            "page": (TABS, in_the_page(port), page),
        }
        alone = {name: _alone(open_) for name, (_, open_, _) in ways.items()}
        crowds = {name: Crowd() for name in ways}
        memory = {name: [memory_mb(process.pid)] for name, (_, _, process) in ways.items()}
        end = time.monotonic() + 60 * minutes
        busy = stack.enter_context(embedding(data, env))
        with ingesting(data, busy) as ingests, ThreadPoolExecutor(PEOPLE + TABS) as pool:
            people = [
                pool.submit(crowds[name].person, open_, n, end)
                for name, (count, open_, _) in ways.items()
                for n in range(count)
            ]
            for pause in (30 * minutes, 0.0):
                time.sleep(pause)
                if not pause:
                    for person in people:
                        person.result()
                for name, (_, _, process) in ways.items():
                    memory[name].append(memory_mb(process.pid))
    return [
        [
            f"{ways[name][0]} people, {name}, {minutes:g} minutes, {len(ingests)} ingests",
            len(crowd.seconds), crowd.errors + sum(map(bool, ingests)),
            f"{alone[name].p95 * 1e3:.0f}", f"{crowd.p95 * 1e3:.0f}",
            f"{crowd.p95 / alone[name].p95:.1f}", " → ".join(map(str, memory[name])),
        ]
        for name, crowd in crowds.items()
    ]  # fmt: skip


def _alone(open_: Callable[[], Ask]) -> Crowd:
    made, ask = Crowd(), open_()
    for call in range(WARM + ALONE):
        made.ask(ask, f"{QUESTIONS[call % len(QUESTIONS)]} Alone {call}.")
    del made.seconds[:WARM]
    return made


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def _command(data: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "ragstream_app.cli.main", "--data", str(data), *words]


def report(minutes: float = MINUTES) -> str:
    """Measure; return the Markdown section."""
    head = ["beside an ingest that never rests and a worker", "answers", "errors", "p95 alone, ms",
            "p95 among them, ms", "ratio", "MB before → half → end"]  # fmt: skip
    return f"## Many people at once\n\n{table(head, measure(minutes))}"


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--minutes", type=float, default=MINUTES)
    print(report(options.parse_args().minutes))
