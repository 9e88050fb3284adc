"""What to do first: three ways to begin in an empty data root, later what a project still needs."""

from __future__ import annotations

import streamlit as st

from ragstream_app.output.markup import literal
from ragstream_app.page.panels import projects
from ragstream_app.page.panels.conversation import imports
from ragstream_app.page.panels.shared import PROJECTS_KEY, workspace


def show() -> None:
    """Say what to do first where there is nothing to ask yet."""
    chosen = st.session_state[PROJECTS_KEY]
    raw = [name for name in chosen if not projects.is_ingested(name)]
    if not workspace().projects():
        _offers()
    elif not chosen:
        st.info("Choose a project in the sidebar; the prompt reads what it holds.")
    elif raw:
        names = ", ".join(map(literal, raw))
        st.info(f"Not ingested yet: {names}. Press **Ingest Folder** in the sidebar.")


def _offers() -> None:
    """Draw the ways to begin."""
    st.text(
        "RAGstream turns your question into one prompt with the evidence from your documents and "
        "past conversations: short, cited and explained. There is nothing to ask yet; begin here."
    )
    with st.container(key="first_steps"):
        documents, conversations = st.columns(2, gap="small", border=True)
    with documents:
        st.subheader("Bring documents", anchor=False)
        st.text(
            "In the sidebar, New project makes a project and Upload fills it. Or put documents "
            "into doc_raw/PROJECT below the data folder."
        )
    with conversations:
        st.subheader("Import conversations", anchor=False)
        st.text(
            "Exports of ChatGPT, Claude.ai and Gemini, and the session logs of Claude Code and "
            "Codex. You see what would come before anything is added."
        )
        st.button(
            "Import conversations", key="first import", on_click=imports.open_dialog,
            width="stretch",
        )  # fmt: skip
