"""New documents: a project of uploads, of a folder or of an address, and uploads into one."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from ragstream_app.output.markup import literal
from ragstream_app.page.panels import projects
from ragstream_app.page.panels.shared import PROJECTS_KEY, PROMPT_KEY, show_problem, workspace
from ragstream_app.session import Problem, describe
from ragstream_core.text.plurals import counted

NAME_KEY = "new_project"
FOLDER_KEY = "new_project_folder"
ADDRESS_KEY = "new_project_address"
PROBLEM_KEY = "project_problem"
TARGET_KEY = "upload_target"
REFUSED_KEY = "upload_refused"


def show() -> None:
    """Draw what makes a project, what takes uploads, and what came of the last of them."""
    make, fill = st.columns(2, gap="small")
    with make.popover("New project", width="stretch", help="From uploads, a folder or an address."):
        _maker()
    own = workspace().own_projects()  # nothing is put into what is pulled
    with fill.popover("Upload", width="stretch", disabled=not own, help="Adds documents."):
        if own:
            uploader()
            _refused()
    for name, reason in workspace().unfit_folders():
        st.text(f"No project: {name!r}: {reason}")
    for line in st.session_state.get(projects.SAID_KEY, []):
        st.text(line)


def _maker() -> None:
    """Draw what makes a project: an empty one to upload into, or one of a folder or address."""
    st.text_input(
        "Name",
        key=NAME_KEY,
        placeholder="for example my-notes",
        help="1 to 64 letters, digits, dots, hyphens or underscores.",
    )
    st.text_input(
        "Folder on this machine (optional)",
        key=FOLDER_KEY,
        placeholder="for example ~/notes",
        help="Its documents are read where they lie; nothing is copied or written there. Without "
        "a folder or an address the project is empty, and Upload fills it.",
    )
    st.text_input(
        "Address to fetch from (optional)",
        key=ADDRESS_KEY,
        placeholder="https://host/team/wiki.git",
        help="s3://, gs://, az://, sftp://, https:// (one file, or a listing such as SHA256SUMS "
        "or llms.txt), or a git repository. It is only noted; Sync fetches it.",
    )
    st.text(f"Never type a password or a key. {projects.KEYS_ARE_NOT_TYPED}")
    st.button(
        "Create",
        key="create project",
        on_click=_create,
        width="stretch",
        help="Makes the project. A folder is ingested at once; an address waits for Sync.",
    )
    _handbook()
    problem = st.session_state.get(PROBLEM_KEY)
    if problem:  # here: what stands below the button is hidden while this is open
        show_problem(problem)


def _handbook() -> None:
    """Offer the sample project for as long as there is none of its name."""
    from ragstream_core.services.sample_project import PROJECT

    if workspace().projects() and PROJECT not in workspace().projects():
        st.button(
            "Try the handbook",
            key="handbook later",
            on_click=_on_handbook,
            width="stretch",
            help="Makes RAGstream's own handbook a project, with a question to ask it.",
        )


def _on_handbook() -> None:
    st.session_state[PROBLEM_KEY] = None
    try:
        add_handbook()
    except Exception as error:  # the page's error boundary
        st.session_state[PROBLEM_KEY] = describe(error)


def add_handbook() -> None:
    """Put the handbook into the data root, choose it, ingest it, and write a question.

    Raises:
        RagstreamError: The handbook is not there, or its place is taken.
        OSError: Disk full, permission denied.
    """
    from ragstream_core.services.sample_project import PROJECT, QUESTION, plan_sample, put_sample

    plan = plan_sample(workspace().data_dir)
    put_sample(replace(plan, changed=()))  # what a person wrote stays
    projects.choose(PROJECT)
    st.session_state[PROMPT_KEY] = st.session_state.get(PROMPT_KEY) or QUESTION
    projects.start_ingest(PROJECT)


def uploader() -> None:
    """Draw where documents are dropped; they are saved and ingested at once."""
    from ragstream_core.wiring.projects import is_in_place

    own, layout = workspace().own_projects(), workspace().layout
    wanted = [name for name in st.session_state[PROJECTS_KEY] if name in own] or own
    taking = [name for name in wanted if not is_in_place(layout, name)]
    if not taking:
        names = ", ".join(map(literal, wanted))
        reads = (
            "reads your own folder. Copy the files"
            if len(wanted) == 1
            else "read your own folders. Copy the files"
        )
        st.info(f"{names} {reads} there, or make or choose another project.")
        return
    target = st.selectbox("Into project", taking, key=TARGET_KEY) if len(taking) > 1 else taking[0]
    largest = workspace().config.settings.discovery.max_pdf_bytes
    number = st.session_state.setdefault("uploader", 0)
    st.file_uploader(
        "Documents",
        accept_multiple_files=True,
        key=f"uploader {number}",
        max_upload_size=max(1, largest // 1_000_000),
        help="PDF, text, Markdown, Office and code. They are saved in the folder uploads of "
        f"{literal(target)} and ingested.",
        on_change=_upload,
        args=(target, f"uploader {number}"),
    )


def _refused() -> None:
    """Say which files were not taken, and what to do: here, since this stays open."""
    for problem in st.session_state.get(REFUSED_KEY, []):
        show_problem(problem)


def _upload(project: str, key: str) -> None:
    """Save what was dropped and start the ingest; a refused file never stops the others."""
    from ragstream_core.services.uploads import save_upload

    lines, saved, state = list[str](), False, st.session_state
    state[REFUSED_KEY] = list[Problem]()
    if key != f"uploader {state['uploader']}":
        return  # sent twice by a browser that has not drawn the new one yet
    for file in state[key] or []:
        try:
            upload = save_upload(workspace(), project, file.name, file.getvalue())
        except Exception as error:  # the page's error boundary
            told = describe(error)
            state[REFUSED_KEY].append(replace(told, message=f"{file.name}: {told.message}"))
            continue
        saved = True
        said = f"saved as {upload.path}" if upload.new else f"same bytes, kept as {upload.path}"
        lines.append(f"{upload.label}: {said}")
    state[projects.SAID_KEY] = lines
    state["uploader"] += 1  # an empty uploader; else they would be saved once more
    if saved:
        projects.start_ingest(project)


def add_places(places: list[str], name: str = "") -> None:
    """Make a project of folders and addresses; folders are ingested at once, addresses wait.

    Args:
        places: At least one path, ``~`` being the home of this user, or address.
        name: Of the project; empty: that of the first place.

    Raises:
        RagstreamError: There is no such folder or address, or it cannot be a project.
        OSError: Disk full, permission denied.
    """
    from ragstream_core.services.projects import AddRequest, add, name_for

    made = add(workspace(), name or name_for(workspace(), places[0]), AddRequest(places))
    name, state = made.project.name, st.session_state
    projects.choose(name)
    urls = projects.addresses(name)
    added = made.project.roots[-len(places) :]
    left_out = f", {made.left_out:,} other files left out" if made.left_out else ""
    state[projects.SAID_KEY] = [
        f"{root.path}: noted; Sync fetches it"
        if root.path in urls
        else f"{root.path}: {counted(root.documents, 'document')}, read in place{left_out}"
        for root in added
    ]
    state[projects.SAID_KEY] += made.notes
    if any(root.path not in urls for root in added):
        projects.start_ingest(name)


def _create() -> None:
    from ragstream_core.services.uploads import create_project

    state = st.session_state
    state[PROBLEM_KEY] = None
    name = state[NAME_KEY].strip()
    places = [text for key in (FOLDER_KEY, ADDRESS_KEY) if (text := (state[key] or "").strip())]
    try:
        if places:
            add_places(places, name)
        else:
            projects.choose(create_project(workspace(), name))
    except Exception as error:  # the page's error boundary
        state[PROBLEM_KEY] = describe(error)
        return
    state[NAME_KEY] = state[FOLDER_KEY] = state[ADDRESS_KEY] = ""
