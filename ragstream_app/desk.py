"""What the page remembers and what its buttons do; nothing here knows Streamlit.

A button runs its ops on the prompt as the button before it left it, so pressing one again replaces
its own step and drops the later ones. "Run all" presses the same buttons one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ragstream_core.errors import UsageError
from ragstream_core.orchestration.chain import BUTTONS, ops_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ragstream_assets.recorder import RecordedPrompt
    from ragstream_core.build.workspace import Workspace
    from ragstream_core.orchestration.inputs import PromptRequest
    from ragstream_core.records import SuperPrompt


@dataclass(frozen=True, slots=True)
class Step:
    """What one button left behind.

    Attributes:
        prompt: The prompt after it.
        prompt_key: Key of the finished prompt, empty before the builder.
        timings_ms: Op → milliseconds.
        recorded: What the recorder returned; None where recording is off.
    """

    prompt: SuperPrompt
    prompt_key: str
    timings_ms: Mapping[str, float]
    recorded: RecordedPrompt | None = None

    @property
    def run_id(self) -> str:
        """The Dagster run, empty where it was not recorded."""
        return self.recorded.run_id if self.recorded else ""

    @property
    def notes(self) -> tuple[str, ...]:
        """What the recorder had to say."""
        return self.recorded.warnings if self.recorded else ()


@dataclass(slots=True)
class Desk:
    """One person's prompt on its way.

    Attributes:
        request: What PreProcessing took in; None before it was pressed.
        steps: Button → what it left behind, in the order of the chain.
    """

    request: PromptRequest | None = None
    steps: dict[str, Step] = field(default_factory=dict)

    @property
    def last(self) -> Step | None:
        """The newest step, or None."""
        return next(reversed(self.steps.values()), None)

    @property
    def next_button(self) -> str:
        """The button that comes next, empty when all were pressed."""
        return BUTTONS[len(self.steps)] if len(self.steps) < len(BUTTONS) else ""


def press(desk: Desk, button: str, request: PromptRequest, workspace: Workspace) -> None:
    """Run a button's stages and keep the result; on an error the desk stays as it was.

    Args:
        desk: Changed in place.
        button: One of `BUTTONS`.
        request: What the page asks for now; only the first button reads it.
        workspace: Runs the stages.

    Raises:
        UsageError: An earlier button has to be pressed first; it is named.
        RagstreamError: A stage refused or failed.
    """
    position = BUTTONS.index(button)
    if position == 0:
        step = _first(button, request, workspace)
        desk.request, desk.steps = request, {button: step}
        return
    if position > len(desk.steps):
        missing = desk.next_button
        raise UsageError(f"{button} needs {missing} first", hint=f"press {missing}, or Run all")
    before = desk.steps[BUTTONS[position - 1]]
    step = _next(button, before, workspace)
    kept = {name: desk.steps[name] for name in BUTTONS[:position]}
    desk.steps = {**kept, button: step}


def press_all(desk: Desk, request: PromptRequest, workspace: Workspace) -> None:
    """Press the eight buttons in order.

    Raises:
        RagstreamError: A stage refused or failed; the steps before it stay.
    """
    for button in BUTTONS:
        press(desk, button, request, workspace)


def _first(button: str, request: PromptRequest, workspace: Workspace) -> Step:
    ops = ops_of(button)
    if _is_recorded(workspace):
        from ragstream_assets.recorder import record_prompt

        return _recorded(record_prompt(workspace, request, through=ops[-1]))
    from ragstream_core.orchestration.inputs import begin

    return _plain(ops, begin(workspace.pin(request)), workspace)


def _next(button: str, before: Step, workspace: Workspace) -> Step:
    ops = ops_of(button)
    if before.recorded is not None:
        from ragstream_assets.recorder import record_stage

        return _recorded(record_stage(workspace, before.recorded, ops))
    return _plain(ops, before.prompt, workspace)


def _plain(ops: tuple[str, ...], prompt: SuperPrompt, workspace: Workspace) -> Step:
    from ragstream_core.orchestration.chain import run_chain

    timings: dict[str, float] = {}

    def observe(op: str, _: SuperPrompt, seconds: float) -> None:
        timings[op] = timings.get(op, 0.0) + seconds * 1000

    result = run_chain(workspace.stage, prompt, first=ops[0], through=ops[-1], observe=observe)
    finished = bool(result.extras.get("super_prompt"))
    key = workspace.finish(result, timings_ms=timings).prompt_key if finished else ""
    return Step(result, key, timings)


def _recorded(done: RecordedPrompt) -> Step:
    key = done.record.prompt_key if done.record else ""
    return Step(done.prompt, key, done.timings_ms, done)


def _is_recorded(workspace: Workspace) -> bool:
    return workspace.config.settings.dagster.record == "dagster"
