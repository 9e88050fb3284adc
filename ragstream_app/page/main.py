"""The page: Prompt left, Super-Prompt right, one button that builds it; nothing runs unasked.

Run by ``ragstream up``, or by
``python -m streamlit run ragstream_app/page/main.py --server.port 8503``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import streamlit as st

from ragstream_app.page.panels import (
    answer,
    chat_view,
    files,
    first_steps,
    map,
    memory,
    new_documents,
    preview,
    projects,
    prompt,
    rendered,
    retrieval,
    shaper,
    shared,
    tab,
    transparency,
    weather,
    workers,
)
from ragstream_app.page.panels.chat_state import VIEW_KEY
from ragstream_app.page.panels.history import choice, imports, turns
from ragstream_app.server.page import is_guarded

LOOPBACK = ("127.0.0.1", "::1", "localhost")
SIDEBAR_WIDTH = 290


def refuse_remote() -> None:
    """Stop where the server listens to more than this machine and no login stands before it."""
    address = st.get_option("server.address")
    if st.runtime.exists() and address not in LOOPBACK and not is_guarded():
        st.error(
            "This page would be open to the network and has no password. "
            "Start it with `ragstream up`, or with `--server.address 127.0.0.1`."
        )
        st.stop()


def show_prompt() -> None:
    """Draw Prompt and Super-Prompt side by side, and the tabs below them."""
    left, right = st.columns(2, gap="small")
    with left:
        with st.container(key="prompt_side"):  # the style sheet hides it behind a passage
            prompt.show()
        rendered.show_passage()
    with right:
        preview.show()
    in_tabs(
        {
            "Answer": answer.show,
            "Transparency": transparency.show,
            "Prompt Shaper": shaper.show,
            "Tokens": preview.show_tokens,
            "Conversation": turns.show,
        }
    )


# What the page can do besides; all are drawn, so that changing the view loses nothing. (A string
# here would be shown on the page.)
VIEWS: dict[str, Callable[[], None]] = {
    "Prompt": show_prompt,
    chat_view.NAME: chat_view.show,
    "Memory": memory.show,
    "Map": map.show,
}


def in_tabs(panels: dict[str, Callable[[], None]], key: str | None = None) -> None:
    """Draw panels as tabs; one panel's trouble leaves the others usable.

    Args:
        panels: Name → what draws it.
        key: Where the name of the open one stands; None: it is not needed.
    """
    tabs = st.tabs(list(panels), key=key, on_change="rerun" if key else "ignore")
    for place, show in zip(tabs, panels.values(), strict=True):
        with place, shared.shown_errors():
            show()


def show_sidebar() -> None:
    """Draw projects and uploads, files, retrieval, agents, workers, and the weather if wanted."""
    with st.sidebar:
        projects.show()
        new_documents.show()
        choice.show()
        files.show()
        retrieval.show()
        retrieval.show_agent_choice()
        workers.show()
        with_weather = shared.workspace().config.settings.page.weather
        ended = weather.show() if with_weather else None
    weather.result(ended)


def main() -> None:
    """Draw the page."""
    st.set_page_config(page_title="RAGstream", layout="wide", initial_sidebar_state=SIDEBAR_WIDTH)
    st.html(Path(__file__).parent / "page.css")
    refuse_remote()
    st.title("RAGstream", anchor=False)
    tab.restore()
    try:
        shared.show_notices()
        show_sidebar()
    except Exception as error:  # a wrong setting, an unreadable data root
        shared.show_error(error)
        st.stop()
    prompt.take_in_press()
    first_steps.show()
    shared.show_reported()
    in_tabs(VIEWS, VIEW_KEY)
    with shared.shown_errors():
        imports.show()
    tab.keep()


main()
