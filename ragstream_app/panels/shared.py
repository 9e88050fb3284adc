"""What the panels share: the workspace of the process, the desk of the tab, what is asked now."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import streamlit as st

from ragstream_app.desk import Desk
from ragstream_app.failures import describe
from ragstream_app.panels.markup import literal
from ragstream_core.config import quiet_environment

if TYPE_CHECKING:
    from ragstream_core.build.workspace import Workspace
    from ragstream_core.orchestration.inputs import PromptRequest

OFF_KEY = "files_off"
INJECT_KEY = "inject"
LOCK_KEY = "lock"
PROJECTS_KEY = "projects"
PROMPT_KEY = "prompt_text"
SUPER_PROMPT_KEY = "super_prompt"


@st.cache_resource  # type: ignore[untyped-decorator]
def workspace() -> Workspace:
    """Return the process's workspace; models are loaded once, at the first stage that needs one."""
    from ragstream_core.build.workspace import open_workspace

    os.umask(0o077)
    quiet_environment()
    return open_workspace()


def desk() -> Desk:
    """Return the prompt of this tab on its way."""
    found: Desk = st.session_state.setdefault("desk", Desk())
    return found


def request_now() -> PromptRequest:
    """Return what the page asks for at this moment.

    Raises:
        EmptyPrompt: The prompt holds no word.
        UsageError: No project is chosen.
    """
    from ragstream_core.orchestration.inputs import PromptRequest

    state = st.session_state
    projects = tuple(state[PROJECTS_KEY])
    several = len(projects) > 1
    inject = state.get(INJECT_KEY, [])
    return PromptRequest(
        text=state[PROMPT_KEY],
        projects=projects,
        files=tuple(inject if several else (name.partition("/")[2] for name in inject)),
        off=tuple(sorted(state.get(OFF_KEY, set()))),
        lock=bool(state.get(LOCK_KEY, False)),
    )


def changed() -> bool:
    """Whether the page asks for something else than PreProcessing took in."""
    taken = desk().request
    if taken is None:
        return False
    try:
        return request_now() != taken
    except Exception:  # an emptied prompt is a change as well
        return True


def report(error: BaseException | None) -> None:
    """Remember an error, shown by `show_problem`; None forgets the last one."""
    st.session_state["problem"] = describe(error) if error is not None else None


def show_problem() -> None:
    """Show the last error as a message and the next step."""
    problem = st.session_state.get("problem")
    if problem:
        hint = f"  \nNext: {literal(problem['hint'])}" if problem["hint"] else ""
        st.error(literal(problem["message"]) + hint)
