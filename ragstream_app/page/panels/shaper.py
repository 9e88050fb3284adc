"""Prompt Shaper: what A2 made of the ask and how it is to be answered, to be changed by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from ragstream_app.output.markup import literal
from ragstream_app.page.panels import prompt
from ragstream_app.page.panels.shared import desk, reported_errors, workspace
from ragstream_app.page.prompt_session import button_of, edit, label_of, revert, values_of
from ragstream_core.prompts.chain import BUTTONS
from ragstream_core.prompts.edits import HEADERS, SHAPE, value_of

if TYPE_CHECKING:
    from ragstream_core.prompts.made_prompt import MadePrompt

BUTTON = button_of("intent")

# From here on an edit of the shaper takes the steps away.
AFTER = BUTTONS[BUTTONS.index(BUTTON) + 1]
NAMES = {"system": "System", "role": "Role", "audience": "Audience", "tone": "Tone",
         "depth": "Depth", "format": "Format"}  # fmt: skip


def show() -> None:
    """Draw the panel: fields, where each value comes from, Apply and Revert."""
    step = desk().steps.get(BUTTON)
    if step is None:
        st.text(
            f"Nothing yet: {label_of(BUTTON)} proposes intent, domain, deliverable and headers."
        )
        return
    mark = step.super_prompt.extras.trail[-1][1][:12]  # other values, other fields
    with st.form("shaper", border=False):
        for targets in (tuple(SHAPE), HEADERS[:3], HEADERS[3:]):
            for column, target in zip(st.columns(3, gap="small"), targets, strict=True):
                with column:
                    _field(step, target, mark)
        apply, back, said = st.columns([1, 1, 4], gap="small", vertical_alignment="center")
        apply.form_submit_button("Apply", on_click=on_apply, args=(mark,), width="stretch")
        back.form_submit_button(
            "Revert", on_click=on_revert, disabled=step.unedited is None, width="stretch"
        )
        said.text(
            f"Apply changes the result of {label_of(BUTTON)}; the stages after it are pressed "
            "again. What is searched for is changed in the Prompt."
        )


def on_apply(mark: str) -> None:
    """Take in the fields that were changed.

    Args:
        mark: Of the fields that were shown.
    """
    step = desk().steps.get(BUTTON)
    shown = {target: st.session_state.get(_key(target, mark)) for target in (*SHAPE, *HEADERS)}
    with reported_errors():
        if step is not None:
            values = {
                target: value
                for target, value in shown.items()
                if value is not None and value != value_of(step.super_prompt, target)
            }
            prompt.remember(AFTER)
            edit(desk(), BUTTON, values, workspace())
    prompt.take_in_press()


def on_revert() -> None:
    """Bring back what A2 made."""
    prompt.remember(AFTER)
    with reported_errors():
        revert(desk(), BUTTON)
    prompt.take_in_press()


def origin(step: MadePrompt, target: str) -> str:
    """Say where the value of a target comes from.

    Args:
        step: Of the shaper's button.
        target: One of `SHAPE` or `HEADERS`.
    """
    if target in values_of(step):
        was = value_of((step.unedited or step).super_prompt, target)
        return f"edited, was {literal(was)}" if was else "edited, was empty"
    extras = step.super_prompt.extras
    shape = extras.shape
    if target in SHAPE:
        return "found by A2" if shape.intent else "A2 is off"
    if target in shape.proposed:
        return "proposed by A2"
    if target in extras.explicit:
        return "you wrote it"
    if target in extras.persona:
        return "from the settings"
    return "default" if value_of(step.super_prompt, target) else "not set"


def _field(step: MadePrompt, target: str, mark: str) -> None:
    value, key = value_of(step.super_prompt, target), _key(target, mark)
    if target in SHAPE:
        options = list(dict.fromkeys([value, *SHAPE[target]]))
        label = f"{target.capitalize()} · {origin(step, target)}"
        st.selectbox(
            label,
            options,
            key=key,
            disabled=not step.super_prompt.extras.shape.intent,
            accept_new_options=target == "domain",
        )
        return
    label = f"{NAMES[target]} · {origin(step, target)}"
    if "\n" in value:
        st.text_area(label, value=value, key=key, height="content")
    else:
        st.text_input(label, value=value, key=key)


def _key(target: str, mark: str) -> str:
    return f"shaper {target} {mark}"
