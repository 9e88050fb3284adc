"""The prompt of one tab: what its buttons do, and what a person edits; without Streamlit.

A button runs its ops on the prompt as the button before it left it, so pressing one again replaces
its own step and drops the later ones. "Build prompt" runs the same ops in one go and lays a step
for each button. A step remembers what it was before the first edit: edits are always made of what
the chain had made, and taking them back gives exactly that.
"""

from __future__ import annotations

import json
import threading
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ragstream_core.errors import UsageError
from ragstream_core.prompts.chain import BUTTONS, ops_of
from ragstream_core.prompts.edits import PLACES, edits_key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ragstream_app.page.jobs.presses import PressJob
    from ragstream_core.prompts.inputs import PromptRequest
    from ragstream_core.prompts.made_prompt import MadePrompt
    from ragstream_core.records import SuperPrompt
    from ragstream_core.settings import ChainSettings
    from ragstream_core.wiring.workspace import Workspace


# The one button that runs all stages.
BUILD = "Build prompt"
# What a person reads on the button of each stage.
LABELS = dict(
    zip(
        BUTTONS,
        ("Read", "Shape", "Search", "Rank", "Filter", "Condense", "Check", "Write"),
        strict=True,
    )
)


def label_of(button: str) -> str:
    """Return what a person reads on one of `BUTTONS`, or on `BUILD`."""
    return LABELS.get(button, button)


def button_of(target: str) -> str:
    """Return the button whose result a target is edited in."""
    return next(button for button in BUTTONS if PLACES[target] in ops_of(button))


def values_of(step: MadePrompt) -> dict[str, str]:
    """Return what a person changed in a step's result, target → value."""
    if step.unedited is None:
        return {}
    before = step.unedited.super_prompt.extras.edits
    return {
        edit.target: edit.value for edit in step.super_prompt.extras.edits if edit not in before
    }


def edit(desk: PromptSession, button: str, values: Mapping[str, str], workspace: Workspace) -> None:
    """Change a step's result by hand and drop the later steps; earlier edits of it stay.

    Args:
        desk: Changed in place; on an error it stays as it was.
        button: The step's.
        values: Target → new value; what the chain had made is no edit.
        workspace: Keeps an edited Super-Prompt.

    Raises:
        UsageError: There is no such step, a press is at work, or a value cannot be it.
        RagstreamError: The prompt cannot be kept.
        OSError: Disk full, permission denied.
    """
    from ragstream_core.services import edit_prompt

    _require_idle(desk)
    if button not in desk.steps:
        told = f"press {label_of(desk.next_button)}, or {BUILD}"
        raise UsageError(f"{label_of(button)} has no result to edit", hint=told)
    step = desk.steps[button]
    base = step.unedited or step
    wanted = {**values_of(step), **values}
    prompt, key = edit_prompt.edit(
        workspace, base.super_prompt, wanted, run_id=base.run_id, timings_ms=base.timings_ms
    )
    if edits_key(prompt.extras.edits) == edits_key(step.super_prompt.extras.edits):
        return
    if prompt is base.super_prompt:
        made = base
    else:
        made = replace(base, super_prompt=prompt, edited_key=key, unedited=base)
    _replace(desk, button, made)


def revert(desk: PromptSession, button: str) -> None:
    """Take back all edits of a step's result; where there were any, the later steps go.

    Args:
        desk: Changed in place.
        button: The step's.

    Raises:
        UsageError: A press is at work.
    """
    _require_idle(desk)
    step = desk.steps.get(button)
    if step is not None and step.unedited is not None:
        _replace(desk, button, step.unedited)


def _require_idle(desk: PromptSession) -> None:
    """Refuse to take away the steps that a press at work goes on from.

    Raises:
        UsageError: A press is at work.
    """
    if desk.job is not None and desk.job.running:
        raise UsageError(
            f"{label_of(desk.job.button)} is running", hint="edit once it has finished"
        )


def _replace(desk: PromptSession, button: str, step: MadePrompt) -> None:
    before = BUTTONS[: BUTTONS.index(button)]
    desk.steps = {**{name: desk.steps[name] for name in before}, button: step}


# What of a request the first button pins; its settings count at any button.
TAKEN_IN = ("text", "projects", "files", "diffs", "off", "lock", "as_of", "session")
_LAST_OPS = {ops_of(button)[-1]: button for button in BUTTONS}


@dataclass(slots=True)
class PromptSession:
    """One person's prompt on its way.

    Attributes:
        request: What the first button took in; None before it was pressed.
        steps: Button → what it left behind, in the order of the chain.
        job: The newest press (`presses.start`), running or ended.
        starting: Held while a press is started.
        id: Names its files of the Debug Logger, and its tab.
    """

    request: PromptRequest | None = None
    steps: dict[str, MadePrompt] = field(default_factory=dict)
    job: PressJob | None = field(default=None, compare=False, repr=False)
    starting: threading.Lock = field(default_factory=threading.Lock, compare=False, repr=False)
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:12], compare=False)

    @property
    def last(self) -> MadePrompt | None:
        """The newest step, or None."""
        return next(reversed(self.steps.values()), None)

    @property
    def next_button(self) -> str:
        """The button that comes next, empty when all were pressed."""
        return BUTTONS[len(self.steps)] if len(self.steps) < len(BUTTONS) else ""

    def stale(self, request: PromptRequest) -> list[str]:
        """Return what of a request only the first button takes in and has changed since."""
        taken = self.request
        if taken is None:
            return []
        return [name for name in TAKEN_IN if getattr(request, name) != getattr(taken, name)]


