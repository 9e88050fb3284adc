"""The page: Prompt left, Super-Prompt right, eight buttons, nothing runs without a click.

Run by ``ragstream up`` or ``python -m streamlit run ragstream_app/page.py --server.port 8503``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from ragstream_app import page_panels as panels
from ragstream_app.desk import Desk, press, press_all
from ragstream_app.failures import describe
from ragstream_app.stage_text import stage_text
from ragstream_core.config import quiet_environment
from ragstream_core.orchestration.chain import BUTTONS, CHAIN

if TYPE_CHECKING:
    from ragstream_core.build.workspace import Workspace
    from ragstream_core.orchestration.inputs import PromptRequest

PROMPT_HEIGHT = 390
SUPER_PROMPT_HEIGHT = 470  # ends where the second row of buttons ends
LOOPBACK = ("127.0.0.1", "::1", "localhost")
PLACEHOLDER = """What do you want to know or have done?

Headers such as "## Task", "## Context" or "## Format" are understood; plain text is fine."""


@st.cache_resource  # type: ignore[untyped-decorator]
def workspace() -> Workspace:
    """Return the process's workspace; models are loaded once, at the first stage that needs one."""
    from ragstream_core.build.workspace import open_workspace

    os.umask(0o077)
    quiet_environment()
    return open_workspace()


@st.cache_data(ttl=5.0)  # type: ignore[untyped-decorator]
def project_files(project: str) -> list[str]:
    """Return the files of a project as ``project/path``, sorted."""
    from ragstream_core.build.file_sources import injectable

    return [f"{project}/{path}" for path in injectable(workspace(), project)]


def request_now() -> PromptRequest:
    """Return what the page asks for at this moment.

    Raises:
        EmptyPrompt: The prompt holds no word.
        UsageError: No project is chosen.
    """
    from ragstream_core.orchestration.inputs import PromptRequest

    state = st.session_state
    projects = tuple(state.projects)
    several = len(projects) > 1
    inject = state.get("inject", [])
    return PromptRequest(
        text=state.prompt_text,
        projects=projects,
        files=tuple(inject if several else (name.partition("/")[2] for name in inject)),
        off=tuple(sorted(state.get(panels.OFF_KEY, set()))),
        lock=bool(state.get("lock", False)),
    )


def on_press(button: str) -> None:
    """Run the stages of one button, or of all; an error becomes a message, never a traceback."""
    state = st.session_state
    state.problem = None
    try:
        with st.spinner(f"{button} …"):
            if button == "Run all":
                press_all(state.desk, request_now(), workspace())
            else:
                first = button == BUTTONS[0]
                request = request_now() if first else state.desk.request
                press(state.desk, button, request, workspace())
    except Exception as error:  # the page's error boundary
        state.problem = describe(error)
    last = state.desk.last
    state.super_prompt = stage_text(last.prompt) if last else ""


def show_problem() -> None:
    """Show the last error as a message and the next step."""
    problem = st.session_state.problem
    if problem:
        hint = f"  \nNext: {panels.literal(problem['hint'])}" if problem["hint"] else ""
        st.error(panels.literal(problem["message"]) + hint)


def show_prompt_column() -> None:
    """Show the Prompt, the eight buttons and what the prompt may read."""
    st.text_area("Prompt", key="prompt_text", height=PROMPT_HEIGHT, placeholder=PLACEHOLDER)
    desk: Desk = st.session_state.desk
    for row in (BUTTONS[:4], BUTTONS[4:]):
        for column, button in zip(st.columns(4, gap="small"), row, strict=True):
            column.button(
                button,
                key=f"button {button}",
                help=" ".join(spec.summary for spec in CHAIN if spec.button == button),
                type="primary" if button == desk.next_button else "secondary",
                width="stretch",
                on_click=on_press,
                args=(button,),
            )
    everything, lock, files = st.columns([1, 1, 2], gap="small", vertical_alignment="center")
    everything.button(
        "Run all",
        help="Presses the eight buttons in order.",
        width="stretch",
        on_click=on_press,
        args=("Run all",),
    )
    lock.toggle("Exact File Lock", key="lock", help="Only the injected files; no retrieval.")
    show_files(files)


