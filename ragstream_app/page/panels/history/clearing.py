"""Clear history: what, a look at what would go, a word to confirm, and a report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import streamlit as st

from ragstream_app.output import history_ways
from ragstream_app.output.history_ways import Way
from ragstream_app.output.markup import literal
from ragstream_app.page.jobs.background import BackgroundJob, Report
from ragstream_app.page.panels import notices, prompt
from ragstream_app.page.panels.answer import JOB_KEY as ANSWER_KEY
from ragstream_app.page.panels.history.choice import chosen, home, listing
from ragstream_app.page.panels.notices import Notice
from ragstream_app.page.panels.shared import desk, show_error, workspace
from ragstream_core.conversations.journal.records import INACTIVE
from ragstream_core.wiring.journal import require_uncleared

if TYPE_CHECKING:
    from ragstream_core.services.clear_history import ClearReport
    from ragstream_core.wiring.workspace import Workspace

PLACE = "clear history"
JOB_KEY = "clearing_job"
SCOPE_KEY = "clear_scope"
SINCE_KEY = "clear_since"
UNTIL_KEY = "clear_until"
ONLY_KEY = "clear_only"
ARCHIVE_KEY = "clear_archive"
WORD_KEY = "clear_word"
LOOKED_KEY = "clear_looked"
BACK_KEY = "clear_back"
_SETTLED_KEY = "clearing_settled"
WORD = "CLEAR"
THIS, TIME, ALL = "This conversation", "A time", "Everything"
WAY_KEY = "clear_way"
MASK_KEY = "clear_mask"
WAYS = {
    "Erase": history_ways.ERASE,
    "Keep, inactive": history_ways.INACTIVE,
    "Keep, inactive, without vectors": history_ways.VECTORS,
    "Make anonymous": history_ways.ANONYMISE,
}
AT_ONCE_S = 1.0
MOST_NAMED = 8


PHASES = {
    "index": "taking the turns out of the index",
    "copies": "removing copies: prompts, runs, caches",
    "journal": "rewriting the journal without them",
    "texts": "removing texts and vectors",
    "search": "searching every file for what is left",
}


class Cleared(NamedTuple):
    """What a clearing did.

    Attributes:
        report: As `Way.run`.
        said: The same in one line.
    """

    report: ClearReport
    said: str


def start(workspace: Workspace, choice: Mapping[str, Any], way: Way) -> BackgroundJob[Cleared]:
    """Begin to clear; a click or a closed tab does not break it off.

    What a kill leaves is finished by the next clearing, embedding or check.

    Args:
        workspace: The data root.
        choice: ``session``, ``since``, ``until``, ``everything``, as `choice_of`.
        way: What is done with the turns.
    """
    from ragstream_core.conversations.clearing import choice_of

    def clear(report: Report) -> Cleared:
        done = way.run(workspace, choice_of(**choice), dry_run=False, progress=report)
        return Cleared(done, way.told(done))

    def line_of(phase: str, _done: int, _total: int) -> str:
        return PHASES.get(phase, phase)

    return BackgroundJob("clearing", clear, line="hiding the turns", line_of=line_of).start()


def show() -> None:
    """Draw the form in two steps: look, then confirm by a word."""
    st.radio("Clear", [THIS, TIME, ALL], key=SCOPE_KEY, horizontal=True)
    if st.session_state[SCOPE_KEY] == TIME:
        since, until = st.columns(2, gap="small")
        since.text_input("From, included", key=SINCE_KEY, placeholder="2026-10-01")
        until.text_input("Until, not included", key=UNTIL_KEY, placeholder="2026-10-08T14:30")
        if chosen():
            st.checkbox("Only in this conversation", key=ONLY_KEY)
    st.selectbox("What happens to the turns", list(WAYS), key=WAY_KEY)
    if way().kind == history_ways.ERASE:
        st.checkbox(
            "Archive a copy first",
            key=ARCHIVE_KEY,
            help="A file that only you may read, and nothing searches; it can be brought back.",
        )
    if way().kind == history_ways.ANONYMISE:
        st.text_input(
            "Names to mask, separated by commas",
            key=MASK_KEY,
            help="Addresses, numbers and secrets are found anyway; a name in a sentence is not.",
        )
    st.button("What would go?", on_click=notices.attempt, args=(PLACE, _look), width="stretch")
    notices.show(PLACE)
    looked = st.session_state.get(LOOKED_KEY)
    if looked and looked[0] == (choice(), way()):
        _confirm()
    _reactivate()
    _bring_back()


def report() -> None:
    """Draw the clearing at work, or what the last one did."""
    job: BackgroundJob[Cleared] | None = st.session_state.get(JOB_KEY)
    if job is None:
        return
    if job.running:
        notices.follow(job, about="Clearing: ")
        return
    if st.session_state.get(_SETTLED_KEY) is not job and not prompt.is_busy():
        st.session_state[_SETTLED_KEY] = job
        if _let_go():
            st.rerun()
    if job.error:
        show_error(job.error)
    elif job.result is not None:
        _said(job.result)


def choice() -> dict[str, Any]:
    """Return what the form asks to clear, as `history.clearing.clear` takes it."""
    state = st.session_state
    scope = state.get(SCOPE_KEY, THIS)
    only = scope == THIS or (scope == TIME and state.get(ONLY_KEY))
    return {
        "session": chosen() if only else "",
        "since": (state.get(SINCE_KEY) or "").strip() if scope == TIME else "",
        "until": (state.get(UNTIL_KEY) or "").strip() if scope == TIME else "",
        "everything": scope == ALL,
    }


def way() -> Way:
    """Return what the form asks to do with the turns."""
    state = st.session_state
    kind = WAYS[state.get(WAY_KEY) or "Erase"]
    names = str(state.get(MASK_KEY) or "").split(",") if kind == history_ways.ANONYMISE else ()
    mask = tuple(name.strip() for name in names if name.strip())
    return Way(kind, kind == history_ways.ERASE and bool(state.get(ARCHIVE_KEY)), mask)


def _look() -> Notice:
    """Ask the core what would happen; only then can it be confirmed."""
    from ragstream_core.conversations.clearing import choice_of

    state, wanted, how = st.session_state, choice(), way()
    state[LOOKED_KEY], state[WORD_KEY] = None, ""
    found = how.run(workspace(), choice_of(**wanted), dry_run=True)
    if found.turns or found.questions or found.damaged:
        state[LOOKED_KEY] = ((wanted, how), found)
    return Notice(warnings=[how.told(found)])


def _confirm() -> None:
    st.text_input(f"Type {WORD} to confirm", key=WORD_KEY)
    job: BackgroundJob[Cleared] | None = st.session_state.get(JOB_KEY)
    st.button(
        "Clear for good" if way().kind == history_ways.ERASE else "Do it",
        type="primary",
        width="stretch",
        disabled=st.session_state[WORD_KEY] != WORD or (job is not None and job.running),
        on_click=_on_clear,
    )


def _on_clear() -> None:
    """Begin to clear what was looked at, if the word stands there."""
    state = st.session_state
    looked, word = state.get(LOOKED_KEY), state.get(WORD_KEY)
    state[LOOKED_KEY], state[WORD_KEY] = None, ""
    if word != WORD or not looked or looked[0] != (choice(), way()):
        return
    notices.attempt(PLACE, Notice)
    job = state[JOB_KEY] = start(workspace(), *looked[0])
    job.wait(AT_ONCE_S)


def _let_go() -> bool:
    """Take a prompt and its answer from the tab where they belong to what was cleared.

    Returns:
        Whether there was one.
    """
    from ragstream_core.errors import InputUnavailable, UnknownPrompt
    from ragstream_core.prompts.inputs import inputs_of

    st.session_state.pop(prompt.KEY, None)  # applied again, it would be written again
    step = desk().last
    if step is None:
        return False
    try:
        require_uncleared(workspace(), inputs_of(step.super_prompt))
        if step.key:
            workspace().store.record(step.key)
    except (InputUnavailable, UnknownPrompt):
        desk().request, desk().steps = None, {}
        st.session_state.pop(ANSWER_KEY, None)
        return True
    return False


def _said(cleared: Cleared) -> None:
    done = cleared.report
    lines = [cleared.said, *(f"removed {name}" for name in done.removed[:MOST_NAMED])]
    more = len(done.removed) - MOST_NAMED
    lines += [f"removed {more:,} more files and folders"] if more > 0 else []
    lines += [f"archived in {done.archive}"] if done.archive else []
    st.success("  \n".join(map(literal, lines)))
    yours = [f"the same words stand in {name}, which is yours" for name in done.left]
    out = [f"out of reach: {place}" for place in done.unreachable]
    told = [*yours, *done.warnings, *out]
    if told:
        st.warning("  \n".join(map(literal, told)))
    st.button("Close this report", on_click=st.session_state.pop, args=(JOB_KEY, None))


def _reactivate() -> None:
    """Draw the way back for inactive turns, where the choice holds some."""
    if any(INACTIVE in row.tags for row in listing().turns):
        st.button(
            "Use inactive turns again",
            help="Takes the turns chosen above; prompts find and show them again.",
            on_click=notices.attempt,
            args=(PLACE, _on_reactivate),
            width="stretch",
        )


def _on_reactivate() -> Notice:
    from ragstream_core.conversations.clearing import choice_of
    from ragstream_core.services.clear_history import bring_back

    done = bring_back(workspace(), choice_of(**choice()))
    return Notice([f"{history_ways.what(done)} are active again"])


def _bring_back() -> None:
    """Draw the archives; the core's import brings one back."""
    names = sorted(path.name for path in workspace().layout.history_archive.glob("*.jsonl"))
    if names:
        st.selectbox("Archives", names, key=BACK_KEY)
        st.button("Bring back", on_click=notices.attempt, args=(PLACE, _import), width="stretch")


def _import() -> Notice:
    from ragstream_core.services.history_transfer import import_jsonl, read_lines

    path = workspace().layout.history_archive / st.session_state[BACK_KEY]
    done = import_jsonl(home(), read_lines(path))
    return Notice([f"{done.added} records added, {done.skipped} existed already"])
