"""The sidebar: projects and uploads, files, retrieval, agents, the weather."""

from __future__ import annotations

import streamlit as st

from ragstream_app.page.panels import files, projects, retrieval, weather
from ragstream_app.page.panels.conversation import choice


def show() -> None:
    """Draw the sidebar."""
    with st.sidebar:
        projects.show()
        choice.show()
        files.show()
        retrieval.show()
        retrieval.show_agent_choice()
        ended = weather.show()
    weather.result(ended)
