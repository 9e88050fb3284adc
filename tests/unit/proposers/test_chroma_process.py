"""The child that opens Chroma: whatever happens to it, this process goes on with one error."""

import contextlib
import os
import select
import signal
import subprocess
import sys
from multiprocessing import Pipe

import numpy as np
import pytest

from ragstream_core.errors import StoreFailed
from ragstream_core.proposers.chroma.process import ChromaProcess, receive, send
from ragstream_core.proposers.chroma.vector_store_chroma import VectorStoreChroma


@pytest.fixture(autouse=True, scope="module")
def forked_chroma():
    """Nothing is forked: here children are started as the product starts them."""


@pytest.fixture
def child(tmp_path):
    with contextlib.closing(ChromaProcess()) as made:
        made.ask("open", str(tmp_path), "abc")
        yield made


def test_a_killed_child_is_one_error_and_no_more(child):
    os.kill(child.pid, signal.SIGKILL)
    for _ in range(2):
        with pytest.raises(StoreFailed, match="signal 9"):
            child.ask("nearest", 1, rows=np.ones((1, 4), dtype=np.float32))
    assert not child.alive


def test_a_child_that_takes_too_long_is_ended(tmp_path):
    with contextlib.closing(ChromaProcess()) as child:
        with pytest.raises(StoreFailed, match="signal 9"):
            child.ask("open", str(tmp_path), "abc", within_s=0.01)
        assert not child.alive


def test_what_the_engine_refuses_is_an_error_and_the_child_stays(child, tmp_path):
    VectorStoreChroma(tmp_path, "abc").add(["a"], np.eye(4, dtype=np.float32)[:1], [{"path": "p"}])
    child.ask("open", str(tmp_path), "abc")
    with pytest.raises(StoreFailed):
        child.ask("nearest", 1, rows=np.ones((1, 3), dtype=np.float32))
    assert child.ask("nearest", 1, rows=np.ones((1, 4), dtype=np.float32)) == [["a"]]


def test_a_folder_that_cannot_be_opened(tmp_path):
    (tmp_path / "chroma.sqlite3").write_bytes(b"not a database" * 100)
    with contextlib.closing(ChromaProcess()) as child, pytest.raises(StoreFailed):
        child.ask("open", str(tmp_path), "abc")


def test_the_child_ends_when_its_parent_is_killed():
    script = (
        "import time\nfrom ragstream_core.proposers.chroma.process import ChromaProcess\n"
        "child = ChromaProcess()\nprint(child.pid, flush=True)\ntime.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as parent:
        child = os.pidfd_open(int(parent.stdout.readline()))
        try:
            parent.kill()
            assert select.select([child], [], [], 30)[0], "the child outlived its parent"
        finally:
            os.close(child)


def test_a_program_without_a_main_guard_may_start_one(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import contextlib\nprint('started')\n"
        "from ragstream_core.proposers.chroma.process import ChromaProcess\n"
        "with contextlib.closing(ChromaProcess()) as child:\n    print(child.alive)\n"
        "print(child.alive)\n"
    )
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["started", "True", "False"]


def test_messages():
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    ours, theirs = Pipe()
    with ours:
        with theirs:
            send(theirs, {"ids": ["ä\n", "\ud800"]}, rows)
            send(theirs, {"n": 1})
        message, found = receive(ours)
        assert message == {"ids": ["ä\n", "\ud800"]}
        assert np.array_equal(found, rows)
        assert receive(ours) == ({"n": 1}, None)
        with pytest.raises(EOFError):
            receive(ours)


def test_a_message_cut_short_is_no_message():
    for cut in range(1, 24):
        ours, theirs = Pipe()
        with ours:
            with theirs:
                os.write(theirs.fileno(), b'\0\0\0\x20{"n": 1, "more": [1, 2]}'[:cut])
            with pytest.raises((EOFError, OSError)):
                receive(ours)
