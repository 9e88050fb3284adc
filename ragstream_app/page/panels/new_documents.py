"""New documents: a project of uploads, of a folder or of an address, and uploads into one."""

from __future__ import annotations

import streamlit as st

from ragstream_app.page.panels import projects
from ragstream_app.page.panels.shared import PROJECTS_KEY, show_problem, workspace
from ragstream_app.session import describe
from ragstream_core.ingestion.file_types import TYPES

NAME_KEY = "new_project"
FOLDER_KEY = "new_project_folder"
ADDRESS_KEY = "new_project_address"
PROBLEM_KEY = "project_problem"
TARGET_KEY = "upload_target"


def show() -> None:
    """Draw what makes a project, what takes uploads, and what came of the last of them."""
    make, fill = st.columns(2, gap="small")
    with make.popover("New project", width="stretch", help="From uploads, a folder or an address."):
        _maker()
    own = workspace().own_projects()  # nothing is put into what is pulled
    with fill.popover("Upload", width="stretch", disabled=not own, help="Adds documents."):
        if own:
            uploader()
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
    problem = st.session_state.get(PROBLEM_KEY)
    if problem:  # here: what stands below the button is hidden while this is open
        show_problem(problem)


def uploader() -> None:
    """Draw where documents are dropped; they are saved and ingested at once."""
    own = workspace().own_projects()
    chosen = [name for name in st.session_state[PROJECTS_KEY] if name in own] or own
    target = st.selectbox("Into project", chosen, key=TARGET_KEY) if len(chosen) > 1 else chosen[0]
    largest = workspace().config.settings.discovery.max_pdf_bytes
    number = st.session_state.setdefault("uploader", 0)
    st.file_uploader(
        "Documents",
        type=sorted(ending[1:] for ending in TYPES),
        accept_multiple_files=True,
        key=f"uploader {number}",
        max_upload_size=max(1, largest // 1_000_000),
        help="PDF, text, Markdown, Office and code. They are saved below `uploads` and ingested.",
        on_change=_upload,
        args=(target, f"uploader {number}"),
    )


def _upload(project: str, key: str) -> None:
    """Save what was dropped and start the ingest; a refused file never stops the others."""
    from ragstream_core.services.uploads import save_upload

    lines, saved, state = [], False, st.session_state
    if key != f"uploader {state['uploader']}":
        return  # sent twice by a browser that has not drawn the new one yet
    for file in state[key] or []:
        try:
            upload = save_upload(workspace(), project, file.name, file.getvalue())
        except Exception as error:  # the page's error boundary
            lines.append(f"{file.name}: {describe(error).message}")
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
        else f"{root.path}: {root.documents:,} documents, read in place{left_out}"
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
