"""Edits that a press dropped: said, and offered again, since a person typed them."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from ragstream_app.editing import edit, values_of
from ragstream_app.panels.conversation.choice import home
from ragstream_app.panels.shared import desk, report
from ragstream_core.orchestration.chain import BUTTONS
from ragstream_core.prompting.reparse import SUPER_PROMPT

KEY = "dropped_edits"
"""Button → target → value, of this tab."""


def remember(first: str) -> None:
    """Remember the edits of the steps that a press replaces or takes away.

    Args:
        first: The first button whose step goes; the later ones go as well.
    """
    going = BUTTONS[BUTTONS.index(first) :]
    found = {name: values_of(step) for name, step in desk().steps.items() if name in going}
    known: dict[str, Mapping[str, str]] = st.session_state.setdefault(KEY, {})
    known.update({name: values for name, values in found.items() if values})


def lost() -> dict[str, Mapping[str, str]]:
    """Return the remembered edits that the steps do not have now, by button."""
    known: Mapping[str, Mapping[str, str]] = st.session_state.get(KEY, {})
    steps = desk().steps
    return {
        name: values
        for name, values in known.items()
        if name not in steps or not values.items() <= values_of(steps[name]).items()
    }


def show(*, busy: bool) -> None:
    """Say which edits are gone, and offer the first of them that there is a step for.

    Args:
        busy: A press is at work: what is gone is not known yet.
    """
    gone = {} if busy else lost()
    if not gone:
        return
    said, again, forget = st.columns([6, 3, 2], gap="small", vertical_alignment="center")
    said.text(f"Built again, without your changes: {', '.join(map(_named, gone.values()))}.")
    ready = [name for name in gone if name in desk().steps]
    again.button(
        "Apply them again",
        disabled=not ready,
        on_click=_apply,
        args=tuple(ready[:1]),
        width="stretch",
        help="Puts what you typed into the newest result; later stages are pressed again.",
    )
    forget.button(
        "Forget them",
        key="forget dropped",
        on_click=_forget,
        width="stretch",
        help="Keeps the result as the chain made it.",
    )


def _named(values: Mapping[str, str]) -> str:
    return "the Super-Prompt" if SUPER_PROMPT in values else ", ".join(values)


def _apply(name: str) -> None:
    report(None)
    try:
        edit(desk(), name, st.session_state[KEY][name], home())
    except Exception as error:  # the page's error boundary
        report(error)


def _forget() -> None:
    st.session_state.pop(KEY, None)
