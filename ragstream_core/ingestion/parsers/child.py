"""The child process: ``python -m … KIND TYPE MEMORY CPU PAGES TEXT`` reads stdin, answers JSON.

Limits are set before the first engine is imported. Nothing a file holds is executed or fetched.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
from collections.abc import Callable

from ragstream_core.ingestion.parsers.port import Limits, Parsed, Refusal

_ESCAPED = 6  # a control character takes so many bytes in JSON
_CLEAN = {c: " " for c in range(32) if chr(c) not in "\t\n"} | {0: "", 12: "\n", 13: "\n", 127: " "}


def limit(limits: Limits) -> None:
    """Limit this process; what a system does not know is left out."""
    size = limits.text_bytes * _ESCAPED + 1_000_000
    for what, soft, hard in (
        (resource.RLIMIT_AS, limits.memory_bytes, limits.memory_bytes),
        (resource.RLIMIT_CPU, limits.cpu_s, limits.cpu_s + 2),
        (resource.RLIMIT_FSIZE, size, size),
        (resource.RLIMIT_CORE, 0, 0),
    ):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(what, (soft, hard))


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


def main(argv: list[str]) -> None:
    """Run as the child: see the module."""
    kind, file_type = argv[:2]
    memory, cpu, pages, text = map(int, argv[2:])
    limits = Limits(memory, cpu, pages=pages, text_bytes=text)
    limit(limits)
    stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what an engine prints is no part of the answer
    with os.fdopen(0, "rb", closefd=False) as given:
        data = given.read()
    parsed = answer(kind, data, file_type=file_type, limits=limits)
    with stream:
        json.dump({"pages": parsed.pages, "note": parsed.note}, stream, ensure_ascii=False)
    os._exit(0)  # engines may hang or crash while they are taken down; the answer is complete


if __name__ == "__main__":
    main(sys.argv[1:])
