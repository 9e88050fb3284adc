"""Projects: which are read, new ones, their ingest with its progress, and uploads into them."""

from __future__ import annotations

import streamlit as st

from ragstream_app.output.markup import literal
from ragstream_app.page.jobs.ingests import IngestJob, IngestJobs, summary
from ragstream_app.page.panels import files, notices
from ragstream_app.page.panels.shared import (
    PROJECTS_KEY,
    run_link,
    show_error,
    show_problem,
    workspace,
)
from ragstream_app.session import describe
from ragstream_core.conversations.importers.reader import expanded
from ragstream_core.ingestion.file_types import TYPES
from ragstream_core.wiring import ingestion

NEW_KEY = "new_project"
FOLDER_KEY = "new_project_folder"
PROBLEM_KEY = "project_problem"
SAVED_KEY = "uploads_saved"
TARGET_KEY = "upload_target"
_CHANGES = ("new", "updated", "deleted", "skipped")


@st.cache_resource  # type: ignore[untyped-decorator]
def ingests() -> IngestJobs:
    """Return the ingests of this process; every tab sees them."""
    return IngestJobs()


@st.cache_data(ttl=5.0)  # type: ignore[untyped-decorator]
def status(project: str) -> ingestion.ProjectStatus:
    """Return what is indexed of a project and what an ingest would do."""
    return ingestion.status(workspace(), project)


def show() -> None:
    """Draw the choice of projects, an ingest for each, and what makes new ones."""
    names = workspace().projects()
    chosen = st.session_state.setdefault(PROJECTS_KEY, names[:1])
    st.session_state[PROJECTS_KEY] = [name for name in chosen if name in names]
    st.multiselect(
        "Projects",
        names,
        key=PROJECTS_KEY,
        placeholder="Choose projects to read",
        help="The prompt reads these. A project is a folder below doc_raw, or folders of your own "
        "that are read in place.",
    )
    for name in st.session_state[PROJECTS_KEY]:
        one_project(name, alone=len(st.session_state[PROJECTS_KEY]) == 1)
    make, fill = st.columns(2, gap="small")
    with make.popover("New project", width="stretch", help="From uploads, or from a folder."):
        _maker()
    own = workspace().own_projects()  # nothing is put into what is pulled
    with fill.popover("Upload", width="stretch", disabled=not own, help="Adds documents."):
        if own:
            uploader()
    for name, reason in workspace().unfit_folders():
        st.text(f"No project: {name!r}: {reason}")
    problem = st.session_state.get(PROBLEM_KEY)
    if problem:
        show_problem(problem)
    for line in st.session_state.get(SAVED_KEY, []):
        st.text(line)


def _maker() -> None:
    """Draw what makes a project: an empty one to upload into, or one of a folder."""
    st.text_input(
        "Name",
        key=NEW_KEY,
        placeholder="for example my-notes",
        help="1 to 64 letters, digits, dots, hyphens or underscores.",
    )
    st.text_input(
        "Folder on this machine (optional)",
        key=FOLDER_KEY,
        placeholder="for example ~/notes",
        help="Its documents are read where they lie; nothing is copied or written there. Without "
        "a folder the project is empty, and Upload fills it.",
    )
    st.button(
        "Create",
        key="create project",
        on_click=_create,
        width="stretch",
        help="Makes the project; with a folder it is ingested at once.",
    )


def one_project(name: str, *, alone: bool) -> None:
    """Draw a project's state and its ingest.

    Args:
        name: Of the project.
        alone: Whether it is the only one chosen; else it is named.
    """
    job = ingests().of(name)
    running = job is not None and job.running
    if not running:
        _settle(name, job)
    st.text(" · ".join([*([] if alone else [name]), state_of(name)]))
    if job is not None and running:
        _stop(job)
        notices.follow(job)
        return
    if name not in workspace().own_projects():
        st.text(f"Made elsewhere; ragstream index pull {name} brings it up to date.")
        return
    st.button(
        "Ingest Folder",
        key=f"ingest {name}",
        width="stretch",
        type="secondary" if is_ingested(name) else "primary",
        help=f"Brings the index of {literal(name)} up to date with its folder.",
        on_click=start_ingest,
        args=(name,),
    )
    if job is not None:
        result(job)


