"""What a child process does with one file: it reads descriptor 0 and answers with JSON on 1.

`server` forks such children; ``python -m … KIND TYPE MEMORY CPU PAGES TEXT`` is one alone. Engines
are imported first and limits set before the file is looked at, so that both give the same verdict.
Nothing a file holds is executed or fetched.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from ragstream_core.ingestion.parsers.engines import Limits, Parsed, Refusal

_ESCAPED = 6  # a control character takes so many bytes in JSON
_CLEAN = {c: " " for c in range(32) if chr(c) not in "\t\n"} | {0: "", 12: "\n", 13: "\n", 127: " "}


def leave_out() -> None:
    """Keep out of this process what engines import and reading a file of known type never needs.

    magika guesses types with onnxruntime, which starts threads and writes below the home folder;
    pyarrow starts a thread. A process with threads cannot be forked safely.
    """
    sys.modules.setdefault("magika", ModuleType("magika"))
    sys.modules.setdefault("pyarrow", None)  # type: ignore[arg-type]  # None: not importable


def load(kind: str) -> None:
    """Import the engines of a kind of file; what is missing is found when a file is read."""
    with contextlib.suppress(ImportError):
        if kind == "pdf":
            import pdfplumber  # noqa: F401
            import pypdfium2  # noqa: F401
        else:
            read = _reader(kind)
            read(b"<p>first use imports more</p>", "html", Limits())


def limit(limits: Limits) -> None:
    """Limit what this process may use beyond what it has used by now.

    What a system does not know is left out.
    """
    size = limits.text_bytes * _ESCAPED + 1_000_000
    memory = _address_space() + limits.memory_bytes
    cpu_s = math.ceil(time.process_time()) + limits.cpu_s
    for what, soft, hard in (
        (resource.RLIMIT_AS, memory, memory),
        (resource.RLIMIT_CPU, cpu_s, cpu_s + 2),
        (resource.RLIMIT_FSIZE, size, size),
        (resource.RLIMIT_CORE, 0, 0),
    ):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(what, (soft, hard))


def _address_space() -> int:
    with contextlib.suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    return 0


def answer(kind: str, data: bytes, *, file_type: str, limits: Limits) -> Parsed:
    """Parse, and turn every way to fail into a reason."""
    try:
        pages, note = _reader(kind)(data, file_type, limits)
        clean = tuple((number, tidy(text)) for number, text in pages)
        if sum(len(text.encode()) for _, text in clean) > limits.text_bytes:
            return Parsed(None, f"holds more than {limits.text_bytes} bytes of text")
        return Parsed(clean, note)
    except Refusal as refusal:
        return Parsed(None, str(refusal))
    except MemoryError:
        return Parsed(None, f"needs more than {limits.memory_bytes} bytes of memory")
    except RecursionError:
        return Parsed(None, "is nested too deep")
    except Exception as error:  # engines raise anything; one file must not stop the others
        return Parsed(None, f"cannot be parsed: {type(error).__name__}")


def tidy(text: str) -> str:
    """Return text without lone surrogates and control characters; lines and tabs stay."""
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return whole.replace("\r\n", "\n").translate(_CLEAN)


def _reader(kind: str) -> Callable[[bytes, str, Limits], tuple[list[tuple[int, str]], str]]:
    if kind == "pdf":
        from ragstream_core.ingestion.parsers.pdf import read_pdf

        return read_pdf
    from ragstream_core.ingestion.parsers.office import read_office

    return read_office


def run(kind: str, file_type: str, limits: Limits) -> NoReturn:
    """Limit this process, read the file that is open as 0, write the answer to 1, and end."""
    limit(limits)
    stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what an engine prints is no part of the answer
    with os.fdopen(0, "rb", closefd=False) as given:
        data = given.read()
    parsed = answer(kind, data, file_type=file_type, limits=limits)
    with stream:
        json.dump({"pages": parsed.pages, "note": parsed.note}, stream, ensure_ascii=False)
    os._exit(0)  # engines may hang or crash while they are taken down; the answer is complete


def main(argv: list[str]) -> None:
    """Run as a child alone: see the module."""
    kind, file_type = argv[:2]
    memory, cpu, pages, text = map(int, argv[2:])
    leave_out()
    load(kind)
    run(kind, file_type, Limits(memory, cpu, pages=pages, text_bytes=text))


if __name__ == "__main__":
    main(sys.argv[1:])
