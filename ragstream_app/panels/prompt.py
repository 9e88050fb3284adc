"""The Prompt and its eight buttons; nothing runs without a click.

A press runs in a thread of the process. Whatever draws the page again attaches to it.
"""

from __future__ import annotations

import streamlit as st

from ragstream_app.failures import describe
from ragstream_app.jobs import presses as jobs
from ragstream_app.jobs.presses import RUN_ALL
from ragstream_app.panels import dropped, model_choice, projects
from ragstream_app.panels.markup import literal
from ragstream_app.panels.shared import (
    PROJECTS_KEY,
    PROMPT_KEY,
    SHOWN_KEY,
    desk,
    report,
    request_now,
    run_link,
    show_message,
    stale,
    super_prompt_key,
    workspace,
)
from ragstream_app.stage_text import stage_text
from ragstream_core.orchestration.chain import BUTTONS, CHAIN

EVERY_S = 0.4
WRITTEN_EVERY_S = 2.0
PROMPT_HEIGHT = 300
PLACEHOLDER = """What do you want to know or have done?

Headers such as "## Task", "## Context" or "## Format" are understood; plain text is fine."""
FRESH = "Run it anyway"
_BUTTON_OF = {spec.op: spec.button for spec in CHAIN}
NAMES = {"text": "the prompt", "off": "files ON/OFF", "lock": "the lock", "as_of": "the generation",
         "diffs": "the changes"}  # fmt: skip


def on_press(button: str, fresh: bool = False) -> None:
    """Start the stages of one button, or of all; wait a moment, since most are quick."""
    report(None)
    dropped.remember(BUTTONS[0] if button == RUN_ALL else button)
    try:
        given = (desk(), button, request_now(), workspace())
        jobs.start(*given, fresh=fresh).wait(jobs.PATIENCE_S)
    except Exception as error:  # the page's error boundary
        report(error)
    settle()


def settle() -> None:
    """Take in what a press has left: its error as a message, its newest step as the text."""
    job, last, state = desk().job, desk().last, st.session_state
    if job is not None and job.done and state.get("settled") is not job:
        state["settled"] = job
        if job.error is not None:
            report(job.error)
    if state.get("shown") is not last:
        state["shown"] = last
        state.pop(super_prompt_key(), None)  # one that was never drawn would stay for ever
        state[SHOWN_KEY] = state.get(SHOWN_KEY, 0) + 1
        state[super_prompt_key()] = stage_text(last.prompt) if last is not None else ""


def is_busy() -> bool:
    """Whether a press of this tab is at work, or has left what `settle` has not taken in yet."""
    job = desk().job
    return job is not None and st.session_state.get("settled") is not job


def welcome() -> None:
    """Say what to do first where there is nothing to ask yet."""
    chosen = st.session_state[PROJECTS_KEY]
    raw = [name for name in chosen if not projects.is_ingested(name)]
    if not workspace().projects():
        st.info(
            "No project yet. In the sidebar, **New project** makes one and **Upload** fills it; "
            "or put documents into `doc_raw/PROJECT` below the data folder."
        )
    elif not chosen:
        st.info("Choose a project in the sidebar; the prompt reads what it holds.")
    elif raw:
        names = ", ".join(map(literal, raw))
        st.info(f"Not ingested yet: {names}. Press **Ingest Folder** in the sidebar.")


def show() -> None:
    """Draw the column."""
    st.text_area("Prompt", key=PROMPT_KEY, height=PROMPT_HEIGHT, placeholder=PLACEHOLDER)
    busy = is_busy()
    _stages(busy)
    _everything(busy)
    _model()
    dropped.show(busy=busy)


def _stages(busy: bool) -> None:
    """Draw the eight buttons; the next one stands out."""
    for row in (BUTTONS[:4], BUTTONS[4:]):
        for column, button in zip(st.columns(4, gap="small"), row, strict=True):
            column.button(
                button,
                key=f"button {button}",
                help=" ".join(spec.summary for spec in CHAIN if spec.button == button),
                type="primary" if button == desk().next_button else "secondary",
                width="stretch",
                disabled=busy,
                on_click=on_press,
                args=(button,),
            )


def _model() -> None:
    """Draw who the prompt is for, and what it may take of that model before there is one."""
    try:
        model_choice.show(model_choice.model())
        st.text(model_choice.expected())
    except Exception as error:  # wrong settings of the provider, or of the other settings
        show_message(describe(error))


def _everything(busy: bool) -> None:
    """Draw Run all, how far a press is, its end, and the link to the newest run."""
    everything, said, link = st.columns([1, 2, 1], gap="small", vertical_alignment="center")
    everything.button(
        RUN_ALL,
        help="Presses the eight buttons in order.",
        width="stretch",
        disabled=busy,
        on_click=on_press,
        args=(RUN_ALL,),
    )
    with said:
        _progress() if busy else _told()
    last = desk().last
    with link:
        if busy:
            _stop()
        elif last is not None:
            run_link(last.run_id, key="run of prompt") if last.is_written else _writing()


def _stop() -> None:
    """Offer the end of the press at work: between two stages nothing is half done."""
    job = desk().job
    if job is not None:
        st.button(
            "Stop",
            key="stop press",
            on_click=job.stop,
            disabled=job.stopping or job.done,
            width="stretch",
            help="Stops after the current stage; earlier stages are kept.",
        )


def _told() -> None:
    """Say what has changed since the last press, or that its prompt came from a record."""
    names = [NAMES.get(name, name) for name in stale()]
    last = desk().last
    if names:
        st.text(f"Changed: {', '.join(names)}. PreProcessing applies it.")
    elif last is not None and last.answered_at:
        when = last.answered_at[:16].replace("T", " ")
        st.text(f"From its record: nothing has changed since {when}.")
        st.button(
            FRESH,
            on_click=on_press,
            args=(RUN_ALL, True),
            help="Runs the stages even though the kept prompt is unchanged.",
        )


@st.fragment(run_every=EVERY_S)  # type: ignore[untyped-decorator]
def _progress() -> None:
    """Follow the press at work; the whole page is drawn again at its end."""
    job = desk().job
    if job is None or job.done:
        st.rerun()
        return
    what = "stops after " if job.stopping else ""
    shown = f"{what}{_BUTTON_OF.get(job.stage, '')} · {job.elapsed_s:.0f} s"
    st.progress(job.fraction, text=shown)


@st.fragment(run_every=WRITTEN_EVERY_S)  # type: ignore[untyped-decorator]
def _writing() -> None:
    """Follow the writing of the run; its link would lead to nothing before its end.

    Only this place is drawn again: a list or a box that somebody has opened meanwhile stays open.
    The whole page is where there is something to say of the run.
    """
    last = desk().last
    if last is None or last.notes:
        st.rerun()
    elif last.is_written:
        run_link(last.run_id, key="run of prompt")
    else:
        st.text("recording …")
