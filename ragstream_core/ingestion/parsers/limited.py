"""`parse`: a file in a child process with limits on memory, CPU and time.

The child gets the bytes that were hashed, as its standard input, an empty environment, and no other
open file. Whatever it does, the caller gets pages or one reason.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile

from ragstream_core.ingestion.file_types import kind_of
from ragstream_core.ingestion.parsers import engines
from ragstream_core.ingestion.parsers.port import Limits, Parsed

CHILD = "ragstream_core.ingestion.parsers.child"
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}  # both cost address space


def parse(data: bytes, *, file_type: str, limits: Limits) -> Parsed:
    """Read a PDF or Office file; a `Parser`.

    Args:
        data: The whole file.
        file_type: Its type, e.g. ``pdf``.
        limits: What it may cost.

    Raises:
        OSError: No child process or temporary file can be made.
    """
    extra = engines.missing_extra(file_type)
    if extra:
        return Parsed(None, f"needs the extra '{extra}': pip install 'ragstream[{extra}]'")
    numbers = (limits.memory_bytes, limits.cpu_s, limits.pages, limits.text_bytes)
    command = [sys.executable, "-I", "-X", "utf8", "-m", CHILD, kind_of(file_type), file_type]
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as answer:
        given.write(data)
        given.seek(0)
        child = subprocess.Popen(
            [*command, *map(str, numbers)],
            stdin=given, stdout=answer, stderr=subprocess.DEVNULL,
            env=_ONE_THREAD, cwd="/", start_new_session=True,
        )  # fmt: skip
        try:
            code = child.wait(limits.wall_s)
        except subprocess.TimeoutExpired:
            return Parsed(None, f"stopped after {limits.wall_s} s")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        answer.seek(0)
        return _result(code, answer.read(), limits)


def _result(code: int, answer: bytes, limits: Limits) -> Parsed:
    if code != 0:
        return Parsed(None, _death(code, limits))
    try:
        given = json.loads(answer)
        pages = given["pages"]
        note = str(given["note"])
        if pages is None:
            return Parsed(None, note)
        return Parsed(tuple((int(number), str(text)) for number, text in pages), note)
    except (ValueError, TypeError, KeyError):
        return Parsed(None, "its parser gave no usable answer")


def _death(code: int, limits: Limits) -> str:
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        return f"took more than {limits.cpu_s} s of CPU"
    if code == -signal.SIGXFSZ:
        return f"holds more than {limits.text_bytes} bytes of text"
    if code < 0:
        return f"crashed its parser (signal {-code}); memory is limited to {limits.memory_bytes}"
    return f"ended its parser (exit code {code})"
