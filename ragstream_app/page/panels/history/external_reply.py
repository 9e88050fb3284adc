"""External Reply: an answer from another program, pasted and sent to the history.

With *Persist history* off it is held by this tab alone, and written only on request.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import streamlit as st

from ragstream_app.page.panels import notices
from ragstream_app.page.panels.history.choice import chosen, home, join, persisting
from ragstream_app.page.panels.notices import Notice
from ragstream_app.page.panels.shared import PROJECTS_KEY, desk, workspace

if TYPE_CHECKING:
    from ragstream_core.conversations.journal.records import Turn

PLACE = "external reply"
REPLY_KEY = "external_reply"
QUESTION_KEY = "external_question"
ANSWERS_KEY = "external_answers"
TAGS_KEY = "external_tags"
HELD_KEY = "held_turns"
_OFFERED_KEY = "external_offered"
REPLY_HEIGHT = 200
QUESTION_HEIGHT = 68


def show() -> None:
    """Draw the box, what the reply answers, and the turns that only this tab holds."""
    from ragstream_core.conversations.journal.records import LEVELS

    st.text_area(
        "External Reply",
        key=REPLY_KEY,
        height=REPLY_HEIGHT,
        placeholder="Paste what another program answered, and correct it here if you like.",
    )
    answers, tags = st.columns(2, gap="small")
    answers.selectbox(
        "Reply to",
        _answerable(),
        key=ANSWERS_KEY,
        format_func=lambda key: f"prompt {key[:12]}" if key else "the question below",
        help="If it answers a prompt, its question, files with hashes and citations are "
        "known: citations that it did not issue are named.",
    )
    tags.multiselect(
        "Tags",
        LEVELS,
        key=TAGS_KEY,
        accept_new_options=True,
        placeholder="any, or none",
        help="GOLD and SILVER rank higher; BLUE is never found by the search.",
    )
    st.text_area(
        "Question",
        key=QUESTION_KEY,
        height=QUESTION_HEIGHT,
        placeholder=_asked() or "What the other program was asked.",
    )
    st.button("Send to History", on_click=_on_send, width="stretch")
    notices.show(PLACE)
    _held()


def held() -> list[Turn]:
    """Return the turns that are kept by this tab only, the oldest first."""
    found: list[Turn] = st.session_state.setdefault(HELD_KEY, [])
    return found


def _held() -> None:
    if not held():
        return
    st.text(f"{count_of(len(held()))} held by this tab only, until it is closed.")
    for turn in held():
        st.code(f"{turn.user_text}\n\n{turn.assistant_text}", language=None, wrap_lines=True)
    write, forget = st.columns(2, gap="small")
    write.button(
        "Write them to the history",
        width="stretch",
        disabled=not persisting(),
        on_click=notices.attempt,
        args=(PLACE, _write),
        help="Needs Persist history to be on.",
    )
    forget.button("Forget them", width="stretch", on_click=held().clear)


def _on_send() -> None:
    notices.attempt(PLACE, _send)


def _send() -> Notice:
    """Keep the reply, or hold it where nothing may be written; then empty the box."""
    from ragstream_core.services import external_reply
    from ragstream_core.wiring import journal

    state, space = st.session_state, workspace()
    answers = state[ANSWERS_KEY] or ""
    name = chosen() or (external_reply.prompt_session(space, answers) if answers else "")
    turn = _turn(name or journal.new_session(space), state[TAGS_KEY])
    if persisting():
        entry, unknown = external_reply.append_external(space, turn, answers=answers)
        done = f"turn {entry.seq} of {turn.session_id} is kept, id {entry.record.id}"
        lines = journal.journal(space).warnings
    else:
        whole, unknown = external_reply.external_turn(space, turn, answers=answers)
        held().extend(t for t in journal.completed([whole]) if isinstance(t, type(whole)))
        done, lines = f"held for {turn.session_id} in this tab; nothing was written", []
    state[REPLY_KEY] = state[QUESTION_KEY] = ""
    state[TAGS_KEY] = []
    join(turn.session_id)
    return Notice([done], [*lines, *(f"not issued by the prompt: {one}" for one in unknown)])


def _turn(session: str, tags: list[str]) -> Turn:
    """Return the reply as a turn; what the prompt of this tab knows is filled in."""
    from ragstream_core.conversations.journal.records import OWN_PROJECTS, Turn

    state, projects = st.session_state, tuple(st.session_state[PROJECTS_KEY])
    turn = Turn(
        "", session, "", state[QUESTION_KEY] or "", state[REPLY_KEY] or "",
        tags=tuple(tags), projects=projects, active_dbs=projects, used_in=OWN_PROJECTS,
    )  # fmt: skip
    step = desk().last
    if turn.user_text.strip() or state[ANSWERS_KEY] or step is None:
        return turn
    files = step.super_prompt.extras.files
    versions = tuple({"path": file.path, "sha256": file.sha256} for file in files)
    return replace(turn, user_text=_asked(), versions=versions)


def _write() -> Notice:
    """Write the held turns, the oldest first, with the times at which they were sent."""
    from ragstream_core.wiring import journal

    entries = journal.append_records(home(), held())
    held().clear()
    return Notice([f"{count_of(len(entries))} kept"])


def _answerable() -> list[str]:
    """Return what a reply can answer; a prompt that was just made becomes the choice."""
    state, step = st.session_state, desk().last
    key = step.key if step else ""
    if state.get(_OFFERED_KEY) != key:
        state[_OFFERED_KEY] = state[ANSWERS_KEY] = key
    return [key, ""] if key else [""]


def count_of(turns: int) -> str:
    """Return how many turns, with the verb."""
    return "1 turn is" if turns == 1 else f"{turns:,} turns are"


def _asked() -> str:
    """Return what was asked by the prompt on the desk, "" where there is none."""
    taken = desk().request
    return taken.text if taken else ""
