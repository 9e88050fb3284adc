"""The sidebar: projects and uploads, files, retrieval, agents."""

from __future__ import annotations

import streamlit as st

from ragstream_app.panels import agents, conversation_choice, files, projects, retrieval


def show() -> None:
    """Draw the sidebar."""
    with st.sidebar:
        projects.show()
        conversation_choice.show()
        files.show()
        retrieval.show()
        agents.show()
