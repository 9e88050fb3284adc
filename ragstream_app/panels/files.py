"""Which files are injected, and which the chain may read: ON/OFF boxes and the Exact File Lock."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from ragstream_app.panels.markup import literal
from ragstream_app.panels.shared import INJECT_KEY, OFF_KEY, PROJECTS_KEY, workspace

MAX_BOXES = 60


@st.cache_data(ttl=5.0)  # type: ignore[untyped-decorator]
def project_files(project: str) -> list[str]:
    """Return the files of a project as ``project/path``, sorted."""
    from ragstream_core.build.file_sources import injectable

    return [f"{project}/{path}" for path in injectable(workspace(), project)]


def show(column: st.delta_generator.DeltaGenerator) -> None:
    """Show which files are injected and which retrieval may read."""
    names = [name for project in st.session_state[PROJECTS_KEY] for name in project_files(project)]
    off: set[str] = st.session_state.get(OFF_KEY, set())
    eligible = len(names) - len(off & set(names))
    with column.popover(f"Files: {eligible:,} of {len(names):,} ON", width="stretch"):
        st.multiselect("Inject (❖ FILES)", names, key=INJECT_KEY, help="Whole files, with sha256.")
        file_boxes(names)


def file_boxes(files: Sequence[str]) -> list[str]:
    """Show an ON/OFF box for each file; return those that are OFF.

    Args:
        files: ``project/path``, sorted.
    """
    off: set[str] = st.session_state.setdefault(OFF_KEY, set())
    off &= set(files)
    wanted = st.text_input("Find files", placeholder="part of a path", key="file_filter")
    shown = [name for name in files if wanted.lower() in name.lower()]
    on_column, off_column = st.columns(2)
    on_column.button("All ON", width="stretch", on_click=_switch, args=(shown, True))
    off_column.button("All OFF", width="stretch", on_click=_switch, args=(shown, False))
    for name in shown[:MAX_BOXES]:
        st.session_state[f"on {name}"] = name not in off
        st.checkbox(literal(name), key=f"on {name}", on_change=_toggle, args=(name,))
    if len(shown) > MAX_BOXES:
        st.text(f"… and {len(shown) - MAX_BOXES:,} more; find them by a part of their path")
    return sorted(off)


def _switch(names: Sequence[str], on: bool) -> None:
    off: set[str] = st.session_state[OFF_KEY]
    off.difference_update(names) if on else off.update(names)


def _toggle(name: str) -> None:
    _switch([name], bool(st.session_state[f"on {name}"]))
