"""The process that reads files: alone for one file, or as a server that forks a child for each.

``python -m … KIND TYPE MEMORY CPU PAGES TEXT`` reads standard input and answers with JSON on
standard output. ``python -m … serve`` has one end of a socket as its standard input. A request is a
line of JSON with two open files, what to read and where to answer; its answer is a line with the
exit code of the child, null if its wall clock ended it. The end of the socket ends the server and
its child. A child shares nothing with the next one.

Engines are imported first and limits set before the file is looked at, so that both give the same
verdict. Nothing a file holds is executed or fetched.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import math
import os
import resource
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from ragstream_core.ingestion.parsers.engines import SPLIT, Limits, Parsed, Refusal, too_long
from ragstream_core.platform.sandbox import answer_stdin, end_group, limit_process

LINE_BYTES = 65_536
_PR_SET_PDEATHSIG = 1
_GRACE_S = 5  # after its wall clock a child ends by its own alarm, if the server is gone
_ESCAPED = 6  # a control character takes so many bytes in JSON
_SHARE = 0.3  # of the time that is left, for one part
_RESERVED_S = 10  # for what is written around parts
_CLEAN = {c: " " for c in range(32) if chr(c) not in "\t\n"} | {0: "", 12: "\n", 13: "\n", 127: " "}


def leave_out() -> None:
    """Keep out of this process what engines import and reading a file of known type never needs.

    magika guesses types with onnxruntime, which starts threads and writes below the home folder;
    pandas, which reads no sheet here, imports pyarrow, which starts a thread. A process with
    threads cannot be forked safely.
    """
    sys.modules.setdefault("magika", ModuleType("magika"))
    sys.modules.setdefault("pandas", None)  # type: ignore[arg-type]  # None: not importable


def load(kind: str) -> None:
    """Import the engines of a kind of file; what is missing is found when a file is read."""
    with contextlib.suppress(ImportError):
        if kind == "pdf":
            import pypdfium2
            import pypdfium2.raw  # noqa: F401
        else:
            from ragstream_core.ingestion.parsers.office import import_readers, read_office

            import_readers()
            read_office(b"<p>first use imports more</p>", "html", Limits())


def answer(kind: str, data: bytes, *, file_type: str, limits: Limits) -> Parsed:
    """Parse, and turn every way to fail into a reason."""

    def work() -> Parsed:
        pages, note = _reader(kind)(data, file_type, limits)
        return Parsed(tuple(pages), note)

    return _tried(work, limits)


def _tried(work: Callable[[], Parsed], limits: Limits) -> Parsed:
    try:
        pages, note = work()
        if pages is None:
            return Parsed(None, note)
        clean = tuple((number, tidy(text)) for number, text in pages)
        if sum(len(text.encode()) for _, text in clean) > limits.text_bytes:
            return Parsed(None, str(too_long(limits.text_bytes)))
        return Parsed(clean, note)
    except Refusal as refusal:
        return Parsed(None, str(refusal))
    except MemoryError:
        return Parsed(None, f"needs more than {limits.memory_bytes} bytes of memory; {SPLIT}")
    except RecursionError:
        return Parsed(None, "is nested too deep")
    except Exception as error:  # engines raise anything; one file must not stop the others
        return Parsed(None, f"cannot be parsed: {type(error).__name__}")


def apart(work: Callable[[], Parsed]) -> Parsed:
    """Parse a part of a file in a process of its own, in a share of the time that is left.

    So no part, and no number of parts, costs the words around them: neither one that takes for ever
    nor one that crashes its engine.
    """
    cpu_s = math.ceil(_SHARE * _cpu_left())
    if cpu_s < 1:
        return Parsed(None, "what comes before it took all the time")
    reads, writes = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reads)
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
            with os.fdopen(writes, "wb") as stream:
                stream.write(_written(_tried(work, Limits())))
        finally:
            os._exit(0)
    os.close(writes)
    with os.fdopen(reads, "rb") as stream:
        given = stream.read()
    _, status = os.waitpid(pid, 0)
    if given:
        return Parsed.of(given)
    code = os.waitstatus_to_exitcode(status)
    took = f"took more than {cpu_s} s of CPU" if code == -signal.SIGXCPU else "crashed its parser"
    return Parsed(None, took)


def _cpu_left() -> float:
    """Return the CPU seconds that this process and its children may still take, less a reserve."""
    given = resource.getrlimit(resource.RLIMIT_CPU)[0]
    if given == resource.RLIM_INFINITY:
        return Limits().cpu_s
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return given - time.process_time() - children.ru_utime - children.ru_stime - _RESERVED_S


def tidy(text: str) -> str:
    """Return text without lone surrogates and control characters; lines and tabs stay."""
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return whole.replace("\r\n", "\n").translate(_CLEAN)


def _reader(kind: str) -> Callable[[bytes, str, Limits], tuple[list[tuple[int, str]], str]]:
    if kind == "pdf":
        from ragstream_core.ingestion.parsers.pdf import read_pdf

        return read_pdf
    if kind == "picture":
        raise Refusal("a picture inside of another file")
    from ragstream_core.ingestion.parsers.office import read_office

    return read_office


def read_stdin(kind: str, file_type: str, limits: Limits) -> NoReturn:
    """Limit this process, read the file that is its standard input, answer, and end."""
    limit_process(
        memory_bytes=limits.memory_bytes,
        cpu_s=limits.cpu_s,
        output_bytes=limits.text_bytes * _ESCAPED + 1_000_000,
    )

    def work(data: bytes) -> bytes:
        return _written(answer(kind, data, file_type=file_type, limits=limits))

    answer_stdin(work)


def _written(parsed: Parsed) -> bytes:
    return json.dumps(parsed._asdict(), ensure_ascii=False).encode()


class _ForkServer:
    """One thread that forks a limited child for each request; looks at no file itself."""

    def __init__(self, asked: socket.socket) -> None:
        self._asked = asked
        self._loaded: set[str] = set()
        self._ended, told = os.pipe()
        os.set_blocking(self._ended, False)
        os.set_blocking(told, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(told)

    def run(self) -> None:
        while (request := self._request()) is not None:
            given, files = request
            limits = Limits(**given["limits"])
            self._load(given["kind"])
            pid = os.fork()
            if pid == 0:
                _forked(given, files, limits)
            for file in files:
                os.close(file)
            code = self._wait(pid, limits.wall_s)
            self._asked.sendall(json.dumps({"code": code}).encode() + b"\n")

    def _request(self) -> tuple[dict[str, Any], list[int]] | None:
        line, files = b"", list[int]()
        while not line.endswith(b"\n"):
            part, opened, _, _ = socket.recv_fds(self._asked, LINE_BYTES, 2)
            if not part:
                return None
            line, files = line + part, files + opened
        return json.loads(line), files

    def _load(self, kind: str) -> None:
        if kind in self._loaded:
            return
        self._loaded.add(kind)
        load(kind)
        threads = threads_of_this_process()
        if threads > 1:
            raise SystemExit(f"the engines of {kind} started {threads - 1} threads")
        gc.collect()
        gc.freeze()  # a child does not copy these pages to count what refers to them

    def _wait(self, pid: int, wall_s: float) -> int | None:
        ends = time.monotonic() + wall_s
        try:
            while True:
                done, status = os.waitpid(pid, os.WNOHANG)
                if done:
                    return os.waitstatus_to_exitcode(status)
                left = ends - time.monotonic()
                if left <= 0:
                    return None
                ready, _, _ = select.select([self._asked.fileno(), self._ended], [], [], left)
                if self._asked.fileno() in ready:  # no question before the answer: it is closed
                    raise SystemExit
                if ready:
                    os.read(self._ended, LINE_BYTES)
        finally:
            end_group(pid)
            with contextlib.suppress(ProcessLookupError):  # it may not have a group yet
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _forked(given: dict[str, Any], files: list[int], limits: Limits) -> NoReturn:
    try:
        os.setsid()
        _end_with_parent()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.alarm(int(limits.wall_s) + _GRACE_S)
        for wanted, file in enumerate(files):
            os.dup2(file, wanted)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        read_stdin(given["kind"], given["type"], limits)
    finally:
        os._exit(1)


def _end_with_parent() -> None:
    """Have the system end this process with the one that forked it if it can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def threads_of_this_process() -> int:
    """Return how many threads the system counts; 1 if it does not say."""
    try:
        return len(list(Path("/proc/self/task").iterdir()))
    except OSError:
        return 1


def main(argv: list[str]) -> None:
    """Run as the server, or as a child alone: see the module."""
    leave_out()
    if argv == ["serve"]:
        _ForkServer(socket.socket(fileno=0)).run()
        return
    kind, file_type = argv[:2]
    memory, cpu, pages, text = map(int, argv[2:])
    load(kind)
    read_stdin(kind, file_type, Limits(memory, cpu, pages=pages, text_bytes=text))


if __name__ == "__main__":
    main(sys.argv[1:])
