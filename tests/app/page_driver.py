"""Drives the page without a browser: open it, find a control by its label, press a button."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from streamlit.testing.v1 import AppTest

from ragstream_app.page.prompt_session import PromptSession

ROOT = Path(__file__).parents[2]
PAGE = str(ROOT / "ragstream_app" / "page" / "main.py")
QUESTION = "How does the exact file lock restrict a prompt?"


def open_page() -> AppTest:
    """Open the page in a tab of its own, with nothing left of an earlier process."""
    import streamlit as st
    from streamlit import config, logger

    logger.set_log_level("ERROR")
    config.set_option("server.address", "127.0.0.1")
    st.cache_resource.clear()
    st.cache_data.clear()
    return run(AppTest.from_file(PAGE, default_timeout=60))


def run(page: AppTest) -> AppTest:
    """Draw the page again; no panel may raise."""
    page.run()
    assert not page.exception
    return page


def control(page: AppTest, kind: str, label: str) -> Any:
    """Return the first control of a kind with a label that begins so, the sidebar's first."""
    found = [*page.sidebar.get(kind), *page.get(kind)]
    return next(one for one in found if one.label.startswith(label))


def click(page: AppTest, label: str) -> AppTest:
    """Press a button."""
    next(b for b in page.button if b.label == label).click()
    return run(page)


def area(page: AppTest, label: str) -> Any:
    """Return a text area."""
    return next(a for a in page.text_area if a.label == label)


def ask(page: AppTest, text: str = QUESTION) -> AppTest:
    """Type a prompt."""
    area(page, "Prompt").set_value(text)
    return page


def desk(page: AppTest) -> PromptSession:
    """Return the desk of the tab."""
    return page.session_state.desk


def said(page: AppTest) -> str:
    """Return all plain texts and messages of the page."""
    kinds = (page.text, page.info, page.error, page.warning, page.success)
    return "\n".join(str(one.value) for kind in kinds for one in kind)
