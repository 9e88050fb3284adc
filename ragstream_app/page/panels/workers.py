"""Workers: what the shared database holds and which workers answer, where a broker is set."""

from __future__ import annotations

import streamlit as st

from ragstream_app.output.workers import workers_of, workers_text
from ragstream_app.page.panels.shared import show_error, workspace
from ragstream_core.errors import RagstreamError
from ragstream_core.services.shared_embeddings import shared_table


def show() -> None:
    """Draw the look at workers; nothing on a page without a broker."""
    config = workspace().config.settings.embeddings
    if not config.broker.get_secret_value():
        return
    with st.expander("Workers"):
        if st.button(
            "Look for workers",
            width="stretch",
            help="Asks the database of shared vectors and the broker; takes some seconds.",
        ):
            look()


def look() -> None:
    """Ask both, and draw what they say; each on its own, so that one trouble hides no other."""
    config = workspace().config
    try:
        table = shared_table(workspace())
        st.text(f"shared vectors of this model: {table.vectors:,}")
        st.text(f"texts that wait for workers: {table.waiting:,}")
    except RagstreamError as error:
        show_error(error)
    try:
        if (found := workers_of(config)) is not None:
            st.text(workers_text(config, found))
    except RagstreamError as error:
        show_error(error)
