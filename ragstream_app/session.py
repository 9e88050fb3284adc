"""What every command shares: its settings, how it answers, and the boundary that catches errors.

Exit codes: 0 ok · 1 the operation failed · 2 wrong usage · 3 refused · 130 interrupted.
"""

from __future__ import annotations

import errno
import functools
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.exceptions import TyperException

from ragstream_core.errors import AddOption, Advice, RagstreamError, RunCommand, worded

if TYPE_CHECKING:
    from rich.console import Console

    from ragstream_core.wiring.workspace import Workspace


def console(*, stderr: bool = False) -> Console:
    """Return a console for a terminal; strings are shown as they are.

    Args:
        stderr: Write there, so that stdout stays what was asked for.
    """
    from rich.console import Console

    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


@dataclass(frozen=True, slots=True)
class Session:
    """The global options.

    Attributes:
        data: The data root, or None where the settings decide.
        config: The configuration file, or None for the default.
        command: The running command, e.g. ``ragstream prompt``.
        at_end: Takes what is done when the command is over, whether it failed or not.
    """

    data: Path | None = None
    config: Path | None = None
    command: str = ""
    at_end: Callable[[Callable[[], None]], object] = field(default=lambda _: None, repr=False)

    def workspace(self, *, task: str = "", explicit: dict[str, Any] | None = None) -> Workspace:
        """Load the settings and return the workspace.

        Args:
            task: Name of a task profile.
            explicit: Dotted setting → value, the strongest layer.

        Raises:
            UnknownSetting: A setting that does not exist or has a bad value.
        """
        from ragstream_core.wiring.workspace import open_workspace

        space = open_workspace(self.data, config_path=self.config, task=task, explicit=explicit)
        tell(space.config.notices())
        self.at_end(lambda: tell(space.notices()))  # many a command makes the data root
        if space.config.settings.debug.enabled:
            from ragstream_core.wiring import debug_log

            debug_log.begin_command(self.command)
        return space


def session_of(ctx: typer.Context) -> Session:
    """Return the global options of the running command."""
    root = ctx.find_root()
    session = root.obj if isinstance(root.obj, Session) else Session()
    return replace(session, command=ctx.command_path, at_end=root.call_on_close)


def emit_json(value: object) -> None:
    """Write a JSON value, or records as their fields, to stdout."""
    from ragstream_core.records.json_form import report_of

    typer.echo(json.dumps(report_of(value), ensure_ascii=False, indent=2))


def note(text: str) -> None:
    """Write a line for people to stderr, so that stdout stays what was asked for."""
    typer.echo(text, err=True)


def tell(notices: Iterable[tuple[str, Advice]]) -> None:
    """Tell people what they should know, each thing once in the life of a process."""
    for message, advice in notices:
        _once(message, advice)


@functools.cache
def _once(message: str, advice: Advice) -> None:
    note(f"note: {message}\n  next: {worded(advice)}")


FAILED = 1
USAGE = 2
INTERRUPTED = 130
_REPORT = ("run it again with ", AddOption("--traceback"), " and report what it prints")


@dataclass(frozen=True, slots=True)
class Problem:
    """What went wrong, for people.

    Attributes:
        type: Name of the error's class.
        message: What happened, and to which thing.
        advice: What to do next; may be empty.
    """

    type: str
    message: str
    advice: Advice = ()

    def to_json(self) -> dict[str, str]:
        """Return what `--json` prints of it."""
        return {"type": self.type, "message": self.message, "hint": worded(self.advice)}


def describe(error: BaseException) -> Problem:
    """Return what an error says to people."""
    kind = type(error).__name__
    if isinstance(error, RagstreamError):
        return Problem(kind, error.message, error.advice)
    if isinstance(error, TyperException):
        message = error.format_message().replace("Value error, ", "")
        return Problem("UsageError", message, (_usage_hint(error),))
    if isinstance(error, OSError):
        where = f": {error.filename}" if error.filename else ""
        return Problem(kind, f"{error.strerror or error}{where}", (RunCommand("doctor"),))
    first = str(error).strip().split("\n", maxsplit=1)[0]
    return Problem(kind, f"unexpected {kind}: {first}" if first else repr(error), _REPORT)


def exit_code(error: BaseException) -> int:
    """Return the exit code of an error: 1, 2 or 3."""
    if isinstance(error, (RagstreamError, TyperException)):
        return error.exit_code
    return FAILED


def failed(error: BaseException, options: list[str]) -> int:
    """Show what a command raised and return its exit code.

    Args:
        error: What was raised.
        options: Its options; ``--json`` and ``--traceback`` among them decide the form.
    """
    if isinstance(error, KeyboardInterrupt):
        note("\ninterrupted; what was committed before stays")
        return INTERRUPTED
    if isinstance(error, OSError) and error.errno == errno.EPIPE:
        _silence_stdout()
        return FAILED
    if "--traceback" in options:
        traceback.print_exception(error, file=sys.stderr)
    try:
        show(error, as_json="--json" in options)
    except OSError:  # a full disk behind stdout: it takes no JSON of it, either
        _silence_stdout()
        show(error)
    return exit_code(error)


def show(error: BaseException, *, as_json: bool = False) -> None:
    """Print an error: JSON on stdout, or the message and the next step on stderr."""
    found = describe(error)
    if as_json:
        emit_json({"error": found.to_json()})
        return
    note(f"error: {found.message}")
    if found.advice:
        note(f"  next: {worded(found.advice)}")


def open_closed_streams() -> None:
    """Open on nothing what the caller closed of stdin, stdout and stderr (``>&-``).

    A file or a database opened later would get its number, and what is printed there.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def _silence_stdout() -> None:
    """Point stdout at nothing, so that the interpreter's last flush does not complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _usage_hint(error: TyperException) -> str:
    context: typer.Context | None = getattr(error, "ctx", None)
    return f"{context.command_path if context else 'ragstream'} --help"
