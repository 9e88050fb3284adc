"""What to do first: three ways to begin in an empty data root, later what a project still needs."""

from __future__ import annotations

import streamlit as st

from ragstream_app.output.markup import literal
from ragstream_app.page.panels import new_documents, notices, projects
from ragstream_app.page.panels.history import imports
from ragstream_app.page.panels.history.choice import listing
from ragstream_app.page.panels.notices import Notice
from ragstream_app.page.panels.shared import PROJECTS_KEY, workspace

PLACE = "first steps"
FOLDER_KEY = "first_folder"


def show() -> None:
    """Say what to do first where there is nothing to ask yet."""
    chosen = st.session_state[PROJECTS_KEY]
    raw = [name for name in chosen if not projects.is_ingested(name)]
    if not workspace().projects():
        _offers()
    elif not chosen:
        also = " Without one it reads your conversations alone." if listing().turns else ""
        st.info(f"Choose a project in the sidebar; the prompt reads what it holds.{also}")
    elif raw:
        names = ", ".join(map(literal, raw))
        unfetched = [name for name in raw if projects.addresses(name)]
        if any(map(projects.is_running, raw)):
            st.info(f"Being ingested: {names}. Then ask a question and press **Build prompt**.")
        elif unfetched:
            st.info(
                f"Not fetched yet: {', '.join(map(literal, unfetched))}. Press **Sync** in the "
                "sidebar: it fetches the documents and ingests them."
            )
        elif empty := [name for name in raw if projects.is_empty(name)]:
            told = ", ".join(map(literal, empty))
            st.info(f"{told} is empty. Press **Upload** in the sidebar and add documents.")
        else:
            st.info(f"Not ingested yet: {names}. Press **Ingest Folder** in the sidebar.")


def _offers() -> None:
    """Draw the three ways to begin."""
    st.text(
        "RAGstream turns your question into one prompt with the evidence from your documents and "
        "past conversations: short, cited and explained. "
        + (
            "Ask about your conversations and press Build prompt, or add documents here."
            if listing().turns
            else "Add something to ask about."
        )
    )
    with st.container(key="first_steps"):
        columns = st.columns(3, gap="small", border=True)
    for column, draw in zip(columns, (_handbook, _folder, _conversations), strict=True):
        with column:
            draw()
    notices.show(PLACE)


def _handbook() -> None:
    st.subheader("Try the handbook", anchor=False)
    st.text("RAGstream's own handbook as a first project, with a question to ask it.")
    st.button(
        "Try the handbook",
        key="first handbook",
        type="primary",
        on_click=notices.attempt,
        args=(PLACE, _on_handbook),
        width="stretch",
    )


def _folder() -> None:
    st.subheader("Add a folder", anchor=False)
    st.text_input(
        "Folder on this machine",
        key=FOLDER_KEY,
        placeholder="~/notes: read in place, nothing is copied",
        label_visibility="collapsed",
    )
    st.button(
        "Add folder",
        key="first folder",
        on_click=notices.attempt,
        args=(PLACE, _on_folder),
        width="stretch",
        help="To upload documents, or to fetch them from an address, press New project in the "
        "sidebar.",
    )


def _conversations() -> None:
    st.subheader("Import conversations", anchor=False)
    st.text("From ChatGPT, Claude.ai, Gemini, Claude Code or Codex. You see a preview first.")
    st.button(
        "Import conversations", key="first import", on_click=imports.open_dialog, width="stretch"
    )


def _on_handbook() -> Notice:
    """Make the handbook the first project, with a question to ask it."""
    new_documents.add_handbook()
    return Notice()


def _on_folder() -> Notice:
    """Make a project of the folder and ingest it."""
    from ragstream_core.errors import UsageError

    folder = (st.session_state.get(FOLDER_KEY) or "").strip()
    if not folder:
        raise UsageError("no folder given", hint="type the path of a folder on this machine")
    new_documents.add_places([folder])
    return Notice()
