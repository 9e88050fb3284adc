"""Which agents take part, and which of them ask a language model."""

from __future__ import annotations

import streamlit as st

from ragstream_app.panels.retrieval import help_of
from ragstream_app.panels.shared import SETTING, given, workspace

AGENTS = (
    ("A1 Files", "agents.a1", ""),
    ("A2 Shaper", "agents.a2", "agents.a2_form"),
    ("A3 Gate", "agents.a3", "agents.a3_form"),
    ("A4 Condenser", "agents.a4", "agents.a4_form"),
    ("Audit", "", "agents.audit_form"),
)
"""Label, setting of the toggle, setting of the form; empty where there is none."""
FORMS = {"deterministic": "rules", "llm": "LLM"}


def show() -> None:
    """Draw a toggle an agent, and the form of those that have two."""
    names = [name for row in AGENTS for name in row[1:] if name]
    for name in names:
        st.session_state.setdefault(SETTING + name, given(name))
    off = sum(st.session_state[SETTING + name] is False for name in names)
    ready = model_configured()
    with st.expander(f"Agents ({off} off)" if off else "Agents"):
        for label, toggle, form in AGENTS:
            left, right = st.columns([3, 2], gap="small", vertical_alignment="center")
            if toggle:
                left.toggle(label, key=SETTING + toggle, help=help_of(toggle))
            else:
                left.text(label)
            if form:
                right.selectbox(
                    f"Form of {label}",
                    list(FORMS),
                    key=SETTING + form,
                    format_func=FORMS.__getitem__,
                    label_visibility="collapsed",
                    disabled=not ready,
                )
        st.text(
            "LLM asks the language model; if it fails, the rules decide."
            if ready
            else "The form LLM needs a language model:\nset provider.model in ragstream.yaml"
        )


def model_configured() -> bool:
    """Whether somebody chose a language model; the default one is contacted by nobody unasked."""
    origin = workspace().config.origin
    return any(where != "default" for name, where in origin.items() if name.startswith("provider."))