def press(
    desk: PromptSession,
    button: str,
    request: PromptRequest,
    workspace: Workspace,
    *,
    observe: Callable[[str], None] | None = None,
) -> None:
    """Run a button's stages and keep the result; on an error the desk stays as it was.

    Args:
        desk: Changed in place.
        button: One of `BUTTONS`.
        request: What the page asks for now. The first button takes in all of it, a later one
            the settings: those that differ from its input's change from this button on.
        workspace: Runs the stages.
        observe: Told the name of every op that has passed.

    Raises:
        UsageError: An earlier button has to be pressed first; it is named.
        RagstreamError: A stage refused or failed.
    """
    from ragstream_core.wiring.make_prompt import make_prompt, make_stages

    position, ops = BUTTONS.index(button), ops_of(button)
    if position > len(desk.steps):
        missing = label_of(desk.next_button)
        hint = f"press {missing}, or {BUILD}"
        raise UsageError(f"{label_of(button)} needs {missing} first", hint=hint)
    told = _telling(observe)
    if position == 0:
        done = make_prompt(workspace, request, through=ops[-1], on_step=told)
        desk.request, desk.steps = request, {button: done}
        return
    before = desk.steps[BUTTONS[position - 1]]
    done = make_stages(
        workspace,
        before,
        ops,
        settings=_changes(desk.request or request, before.super_prompt, ops[0], request, workspace),
        on_step=told,
    )
    kept = {name: desk.steps[name] for name in BUTTONS[:position]}
    desk.steps = {**kept, button: done}


def press_all(
    desk: PromptSession,
    request: PromptRequest,
    workspace: Workspace,
    *,
    fresh: bool = False,
    observe: Callable[[str], None] | None = None,
) -> None:
    """Run the stages of the eight buttons in order: a step for each button.

    Where nothing has changed since the same prompt was asked for, its record gives the steps.

    Args:
        desk: Changed in place, a step at a time.
        request: What the page asks for now.
        workspace: Runs the stages.
        fresh: Run them whatever is kept.
        observe: Told the name of every op that has passed.

    Raises:
        RagstreamError: A stage refused or failed; the steps before it stay.
    """
    from ragstream_core.wiring.make_prompt import make_prompt

    told = _telling(observe)
    laid: dict[str, MadePrompt] = {}

    def lay(op: str, after: MadePrompt) -> None:
        button = _completed(after)
        if button:
            spent = _sums(laid)
            own = {o: ms - spent.get(o, 0.0) for o, ms in after.timings_ms.items()}
            laid[button] = replace(after, timings_ms={o: ms for o, ms in own.items() if ms > 0})
            desk.request, desk.steps = request, dict(laid)
        told(op, after)

    make_prompt(workspace, request, fresh=fresh, on_step=lay)


def _completed(after: MadePrompt) -> str:
    """Return the button whose last op has passed just now, the audit's second pass included."""
    from ragstream_core.prompts.chain import AGAIN, AUDIT, RERUN, rescoped

    step = list(after.passed)[-1]
    if step == f"{AGAIN}.{RERUN[-1]}":
        return _LAST_OPS[AUDIT]
    if step == AUDIT and rescoped(after.super_prompt):
        return ""
    return _LAST_OPS.get(step, "")


def _changes(
    taken: PromptRequest, prompt: SuperPrompt, op: str, request: PromptRequest, workspace: Workspace
) -> dict[str, str]:
    """Return the settings that are asked for now and do not hold in a prompt, as text."""
    from ragstream_core.config import overlay
    from ragstream_core.prompts.inputs import changes_at, inputs_of

    made = changes_at(inputs_of(prompt), op)
    held = overlay(_chain(taken, workspace), made).model_dump()
    asked = _chain(request, workspace).model_dump()
    return {
        f"{section}.{key}": _text(value)
        for section, values in asked.items()
        for key, value in values.items()
        if value != held[section][key]
    }


def _chain(request: PromptRequest, workspace: Workspace) -> ChainSettings:
    from ragstream_core.wiring.token_budget import within_window

    chosen = workspace.config.with_task(request.task, explicit=request.settings)
    return within_window(chosen.chain())


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _sums(steps: Mapping[str, MadePrompt]) -> dict[str, float]:
    """Return what each op took in some steps, added up."""
    sums: dict[str, float] = {}
    for step in steps.values():
        for op, ms in step.timings_ms.items():
            sums[op] = sums.get(op, 0.0) + ms
    return sums


def _telling(observe: Callable[[str], None] | None) -> Callable[[str, MadePrompt], None]:
    return lambda op, _: observe(op) if observe is not None else None
