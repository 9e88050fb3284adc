"""A press of a button as a job in a thread of its own, so that a page drawn again attaches to it.

A desk runs one job at a time: a press while one runs gives the running one. Nothing here knows
Streamlit, and nothing here is stopped by a page that goes away.
"""

from __future__ import annotations

import threading
import time
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from ragstream_app.page.prompt_session import press, press_all
from ragstream_core.errors import Stopped
from ragstream_core.prompts.chain import OPS, ops_of

if TYPE_CHECKING:
    from ragstream_app.page.prompt_session import PromptSession
    from ragstream_core.prompts.inputs import PromptRequest
    from ragstream_core.wiring.workspace import Workspace

RUN_ALL = "Run all"
PATIENCE_S = 0.4
"""How long the page waits for a press before it shows its progress instead."""
_starting = threading.Lock()


class Job:
    """One press at work; what it leaves behind is on the desk.

    Args:
        button: One of `BUTTONS`, or `RUN_ALL`.
        fresh: `RUN_ALL` runs the stages whatever is kept.
    """

    def __init__(self, button: str, *, fresh: bool = False) -> None:
        self.button = button
        self._fresh = fresh
        self.error: BaseException | None = None
        self._ops = OPS if button == RUN_ALL else ops_of(button)
        self._passed = 0
        self._started = time.monotonic()
        self._seconds = 0.0
        self._ended = threading.Event()
        self._stop = threading.Event()

    @property
    def done(self) -> bool:
        """Whether it has ended, well or not."""
        return self._ended.is_set()

    @property
    def stage(self) -> str:
        """The op at work now, empty once it has ended."""
        return "" if self.done else self._ops[min(self._passed, len(self._ops) - 1)]

    @property
    def fraction(self) -> float:
        """How many of its ops are through, 0.0 to 1.0."""
        return 1.0 if self.done else min(self._passed / len(self._ops), 0.99)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the press, or that it took."""
        return self._seconds if self.done else time.monotonic() - self._started

    @property
    def stopping(self) -> bool:
        """Whether a person asked it to end."""
        return self._stop.is_set()

    def stop(self) -> None:
        """Have it end after the op that is at work; steps that are through stay."""
        self._stop.set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for its end; return whether it has ended."""
        return self._ended.wait(timeout_s)

    def result(self, timeout_s: float | None = None) -> None:
        """Wait for its end and raise what a stage raised; the steps are on the desk.

        Raises:
            TimeoutError: It is still at work.
            RagstreamError: A stage refused or failed.
        """
        if not self.wait(timeout_s):
            raise TimeoutError(f"{self.button} is still running")
        if self.error is not None:
            raise self.error

    def passed(self, op: str) -> None:
        """Note that an op is through; the audit's second pass does not count again.

        Raises:
            Stopped: A person asked for its end, and there is something left to stop.
        """
        self._passed = max(self._passed, self._ops.index(op) + 1 if op in self._ops else 0)
        if self.stopping and op != self._ops[-1]:
            raise Stopped(f"you stopped {self.button}", hint="press it again to continue")

    def _run(self, desk: PromptSession, request: PromptRequest, workspace: Workspace) -> None:
        try:
            with _session(desk, workspace):
                if self.button == RUN_ALL:
                    press_all(desk, request, workspace, fresh=self._fresh, observe=self.passed)
                else:
                    press(desk, self.button, request, workspace, observe=self.passed)
        except BaseException as error:  # shown by whoever asks for the result
            self.error = error
        finally:
            self._seconds = time.monotonic() - self._started
            self._ended.set()


def _session(desk: PromptSession, workspace: Workspace) -> AbstractContextManager[None]:
    """Have the Debug Logger, where it is on, write to the files of this desk."""
    if not workspace.config.settings.debug.enabled:
        return nullcontext()
    from ragstream_core.wiring import debug_log

    return debug_log.session(desk.id)


def start(
    desk: PromptSession,
    button: str,
    request: PromptRequest,
    workspace: Workspace,
    *,
    fresh: bool = False,
) -> Job:
    """Press a button in a thread; where one of this desk is at work, return that one instead.

    Args:
        desk: The tab's desk; ``desk.job`` is the newest job, at work or ended.
        button: One of `BUTTONS`, or `RUN_ALL`.
        request: What the page asks for now; `press` says who reads what of it.
        workspace: Runs the stages.
        fresh: `RUN_ALL` runs the stages whatever is kept.
    """
    with _starting:
        if desk.job is not None and not desk.job.done:
            return desk.job
        job = Job(button, fresh=fresh)
        given = (desk, request, workspace)
        threading.Thread(target=job._run, args=given, name=f"press {button}", daemon=True).start()
        desk.job = job  # not before: one that never started would be at work for ever
    return job


def flush(timeout_s: float) -> bool:
    """Wait until the runs of all presses so far are written; return whether they are.

    Args:
        timeout_s: Longest wait in seconds.
    """
    from ragstream_assets.recorder.writer import writer

    return writer.flush(timeout_s)


def close_stale_runs(workspace: Workspace) -> None:
    """Have the runs of a page that died marked as failed, in the background; once a process."""
    from ragstream_assets.recorder.recorder import close_stale_runs as close

    close(workspace)
