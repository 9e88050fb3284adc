"""Which files are injected, whole or as changes, and which the chain may read: boxes and lock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import streamlit as st

from ragstream_app.output.markup import named
from ragstream_app.page.panels.shared import (
    DIFFS_KEY,
    INJECT_KEY,
    LOCK_KEY,
    OFF_KEY,
    PROJECTS_KEY,
    workspace,
)
from ragstream_core.errors import RagstreamError

if TYPE_CHECKING:
    from ragstream_core.wiring.ingestion import ProjectStatus

LIST_HEIGHT = 240
MAX_BOXES = 60
MAX_OPTIONS = 500

# Key, label and help of each choice of files.
CHOICES = (
    (
        INJECT_KEY,
        "Inject (❖ FILES)",
        "Whole files, with their sha256, above everything that is retrieved.",
    ),
    (
        DIFFS_KEY,
        "Changes since the last commit",
        "What `git diff` says of these files; their project lies in a git work tree.",
    ),
)


@st.cache_data(ttl=5.0)  # type: ignore[untyped-decorator]
def project_files(project: str) -> list[str]:
    """Return the files of a project as ``project/path``, sorted."""
    from ragstream_core.wiring.file_sources import injectable

    return [f"{project}/{path}" for path in injectable(workspace(), project)]


@st.cache_data(ttl=5.0)  # type: ignore[untyped-decorator]
def status(project: str) -> ProjectStatus:
    """Return what is indexed of a project and what an ingest would do."""
    from ragstream_core.wiring import ingestion

    return ingestion.status(workspace(), project)


def readable(project: str) -> set[str]:
    """Return those of them that retrieval can read: no others can be ON."""
    try:
        left_out = {path for path, _ in status(project).skipped}
    except RagstreamError:  # said beside the project
        left_out = set()
    found = project_files(project)
    return {name for name in found if name.partition("/")[2] not in left_out}


def show() -> None:
    """Draw which files are injected and which retrieval may read."""
    chosen = st.session_state[PROJECTS_KEY]
    names = [name for project in chosen for name in project_files(project)]
    off: set[str] = st.session_state.setdefault(OFF_KEY, set())
    known = {name for project in chosen for name in readable(project)}
    # of a project that is not chosen now a file stays OFF
    off -= {name for name in off if name.partition("/")[0] in chosen and name not in known}
    with st.expander(f"Files: {len(known - off):,} of {len(known):,} ON"):
        st.toggle(
            "Exact File Lock",
            key=LOCK_KEY,
            help="The prompt gets the injected files and nothing else; no retrieval.",
        )
        wanted = st.text_input(
            "Find files",
            placeholder="part of a path",
            key="file_filter",
            help="Everything below lists only the files whose path contains this.",
        )
        listed = [name for name in names if wanted.lower() in name.lower()]
        for key, label, about in CHOICES:
            _choice(names, listed, key=key, label=label, about=about)
        file_boxes([name for name in listed if name in known])


def file_boxes(listed: Sequence[str]) -> None:
    """Show an ON/OFF box for each listed file.

    Args:
        listed: ``project/path``, sorted.
    """
    off: set[str] = st.session_state[OFF_KEY]
    on_column, off_column = st.columns(2)
    for column, label, on in ((on_column, "All ON", True), (off_column, "All OFF", False)):
        column.button(
            label,
            width="stretch",
            on_click=_switch,
            args=(listed, on),
            help=f"Switches the {len(listed):,} listed files {'ON' if on else 'OFF'}.",
        )
    several = len(st.session_state[PROJECTS_KEY]) > 1
    with st.container(height=LIST_HEIGHT, border=False):
        for name in listed[:MAX_BOXES]:
            st.session_state[f"on {name}"] = name not in off
            label = named(name if several else name.partition("/")[2])
            st.checkbox(label, key=f"on {name}", on_change=_toggle, args=(name,))
        if len(listed) > MAX_BOXES:
            st.text(f"… and {len(listed) - MAX_BOXES:,} more; find them by a part of their path")


def _choice(
    names: Sequence[str], listed: Sequence[str], *, key: str, label: str, about: str
) -> None:
    """Draw a choice of files; of a huge project a browser gets only some at a time."""
    known = set(names)
    chosen = [name for name in st.session_state.get(key, []) if name in known]
    st.session_state[key] = chosen
    st.multiselect(
        label,
        sorted({*chosen, *listed[:MAX_OPTIONS]}),
        key=key,
        placeholder="Choose files",
        help=about,
    )


def _switch(names: Sequence[str], on: bool) -> None:
    off: set[str] = st.session_state[OFF_KEY]
    off.difference_update(names) if on else off.update(names)


def _toggle(name: str) -> None:
    _switch([name], bool(st.session_state[f"on {name}"]))
