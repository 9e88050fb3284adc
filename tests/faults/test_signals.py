"""R30: the whole command under SIGTERM, Ctrl-C, SIGKILL and a suspended laptop.

The command executes its ingest by Dagster's job and keeps a Chroma collection, so that threads,
children and locks are at work when the signal comes. 20 of each in the full form.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ragstream_core.index.check import Part
from ragstream_core.index.view import forget_views, open_view
from ragstream_core.services import verify
from ragstream_core.wiring.workspace import open_workspace
from tests.lengths import FULL

ROOT = Path(__file__).parents[2]
TIMES = 20 if FULL else 1
NUMBERS = (signal.SIGTERM, signal.SIGINT, signal.SIGKILL) if FULL else (signal.SIGTERM,)
PATIENCE_S = 60
STOPS = (120.0, *([0.5] * 19)) if FULL else (0.5,)
COMMAND = "from ragstream_app.cli.main import main; raise SystemExit(main())"
WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"]


class Place:
    """A data root whose project `ragstream ingest` is run on."""

    def __init__(self, root):
        self.root, self.rng = root, random.Random(30)
        self.docs = root / "data" / "doc_raw" / "demo"
        self.docs.mkdir(parents=True)
        self.env = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "RAGSTREAM_EMBEDDINGS__BACKEND": "hashed",
            "RAGSTREAM_VECTOR_STORE__COLLECTION": "true",
            "DAGSTER_HOME": "",
        }

    def change(self):
        for n in range(40):
            words = " ".join(self.rng.choices(WORDS, k=40))
            (self.docs / f"{n}.md").write_text(f"# Part {n}\n\n{words} {self.rng.random()}\n")

    def start(self):
        return subprocess.Popen(
            [sys.executable, "-c", COMMAND, "ingest", "demo", "--json", "--dagster"], cwd=self.root,
            env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    def require_next_run_completes(self):
        end = self.start()
        out, err = end.communicate(timeout=300)
        assert end.returncode == 0, (out, err)
        forget_views()
        space = open_workspace(self.root / "data", explicit={"embeddings.backend": "hashed"})
        assert verify.verify_project(space, "demo", part=Part(1, 1)).findings == []
        view = open_view(space.index_dir("demo"))
        text = "\n".join(chunk.snippet for chunk in view.chunks(view.chunk_ids))
        assert all(path.read_text().split()[-1] in text for path in self.docs.iterdir())

    def children_left(self, group):
        """Processes of a run's group that live on; a zombie nobody waits for is not alive."""
        found = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = path.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[2]) == group and fields[0] != "Z":
                found.append(int(path.parent.name))
        return found


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    made = Place(tmp_path_factory.mktemp("signals"))
    made.change()
    made.require_next_run_completes()
    made.change()
    begun = time.monotonic()
    made.start().communicate(timeout=300)
    made.span = time.monotonic() - begun
    return made


def gone(place, group):
    """Wait for the children of an ended run: their pipe is closed, so they end by themselves."""
    until = time.monotonic() + 2 * PATIENCE_S
    while (left := place.children_left(group)) and time.monotonic() < until:
        time.sleep(0.05)
    return left == []


@pytest.mark.slow
@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_ends_the_command_and_the_next_one_completes(place, number):
    ended, longest, n = 0, 0.0, 0
    while n < TIMES or (ended <= TIMES // 4 and n < 10 * TIMES):
        place.change()
        run = place.start()
        time.sleep(place.span * (0.5 if n == 0 else place.rng.random()))
        run.send_signal(number)
        sent = time.monotonic()
        out, err = run.communicate(timeout=PATIENCE_S)
        longest = max(longest, time.monotonic() - sent)
        ended += run.returncode != 0
        n += 1
        if run.returncode == 0:  # too late: aim earlier
            place.span *= 0.8
        assert run.returncode in (0, 130, -number), (out, err)
        assert gone(place, run.pid)
        place.require_next_run_completes()
    assert ended > TIMES // 4
    print(f"\n{signal.Signals(number).name}: {ended} of {n} ended by it, the slowest after "
          f"{longest:.1f} s; all completed next")  # fmt: skip


@pytest.mark.slow
def test_a_suspended_command_goes_on_where_it_was(place):
    for seconds in STOPS:
        place.change()
        run = place.start()
        time.sleep(place.rng.uniform(0.1, 0.9) * place.span)
        os.killpg(run.pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.killpg(run.pid, signal.SIGCONT)
        out, err = run.communicate(timeout=300)
        assert run.returncode == 0, (out, err)
        assert gone(place, run.pid)
        place.require_next_run_completes()
    print(f"\n{len(STOPS)} suspended for up to {max(STOPS):.0f} s, all went on")
