"""The page: Prompt left, Super-Prompt right, eight buttons, nothing runs without a click.

Run by ``ragstream up`` or ``python -m streamlit run ragstream_app/page.py --server.port 8503``.
"""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from ragstream_app.panels import preview, prompt, shared, transparency

LOOPBACK = ("127.0.0.1", "::1", "localhost")


def refuse_remote() -> None:
    """Stop where the server listens to more than this machine: the page has no password."""
    address = st.get_option("server.address")
    if st.runtime.exists() and address not in LOOPBACK:
        st.error(
            "This page would be open to the network and has no password. "
            "Start it with `ragstream up`, or with `--server.address 127.0.0.1`."
        )
        st.stop()


def show_title() -> bool:
    """Draw the title and the choice of projects; return whether there is any project."""
    names = shared.workspace().projects()
    title, chooser = st.columns([2, 3], gap="small", vertical_alignment="center")
    title.title("RAGstream", anchor=False)
    chooser.multiselect(
        "Projects",
        names,
        default=names[:1],
        key=shared.PROJECTS_KEY,
        label_visibility="collapsed",
        placeholder="Projects to read",
    )
    if not names:
        st.info("No project yet: put documents into doc_raw/PROJECT and run `ragstream ingest`.")
    return bool(names)


def main() -> None:
    """Draw the page."""
    st.set_page_config(page_title="RAGstream", layout="wide")
    st.html(Path(__file__).parent / "page.css")
    refuse_remote()
    try:
        show_title()
    except Exception as error:  # a wrong setting, an unreadable data root
        shared.report(error)
        shared.show_problem()
        st.stop()
    shared.show_problem()
    left, right = st.columns(2, gap="small")
    with left:
        prompt.show()
    with right:
        preview.show()
    if shared.changed():
        st.text("The prompt or its files changed; PreProcessing takes the change in.")
    transparency.show()


main()
