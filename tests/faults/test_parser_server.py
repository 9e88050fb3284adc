"""One process keeps the engines for an ingest: nothing that happens to it costs more than time."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ragstream_core.ingestion.parsers import isolated
from ragstream_core.ingestion.parsers.engines import Limits
from ragstream_core.ingestion.parsers.isolated import ParserServer, kept_engines, parse
from ragstream_core.platform.sandbox import ONE_THREAD
from tests.faults.hostile_pdfs import (
    CATALOG,
    FONT,
    PAGES,
    assembled,
    corpus,
    page,
    said,
    slow,
    stream,
    written,
)
from tests.lengths import FULL
from tests.processes import PATIENCE_S

pytest.importorskip("pypdfium2")
pytest.importorskip("markitdown")
pytestmark = pytest.mark.skipif(
    not ParserServer.available(), reason="this system has no fork: nothing is served"
)

ROOT = Path(__file__).parents[2]
QUICK = Limits(cpu_s=1, wall_s=20, text_bytes=2_000_000)
HTML = b"<h1>Valves</h1><p>The valve of the north wing opens at twelve bar.</p>"
WORDS = assembled([CATALOG, PAGES, page(), stream(said("well"), packed=False), FONT])
LATIN = "<meta charset=latin-1><p>Fällt bei 100 °C</p>".encode("latin-1")
SLOW = slow(50)  # seconds, before a look at the time


def read(data, kind="pdf", limits=QUICK):
    return parse(data, file_type=kind, limits=limits)


def ended(pid, timeout=PATIENCE_S):
    """Wait for a process to end; say whether it did."""
    try:
        file = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([file], [], [], timeout)[0])
    finally:
        os.close(file)


def child_of(pid):
    """Return the child of a process, waiting for it."""
    while True:
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if found:
            return int(found[0])


@pytest.fixture
def server():
    with kept_engines() as made:
        yield made


@pytest.fixture
def fake(monkeypatch, tmp_path):
    """Let a script stand where the server is; it finds the socket at descriptor 0."""

    def use(script):
        (tmp_path / "fake.py").write_text(
            "import os, socket\ns = socket.socket(fileno=0)\n" + script
        )
        real = subprocess.Popen

        def started(command, **given):
            if "serve" in command:
                command = [command[0], str(tmp_path / "fake.py")]
            return real(command, **given)

        monkeypatch.setattr(subprocess, "Popen", started)

    return use


class TestVerdicts:
    def test_files_of_all_kinds_are_read_as_by_a_child_alone(self, server):
        broken = assembled([CATALOG, PAGES, page()])
        files = [(written("one", "two"), "pdf"), (HTML, "html"), (b"PK junk", "docx"),
                 (broken, "pdf"), (b"", "pdf"), (LATIN, "html")]  # fmt: skip
        answers = [read(data, kind) for data, kind in files]
        assert server.starts == 1
        server.close()
        isolated._KEPT.set(None)
        assert answers == [read(data, kind) for data, kind in files]
        assert answers[1].pages[0][1].startswith("# Valves")
        assert answers[5].pages[0][1] == "Fällt bei 100 °C"

    def test_one_bad_file_ends_its_own_child_and_the_server_goes_on(self, server):
        assert read(SLOW).note == "took more than 1 s of CPU; split it into smaller files"
        hog = read(written("x" * 60_000), limits=Limits(memory_bytes=1_000_000))
        assert hog.pages is None
        late = read(SLOW, limits=Limits(cpu_s=9, wall_s=0.1))
        assert late == (None, "stopped after 0.1 s")
        assert read(written("well"))[0] == ((1, "well"),)
        assert server.starts == 1

    @pytest.mark.sweep
    @pytest.mark.skipif(not FULL, reason="the bombs of the corpus burn a minute of CPU")
    def test_the_whole_hostile_corpus_is_contained(self, server):
        limits = Limits(cpu_s=4, wall_s=60, text_bytes=2_000_000)
        for name, (data, wanted) in corpus().items():
            parsed = read(data, limits=limits)
            assert parsed.note, name
            if wanted.startswith("text:"):
                assert wanted[5:] in parsed.pages[0][1], name
            elif wanted:
                assert parsed.pages is None and wanted in parsed.note, name
        assert server.starts == 1


class TestTheChild:
    def test_it_has_no_environment_no_other_file_a_group_of_its_own_and_limits(
        self, server, monkeypatch, tmp_path
    ):
        monkeypatch.setenv("RAGSTREAM_PROVIDER__API_KEY", "canary")
        kept = (tmp_path / "secret").open("w")
        read(WORDS)
        seen = {"looks": []}
        of_the_server = Path(f"/proc/{server.pid}/limits").read_text()

        def look():
            """Look once it has its limits, which come after all else was closed."""
            seen["pid"] = pid = child_of(server.pid)
            at = Path(f"/proc/{pid}")
            while not ended(pid, 0):
                with contextlib.suppress(OSError):  # it may end at any moment
                    if (at / "limits").read_text() != of_the_server:
                        assert os.getsid(pid) == pid
                        seen["environ"] = (at / "environ").read_bytes()
                        seen["looks"].append({os.readlink(f) for f in (at / "fd").iterdir()})

        watcher = threading.Thread(target=look)
        watcher.start()
        read(SLOW)
        watcher.join()
        kept.close()
        names = {pair.partition(b"=")[0].decode() for pair in seen["environ"].split(b"\0")}
        assert names <= {*ONE_THREAD, ""}
        files = set.intersection(*filter(None, seen["looks"]))  # it opens and closes some itself
        deleted = {name for name in files if name.endswith(" (deleted)")}
        assert len(deleted) == 2 and files - deleted == {os.devnull}
        assert ended(seen["pid"], 0)

    def test_the_server_that_forks_has_one_thread_whatever_engines_it_has(self):
        script = (
            "from ragstream_core.ingestion.parsers import child\n"
            "child.leave_out(); child.load('pdf'); child.load('office')\n"
            "import sys; assert 'markitdown' in sys.modules and 'pypdfium2' in sys.modules\n"
            "assert 'onnxruntime' not in sys.modules\n"
            "print(child.threads_of_this_process())"
        )
        done = subprocess.run(
            [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True,
            env=ONE_THREAD,
        )  # fmt: skip
        assert done.stdout.strip() == "1"


class TestAKilledServer:
    def test_between_two_files_it_is_started_again(self, server):
        assert read(WORDS).pages
        os.kill(server.pid, signal.SIGKILL)
        assert read(WORDS).pages  # read by a child alone
        assert read(WORDS).pages
        assert server.starts == 2

    def test_while_it_reads_the_file_is_tried_once_more_and_its_child_ends(self, server):
        read(WORDS)
        first, children = server.pid, []

        def kill():
            children.append(child_of(first))
            os.kill(first, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        parsed = read(SLOW)
        killer.join()
        assert parsed == (
            None,
            "took more than 1 s of CPU; split it into smaller files",
        )  # what the second attempt says
        assert ended(children[0])
        assert read(WORDS).pages

    @pytest.mark.parametrize(
        "script",
        ["os._exit(1)", "os.abort()", "s.recv(99)", "s.recv(99); s.send(b'no json\\n')",
         "s.recv(99); s.send(b'{}\\n')", "import time; time.sleep(600)"],
        ids=["at the start", "by a signal", "after the question", "junk", "no code", "hangs"],
    )  # fmt: skip
    def test_a_server_that_never_serves_costs_no_file(self, fake, monkeypatch, server, script):
        monkeypatch.setattr(isolated, "START_S", 0)
        fake(script)
        limits = Limits(wall_s=5) if "sleep" not in script else Limits(wall_s=2)
        assert read(written("words"), limits=limits).pages == ((1, "words"),)
        assert server.pid == 0

    def test_one_that_never_serves_is_not_started_for_ever(self, fake, server):
        fake("os._exit(1)")
        for _ in range(isolated.FAULTS + 2):
            assert read(b"", "pdf").note == "not a readable PDF"
        assert server.starts == isolated.FAULTS

    def test_an_ingest_over_one_commits_what_an_undisturbed_one_does(self, make_bench, monkeypatch):
        calm, disturbed = make_bench(), make_bench()
        for bench in (calm, disturbed):
            for n in range(4):
                bench.write(f"{n}.pdf", WORDS.replace(b"well", b"%04d" % n), mtime=1000)
            bench.write("4.pdf", b"junk", mtime=1000)
        wanted = calm.run()
        run = ParserServer.run

        def killed_first(self, kind, file_type, **given):
            if self.pid and self.starts == 1:
                os.kill(self.pid, signal.SIGKILL)
            return run(self, kind, file_type, **given)

        monkeypatch.setattr(ParserServer, "run", killed_first)
        found = disturbed.run()
        assert (found.digest, found.skipped_reasons) == (wanted.digest, wanted.skipped_reasons)
        assert disturbed.health() == []


def test_nothing_is_left_when_the_ingest_is_killed():
    script = (
        "import sys\n"
        "from ragstream_core.ingestion.parsers.isolated import kept_engines, parse\n"
        "from ragstream_core.ingestion.parsers.engines import Limits\n"
        "from tests.faults.hostile_pdfs import one_page\n"
        "with kept_engines() as server:\n"
        "    parse(b'', file_type='pdf', limits=Limits())\n"
        "    print(server.pid, flush=True)\n"
        "    slow = one_page(b'BT /F1 9 Tf (a) Tj ET\\n' * 2_000_000)\n"
        "    parse(slow, file_type='pdf', limits=Limits())\n"
    )
    ingest = subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    pid = int(ingest.stdout.readline())
    child = child_of(pid)
    ingest.kill()
    ingest.wait()
    ingest.stdout.close()
    assert ended(pid)
    assert ended(child)


def test_where_there_is_no_fork_files_are_read_one_by_one(monkeypatch, bench):
    monkeypatch.setattr(ParserServer, "available", staticmethod(lambda: False))
    with kept_engines() as server:
        assert server is None
        assert read(WORDS).pages
    assert isolated.ParserServer().pid == 0
