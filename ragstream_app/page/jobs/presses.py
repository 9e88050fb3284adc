"""Presses of the eight buttons: a desk runs one at a time, and a second press gives the first."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING

from ragstream_app.page.jobs.background import BackgroundJob, Report
from ragstream_app.page.prompt_session import BUILD, label_of, press, press_all
from ragstream_core.errors import RagstreamError, Stopped
from ragstream_core.prompts.chain import CHAIN, OPS, ops_of

if TYPE_CHECKING:
    from ragstream_app.page.prompt_session import PromptSession
    from ragstream_core.prompts.inputs import PromptRequest
    from ragstream_core.wiring.workspace import Workspace

# How long the page waits for a press before it shows its progress instead.
PATIENCE_S = 0.4
_BUTTON_OF = {spec.op: spec.button for spec in CHAIN}


class PressJob(BackgroundJob[None]):
    """One press; the steps that it makes are on the desk.

    Args:
        button: One of `BUTTONS`, or `BUILD`.
        desk: The tab's desk.
        request: What the page asks for now.
        workspace: Runs the stages.
        fresh: `BUILD` runs the stages whatever is kept.
    """

    def __init__(
        self,
        button: str,
        desk: PromptSession,
        request: PromptRequest,
        workspace: Workspace,
        *,
        fresh: bool = False,
    ) -> None:
        super().__init__(button, self._press)
        self.button = button
        self._given = (desk, request, workspace)
        self._fresh = fresh
        self._ops = OPS if button == BUILD else ops_of(button)
        self._passed = 0
        self._took: dict[str, float] = {}

    @property
    def stage(self) -> str:
        """The op that runs now, empty once the press has ended."""
        return self._ops[min(self._passed, len(self._ops) - 1)] if self.running else ""

    @property
    def line(self) -> str:
        """The button whose stage runs now, the model it loads, and the seconds so far."""
        what = "stops after " if self.stopped else ""
        model = f": loading {self._model}" if self._model else ""
        return f"{what}{label_of(_BUTTON_OF.get(self.stage, ''))}{model} · {self.elapsed_s:.0f} s"

    @property
    def detail(self) -> str:
        """The stages that are through, with the seconds that each took, and those that wait."""
        buttons = list(dict.fromkeys(_BUTTON_OF[op] for op in self._ops))
        now = _BUTTON_OF.get(self.stage, "")
        spent = self.elapsed_s - sum(self._took.values())
        told = []
        for button in buttons:
            took = self._took.get(button, 0.0)
            name = label_of(button)
            if button == now:
                told.append(f"▸ {name} {took + spent:.1f} s")
            else:
                told.append(f"✓ {name} {took:.1f} s" if button in self._took else name)
        return " · ".join(told) if len(told) > 1 else ""

    @property
    def _model(self) -> str:
        """The model that the stage at work has to load first; empty for none."""
        from ragstream_core.wiring.models import model_to_load

        _, request, workspace = self._given
        if self.running:
            with suppress(RagstreamError):  # wrong settings; the press itself says so
                config = workspace.config.with_task(request.task, explicit=request.settings)
                return model_to_load(self.stage, config)
        return ""

    @property
    def fraction(self) -> float:
        """How many of its ops are through, 0.0 to 1.0."""
        return min(self._passed / len(self._ops), 0.99) if self.running else 1.0

    def passed(self, op: str) -> None:
        """Note that an op is through; the audit's second pass does not count again.

        Raises:
            Stopped: A person asked for the end, and there is something left to stop.
        """
        self._passed = max(self._passed, self._ops.index(op) + 1 if op in self._ops else 0)
        spent = self.elapsed_s - sum(self._took.values())
        button = _BUTTON_OF.get(op, self.button)
        self._took = {**self._took, button: self._took.get(button, 0.0) + spent}
        if self.stopped and op != self._ops[-1]:
            raise Stopped(f"you stopped {label_of(self.button)}", hint="press it again to continue")

    def _press(self, _: Report) -> None:
        """Run the stages.

        Raises:
            RagstreamError: A stage refused or failed, or the press was stopped.
        """
        desk, request, workspace = self._given
        with _session(desk, workspace):
            if self.button == BUILD:
                press_all(desk, request, workspace, fresh=self._fresh, observe=self.passed)
            else:
                press(desk, self.button, request, workspace, observe=self.passed)


def _session(desk: PromptSession, workspace: Workspace) -> AbstractContextManager[None]:
    """Have the Debug Logger, if it is on, write to the files of this desk."""
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
) -> PressJob:
    """Press a button in a thread; if a press of this desk runs, return that one instead.

    Args:
        desk: The tab's desk; ``desk.job`` is its newest press, running or ended.
        button: One of `BUTTONS`, or `BUILD`.
        request: What the page asks for now; `press` says which button reads what of it.
        workspace: Runs the stages.
        fresh: `BUILD` runs the stages whatever is kept.
    """
    with desk.starting:
        if desk.job is None or not desk.job.running:
            # assigned only once it runs: a press that never started would block the desk for ever
            desk.job = PressJob(button, desk, request, workspace, fresh=fresh).start()
        return desk.job
