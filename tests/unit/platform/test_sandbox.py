"""A child sees nothing of its parent, can be ended at any moment, and leaves nothing behind."""

import os
import select
import tempfile
from subprocess import DEVNULL

import pytest

from ragstream_core.platform.sandbox import ONE_THREAD, run_child

HELPER = "import os, subprocess, sys, time\n"
LEAVES_ONE = (
    HELPER + "words = [sys.executable, '-c', 'import time; time.sleep(600)']\n"
    "p = subprocess.Popen(words, stderr=subprocess.DEVNULL)\n"
    "sys.stderr.write(f'{p.pid}\\n'); sys.stderr.flush()\n"
)


def run(code, data=b"", **given):
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        return run_child(["-c", code], file, **given)


def gone(pid):
    try:
        file = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([file], [], [], 20)[0])
    finally:
        os.close(file)


def test_it_reads_answers_and_sees_no_environment_and_no_other_file(tmp_path, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_PROVIDER__API_KEY", "canary")
    code = (
        HELPER + "seen = {*os.listdir('/proc/self/fd')} - {'0', '1', '2', '3'}\n"
        "print(sys.stdin.read(), sorted(os.environ), os.getcwd(), seen or '', end='')"
    )
    with (tmp_path / "secret").open("w"):
        code, output = run(code, b"given")
    names = sorted({*ONE_THREAD} | ({"LC_CTYPE"} if b"LC_CTYPE" in output else set()))
    assert (code, output.decode()) == (0, f"given {names} / ")


def test_its_exit_code_and_its_signal_are_returned_and_a_file_takes_the_answer():
    assert run("raise SystemExit(3)").code == 3
    assert run("import os; os.abort()").code == -6
    with tempfile.TemporaryFile() as answer:
        assert run("print('x' * 200_000)", answer=answer) == (0, b"")
        assert answer.tell() == 200_001


def test_its_wall_clock_ends_it():
    assert run("import time; time.sleep(600)", wall_s=0.2) == (None, b"")


def test_what_it_started_ends_with_it():
    told = []
    assert run(LEAVES_ONE + "os._exit(0)", told=told.append, answer=DEVNULL).code == 0
    assert gone(int(told[0]))


def test_what_its_reader_raises_ends_it_and_what_it_started():
    told = []

    def follow(line):
        told.append(int(line))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(LEAVES_ONE + "time.sleep(600)", told=follow)
    assert gone(told[0])
