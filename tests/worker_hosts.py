"""A database and workers on hosts of their own: network namespaces behind one bridge."""

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from ragstream_core.models.embedders.hashed import HashedEmbedder
from ragstream_core.records.identity import sha256_hex
from tests.databases import PostgresServer
from tests.processes import until

REPOSITORY = Path(__file__).parent.parent
WAIT_S = 1_500
_NUMBERS = itertools.count(os.getpid() % 200)


def ip(*words: str) -> bool:
    """Run `ip`; return whether it did what it was told."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    return done.returncode == 0


def require_hosts():
    """Skip a test by name where no network namespace can be made."""
    if os.name != "posix" or os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("hosts of their own need root and `ip` (iproute2)")
    name = f"rsprobe{os.getpid()}"
    if not ip("netns", "add", name):
        pytest.skip("network namespaces cannot be made here")
    ip("netns", "delete", name)


class Team:
    """One machine that ingests, with a database, and two that embed."""

    def __init__(self, folder: Path, *, text_s: float = 0.004, batch_timeout_s: float = 120):
        self.folder = folder
        self.data = folder / "data"
        self.docs = self.data / "doc_raw" / "demo"
        self.docs.mkdir(parents=True)
        self._number = self._bridge()
        self.address = f"10.213.{self._number}.1"
        self.postgres = PostgresServer(host=self.address)
        self.workers: dict[int, subprocess.Popen] = {}
        self.launcher: subprocess.Popen | None = None
        dagster = self.postgres.create("dagster")
        kept = {k: v for k, v in os.environ.items() if not k.startswith("RAGSTREAM_")}
        self.environment = kept | {
            "PYTHONPATH": str(REPOSITORY),
            "RAGSTREAM_DAGSTER__STORAGE": dagster,
            "TEST_TEXT_S": str(text_s),
            "RAGSTREAM_EMBEDDINGS__BACKEND": "tests.slow_words:make",
            "RAGSTREAM_EMBEDDINGS__SHARED": self.postgres.url(),
            "RAGSTREAM_EMBEDDINGS__BATCH_TIMEOUT_S": str(batch_timeout_s),
            "RAGSTREAM_VECTOR_STORE__COLLECTION": "false",
        }

    def _bridge(self) -> int:
        for number in itertools.islice(_NUMBERS, 50):
            if ip("link", "add", f"rsb{number % 250}", "type", "bridge"):
                name = f"rsb{number % 250}"
                assert ip("addr", "add", f"10.213.{number % 250}.1/24", "dev", name)
                assert ip("link", "set", name, "up")
                return number % 250
        pytest.skip("no bridge can be made here")

    def _link(self, host: int) -> str:
        return f"rsv{self._number}x{host}"

    def _host(self, host: int) -> str:
        return f"rsn{self._number}x{host}"

    def make_host(self, host: int) -> str:
        """Make a host on the network, unless it is there; return the name of its namespace."""
        name, link = self._host(host), self._link(host)
        if not Path(f"/run/netns/{name}").exists():
            assert ip("netns", "add", name)
            assert ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
            assert ip("link", "set", link, "master", f"rsb{self._number}", "up")
            inside = ("-n", name)
            assert ip(*inside, "addr", "add", f"10.213.{self._number}.{host + 1}/24", "dev", "eth0")
            assert ip(*inside, "link", "set", "eth0", "up") and ip(
                *inside, "link", "set", "lo", "up"
            )
        return name

    def start_worker(self, host: int):
        """Start a worker on a host of its own."""
        name = self.make_host(host)
        log = self.folder / f"worker-{host}.log"
        with log.open("wb") as out:
            self.workers[host] = subprocess.Popen(
                ["ip", "netns", "exec", name, sys.executable, "-m", "ragstream_app.cli.main",
                 "--data", str(self.folder / f"worker-{host}"), "worker", "--name", f"w{host}"],
                stdout=out, stderr=out, env=self.environment, cwd=self.folder,
                start_new_session=True,
            )  # fmt: skip

    def workers_ready(self):
        """Wait until every worker takes batches."""
        for host in self.workers:
            log = self.folder / f"worker-{host}.log"
            assert until(lambda log=log: b"takes batches" in log.read_bytes(), WAIT_S), (
                log.read_text()
            )

    def kill_worker(self, host: int):
        """Kill a worker with all its processes."""
        os.killpg(self.workers[host].pid, signal.SIGKILL)
        self.workers.pop(host).wait(WAIT_S)

    def cut(self, host: int):
        """Take a host off the network."""
        assert ip("link", "set", self._link(host), "down")

    def join(self, host: int):
        """Put a host back on the network."""
        assert ip("link", "set", self._link(host), "up")

    def write(self, count: int, words: str = "some words"):
        """Write documents of one text each."""
        for n in range(count):
            (self.docs / f"{n:05}.md").write_text(f"{words} of document {n}\n")

    def launch(self, *options: str):
        """Begin `ragstream ingest demo --fan-out`."""
        with (
            (self.folder / "launcher.out").open("wb") as out,
            (self.folder / "launcher.err").open("wb") as err,
        ):
            self.launcher = subprocess.Popen(
                [sys.executable, "-m", "ragstream_app.cli.main", "--data", str(self.data),
                 "ingest", "demo", "--fan-out", "--json", *options],
                stdout=out, stderr=err, env=self.environment, cwd=self.folder,
            )  # fmt: skip

    def finish(self) -> dict:
        """Wait for the ingest; return what it printed."""
        code = self.launcher.wait(WAIT_S)
        said = (self.folder / "launcher.err").read_text()
        assert code == 0, said
        return json.loads((self.folder / "launcher.out").read_text())

    def vectors(self) -> int:
        """Return how many vectors there are; 0 without a table or a database."""
        with contextlib.suppress(psycopg.Error), self.postgres.connect() as db:
            return db.execute("SELECT count(*) FROM ragstream_vectors").fetchone()[0]
        return 0

    def require_exact(self, count: int, words: str = "some words"):
        """Require each text once in the table, and the bits of one machine everywhere."""
        texts = [f"{words} of document {n}" for n in range(count)]
        model = HashedEmbedder()
        with self.postgres.connect() as db:
            rows = db.execute("SELECT text_hash, vector FROM ragstream_vectors").fetchall()
            waiting = db.execute("SELECT count(*) FROM ragstream_batches").fetchone()[0]
        found = dict(rows)
        wanted = {
            bytes.fromhex(sha256_hex(text)): vector.tobytes()
            for text, vector in zip(texts, model.embed_documents(texts), strict=True)
        }
        assert len(rows) == len(found), "a text is there twice"
        assert {key: found.get(key) for key in wanted} == wanted, "missing, or other bits"
        assert waiting == 0

    def close(self):
        """End everything."""
        if self.launcher is not None and self.launcher.poll() is None:
            self.launcher.kill()
            self.launcher.wait()
        for host in list(self.workers):
            self.kill_worker(host)
        self.postgres.close()
        for host in (1, 2):
            ip("netns", "delete", self._host(host))
        ip("link", "delete", f"rsb{self._number}")
