"""Open page N: the page of a PDF that a citation leads to, shown as a picture over the page."""

from __future__ import annotations

from typing import NamedTuple

import streamlit as st

from ragstream_app.failures import describe
from ragstream_app.panels.markup import literal
from ragstream_app.panels.shared import show_message, workspace
from ragstream_core.build.explaining.pages import has_pages, page_picture


class PageOf(NamedTuple):
    """A page of one version of a document.

    Attributes:
        project: Its project.
        path: Relative to the project.
        sha256: Of the bytes that were indexed.
        page: Its number, from 1; 0 where the document has none.
    """

    project: str
    path: str
    sha256: str
    page: int


def offer(place: PageOf, *, key: str) -> None:
    """Draw the button that opens a page; nothing where a document has none to show.

    Args:
        place: The page.
        key: Of the button.
    """
    if place.page < 1 or not has_pages(place.path):
        return
    about = f"Shows the page as it is printed in {literal(place.path)}."
    if st.button(f"Open page {place.page}", key=key, help=about):
        st.dialog(f"{literal(place.path)} · page {place.page}", width="medium")(_picture)(place)


def at_home(path: str, sha256: str, *, page: int) -> PageOf | None:
    """Return a page of the project that holds these bytes now; None where none does.

    Args:
        path: Relative to the project.
        sha256: Of the bytes that were indexed.
        page: Its number, from 1.
    """
    from ragstream_core.build.explaining.receipts import CURRENT, state_now

    space = workspace()
    holders = (n for n in space.projects() if state_now(space, n, path, sha256) == CURRENT)
    home = next(holders, None)
    return PageOf(home, path, sha256, page) if home else None


def _picture(place: PageOf) -> None:
    try:
        picture = page_picture(
            workspace(), place.project, place.path, sha256=place.sha256, page=place.page
        )
    except Exception as error:  # the page's error boundary
        show_message(describe(error))
        return
    st.image(picture, width="stretch", alt=f"page {place.page}")
