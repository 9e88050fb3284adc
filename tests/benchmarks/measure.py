"""How the benchmarks measure: CPU seconds of whole processes or of a block, two sides in turn.

Processes find their modules compiled, as an installed program does, in a folder of this session.
"""

import os
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence

_COMPILED = tempfile.TemporaryDirectory(prefix="compiled-")


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a process that is measured."""
    compiled = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": _COMPILED.name}
    return {**os.environ, **compiled, **more}


def child_cpu(command: Sequence[str], *, env: dict[str, str] | None = None) -> float:
    """Run a command; return the CPU seconds of it and its children, user and system."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command, env=environment(**(env or {})), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def cpu(call: Callable[[], object]) -> float:
    """Return the CPU seconds of a call in this process, all threads."""
    started = time.process_time()
    call()
    return time.process_time() - started


def median_of(repeat: int, measure: Callable[[], float]) -> float:
    """Return the median of several measurements."""
    return statistics.median(measure() for _ in range(repeat))


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)