def show_files(column: st.delta_generator.DeltaGenerator) -> None:
    """Show which files are injected and which retrieval may read."""
    names = [name for project in st.session_state.projects for name in project_files(project)]
    off: set[str] = st.session_state.get(panels.OFF_KEY, set())
    eligible = len(names) - len(off & set(names))
    with column.popover(f"Files: {eligible:,} of {len(names):,} ON", width="stretch"):
        st.multiselect("Inject (❖ FILES)", names, key="inject", help="Whole files, with sha256.")
        panels.file_boxes(names)


def show_super_prompt_column() -> None:
    """Show the evolving Super-Prompt and what is known about it."""
    st.text_area(
        "Super-Prompt",
        key="super_prompt",
        height=SUPER_PROMPT_HEIGHT,
        placeholder="Each button shows here what its stage made of the prompt.",
    )
    step = st.session_state.desk.last
    if step is None:
        st.text("stage: raw")
        return
    tokens = step.prompt.extras.get("token_tree", {}).get("total", 0)
    facts = [f"stage: {step.prompt.stage}"]
    facts += [f"{tokens:,} tokens"] if tokens else []
    facts += [f"key {step.prompt_key[:12]}"] if step.prompt_key else []
    facts += [f"run {step.run_id[:8]}"] if step.run_id else []
    spent = sum(sum(one.timings_ms.values()) for one in st.session_state.desk.steps.values())
    facts += [f"{spent:,.0f} ms"]
    line, save = st.columns([3, 1], gap="small", vertical_alignment="center")
    line.text(" · ".join(facts))
    if step.prompt_key:
        name = f"super-prompt-{step.prompt_key[:12]}.md"
        save.download_button("Save", st.session_state.super_prompt, name, width="stretch")


def show_details() -> None:
    """Show the decisions, warnings, citations and events of the newest step."""
    step = st.session_state.desk.last
    if step is None:
        return
    found = panels.notes(step)
    title = f"Warnings ({len(found)})" if found else "Warnings"
    decisions, warnings, citations, log = st.tabs(["Decisions", title, "Citations", "Events"])
    with decisions:
        panels.decision_table(step.prompt)
    with warnings:
        st.text("\n".join(found) or "No warnings.")
    with citations:
        panels.citation_table(step.prompt)
    with log:
        st.text("\n".join(panels.events(step)) or "No events.")


def refuse_remote() -> None:
    """Stop where the server listens to more than this machine: the page has no password."""
    address = st.get_option("server.address")
    if st.runtime.exists() and address not in LOOPBACK:
        st.error(
            "This page would be open to the network and has no password. "
            "Start it with `ragstream up`, or with `--server.address 127.0.0.1`."
        )
        st.stop()


def main() -> None:
    """Draw the page."""
    st.set_page_config(page_title="RAGstream", layout="wide")
    st.html(Path(__file__).parent / "page.css")
    refuse_remote()
    state = st.session_state
    state.setdefault("desk", Desk())
    state.setdefault("problem", None)
    try:
        names = workspace().projects()
    except Exception as error:  # a wrong setting, an unreadable data root
        state.problem = describe(error)
        show_problem()
        st.stop()
    title, chooser = st.columns([2, 3], gap="small", vertical_alignment="center")
    title.title("RAGstream", anchor=False)
    chooser.multiselect(
        "Projects",
        names,
        default=names[:1],
        key="projects",
        label_visibility="collapsed",
        placeholder="Projects to read",
    )
    if not names:
        st.info("No project yet: put documents into doc_raw/PROJECT and run `ragstream ingest`.")
    show_problem()
    left, right = st.columns(2, gap="small")
    with left:
        show_prompt_column()
    with right:
        show_super_prompt_column()
    if state.desk.request is not None and state.desk.request != _quietly_now():
        st.text("The prompt or its files changed; PreProcessing takes the change in.")
    show_details()


def _quietly_now() -> PromptRequest | None:
    try:
        return request_now()
    except Exception:  # an emptied prompt is a change as well
        return None


main()
