"""Which conversation a prompt belongs to, whether it is kept, and its newest turns (Layer G)."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import streamlit as st

from ragstream_app.output.markup import literal
from ragstream_app.page.panels import notices
from ragstream_app.page.panels.notices import Notice
from ragstream_app.page.panels.shared import (
    PERSIST_KEY,
    SESSION_KEY,
    desk,
    request_now,
    shown_errors,
    workspace,
)

if TYPE_CHECKING:
    from ragstream_core.conversations.sessions import HistoryTurn, SessionRow
    from ragstream_core.wiring.workspace import Workspace


HEIGHT = 220


def show_recent() -> None:
    """Draw the block, and what the person should know about it."""
    with shown_errors():  # no project, no index
        body, notes = block()
        height = HEIGHT if body else "content"
        st.text("As the next prompt would show it, read from the journal now:")
        st.code(body or "(nothing)", language=None, wrap_lines=True, height=height)
        for note in notes:
            st.text(note)


def block() -> tuple[str, tuple[str, ...]]:
    """Return the block and its notes; an empty prompt box does not matter.

    Raises:
        RagstreamError: As `pin_inputs`.
    """
    from ragstream_core.wiring.conversation_memory import ConversationMemory
    from ragstream_core.wiring.prompt_inputs import pin_inputs

    inputs = pin_inputs(workspace(), request_now(default="recent history"))
    found, notes = ConversationMemory(workspace(), inputs).rendered()
    return str(found.get("body", "")), notes


PLACE = "conversation choice"
_NEXT_KEY = "session_next"
_LISTING_KEY = "conversation_listing"
_TOLD_KEY = "told_of_earlier_turns"


@dataclass(frozen=True, slots=True)
class Listing:
    """The conversations as the journal has them.

    Attributes:
        position: Of the newest record; the listing holds as long as it does.
        turns: All of them, the newest last.
        sessions: The conversations, the newest last.
    """

    position: tuple[int, str]
    turns: Sequence[HistoryTurn] = ()
    sessions: Sequence[SessionRow] = ()


def show() -> None:
    """Draw the choice of a conversation and the switch that keeps nothing."""
    state = st.session_state
    state[SESSION_KEY] = state.pop(_NEXT_KEY, "") or state.get(SESSION_KEY) or ""
    names = ["", *(row.session_id for row in reversed(listing().sessions))]
    st.selectbox(
        "Conversation",
        names if state[SESSION_KEY] in names else [*names, state[SESSION_KEY]],
        key=SESSION_KEY,
        format_func=lambda name: name or "a new one",
        accept_new_options=True,
        on_change=_check,
        help="Its newest turns stand in the prompt, and replies are kept in it. "
        "Type a name to begin another one.",
    )
    chosen_row = (row for row in listing().sessions if row.session_id == state[SESSION_KEY])
    if title := next((row.title for row in chosen_row), ""):
        st.text(title)
    notices.show(PLACE)
    _tell_of_earlier_turns()
    allowed = workspace().config.settings.history.persist
    st.checkbox(
        "Persist history",
        value=allowed,
        key=PERSIST_KEY,
        disabled=not allowed,
        help="Off: nothing of prompts and turns is written anywhere, and nothing is recorded. "
        "What was kept before stays; switching it on later writes nothing of before."
        + ("" if allowed else " It is off in the settings: `history.persist`."),
    )


def _tell_of_earlier_turns() -> None:
    """Say where turns of earlier versions are used: once a data root, while the tab is open."""
    from ragstream_core.services.history_transfer import told_once

    state = st.session_state
    if _TOLD_KEY not in state:
        state[_TOLD_KEY] = ""
        with contextlib.suppress(OSError):
            state[_TOLD_KEY] = told_once(workspace())
    if state[_TOLD_KEY]:
        st.info(literal(state[_TOLD_KEY]))


def join(session: str) -> None:
    """Make a conversation the one of this tab, from the next drawing of the page on.

    A prompt that was asked in none began it: that alone does not make it stale.

    Args:
        session: Its name; "" changes nothing.
    """
    st.session_state[_NEXT_KEY] = session
    taken = desk().request
    if taken is not None and not taken.session:
        desk().request = replace(taken, session=session)


def chosen() -> str:
    """Return the conversation of this tab, "" where a new one is to begin."""
    return st.session_state.get(_NEXT_KEY) or st.session_state.get(SESSION_KEY) or ""


def persisting() -> bool:
    """Return whether turns are written."""
    allowed = workspace().config.settings.history.persist
    return bool(allowed and st.session_state.get(PERSIST_KEY, True))


def home() -> Workspace:
    """Return the workspace under the page's switch: where it is off, the core refuses to write."""
    found: Workspace = workspace()
    if persisting():
        return found
    return found.with_settings({"history.persist": False})


def listing() -> Listing:
    """Return all conversations; they are read again when the journal has changed."""
    from ragstream_core.conversations.sessions import sessions_of
    from ragstream_core.wiring import journal

    newest = journal.journal(workspace()).newest()
    held: Listing | None = st.session_state.get(_LISTING_KEY)
    if held is None or held.position != (newest.seq, newest.chain):
        rows = journal.show(workspace())
        held = Listing((newest.seq, newest.chain), rows, sessions_of(rows))
        st.session_state[_LISTING_KEY] = held
    return held


def _check() -> None:
    """Take a name back that none can be."""
    from ragstream_core.conversations.journal.records import checked_session

    def check() -> Notice:
        name = st.session_state[SESSION_KEY] or ""
        st.session_state[SESSION_KEY] = ""
        st.session_state[SESSION_KEY] = checked_session(name) if name else ""
        return Notice()

    notices.attempt(PLACE, check)
