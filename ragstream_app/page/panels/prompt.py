"""The Prompt, the button that builds it, its eight stages, and edits that a press dropped.

Nothing runs without a click. A press runs in a thread; a page that is drawn again follows it.
"""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from ragstream_app.output.stages import stage_text
from ragstream_app.output.words import moment
from ragstream_app.page.jobs import presses
from ragstream_app.page.panels import model_choice, notices
from ragstream_app.page.panels.history.choice import home
from ragstream_app.page.panels.shared import (
    PROMPT_KEY,
    SHOWN_KEY,
    desk,
    report,
    reported_errors,
    request_now,
    run_link,
    shown_errors,
    stale,
    super_prompt_key,
    workspace,
)
from ragstream_app.page.prompt_session import BUILD, LABELS, edit, values_of
from ragstream_core.prompts.chain import BUTTONS, CHAIN
from ragstream_core.prompts.edited_prompt import SUPER_PROMPT

# Button → target → value, of this tab.
KEY = "dropped_edits"


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


def show_dropped(*, busy: bool) -> None:
    """Say which edits are gone, and offer the first of them that there is a step for.

    Args:
        busy: A press is at work: what is gone is not known yet.
    """
    gone = {} if busy else lost()
    if not gone:
        return
    said, again, forget = st.columns([6, 3, 2], gap="small", vertical_alignment="center")
    said.text(f"Rebuilt. Your edits are not in it: {', '.join(map(_named, gone.values()))}.")
    ready = [name for name in gone if name in desk().steps]
    again.button(
        "Put them back",
        disabled=not ready,
        on_click=_apply,
        args=tuple(ready[:1]),
        width="stretch",
        help="Puts what you typed into the newest result; later stages are pressed again.",
    )
    forget.button(
        "Discard",
        key="forget dropped",
        on_click=_forget,
        width="stretch",
        help="Keeps the result as the chain made it.",
    )


def _named(values: Mapping[str, str]) -> str:
    return "the Super-Prompt" if SUPER_PROMPT in values else ", ".join(values)


def _apply(name: str) -> None:
    with reported_errors():
        edit(desk(), name, st.session_state[KEY][name], home())


def _forget() -> None:
    st.session_state.pop(KEY, None)


PROMPT_HEIGHT = 300
PLACEHOLDER = """What do you want to know or have done?

Headers such as "## Task", "## Context" or "## Format" are understood; plain text is fine."""
FRESH = "Build again"
STEPS = "Step by step"
NAMES = {"text": "the prompt", "off": "files ON/OFF", "lock": "the lock",
         "as_of": "the index version", "diffs": "the changes"}  # fmt: skip


def on_press(button: str, fresh: bool = False) -> None:
    """Start the stages of one button, or of all; wait a moment, since most are quick."""
    remember(BUTTONS[0] if button == BUILD else button)
    with reported_errors():
        given = (desk(), button, request_now(), workspace())
        presses.start(*given, fresh=fresh).wait(presses.PATIENCE_S)
    take_in_press()


def take_in_press() -> None:
    """Take in what a press has left: its error as a message, its newest step as the text."""
    job, last, state = desk().job, desk().last, st.session_state
    if job is not None and not job.running and state.get("settled") is not job:
        state["settled"] = job
        if job.error is not None:
            report(job.error)
    if state.get("shown") is not last:
        state["shown"] = last
        state.pop(super_prompt_key(), None)  # one that was never drawn would stay for ever
        state[SHOWN_KEY] = state.get(SHOWN_KEY, 0) + 1
        state[super_prompt_key()] = stage_text(last.super_prompt) if last is not None else ""


def is_busy() -> bool:
    """Whether a press of this tab is at work, or has left what `settle` has not taken in yet."""
    job = desk().job
    return job is not None and st.session_state.get("settled") is not job


def show() -> None:
    """Draw the column."""
    st.text_area("Prompt", key=PROMPT_KEY, height=PROMPT_HEIGHT, placeholder=PLACEHOLDER)
    busy = is_busy()
    _everything(busy)
    show_dropped(busy=busy)
    _model()
    _stages(busy)


def _stages(busy: bool) -> None:
    """Draw the eight buttons; once one was pressed the next one stands out."""
    begun = bool(desk().steps)
    with st.expander(STEPS):
        for row in (BUTTONS[:4], BUTTONS[4:]):
            for column, button in zip(st.columns(4, gap="small"), row, strict=True):
                does = " ".join(spec.summary for spec in CHAIN if spec.button == button)
                column.button(
                    LABELS[button],
                    key=f"button {button}",
                    help=f"{button}: {does}",
                    type="primary" if begun and button == desk().next_button else "secondary",
                    width="stretch",
                    disabled=busy,
                    on_click=on_press,
                    args=(button,),
                )


def _model() -> None:
    """Draw who the prompt is for, and what it may take of that model before there is one."""
    with shown_errors():  # wrong settings of the provider, or of the other settings
        model_choice.show(model_choice.model())
        st.text(model_choice.expected())


def _everything(busy: bool) -> None:
    """Draw what builds the prompt, how far a press is, its end, and the link to the newest run."""
    everything, link, _ = st.columns([4, 2, 3], gap="small", vertical_alignment="center")
    everything.button(
        BUILD,
        key="build_prompt",
        help="Builds the Super-Prompt: all eight stages in order.",
        type="primary",
        shortcut="Ctrl+Enter",
        width="stretch",
        disabled=busy,
        on_click=on_press,
        args=(BUILD,),
    )
    last, job = desk().last, desk().job
    with link:
        if busy:
            _stop()
        elif last is not None:
            run_link(last.run_id, key="run of prompt")
    if busy and job is not None:
        notices.follow(job)
        notices.detail(job)
    else:
        _told()


def _stop() -> None:
    """Offer the end of the press at work: between two stages nothing is half done."""
    job = desk().job
    if job is not None:
        st.button(
            "Stop",
            key="stop press",
            on_click=job.stop,
            disabled=job.stopped or not job.running,
            width="stretch",
            help="Stops after the current stage; earlier stages are kept.",
        )


def _told() -> None:
    """Say what has changed since the last press, or that its prompt came from a record."""
    names = [NAMES.get(name, name) for name in stale()]
    last = desk().last
    if names:
        st.text(f"Changed since: {', '.join(names)}. {BUILD} takes it in.")
    elif last is not None and last.answered_at:
        same = f"Same question, nothing changed: saved result of {moment(last.answered_at)}."
        with st.container(horizontal=True, vertical_alignment="center"):
            st.text(same, width="content")
            st.button(
                FRESH,
                on_click=on_press,
                args=(BUILD, True),
                help="Runs all stages even though nothing has changed.",
            )
