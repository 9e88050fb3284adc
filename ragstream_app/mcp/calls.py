"""One call of a client: its work in a thread, its progress, its cancellation, its errors."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar, assert_never

import anyio
from anyio import from_thread, to_thread
from pydantic import ValidationError

from ragstream_app.session import describe
from ragstream_core.errors import (
    Action,
    AddOption,
    AllowSecrets,
    ChooseProject,
    FreeSpace,
    InjectFile,
    RagstreamError,
    RunCommand,
    RunProgram,
    SetSetting,
    SetVariable,
    Stopped,
    SwitchOff,
    TryAgain,
    on_the_command_line,
    worded,
)

if TYPE_CHECKING:
    from mcp.server.session import ServerSession

# Calls that work at once; further ones wait. More would share the same cores, and more memory.
THREADS = 4
# Of many steps of one phase, so often one is told.
EVERY_S = 0.2
_TOOLS = {
    "search": "search", "explain": "explain", "prompt": "build_prompt", "why-not": "explain"
}  # fmt: skip
_UNEXPECTED = "tell the user; the server's log, its stderr, has the details"
_log = logging.getLogger(__name__)
T = TypeVar("T")


class Call:
    """What the work of a call can tell its client, from its thread.

    Args:
        session: The client's.

    Attributes:
        steps: How many times `progress` will be called; 0: not known.
    """

    def __init__(self, session: ServerSession) -> None:
        self.steps = 0
        self._session = session
        self._cancelled = anyio.get_cancelled_exc_class()
        self._told = 0
        self._last = ("", 0.0)

    def progress(self, phase: str, done: int, total: int) -> None:
        """Tell how far the work is; end it if nobody waits for it any more.

        Args:
            phase: What is done now.
            done: How much of it is done.
            total: How much there is; 0: not known.

        Raises:
            Stopped: The client has cancelled the call, or is gone.
        """
        try:
            from_thread.check_cancelled()
        except self._cancelled:
            raise Stopped("the client cancelled the call", hint=TryAgain()) from None
        last, at = self._last
        now = time.monotonic()
        if phase == last and done != total and now - at < EVERY_S:
            return
        self._last = phase, now
        self._told += 1  # the protocol wants it to rise, whatever the phases count
        most = max(self.steps, self._told) if self.steps else None
        text = f"{phase}: {done} of {total}" if total else phase
        from_thread.run(partial(self._session.report_progress, self._told, most, text))


class Worker:
    """Runs the work of calls in a few threads."""

    def __init__(self) -> None:
        self._limiter: anyio.CapacityLimiter | None = None

    async def run(self, work: Callable[[], T]) -> T:
        """Run work in a thread, after calls that came earlier.

        A cancelled call ends at its next step: what it writes is whole or not there.
        """
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(THREADS)
        return await to_thread.run_sync(work, limiter=self._limiter)


def error_text(error: Exception) -> str:
    """Return what went wrong and what an agent can do about it; the log gets what is unexpected."""
    if isinstance(error, ValidationError):
        faults = [f"{_place(fault['loc'])}: {fault['msg']}" for fault in error.errors()]
        return f"wrong arguments: {'; '.join(faults)}\nnext: call it again with these put right"
    if isinstance(error, (RagstreamError, OSError)):
        return f"{describe(error).type}: {told(error)}"
    _log.error("a call failed", exc_info=error)
    found = describe(error)
    return f"{found.type}: {found.message}\nnext: {_UNEXPECTED}"


def told(error: RagstreamError | OSError) -> str:
    """Return what went wrong and, on a line of its own, what an agent can do about it."""
    found = describe(error)
    advice = worded(found.advice, for_an_agent)
    return found.message + (f"\nnext: {advice}" if advice else "")


def _place(loc: tuple[int | str, ...]) -> str:
    return ".".join(map(str, loc)) or "arguments"


def for_an_agent(action: Action, *, alone: bool) -> str:
    """Return what an agent can do itself, or has to ask its user for.

    Args:
        action: What to do.
        alone: Whether it is the whole advice.
    """
    match action:
        case RunCommand() | RunProgram():
            return _instead_of(action, alone=alone)
        case AddOption(option):
            return f"ask the user to run it with {option}"
        case SetSetting(name, value):
            return f"ask the user to set {name} to {value} in ragstream.yaml"
        case SetVariable(name):
            return f"ask the user to set the environment variable {name}"
        case SwitchOff(files):
            return f"ask the user to leave {files} out"
        case ChooseProject():
            return "give `project`; the tool `list_projects` lists them"
        case AllowSecrets():
            return "ask the user whether it may be sent"
        case InjectFile():
            return "ask the user to put the whole file into the prompt"
        case FreeSpace():
            return "ask the user to free disk space"
        case TryAgain():
            return "call the tool again"
        case _:
            assert_never(action)


def _instead_of(action: RunCommand | RunProgram, *, alone: bool) -> str:
    """Return the tool that does what a command does, or how to speak of the command."""
    verb = action.verb if isinstance(action, RunCommand) else ""
    if verb in _TOOLS:
        tool = f"the tool `{_TOOLS[verb]}`"
        return f"call {tool}" if alone else tool
    if action == RunCommand("status"):
        return "read the list of resources" if alone else "the list of resources"
    line = on_the_command_line(action, alone=False)
    return f"ask the user to run {line}" if alone else f"the user's command {line}"
