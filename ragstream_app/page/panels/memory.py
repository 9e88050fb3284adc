"""The view *Memory*: facts that wait for a word, what is remembered, and the digest.

A fact is shown with the user's own words behind it. Nothing that waits stands in a prompt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import streamlit as st

from ragstream_app.page.panels import notices
from ragstream_app.page.panels.history.choice import home, persisting
from ragstream_app.page.panels.notices import Notice
from ragstream_app.page.panels.shared import workspace
from ragstream_core.text.plurals import counted

if TYPE_CHECKING:
    from streamlit.delta_generator import DeltaGenerator

    from ragstream_core.conversations.facts.records import FactState
    from ragstream_core.wiring.remembered_facts import FactMemory, RememberedLine

PLACE = "memory"
_HELD_KEY = "memory_held"
DECIDED_KEY = "memory_decided"
ADD_KEY, ABOUT_KEY = "memory_add", "memory_about"
MOST, MOST_LINES, MOST_CHANGED = 20, 40, 3
ABOUT = {"user": "you", "company": "your company"}
NOTHING = "Nothing is remembered. A fact that you accept stands in every prompt from then on."
FORMS = {
    "off": "Automatic search for facts is off. Look now?",
    "rules": "After each turn, rules look for facts in what you said.",
    "llm": "After each turn, the language model looks for facts in what you said.",
}


@dataclass(frozen=True, slots=True)
class Held:
    """What the view shows, until the journal or a file changes.

    Attributes:
        state: What it was read at.
        facts: All facts, the oldest first.
        remembered: The lines of both files.
    """

    state: tuple[object, ...]
    facts: tuple[FactState, ...] = ()
    remembered: tuple[RememberedLine, ...] = ()


def show() -> None:
    """Draw the view."""
    left, right = st.columns([3, 2], gap="medium")
    with left:
        _waiting(_held())
    with right:
        _remembered(_held())
        _digest()


def _memory() -> FactMemory:
    from ragstream_core.wiring.remembered_facts import FactMemory

    return FactMemory(home())


def _held() -> Held:
    """Return facts and files as they are, read again where one of them changed."""
    from ragstream_core.wiring.journal import journal
    from ragstream_core.wiring.remembered_facts_files import state_of

    newest = journal(workspace()).newest()
    state = (newest.seq, newest.chain, *state_of(workspace()))
    held: Held | None = st.session_state.get(_HELD_KEY)
    if held is None or held.state != state:
        memory = _memory()
        rows = tuple(memory.remembered())  # brings the files up to date
        state = (newest.seq, newest.chain, *state_of(workspace()))
        held = st.session_state[_HELD_KEY] = Held(state, tuple(memory.facts()), rows)
    return held


def _waiting(held: Held) -> None:
    waiting = [fact for fact in held.facts if fact.status == "candidate"]
    words, press = st.columns([3, 1], gap="small", vertical_alignment="center")
    words.text(FORMS[workspace().config.settings.facts.form])
    press.button(
        "Look for facts",
        width="stretch",
        disabled=not persisting(),
        on_click=notices.attempt,
        args=(PLACE, _scan),
        help="Reads all conversations. What it finds waits here; nothing is used before you "
        "accept it.",
    )
    notices.show(PLACE)
    if not waiting:
        st.text(
            "No facts are waiting. Facts that are found wait here, with your own words beside them."
        )
    for fact in waiting[:MOST]:
        _card(fact, decided=False)
    if len(waiting) > MOST:
        st.text(f"… and {len(waiting) - MOST:,} more")
    decided = [fact for fact in held.facts if fact.steps and fact.form != "hand"]
    if decided and st.toggle(f"Decided ({len(decided):,})", key=DECIDED_KEY):
        for fact in decided[: -MOST - 1 : -1]:
            _card(fact, decided=True)


def _card(fact: FactState, *, decided: bool) -> None:
    with st.container(border=True, key=f"fact_{fact.id}"):
        st.text(fact.text)
        status = f"{fact.status} · " if decided else ""
        sure = f"{fact.form}, {fact.confidence:.2f}"
        st.text(f"{status}about {ABOUT[fact.target]} · you said: {fact.quote} ({sure})")
        yes, no, other, back = st.columns(4, gap="small")
        _button(yes, "Accept", fact, off=fact.status == "accepted")
        _button(no, "Reject", fact, off=fact.status == "rejected")
        with other.popover("Edit", width="stretch"):
            _edit(fact)
        if fact.steps:
            _button(back, "Undo", fact)


def _button(place: DeltaGenerator, name: str, fact: FactState, *, off: bool = False) -> None:
    place.button(
        name,
        key=f"{name} {fact.id}",
        width="stretch",
        disabled=off or not persisting(),
        on_click=notices.attempt,
        args=(PLACE, partial(_step, name.lower(), fact.id)),
    )


def _edit(fact: FactState) -> None:
    key = f"words of {fact.id}"
    words = st.text_area("The fact", value=fact.text, key=key, height=90)
    st.button(
        "Keep these words",
        key=f"keep {fact.id}",
        disabled=words == fact.text or not persisting(),
        on_click=notices.attempt,
        args=(PLACE, partial(_reword, fact.id, key)),
    )


def _remembered(held: Held) -> None:
    rows = held.remembered
    st.text("Remembered: these lines stand in every prompt." if rows else NOTHING)
    older = False
    for target, whom in ABOUT.items():
        mine = [row for row in rows if row.target == target]
        older = older or len(mine) > MOST_LINES
        if mine:
            with st.container(border=True, key=f"remembered_{target}", gap="small"):
                st.text(f"About {whom}")
                for n, row in enumerate(mine[-MOST_LINES:]):
                    _line(row, f"forget {target} {n} {row.text}")
    if older:
        st.text("Older lines are not shown here; ragstream memory show lists all of them.")
    with st.popover("Add a line", width="stretch"):
        st.text_input("The fact", key=ADD_KEY, placeholder="The user works in Lisbon.")
        st.radio("About", [*ABOUT], key=ABOUT_KEY, format_func=ABOUT.__getitem__, horizontal=True)
        st.button(
            "Remember it",
            disabled=not (st.session_state.get(ADD_KEY) and persisting()),
            on_click=notices.attempt,
            args=(PLACE, _add),
        )


def _line(row: RememberedLine, key: str) -> None:
    words, press = st.columns([5, 1], gap="small", vertical_alignment="center")
    words.text(row.text)
    press.button(
        "Forget",
        key=key,
        width="stretch",
        disabled=not persisting(),
        on_click=notices.attempt,
        args=(PLACE, partial(_forget, row)),
    )


def _digest() -> None:
    """Draw the rolling digest as the next prompt would show it."""
    from ragstream_core.wiring.digest import digest_text

    settings = workspace().config.settings.memory
    if not settings.enabled:
        st.text("Digest and answer cache are off (setting memory.enabled).")
        return
    from ragstream_core.wiring.journal import journal
    from ragstream_core.wiring.token_budget import counter_of_settings

    count = counter_of_settings(workspace(), workspace().config.chain()).count
    text = digest_text(workspace(), settings, upto=journal(workspace()).newest().seq, count=count)
    with st.expander("Digest of the newest turns"):
        st.code(text or "There are no turns yet.", language=None, wrap_lines=True)


def _scan() -> Notice:
    from ragstream_core.wiring import fact_proposals

    analysis = fact_proposals.analyze(home())
    found = fact_proposals.remember(home(), analysis)
    new = sum(bool(row.fact) for row in found)
    changed = [row for row in found if row.advice][-MOST_CHANGED:]
    told = [
        f"Passed over: {row.candidate.text} It is {row.why} "
        "If that changed, edit or forget the old line."
        for row in changed
    ]
    return Notice(
        [f"{counted(analysis.turns, 'turn')} read, {counted(new, 'new fact')}"],
        (*analysis.notes, *told),
    )


def _step(name: str, fact: str) -> Notice:
    memory = _memory()
    steps: dict[str, Callable[[str], FactState]] = {
        "accept": memory.accept,
        "reject": memory.reject,
        "undo": memory.undo,
    }
    done = steps[name](fact)
    return Notice([f"{done.status}: {done.text}"])


def _reword(fact: str, key: str) -> Notice:
    done = _memory().edit(fact, st.session_state[key])
    st.session_state[key] = done.text
    return Notice([f"says now: {done.text}"])


def _forget(row: RememberedLine) -> Notice:
    return Notice([f"forgotten: {_memory().remove(row.id or row.text)}"])


def _add() -> Notice:
    state = st.session_state
    done = _memory().add(state[ADD_KEY], state[ABOUT_KEY])
    state[ADD_KEY] = ""
    return Notice([f"remembered: {done.text}"])
