"""Projects: which are read, and what brings each up to date: its ingest, the sync of addresses."""

from __future__ import annotations

import streamlit as st

from ragstream_app.output.markup import literal
from ragstream_app.output.synced import sync_lines, sync_summary
from ragstream_app.page.jobs.ingests import IngestJob, IngestJobs, summary
from ragstream_app.page.jobs.syncs import SyncJob, SyncJobs
from ragstream_app.page.panels import files, notices
from ragstream_app.page.panels.shared import (
    PROJECTS_KEY,
    show_error,
    show_problem,
    workspace,
)
from ragstream_app.session import Problem, describe
from ragstream_core.errors import RagstreamError
from ragstream_core.services import sync_project

KEYS_ARE_NOT_TYPED = "Keys come from the environment, ~/.netrc or an SSH agent."

# What came of the newest uploads, or of the newest project; a line each.
SAID_KEY = "projects_said"
SHOWN_LINES = 30
_CHANGES = ("new", "updated", "deleted", "skipped")


@st.cache_resource  # type: ignore[untyped-decorator]
def ingests() -> IngestJobs:
    """Return the ingests of this process; every tab sees them."""
    return IngestJobs()


@st.cache_resource  # type: ignore[untyped-decorator]
def syncs() -> SyncJobs:
    """Return the syncs of this process; every tab sees them."""
    return SyncJobs()


def addresses(project: str) -> tuple[str, ...]:
    """Return where a project is fetched from; none if that is nowhere, or cannot be read."""
    try:
        return tuple(root.address.url for root in sync_project.roots(workspace(), project))
    except RagstreamError:  # said by `state_of`
        return ()


def show() -> None:
    """Draw the choice of projects, and what brings each up to date."""
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


def one_project(name: str, *, alone: bool) -> None:
    """Draw a project's state, and what brings it up to date.

    Args:
        name: Of the project.
        alone: Whether it is the only one chosen; else it is named.
    """
    sync, ingest = syncs().of(name), ingests().of(name)
    at_work = next((job for job in (sync, ingest) if job is not None and job.running), None)
    if at_work is None:
        _settle(name, sync, ingest)
    st.text(" · ".join([*([] if alone else [name]), state_of(name)]))
    if at_work is not None:
        _stop(at_work)
        notices.follow(at_work)
        return
    if name not in workspace().own_projects():
        st.text(f"Made elsewhere; ragstream index pull {name} brings it up to date.")
        return
    _starters(name)
    if sync is not None:
        sync_result(sync)
    if ingest is not None:
        result(ingest)


def _starters(name: str) -> None:
    """Draw what starts the ingest of a project, and the sync if it has addresses."""
    urls, raw = addresses(name), not is_ingested(name)
    left, right = st.columns(2, gap="small") if urls else (st, st)
    if urls:
        left.button(
            "Sync",
            key=f"sync {name}",
            width="stretch",
            type="primary" if raw else "secondary",
            help=f"Fetches what is new at {', '.join(map(literal, urls))}, and ingests it. "
            f"{KEYS_ARE_NOT_TYPED}",
            on_click=start_sync,
            args=(name,),
        )
    right.button(
        "Ingest Folder",
        key=f"ingest {name}",
        width="stretch",
        type="primary" if raw and not urls and not is_empty(name) else "secondary",
        help=f"Brings the index of {literal(name)} up to date with "
        f"{'what was fetched' if urls else 'its folder'}.",
        on_click=start_ingest,
        args=(name,),
    )


def _stop(job: IngestJob | SyncJob) -> None:
    """Offer the end of a job; what came or was embedded so far is kept."""
    is_sync = isinstance(job, SyncJob)
    st.button(
        "Stop the sync" if is_sync else "Stop the ingest",
        key=f"stop {'sync' if is_sync else 'ingest'} {job.project}",
        width="stretch",
        disabled=job.stopped,
        help="Nothing is removed; what was fetched so far is kept."
        if is_sync
        else "The index stays as it is; what was embedded so far is kept for the next time.",
        on_click=job.stop,
    )


def state_of(name: str) -> str:
    """Return what is indexed of a project, how much is waiting, and a line for what is not here."""
    try:
        known = files.status(name)
    except Exception as error:  # a damaged index is said where it is used
        return describe(error).message
    absent = [f"absent: {root}" for root in known.absent]
    if not known.generation:
        waits = (
            f"not ingested yet; documents: {known.on_disk:,}" if known.on_disk else "no documents"
        )
        return "\n".join([waits, *absent])
    waiting = sum(map(len, known.pending))
    facts = [f"files: {known.files:,}", f"index version {known.generation}"]
    line = " · ".join([*facts, *([f"{waiting:,} to ingest"] if waiting else [])])
    return "\n".join([line, *absent])


def is_ingested(name: str) -> bool:
    """Whether a project has a generation; one whose state cannot be read has."""
    try:
        return bool(files.status(name).generation)
    except Exception:  # said by `state_of`
        return True


def is_empty(name: str) -> bool:
    """Whether a project has no document at all, neither indexed nor to be ingested."""
    try:
        known = files.status(name)
    except Exception:  # said by `state_of`
        return False
    return not known.generation and not known.on_disk


def is_running(name: str) -> bool:
    """Whether a sync or an ingest of a project is at work."""
    return any(job is not None and job.running for job in (syncs().of(name), ingests().of(name)))


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


def sync_result(job: SyncJob) -> None:
    """Draw what a sync fetched, what it could not, or why it did not."""
    if job.error:
        show_error(job.error)
    done = job.result
    if done is None:
        return
    for row in done.problems:
        show_problem(Problem("RootProblem", f"{row.url}: {row.message}", row.advice))
    with st.expander(f"Last sync: {sync_summary(done)}"):
        lines = list(sync_lines(done))
        st.text("\n".join(lines[:SHOWN_LINES]))
        if len(lines) > SHOWN_LINES:
            more = f"{len(lines) - SHOWN_LINES:,} more lines"
            st.text(f"{more}; ragstream project sync {job.project} fetches anew and prints all")


def start_sync(project: str) -> None:
    """Fetch what is new at the addresses of a project, then ingest it, in the background."""
    st.session_state[SAID_KEY] = []
    space, jobs = workspace(), ingests()
    syncs().start(space, project, lambda: jobs.start(space, project))


def start_ingest(project: str) -> None:
    """Bring the index of a project up to date, in the background."""
    ingests().start(workspace(), project)


def choose(name: str) -> None:
    """Let the prompt read a project from the next drawing of the page on."""
    chosen = st.session_state.get(PROJECTS_KEY, [])
    st.session_state[PROJECTS_KEY] = [*(n for n in chosen if n != name), name]


def _settle(name: str, *jobs: IngestJob | SyncJob | None) -> None:
    """Forget what was known of projects before a sync or an ingest, once it has ended."""
    key = f"settled {name}"
    if any(jobs) and st.session_state.get(key) != jobs:
        st.session_state[key] = jobs
        files.status.clear()
        files.project_files.clear()
