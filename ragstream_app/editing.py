"""Edits on the desk: what a person changes of a step's result holds, and later steps go.

Nothing here knows Streamlit. A step remembers what it was before the first edit, so that edits are
always made of what the chain had made, and taking them back gives exactly that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ragstream_core.errors import UsageError
from ragstream_core.orchestration.chain import BUTTONS, ops_of
from ragstream_core.orchestration.edits import PLACES, edits_key, edits_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ragstream_app.desk import Desk, Step
    from ragstream_core.build.workspace import Workspace


def button_of(target: str) -> str:
    """Return the button whose result a target is edited in."""
    return next(button for button in BUTTONS if PLACES[target] in ops_of(button))


def values_of(step: Step) -> dict[str, str]:
    """Return what a person changed in a step's result, target → value."""
    if step.unedited is None:
        return {}
    before = edits_of(step.unedited.prompt)
    return {edit.target: edit.value for edit in edits_of(step.prompt) if edit not in before}


def edit(desk: Desk, button: str, values: Mapping[str, str], workspace: Workspace) -> None:
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
    from ragstream_core.build import editing

    _require_idle(desk)
    if button not in desk.steps:
        raise UsageError(f"{button} has no result to edit", hint=f"press {desk.next_button}")
    step = desk.steps[button]
    base = step.unedited or step
    wanted = {**values_of(step), **values}
    prompt, key = editing.edit(
        workspace, base.prompt, wanted, run_id=base.run_id, timings_ms=base.timings_ms
    )
    if edits_key(edits_of(prompt)) == edits_key(edits_of(step.prompt)):
        return
    if prompt is base.prompt:
        made = base
    else:
        made = replace(base, prompt=prompt, prompt_key=key, unedited=base)
    _replace(desk, button, made)


def revert(desk: Desk, button: str) -> None:
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


def _require_idle(desk: Desk) -> None:
    """Refuse to take away the steps that a press at work goes on from.

    Raises:
        UsageError: A press is at work.
    """
    if desk.job is not None and not desk.job.done:
        raise UsageError(f"{desk.job.button} is running", hint="edit once it has finished")


def _replace(desk: Desk, button: str, step: Step) -> None:
    before = BUTTONS[: BUTTONS.index(button)]
    desk.steps = {**{name: desk.steps[name] for name in before}, button: step}
