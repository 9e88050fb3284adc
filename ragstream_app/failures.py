"""The error boundary: every failure becomes a message, a next step and an exit code.

0 ok · 1 the operation failed · 2 wrong usage · 3 refused · 130 interrupted.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

import typer
from typer.exceptions import TyperException

from ragstream_app.session import emit_json, note
from ragstream_core.errors import RagstreamError

FAILED = 1
USAGE = 2
INTERRUPTED = 130
_REPORT = "run it again with --traceback and report what it prints"


def describe(error: BaseException) -> dict[str, str]:
    """Return ``type``, ``message`` and ``hint`` of an error, for people and for `--json`."""
    if isinstance(error, RagstreamError):
        return {"type": type(error).__name__, "message": error.message, "hint": error.hint}
    if isinstance(error, TyperException):
        return {"type": "UsageError", "message": error.format_message(), "hint": _usage_hint(error)}
    if isinstance(error, OSError):
        where = f": {error.filename}" if error.filename else ""
        message = f"{error.strerror or error}{where}"
        return {"type": type(error).__name__, "message": message, "hint": "ragstream doctor"}
    first = str(error).strip().split("\n", maxsplit=1)[0]
    return {
        "type": type(error).__name__,
        "message": f"unexpected {type(error).__name__}: {first}" if first else repr(error),
        "hint": _REPORT,
    }


def exit_code(error: BaseException) -> int:
    """Return the exit code of an error: 1, 2 or 3."""
    if isinstance(error, (RagstreamError, TyperException)):
        return error.exit_code
    return FAILED


def guarded(run: Callable[[], Any], argv: list[str]) -> int:
    """Run a command and turn whatever it raises into output and an exit code.

    Args:
        run: The command; an int it returns is its exit code.
        argv: Its words; ``--json`` and ``--traceback`` among them decide the form.
    """
    options = argv[: argv.index("--")] if "--" in argv else argv
    try:
        result = run()
    except KeyboardInterrupt:
        return _interrupted()
    except Exception as error:  # the boundary: nothing passes it as a traceback
        if isinstance(error, OSError) and error.errno == errno.EPIPE:
            _silence_stdout()
            return FAILED
        if "--traceback" in options:
            traceback.print_exc(file=sys.stderr)
        show(error, as_json="--json" in options)
        return exit_code(error)
    if result == INTERRUPTED:
        return _interrupted()
    return result if isinstance(result, int) else 0


def show(error: BaseException, *, as_json: bool = False) -> None:
    """Print an error: JSON on stdout, or the message and the next step on stderr."""
    found = describe(error)
    if as_json:
        emit_json({"error": found})
        return
    note(f"error: {found['message']}")
    if found["hint"]:
        note(f"  next: {found['hint']}")


def _interrupted() -> int:
    note("\ninterrupted; what was committed before stays")
    return INTERRUPTED


def _silence_stdout() -> None:
    """Point stdout at nothing, so that the interpreter's last flush does not complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _usage_hint(error: TyperException) -> str:
    context: typer.Context | None = getattr(error, "ctx", None)
    return f"{context.command_path if context else 'ragstream'} --help"
