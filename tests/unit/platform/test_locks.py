import os
import threading
import time

import pytest

from ragstream_core.errors import ProjectLocked
from ragstream_core.platform.locks import HOLDER_NAME, LOCK_NAME, FolderLock, holder_name


def forked(task) -> int:
    """Run a function in a child; return 0 where it came to its end."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            task()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_child_does_not_inherit_the_lock(tmp_path):
    lock = FolderLock(tmp_path, "x")

    def take():
        with pytest.raises(ProjectLocked), lock.held():
            pass

    with lock.held():
        assert forked(take) == 0
        with pytest.raises(ProjectLocked), FolderLock(tmp_path, "x").held():
            pass  # and the child's end did not free it
    with lock.held():
        pass


def test_threads_wait_for_each_other(tmp_path):
    lock, order = FolderLock(tmp_path, "x"), []

    def take(name):
        with lock.held(wait_s=30):
            order.append(name)
            time.sleep(0.01)
            order.append(name)

    threads = [threading.Thread(target=take, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert order[::2] == order[1::2]
    assert sorted(order[::2]) == [0, 1, 2, 3]


def test_a_waiter_gets_it_when_it_is_free(tmp_path):
    held, done = threading.Event(), []

    def hold():
        with FolderLock(tmp_path, "x").held():
            held.set()
            time.sleep(0.1)
            done.append("first")

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    with FolderLock(tmp_path, "x").held(wait_s=30):
        done.append("second")
    thread.join()
    assert done == ["first", "second"]


def test_the_folder_and_its_files_are_private(tmp_path):
    folder = tmp_path / "a" / "b"
    with FolderLock(folder, "x").held():
        assert holder_name(folder).startswith(f"process {os.getpid()} ")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / LOCK_NAME).stat().st_size == 0


def test_the_last_holder_is_named_whoever_it_was(tmp_path):
    lock = FolderLock(tmp_path, "x")
    with lock.held():
        pass

    def take():
        with FolderLock(tmp_path, "x").held():
            pass

    assert forked(take) == 0
    with lock.held():
        assert holder_name(tmp_path).startswith(f"process {os.getpid()} ")


def test_garbage_in_the_holders_file_names_nobody(tmp_path):
    (tmp_path / HOLDER_NAME).write_text("{")
    assert holder_name(tmp_path) == "another process"
