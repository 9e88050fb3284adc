"""A team's deployment under load, its parts killed in turn: who asks notices nothing of it.

People ask over HTTP and in the page, an ingest never rests, a worker embeds for it.
"""

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import WebSocketException

from ragstream_core.index.view import open_view
from tests.databases import PostgresServer
from tests.lengths import by_length
from tests.page_session import PageError, PageSession
from tests.processes import free_port, until

pytestmark = [pytest.mark.slow, pytest.mark.sweep, pytest.mark.timeout(1800)]
ROOT = Path(__file__).parents[2]
WAIT_S = 240
PEOPLE = by_length(2, 3, 12)
FILES = 24
QUESTION = "Who holds the lock of part 7, and when is it free?"
PARTS = ("page", "daemon", "web", "worker", "postgres")
LOOKED_AT = {"web": "server_info", "page": "_stcore/health", "api": "health"}


class Deployment:
    """The services of `deploy/Procfile` with a private database."""

    def __init__(self, folder):
        self.folder, self.data = folder, folder / "data"
        self.postgres = PostgresServer()
        self.ports = {name: free_port() for name in LOOKED_AT}
        lines = (ROOT / "deploy" / "Procfile").read_text().splitlines()
        self._commands = {
            name: shlex.split(command)
            for name, _, command in (row.partition(": ") for row in lines)
        }
        self.running = {}
        kept = {k: v for k, v in os.environ.items() if not k.startswith("RAGSTREAM_")}
        self.env = kept | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "RAGSTREAM_DATA_DIR": str(self.data),
            "RAGSTREAM_DAGSTER__STORAGE": self.postgres.create("dagster"),
            "RAGSTREAM_DAGSTER__PORT": str(self.ports["web"]),
            "RAGSTREAM_PAGE__PORT": str(self.ports["page"]),
            "RAGSTREAM_API__PORT": str(self.ports["api"]),
            "RAGSTREAM_EMBEDDINGS__BACKEND": "hashed",
            "RAGSTREAM_EMBEDDINGS__SHARED": self.postgres.url(),
            "RAGSTREAM_EMBEDDINGS__FAN_OUT_AT": "1",
            "RAGSTREAM_EMBEDDINGS__BATCH_TIMEOUT_S": "5",
            "RAGSTREAM_VECTOR_STORE__COLLECTION": "false",
        }

    def command(self, *words):
        """Run a command to its end; return its exit status and what it said."""
        done = subprocess.run(
            [sys.executable, "-m", "ragstream_app.cli.main", *words], env=self.env,
            cwd=self.folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stderr

    def start(self, name):
        """Start a part, and wait until it answers."""
        if name == "postgres":
            self.postgres.start()
            return
        log = self.folder / f"{name}.log"
        log.unlink(missing_ok=True)
        with log.open("wb") as out:
            self.running[name] = subprocess.Popen(
                self._commands[name], env=self.env, cwd=self.folder, stdout=out, stderr=out,
                start_new_session=True,
            )  # fmt: skip
        assert until(lambda: self._is_up(name, log), WAIT_S), log.read_text()[-3000:]

    def kill(self, name):
        """Kill a part with all its processes."""
        if name == "postgres":
            self.postgres.stop(signal.SIGKILL)
            pid_file = self.postgres.folder / "postgres" / "postmaster.pid"
            pid_file.unlink(missing_ok=True)
        else:
            os.killpg(self.running[name].pid, signal.SIGKILL)
            self.running.pop(name).wait(WAIT_S)

    def close(self):
        for name in list(self.running):
            self.kill(name)
        self.postgres.close()

    def _is_up(self, name, log):
        assert self.running[name].poll() is None, log.read_text()[-3000:]
        if name == "worker":
            return b"takes batches from" in log.read_bytes()
        if name == "daemon":
            return True  # nobody waits for it
        address = f"http://127.0.0.1:{self.ports[name]}/{LOOKED_AT[name]}"
        with contextlib.suppress(OSError), urllib.request.urlopen(address, timeout=30) as answer:
            return answer.status == 200
        return False


class Load:
    """Whoever asks and ingests, and what came of it.

    Attributes:
        answers: What came over HTTP, or an error.
        prompts: What the page showed, or an error.
        ingests: (exit status, what was said) of each.
    """

    def __init__(self, team):
        self._team, self._ended = team, threading.Event()
        self.answers, self.prompts, self.ingests = [], [], []
        self.token = (team.data / "api-token").read_text().strip()
        people = [self._person] * PEOPLE
        self._threads = [
            threading.Thread(target=self._loop, args=(one,))
            for one in (*people, self._tab, self._ingest)
        ]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _loop(self, act):
        while not self._ended.is_set():
            act()

    def answer(self):
        """Return the answer to the one question, over HTTP."""
        body = {"model": "ragstream/asked", "messages": [{"role": "user", "content": QUESTION}]}
        url = f"http://127.0.0.1:{self._team.ports['api']}/v1/chat/completions"
        headers = {"Authorization": f"Bearer {self.token}"}
        with httpx.Client(headers=headers, timeout=WAIT_S, trust_env=False) as client:
            got = client.post(url, json=body)
        assert got.status_code == 200, got.text
        return got.json()["choices"][0]["message"]["content"]

    def prompt(self):
        """Return the prompt for the one question, from a new tab of the page."""
        with contextlib.closing(PageSession(self._team.ports["page"])) as tab:
            return tab.ask(QUESTION)

    def _person(self):
        try:
            self.answers.append(self.answer())
        except (AssertionError, httpx.HTTPError) as error:
            self.answers.append(error)

    def _tab(self):
        try:
            self.prompts.append(self.prompt())
        except (PageError, WebSocketException, OSError) as error:
            self.prompts.append(error)
            time.sleep(0.2)  # a page that is down refuses at once

    def _ingest(self):
        path = self._team.data / "doc_raw" / "grows" / f"{len(self.ingests):04}.md"
        path.write_text(f"# New {path.stem}\n\nWords of round {path.stem} that were never seen.\n")
        self.ingests.append(self._team.command("ingest", "grows"))

    def more(self, answers=2, prompts=0, ingests=0):
        """Wait until so many more came."""
        lists = (self.answers, self.prompts, self.ingests)
        wanted = [len(got) + n for got, n in zip(lists, (answers, prompts, ingests), strict=True)]
        assert until(
            lambda: all(len(got) >= n for got, n in zip(lists, wanted, strict=True)), WAIT_S
        )


@pytest.fixture
def team(tmp_path):
    made = Deployment(tmp_path)
    try:
        for project in ("asked", "grows"):
            folder = made.data / "doc_raw" / project
            folder.mkdir(parents=True)
            for n in range(FILES):
                (folder / f"part{n}.md").write_text(
                    f"# Part {n}\n\nThe lock of part {n} is held by process {n * 7}. It is free "
                    f"when that process has ended.\n"
                )
        made.env["RAGSTREAM_EMBEDDINGS__FAN_OUT_AT"] = "0"
        status, said = made.command("ingest", "asked")
        assert status == 0, said
        made.env["RAGSTREAM_EMBEDDINGS__FAN_OUT_AT"] = "1"
        for name in ("web", "daemon", "page", "api", "worker"):
            made.start(name)
        yield made
    finally:
        made.close()


def faults_of(got):
    return [one for one in got if isinstance(one, Exception)]


def test_parts_that_are_killed_under_load_cost_nobody_an_answer(team):
    load = Load(team)
    before, shown = load.answer(), load.prompt()
    with load:
        load.more(2, 1, 1)
        for part in PARTS:
            assert not faults_of(load.prompts), part
            team.kill(part)
            load.more(2, 1, 1)
            team.start(part)
            load.more(2, 1)
            if part == "page":
                assert faults_of(load.prompts), "it was down"
                assert until(lambda: not faults_of(load.prompts[-1:]), WAIT_S), load.prompts[-1:]
                load.prompts.clear()
    assert not faults_of(load.answers)
    assert {*load.answers} == {before} and load.answer() == before
    assert {*load.prompts} <= {shown} and load.prompt() == shown
    others = [said for status, said in load.ingests if status]
    others = [said for said in others if "is being written by process" not in said]  # of a sensor
    assert not others, others[0]
    assert until(lambda: team.command("ingest", "grows")[0] == 0, WAIT_S)
    rounds = len(load.ingests)
    assert len(open_view(team.data / "index" / "grows").chunk_ids) == FILES + rounds
    for project in ("asked", "grows"):
        status, said = team.command("index", "check", project)
        assert status == 0, said
    with team.postgres.connect() as db:
        assert db.execute("SELECT count(*) FROM ragstream_batches").fetchone() == (0,)
