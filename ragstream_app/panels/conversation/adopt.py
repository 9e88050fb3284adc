"""Bring turns of any conversation into a project by tag and time, and take them out again."""

from __future__ import annotations

from functools import partial

import streamlit as st

from ragstream_app.panels import notices
from ragstream_app.panels.conversation.choice import home, listing
from ragstream_app.panels.notices import Notice
from ragstream_app.panels.shared import PROJECTS_KEY

PLACE = "adopt"
PROJECT_KEY = "adopt_project"
TAGS_KEY = "adopt_tags"
DAYS_KEY = "adopt_days"


def show() -> None:
    """Draw which turns go into which project."""
    projects = st.session_state[PROJECTS_KEY]
    if not projects:
        st.text("Choose a project first.")
        return
    st.selectbox("Project", projects, key=PROJECT_KEY)
    known = sorted({tag for row in listing().sessions for tag in row["tags"]})
    st.multiselect("All turns with these tags", known, key=TAGS_KEY, placeholder="any")
    st.number_input(
        "of the last days (0: of any time)", min_value=0, max_value=36_500, key=DAYS_KEY
    )
    buttons = {"Which turns?": (True, False), "Bring in": (False, False), "Undo": (False, True)}
    for column, (label, (dry, undo)) in zip(
        st.columns(3, gap="small"), buttons.items(), strict=True
    ):
        column.button(
            label,
            key=f"adopt {label}",
            width="stretch",
            on_click=notices.attempt,
            args=(PLACE, partial(_adopt, dry, undo)),
        )
    st.text("Nothing is copied: the turns get a tag, which `history.projects` filters by.")
    notices.show(PLACE)


def _adopt(dry_run: bool, undo: bool) -> Notice:
    from ragstream_core.build.history.adopting import adopt

    state, project = st.session_state, st.session_state[PROJECT_KEY]
    rows = adopt(
        home(), project, tags=state[TAGS_KEY], days=float(state[DAYS_KEY]), undo=undo,
        dry_run=dry_run,
    )  # fmt: skip
    what = "would be brought into" if dry_run else "no longer belong to" if undo else "belong to"
    numbers = ", ".join(f"#{row['seq']}" for row in rows[:20])
    return Notice([f"{len(rows):,} turns {what} {project}{': ' * bool(rows)}{numbers}"])
