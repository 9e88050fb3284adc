"""Workers: what the shared database holds and which workers are there, where one is set."""

from __future__ import annotations

import streamlit as st

from ragstream_app.output.words import workers_text
from ragstream_app.page.panels.shared import show_error, workspace
from ragstream_core.errors import RagstreamError


def show() -> None:
    """Draw the look at workers; nothing on a page without a database of shared vectors."""
    config = workspace().config.settings.embeddings
    if not config.shared.get_secret_value():
        return
    with st.expander("Workers"):
        if not st.button(
            "Look for workers",
            width="stretch",
            help="Asks the database of shared vectors; takes some seconds if it is away.",
        ):
            return
        from ragstream_core.services.shared_embeddings import shared_table  # brings numpy

        try:
            table = shared_table(workspace())
        except RagstreamError as error:
            show_error(error)
            return
        st.text(f"shared vectors of this model: {table.vectors:,}")
        st.text(f"texts that wait for workers: {table.waiting:,}")
        st.text(workers_text(config.queue, table))
