"""The child that opens Chroma: whatever happens to it, this process goes on with one error."""

from __future__ import annotations

import io
import os
import signal

import numpy as np
import pytest

from ragstream_core.errors import DuplicateId, StoreFailed
from ragstream_core.vector_stores.chroma.process import ChromaProcess, read_frame, write_frame
from ragstream_core.vector_stores.chroma.store import ChromaStore


@pytest.fixture
def store(tmp_path):
    made = ChromaStore(tmp_path, 4)
    yield made
    made.close()


def test_a_killed_child_is_one_error_and_no_more(store):
    os.kill(store.pid, signal.SIGKILL)
    for _ in range(2):
        with pytest.raises(StoreFailed, match="signal 9"):
            store.ids()
    assert not store.alive


def test_a_child_that_takes_too_long_is_ended(tmp_path):
    with ChromaProcess() as child:
        header = {"folder": str(tmp_path), "name": "abc", "metadata": None}
        with pytest.raises(StoreFailed, match="signal 9"):
            child.ask("open", header, within_s=0.01)
        assert not child.alive


def test_what_the_engine_refuses_is_an_error_and_the_child_stays(store, tmp_path):
    row = np.eye(4, dtype=np.float32)[:1]
    store.add(["a"], row)
    with pytest.raises(DuplicateId):
        store.add(["a"], row)
    with pytest.raises(StoreFailed):
        store.nearest(np.ones((1, 3), dtype=np.float32), 1)
    assert store.ids() == ["a"]


def test_a_folder_that_cannot_be_opened(tmp_path):
    (tmp_path / "chroma.sqlite3").write_bytes(b"not a database" * 100)
    with pytest.raises(StoreFailed):
        ChromaStore(tmp_path, 4)


def test_the_child_ends_with_its_parents_pipe(tmp_path):
    child = ChromaProcess()
    pid = child.pid
    child.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_frames():
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    pipe = io.BytesIO()
    write_frame(pipe, {"ids": ["ä\n", "\ud800"]}, rows)
    write_frame(pipe, {"n": 1})
    data = pipe.getvalue()
    pipe.seek(0)
    header, found = read_frame(pipe)
    assert header == {"ids": ["ä\n", "\ud800"]}
    assert np.array_equal(found, rows)
    assert read_frame(pipe) == ({"n": 1}, None)
    assert read_frame(pipe) is None
    first = data.index(b"\n") + 1 + 24
    for cut in range(first):
        assert read_frame(io.BytesIO(data[:cut])) is None