def _stop(job: IngestJob) -> None:
    """Offer the end of an ingest; nothing of it is committed then."""
    st.button(
        "Stop the ingest",
        key=f"stop ingest {job.project}",
        width="stretch",
        disabled=job.stopped,
        help="The index stays as it is; what was embedded so far is kept for the next time.",
        on_click=job.stop,
    )


def state_of(name: str) -> str:
    """Return in a line what is indexed of a project, and how much is waiting."""
    try:
        known = status(name)
    except Exception as error:  # a damaged index is said where it is used
        return describe(error).message
    if not known.generation:
        return f"not ingested yet; documents: {known.on_disk:,}"
    waiting = sum(map(len, known.pending))
    facts = [f"files: {known.files:,}", f"generation {known.generation}"]
    return " · ".join([*facts, *([f"{waiting:,} to ingest"] if waiting else [])])


def is_ingested(name: str) -> bool:
    """Whether a project has a generation; one whose state cannot be read has."""
    try:
        return bool(status(name).generation)
    except Exception:  # said by `state_of`
        return True


def is_running(name: str) -> bool:
    """Whether an ingest of a project is at work."""
    job = ingests().of(name)
    return job is not None and job.running


def result(job: IngestJob) -> None:
    """Draw what an ingest did, or why it did not."""
    if job.error:
        show_error(job.error)
    stats = job.result
    if stats is not None:
        changed = [f"{stats.files[k]:,} {k}" for k in _CHANGES if stats.files.get(k)]
        with st.expander(f"Last ingest: {', '.join(changed) or 'nothing new'}"):
            for line in summary(stats):
                st.text(line)
            run_link(job.run_id, key=f"run of ingest {job.project}")


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
    state[SAVED_KEY] = lines
    state["uploader"] += 1  # an empty uploader; else they would be saved once more
    if saved:
        start_ingest(project)


def start_ingest(project: str) -> None:
    """Bring the index of a project up to date, in the background."""
    ingests().start(workspace(), project)


def choose(name: str) -> None:
    """Let the prompt read a project from the next drawing of the page on."""
    chosen = st.session_state.get(PROJECTS_KEY, [])
    st.session_state[PROJECTS_KEY] = [*(n for n in chosen if n != name), name]


def add_folder(folder: str, name: str = "") -> None:
    """Make a project of a folder that stays where it is, and start its ingest.

    Args:
        folder: Its path; ``~`` is the home of this user.
        name: Of the project; empty: the folder's own.

    Raises:
        RagstreamError: There is no such folder, or it cannot be a project.
        OSError: Disk full, permission denied.
    """
    from ragstream_core.services.projects import AddRequest, add, label_of

    path = expanded(folder)
    made = add(workspace(), name or label_of(path.absolute()), AddRequest([path]))
    choose(made.project.name)
    (root,) = made.project.roots[-1:]
    left_out = f", {made.left_out:,} other files left out" if made.left_out else ""
    documents = f"{root.path}: {root.documents:,} documents, read in place{left_out}"
    st.session_state[SAVED_KEY] = [documents, *made.notes]
    start_ingest(made.project.name)


def _create() -> None:
    from ragstream_core.services.uploads import create_project

    state = st.session_state
    state[PROBLEM_KEY] = None
    name, folder = state[NEW_KEY].strip(), (state.get(FOLDER_KEY) or "").strip()
    try:
        if folder:
            add_folder(folder, name)
        else:
            choose(create_project(workspace(), name))
    except Exception as error:  # the page's error boundary
        state[PROBLEM_KEY] = describe(error)
        return
    state[NEW_KEY] = state[FOLDER_KEY] = ""


def _settle(name: str, job: IngestJob | None) -> None:
    """Forget what was known of projects before an ingest, once it has ended."""
    key = f"settled ingest {name}"
    if job is not None and st.session_state.get(key) is not job:
        st.session_state[key] = job
        status.clear()
        files.project_files.clear()
