"""Files that are the old one or the new one, and nobody else's, whatever the umask."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.platform import files


@pytest.fixture(autouse=True)
def no_umask():
    """Nothing is taken away by the process: what is private is so by itself."""
    old = os.umask(0)
    yield
    os.umask(old)


def mode(path):
    return path.stat().st_mode & 0o777


WRITERS = {
    "replace_text": lambda path: files.replace_text(path, "text"),
    "replace_bytes": lambda path: files.replace_bytes(path, b"text", durable=False),
    "pwrite_durable": lambda path: files.pwrite_durable(path, b"text", offset=0),
}


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_a_new_file_and_all_its_new_folders_are_private(tmp_path, name):
    path = tmp_path / "a" / "b" / "c" / "file"
    WRITERS[name](path)
    assert path.read_bytes() == b"text" and mode(path) == 0o600
    assert [mode(path.parents[i]) for i in range(3)] == [0o700] * 3


def test_a_folder_that_is_there_keeps_its_mode(tmp_path):
    (tmp_path / "open").mkdir(mode=0o755)
    assert files.make_private_dir(tmp_path / "open") == tmp_path / "open"
    assert mode(tmp_path / "open") == 0o755


def test_a_file_in_the_way_is_an_error(tmp_path):
    (tmp_path / "file").write_text("in the way")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OSError):
            files.make_private_dir(path)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.binary(min_size=1, max_size=9)), max_size=6))
def test_writing_at_an_offset_changes_nothing_else(tmp_path_factory, writes):
    path = tmp_path_factory.mktemp("rows") / "rows"
    wanted = bytearray()
    for offset, data in writes:
        wanted.extend(b"\0" * (offset + len(data) - len(wanted)))
        wanted[offset : offset + len(data)] = data
        files.pwrite_durable(path, data, offset=offset)
    assert not writes or path.read_bytes() == bytes(wanted)


def test_a_pipe_is_replaced_by_no_file(tmp_path):
    """Nor is a device: who writes to /dev/stdout as root would take it from the machine."""
    pipe, link = tmp_path / "pipe", tmp_path / "stdout"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link):
        with pytest.raises(OSError, match="no file"):
            files.replace_text(path, "text")
    assert pipe.is_fifo() and link.is_symlink()


def test_a_failed_replacement_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "file"
    files.replace_text(path, "old")

    def full(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="space"):
        files.replace_text(path, "new")
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]
