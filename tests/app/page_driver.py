"""Drives the page without a browser: open it, find a control by its label, press a button."""

import time
from collections.abc import Callable
from typing import Any

from streamlit.testing.v1 import AppTest

from ragstream_app.page.prompt_session import PromptSession
from tests.app.hostile_answers import Drawn, read
from tests.app.model_answers import QUESTION
from tests.model_server import LIMIT_S
from tests.workspaces import ROOT

PAGE = str(ROOT / "ragstream_app" / "page" / "main.py")


def open_page(**state: Any) -> AppTest:
    """Open the page in a tab of its own, with nothing left of an earlier process.

    Args:
        state: What the tab has in its session before it is drawn.
    """
    import streamlit as st
    from streamlit import config, logger

    logger.set_log_level("ERROR")
    config.set_option("server.address", "127.0.0.1")
    st.cache_resource.clear()
    st.cache_data.clear()
    page = AppTest.from_file(PAGE, default_timeout=60)
    for name, value in state.items():
        page.session_state[name] = value
    return run(page)


def run(page: AppTest) -> AppTest:
    """Draw the page again; no panel may raise."""
    page.run()
    assert not page.exception
    return page


def control(page: AppTest, kind: str, label: str) -> Any:
    """Return the first control of a kind with a label that begins so, the sidebar's first."""
    found = [*page.sidebar.get(kind), *page.get(kind)]
    return next(one for one in found if one.label.startswith(label))


def button(page: AppTest, label: str) -> Any:
    """Return a button by its label, or one of the chain by its name there."""
    return next(b for b in page.button if label in (b.label, str(b.key).removeprefix("button ")))


def click(page: AppTest, label: str) -> AppTest:
    """Press a button."""
    button(page, label).click()
    return run(page)


def choose_row(page: AppTest, table: str, position: int) -> AppTest:
    """Choose a row of the table with a key that begins so, as a person does."""
    key = next(k for k in page.session_state if str(k).startswith(table))
    page.session_state[key] = {"selection": {"rows": [position], "columns": [], "cells": []}}
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


def drawn(page: AppTest) -> str:
    """Return the answers as a reader sees them; their HTML is checked on the way."""
    bodies = [element.proto.body for element in page.get("html")]
    return "\n".join(read(body) for body in bodies if body.startswith("<div>"))


def passage(page: AppTest) -> list[str]:
    """Return the lines of the passages in sight, those that are cited with ``>`` before them.

    Words that are marked stand between ``«`` and ``»``.
    """
    found = []
    for element in page.get("html"):
        if element.proto.body.startswith("<table>"):
            read(element.proto.body, Drawn)
            shown = element.proto.body.replace("<mark>", "«").replace("</mark>", "»")
            for row in shown.split("<tr")[1:]:
                cited = ">" if row.startswith(' class="cited"') else ""
                number, text = read("<table><tr" + row.partition("</tr>")[0] + "</tr></table>",
                                    Numbered).split("\t")  # fmt: skip
                found.append(f"{cited}{number} {text}".rstrip())
    return found


class Numbered(Drawn):
    """Sets the number of a line apart from its text."""

    def handle_endtag(self, tag):
        super().handle_endtag(tag)
        if tag == "th":
            self.text.append("\t")


def until(page: AppTest, met: Callable[[], bool]) -> AppTest:
    """Draw the page again until something is so."""
    end = time.monotonic() + LIMIT_S
    while not met():
        assert time.monotonic() < end, "it never came"
        run(page)
    return page
