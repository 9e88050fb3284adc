"""What the chat view can be told: who answers, what memory does, how answers are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from ragstream_app.failures import describe
from ragstream_app.panels import model_choice
from ragstream_app.panels.chat.turns import MARKERS_KEY
from ragstream_app.panels.markup import literal
from ragstream_app.panels.retrieval import help_of
from ragstream_app.panels.shared import MODEL_KEY, SETTING, given, show_message

if TYPE_CHECKING:
    from ragstream_core.ports import ChatModel

CHOSEN_KEY = "chat_model"
SWITCHES = (("Memory: cache and digest", "memory.enabled"), ("Answer cache", "memory.cache"))
NUMBERS = (
    ("Most tokens of memory", "memory.max_tokens"),
    ("Most characters of memory", "memory.max_chars"),
    ("Most memories", "memory.top_k"),
)


def show() -> None:
    """Draw one row of controls."""
    try:
        asked, expected = model_choice.model(), model_choice.expected()
    except Exception as error:  # wrong settings of the provider, or of the other settings
        show_message(describe(error))
        return
    who, memory, markers, told = st.columns([3, 2, 2, 7], gap="small", vertical_alignment="center")
    with who.popover(literal(model_choice.chosen() or "no model"), width="stretch"):
        _model(asked)
    with memory.popover(f"Memory {'on' if _memory() else 'off'}", width="stretch"):
        _switches()
    markers.toggle(
        "Markers",
        key=MARKERS_KEY,
        help="Shows answers as the model wrote them, with their citation markers.",
    )
    with told:
        _told(asked, expected)


def _model(asked: ChatModel) -> None:
    """Draw the choice of the model; the Answer panel has the same one."""
    state = st.session_state
    mine = state.get(CHOSEN_KEY)
    if mine and MODEL_KEY not in state:
        state[MODEL_KEY] = mine
    state[CHOSEN_KEY] = model_choice.chosen() or None
    listed = state.get(model_choice.LISTED_KEY, [])
    st.selectbox(
        "Model",
        sorted({*listed, *filter(None, (state[CHOSEN_KEY],))}),
        key=CHOSEN_KEY,
        accept_new_options=True,
        placeholder="List the models, or type a name",
        on_change=_on_model,
    )
    st.button(
        "List models",
        key="chat list models",
        help=f"Asks {asked.host or 'the provider'} which models it has.",
        on_click=model_choice.on_list,
        width="stretch",
    )


def _on_model() -> None:
    st.session_state[MODEL_KEY] = st.session_state[CHOSEN_KEY]


def _memory() -> bool:
    return bool(st.session_state.get(f"{SETTING}memory.enabled", given("memory.enabled")))


def _switches() -> None:
    """Draw what memory does; these are settings, they hold for the Prompt view as well."""
    for label, name in (*SWITCHES, *NUMBERS):
        key = SETTING + name
        # set anew each time: a closed popover takes in no value that was set before it opened
        st.session_state[key] = st.session_state.get(key, given(name))
        if (label, name) in SWITCHES:
            st.toggle(label, key=key, help=help_of(name))
        else:
            least = 1 if name.endswith("top_k") else 0
            st.number_input(label, min_value=least, key=key, help=help_of(name))


def _told(asked: ChatModel, expected: str) -> None:
    """Say where questions go and what one may take, or that nobody answers."""
    hindrance = model_choice.hindrance(asked)
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        if hindrance:
            st.badge("no model", color="gray")
            st.text("Answers are extracts of the documents.", width="content")
            return
        if asked.is_local:
            st.badge("this machine", color="green")
        else:
            st.badge("another machine", color="orange")
            st.text(f"What prompts show goes to {asked.host}.", width="content")
        st.text(expected, width="content")
