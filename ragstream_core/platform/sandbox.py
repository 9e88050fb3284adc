"""A child process with limits: how one is started and ended, and what it does first.

A child reads bytes from its standard input and writes an answer to its standard output. It gets an
environment without any secret, no other open file, and a session of its own, of which nothing is
left when `run_child` returns. It limits itself by `limit_process` before it looks at the bytes.
"""

from __future__ import annotations

import contextlib
import math
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO, NamedTuple, NoReturn

# The whole environment of a child; threads cost address space and forbid a fork.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}


class ChildEnd(NamedTuple):
    """How a child ended."""

    code: int | None  # negative for a signal; None if its wall clock ended it
    output: bytes


def start_child(
    words: Sequence[str],
    *,
    stdin: IO[bytes] | int,
    stdout: IO[bytes] | int = subprocess.DEVNULL,
    stderr: int = subprocess.DEVNULL,
) -> subprocess.Popen[bytes]:
    """Start a Python of its own, which sees no environment, user site or current folder."""
    return subprocess.Popen(
        [sys.executable, "-I", "-X", "utf8", *words],
        stdin=stdin, stdout=stdout, stderr=stderr,
        env=ONE_THREAD, cwd="/", start_new_session=True,
    )  # fmt: skip


def run_child(
    words: Sequence[str],
    given: IO[bytes],
    *,
    answer: IO[bytes] | int = subprocess.PIPE,
    wall_s: float | None = None,
    told: Callable[[str], None] | None = None,
) -> ChildEnd:
    """Run a child to its end, or end it."""
    stderr = subprocess.PIPE if told else subprocess.DEVNULL
    with start_child(words, stdin=given, stdout=answer, stderr=stderr) as child:
        try:
            if told is not None:
                for line in child.stderr or ():
                    told(line.decode("utf-8", "replace").strip())
            output, _ = child.communicate(timeout=wall_s)
            return ChildEnd(child.returncode, output or b"")
        except subprocess.TimeoutExpired:
            return ChildEnd(None, b"")
        finally:
            end_group(child.pid)
            child.wait()


def end_group(pid: int) -> None:
    """Kill a child and all that it started, whether it is still there or not."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def limit_process(*, memory_bytes: int, cpu_s: int, output_bytes: int) -> None:
    """Limit what this process may use beyond what it has used by now.

    What a system does not know is left out.
    """
    memory = _address_space() + memory_bytes
    cpu_s = math.ceil(time.process_time()) + cpu_s
    for what, soft, hard in (
        (resource.RLIMIT_AS, memory, memory),
        (resource.RLIMIT_CPU, cpu_s, cpu_s + 2),
        (resource.RLIMIT_FSIZE, output_bytes, output_bytes),
        (resource.RLIMIT_CORE, 0, 0),
    ):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(what, (soft, hard))


def _address_space() -> int:
    with contextlib.suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    return 0


def answer_stdin(work: Callable[[bytes], bytes]) -> NoReturn:
    """Give standard input to a function, write what it returns to standard output, and end."""
    answer_in_parts(lambda data: (work(data),))


def answer_in_parts(work: Callable[[bytes], Iterable[bytes]]) -> NoReturn:
    """Give standard input to a function, write each part to standard output as it comes, and end.

    What the function or a library under it prints goes to standard error. The process ends at
    once: libraries may hang or crash while they are taken down, and the answer is complete.
    """
    stream = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with os.fdopen(0, "rb", closefd=False) as given:
        data = given.read()
    with stream:
        for part in work(data):
            stream.write(part)
            stream.flush()
    os._exit(0)
