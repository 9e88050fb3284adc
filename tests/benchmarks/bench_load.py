"""How long a question takes among 16 people and an ingest, against one person alone.

People read an answer before they ask again: the pauses are drawn from an exponential distribution.
Between the two sides nothing differs but the other people and the ingest.

python -m tests.benchmarks.bench_load [--minutes 60]
"""

import argparse
import contextlib
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from tests.benchmarks.bench_prompt import QUESTIONS, prepare
from tests.benchmarks.bench_serve import BACKEND, SETTINGS
from tests.benchmarks.measure import environment, table
from tests.processes import memory_mb

PEOPLE, PAUSE_S = 16, 12.0
ALONE, WARM = 60, 5
MINUTES = 3.0
PAGES_A_ROUND = 20


class Crowd:
    """People who ask one server, and what came of it.

    Attributes:
        statuses: HTTP status → how many.
        seconds: Of each answer.
    """

    def __init__(self, url: str, token: str) -> None:
        self._url, self._headers = url, {"Authorization": f"Bearer {token}"}
        self.statuses: Counter[int] = Counter()
        self.seconds: list[float] = []

    def ask(self, text: str) -> None:
        """Ask one question; wait for the whole answer."""
        body = {"model": "ragstream/handbook", "messages": [{"role": "user", "content": text}]}
        began = time.perf_counter()
        with httpx.Client(headers=self._headers, timeout=300, trust_env=False) as client:
            answer = client.post(f"{self._url}/chat/completions", json=body)
        self.seconds.append(time.perf_counter() - began)
        self.statuses[answer.status_code] += 1

    def person(self, number: int, until: float) -> None:
        """Ask and read until a time of `time.monotonic`."""
        pauses = random.Random(number)
        call = 0
        while (pause := pauses.expovariate(1 / PAUSE_S)) < until - time.monotonic():
            time.sleep(pause)
            self.ask(f"{QUESTIONS[(number + call) % len(QUESTIONS)]} Case {number}, {call}.")
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


def measure(minutes: float) -> list[list[object]]:
    """Return the row of the table."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        prepare(data)
        named = {f"RAGSTREAM_{n.upper().replace('.', '__')}": v for n, v in SETTINGS.items()}
        env = environment(**named, **{BACKEND: "tests.benchmarks.bench_serve:at_once"})
        command = _command(data, "serve", "--port", "0")
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            url = server.stdout.readline().split()[2]
            token = (data / "api-token").read_text().strip()
            alone, crowd = Crowd(url, token), Crowd(url, token)
            for call in range(WARM + ALONE):
                alone.ask(f"{QUESTIONS[call % len(QUESTIONS)]} Alone {call}.")
            del alone.seconds[:WARM]
            before = memory_mb(server.pid)
            until = time.monotonic() + 60 * minutes
            with ingesting(data, env) as ingests, ThreadPoolExecutor(PEOPLE) as pool:
                people = [pool.submit(crowd.person, n, until) for n in range(PEOPLE)]
                time.sleep(30 * minutes)
                middle = memory_mb(server.pid)
                for person in people:
                    person.result()
            after = memory_mb(server.pid)
            server.terminate()
    errors = sum(n for status, n in crowd.statuses.items() if status != 200)
    return [[
        f"{PEOPLE} people, {minutes:g} minutes, {len(ingests)} ingests",
        len(crowd.seconds), errors + sum(map(bool, ingests)),
        f"{alone.p95 * 1e3:.0f}", f"{crowd.p95 * 1e3:.0f}", f"{crowd.p95 / alone.p95:.1f}",
        f"{before} → {middle} → {after}",
    ]]  # fmt: skip


def _command(data: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "ragstream_app.cli.main", "--data", str(data), *words]


def report(minutes: float = MINUTES) -> str:
    """Measure; return the Markdown section."""
    head = ["beside an ingest that never rests", "answers", "errors", "p95 alone, ms",
            "p95 among them, ms", "ratio", "MB before → half → end"]  # fmt: skip
    return f"## Many people at once\n\n{table(head, measure(minutes))}"


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--minutes", type=float, default=MINUTES)
    print(report(options.parse_args().minutes))
