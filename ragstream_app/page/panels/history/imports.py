"""Import conversations: an upload or a path on this machine, first looked at, then added."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from ragstream_app.output import imported
from ragstream_app.output.markup import literal
from ragstream_app.page.jobs import imports
from ragstream_app.page.jobs.background import BackgroundJob
from ragstream_app.page.panels import notices
from ragstream_app.page.panels.history.choice import home
from ragstream_app.page.panels.shared import show_error, workspace
from ragstream_core.conversations.use import EVERYWHERE, NOWHERE

if TYPE_CHECKING:
    from ragstream_app.page.jobs.imports import ImportOutcome
    from ragstream_core.conversations.importers.reader import Source
    from ragstream_core.services.history_update import Upkeep

OPEN_KEY = "import_open"
PATH_KEY = "import_path"
PROJECT_KEY = "import_project"
JOB_KEY = "import_job"
EMBED_KEY = "import_embedding"
_SOURCE_KEY = "import_source"
_LABEL_KEY = "import_label"
_ADDING_KEY = "import_adding"

# HTML is taken to be told what to ask for instead.
TYPES = ["zip", "json", "jsonl", "md", "html"]
# An upload is held in memory; a larger export is read from its path.
MOST_MB = 200
SHOWN = 200
HEIGHT = 245
AT_ONCE_S = 0.4


def open_dialog() -> None:
    """Let the dialog be drawn from the next drawing of the page on."""
    st.session_state[OPEN_KEY] = True


def show() -> None:
    """Draw the dialog if it is open; it stays open while an import is at work."""
    if st.session_state.get(OPEN_KEY):
        dialog = st.dialog("Import conversations", width="large", on_dismiss=_on_dismiss)
        dialog(draw)()


def draw() -> None:
    """Draw what comes next: the choice, the work, what was found, or what was added."""
    state = st.session_state
    job: BackgroundJob[ImportOutcome] | None = state.get(JOB_KEY)
    if job is not None and job.running:
        notices.follow(job, stop="stop import")
        return
    if job is not None and job.result is not None:
        _outcome(job.result, added=bool(state.get(_ADDING_KEY)))
        return
    if job is not None and job.stopped:
        st.info("Stopped. What was added before stays; importing again adds the rest.")
    elif job is not None and job.error is not None:
        show_error(job.error)
    _choose()


def _choose() -> None:
    """Draw where the conversations come from."""
    st.text(
        "From ChatGPT, Claude.ai or Gemini: your export, as a ZIP or JSON file. From Claude Code "
        "or Codex: a session log, or the folder with all of them. Conversations in Markdown, and "
        "your own exports as JSONL. You first see what would be added."
    )
    number = st.session_state.setdefault("import_uploader", 0)
    st.file_uploader(
        "Upload an export",
        type=TYPES,
        key=f"import uploader {number}",
        max_upload_size=MOST_MB,
        help="For a larger export, type its path below: it is read where it lies.",
    )
    st.text_input(
        "Or a path on this machine",
        key=PATH_KEY,
        placeholder="~/Downloads/export.zip, or ~/.claude/projects",
        help="A file, a ZIP, or a folder with its subfolders. It is only read.",
    )
    st.selectbox(
        "Use them in",
        ["", EVERYWHERE, *workspace().projects()],
        key=PROJECT_KEY,
        format_func=lambda name: {"": NOWHERE, EVERYWHERE: "every project"}.get(name, name),
        help="Whose prompts may use the turns. Nowhere: none until you bring them into a project "
        "with Adopt; a coding agent's session still belongs to the project that is named like the "
        "folder it worked in.",
    )
    st.button("See what would come", type="primary", on_click=_on_look, width="stretch")


def _outcome(outcome: ImportOutcome, *, added: bool) -> None:
    """Draw what an import would bring, or brought, and what can be done next."""
    if outcome.found is not None:
        _conversations(outcome)
        count = outcome.found.added
    else:
        report, count = outcome.rows, outcome.count
        line = f"{count:,} records of an export of RAGstream; those that exist already are skipped"
        if report is not None:
            line = f"{report.added:,} records added, {report.skipped:,} existed already"
        st.text(line)
    another, go = st.columns(2, gap="small")
    if added:
        another.button("Import something else", on_click=_forget, width="stretch")
        with go:
            _embedding(count)
        return
    another.button("Choose something else", on_click=_forget, width="stretch")
    what = "turns" if outcome.found is not None else "records"
    go.button(
        f"Add {count:,} {what}",
        type="primary",
        width="stretch",
        disabled=not count,
        on_click=_on_add,
    )


def _conversations(outcome: ImportOutcome) -> None:
    """Draw the conversations of an export, and what is to be looked at."""
    found = outcome.found
    if found is None:
        return
    told = st.success if found.added and not found.dry_run else st.info
    told(f"{imported.summed_up(found)}.")
    if found.added:
        st.text(imported.used(found.used_in))
    rows = [
        {
            "began": row.timestamp[:10],
            "title": row.title,
            "turns": imported.counted(row),
            "from": row.format,
            "conversation": row.session,
        }
        for row in found.conversations[:SHOWN]
    ]
    if rows:
        st.dataframe(rows, hide_index=True, height=min(HEIGHT, 38 + 35 * len(rows)))
    if len(found.conversations) > SHOWN:
        st.text(f"and {len(found.conversations) - SHOWN:,} more conversations")
    lines = [*imported.problems(found, rest=""), *imported.left_out(found, rest="")]
    lines += [f"{name} seems to hold {', '.join(k)}" for name, k in found.secrets.items()][:SHOWN]
    if lines:
        st.warning("  \n".join(map(literal, lines)))
    if waiting := imported.unfinished(found):
        st.text(waiting)


def _embedding(count: int) -> None:
    """Draw the step that makes new turns be found by meaning."""
    job: BackgroundJob[Upkeep] | None = st.session_state.get(EMBED_KEY)
    if job is not None and job.running:
        notices.follow(job)
        return
    if job is not None and job.error is not None:
        show_error(job.error)
    if job is not None and job.result is not None:
        st.text("Done: prompts find them now.")
        return
    st.button(
        "Make them searchable",
        type="primary",
        width="stretch",
        disabled=not count,
        on_click=_on_embed,
        help="Embeds the new turns, so that prompts find them by meaning. "
        "`ragstream up` does it every night.",
    )


def _on_look() -> None:
    """Look at what was chosen; the upload goes first."""
    from ragstream_core.conversations.importers.reader import Upload, expanded
    from ragstream_core.errors import UsageError

    state = st.session_state
    state[_LABEL_KEY] = state.get(PROJECT_KEY) or ""  # the box itself is not drawn from here on
    uploaded = state.get(f"import uploader {state['import_uploader']}")
    path = (state.get(PATH_KEY) or "").strip()
    if uploaded is not None:
        _start(Upload(uploaded.name, uploaded.getvalue()), dry_run=True)
    elif path:
        _start(expanded(path), dry_run=True)
    else:
        _fail(UsageError("nothing is chosen", hint="upload an export, or type its path"))


def _start(source: Source, *, dry_run: bool) -> None:
    state = st.session_state
    state[_SOURCE_KEY], state[_ADDING_KEY] = source, not dry_run
    state.pop(EMBED_KEY, None)
    job = imports.start(home(), source, use_in=[state.get(_LABEL_KEY, "")], dry_run=dry_run)
    state[JOB_KEY] = job
    job.wait(AT_ONCE_S)


def _fail(error: Exception) -> None:
    def work(_: object) -> ImportOutcome:
        """Fail at once.

        Raises:
            Exception: The error, as any other job of the dialog raises one.
        """
        raise error

    job = BackgroundJob("the import", work).start()
    job.wait()
    st.session_state[JOB_KEY] = job


def _on_add() -> None:
    _start(st.session_state[_SOURCE_KEY], dry_run=False)


def _on_embed() -> None:
    job = st.session_state[EMBED_KEY] = imports.embed(home())
    job.wait(AT_ONCE_S)


def _forget() -> None:
    """Begin again; an upload is let go."""
    state = st.session_state
    for key in (JOB_KEY, _SOURCE_KEY, _ADDING_KEY, EMBED_KEY):
        state.pop(key, None)
    state["import_uploader"] = state.get("import_uploader", 0) + 1


def _on_dismiss() -> None:
    state = st.session_state
    state[OPEN_KEY] = False
    job = state.get(JOB_KEY)
    if job is None or not job.running:
        _forget()
