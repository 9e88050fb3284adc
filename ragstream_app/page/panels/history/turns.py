"""The tab *Conversation*: the turns with filters, tags and exports, and which go into a project."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import streamlit as st

from ragstream_app.output.words import shortened
from ragstream_app.page.panels import notices
from ragstream_app.page.panels.history import choice, clearing, external_reply, imports
from ragstream_app.page.panels.history.choice import chosen, home, listing
from ragstream_app.page.panels.notices import Notice
from ragstream_app.page.panels.shared import PROJECTS_KEY, pick_row, workspace
from ragstream_core.text.plurals import counted

if TYPE_CHECKING:
    from ragstream_core.conversations.sessions import HistoryTurn

ADOPT_PLACE = "adopt"
PROJECT_KEY = "adopt_project"
ADOPT_TAGS_KEY = "adopt_tags"
DAYS_KEY = "adopt_days"


def show_adopt() -> None:
    """Draw which turns go into which project."""
    projects = st.session_state[PROJECTS_KEY]
    if not projects:
        st.text("Choose a project first.")
        return
    st.selectbox("Project", projects, key=PROJECT_KEY)
    known = sorted({tag for row in listing().sessions for tag in row.tags})
    st.multiselect("All turns with these tags", known, key=ADOPT_TAGS_KEY, placeholder="any")
    st.number_input(
        "of the last days (0: of any time)", min_value=0, max_value=36_500, key=DAYS_KEY
    )
    buttons = {"Which turns?": (True, False), "Bring in": (False, False), "Undo": (False, True)}
    for column, (label, (dry, undo)) in zip(
        st.columns(3, gap="small"), buttons.items(), strict=True
    ):
        column.button(
            label,
            key=f"adopt {label}",
            width="stretch",
            on_click=notices.attempt,
            args=(ADOPT_PLACE, partial(_adopt, dry, undo)),
        )
    st.text("Nothing is copied: the turns get a tag, which `history.projects` filters by.")
    notices.show(ADOPT_PLACE)


def _adopt(dry_run: bool, undo: bool) -> Notice:
    from ragstream_core.services.history_transfer import adopt

    state, project = st.session_state, st.session_state[PROJECT_KEY]
    rows = adopt(
        home(), project, tags=state[ADOPT_TAGS_KEY], days=float(state[DAYS_KEY]), undo=undo,
        dry_run=dry_run,
    )  # fmt: skip
    what = "would be brought into" if dry_run else "no longer belong to" if undo else "belong to"
    numbers = ", ".join(f"#{row.seq}" for row in rows[:20])
    return Notice([f"{counted(len(rows), 'turn')} {what} {project}{': ' * bool(rows)}{numbers}"])


PLACE = "turns"
FILTER_KEY = "turns_filter"
TAGS_KEY = "turns_tags"
ALL_KEY = "turns_of_all"
MOST = 300
LINE_CHARS = 160
LIST_HEIGHT = 213
ROW_HEIGHT = 35
WIDTHS = {"#": 40, "when": 95, "question": 165, "answer": 165, "tags": 70}
TEXT_HEIGHT = 160


def filters() -> None:
    """Draw what is looked for among the turns."""
    words, tags, everything = st.columns([3, 2, 2], gap="small", vertical_alignment="bottom")
    words.text_input("Find turns", key=FILTER_KEY, placeholder="words of question or answer")
    known = sorted({tag for row in listing().sessions for tag in row.tags})
    tags.multiselect("With tags", known, key=TAGS_KEY, placeholder="any")
    everything.toggle("All conversations", key=ALL_KEY, disabled=not chosen())


def found() -> list[HistoryTurn]:
    """Return the turns that pass the filters, the newest first."""
    state, session = st.session_state, _session()
    tags, words = set(state.get(TAGS_KEY, [])), (state.get(FILTER_KEY) or "").lower()
    return [
        row
        for row in reversed(listing().turns)
        if session in ("", row.session)
        and tags <= set(row.tags)
        and words in f"{row.turn.user_text}\n{row.turn.assistant_text}".lower()
    ]


def show_turns() -> None:
    """Draw the list, and below it the chosen turn."""
    filters()
    rows = found()
    if not rows:
        st.text("No turn matches." if listing().turns else "There are no turns yet.")
        return
    shown = {row.id: row for row in rows[:MOST]}
    columns = {name: st.column_config.Column(width=px) for name, px in WIDTHS.items()}
    picked = pick_row(
        "turns",
        {name: _line(row) for name, row in shown.items()},
        height=min(LIST_HEIGHT, ROW_HEIGHT * (1 + len(rows)) + 3),
        columns=columns | ({"conversation": None} if _session() else {}),
    )
    if len(rows) > MOST:
        st.text(f"… and {len(rows) - MOST:,} older ones; find them by their words")
    notices.show(PLACE)
    if picked:
        one_turn(shown[picked])
    else:
        st.text("Choose a row to read the turn and to edit its tags.")


def one_turn(row: HistoryTurn) -> None:
    """Draw one turn in full, with its tags to be edited.

    Args:
        row: The turn.
    """
    st.text(_facts(row))
    for speaker, text in zip(row.turn.speakers, (row.user, row.assistant), strict=True):
        if text:
            st.text(f"{speaker}:")
            height = TEXT_HEIGHT if len(text) > 400 or text.count("\n") > 5 else "content"
            st.code(text, language=None, wrap_lines=True, height=height)
    if row.turn.status != "unanswered":
        _tags(row)


def exports() -> None:
    """Draw the downloads; the texts are made at the click."""
    session = _session()
    name = session or "conversations"
    what = f"of {session}" if session else "of all conversations"
    st.text(f"Turns {what}, verbatim. Clearing cannot reach a file that you save.")
    st.download_button(
        "JSONL", partial(_jsonl, session), f"{name}.jsonl", "application/jsonl", width="stretch",
        on_click="ignore", help="`ragstream history import` brings it back unchanged.",
    )  # fmt: skip
    st.download_button(
        "Markdown", partial(_markdown, session), f"{name}.md", "text/markdown", width="stretch",
        on_click="ignore", help="For people.",
    )  # fmt: skip


def _session() -> str:
    """Return the conversation that is looked at, "" for all."""
    return "" if st.session_state.get(ALL_KEY) else chosen()


def _tags(row: HistoryTurn) -> None:
    from ragstream_core.conversations.journal.records import LEVELS

    key = f"tags of {row.id}"
    box, save = st.columns([4, 1], gap="small", vertical_alignment="bottom")
    _follow(key, row.tags)
    box.multiselect(
        "Tags",
        list(dict.fromkeys([*LEVELS, *row.tags, *st.session_state[key]])),
        default=list(row.tags),
        key=key,
        accept_new_options=True,
        help="A change is a record of its own; the turn is never rewritten.",
    )
    save.button(
        "Keep tags",
        width="stretch",
        disabled=st.session_state[key] == list(row.tags),
        on_click=notices.attempt,
        args=(PLACE, partial(_keep_tags, row.id, row.seq, row.tags, key)),
    )


def _follow(key: str, tags: Sequence[str]) -> None:
    """Let a box show the tags of now, which others may have changed, with what was changed in it.

    Args:
        key: Of the box.
        tags: Of the turn now.
    """
    state, base = st.session_state, f"base of {key}"
    shown, wanted = state.get(base, tags), state.get(key, tags)
    state[base] = list(tags)
    if key in state and shown == state[base]:
        return
    kept = [tag for tag in tags if tag in wanted or tag not in shown]
    state[key] = [*kept, *(tag for tag in wanted if tag not in shown and tag not in tags)]


def _keep_tags(turn: str, seq: int, before: Sequence[str], key: str) -> Notice:
    from ragstream_core.wiring.journal import tag

    wanted = st.session_state[key]
    add = [label for label in wanted if label not in before]
    remove = [label for label in before if label not in wanted]
    _, now = tag(home(), turn, add=add, remove=remove)
    st.session_state[key] = list(now)
    return Notice([f"turn {seq}: {', '.join(now) or 'no tags'}"])


def _line(row: HistoryTurn) -> dict[str, object]:
    status = "" if row.turn.status == "complete" else f"({row.turn.status}) "
    return {
        "#": row.seq,
        "when": row.turn.timestamp[2:16].replace("T", " "),
        "question": shortened(row.user[: 2 * LINE_CHARS], LINE_CHARS),
        "answer": status + shortened(row.assistant[: 2 * LINE_CHARS], LINE_CHARS),
        "tags": ", ".join(row.tags),
        "source": row.turn.source,
        "conversation": row.session,
    }


def _facts(row: HistoryTurn) -> str:
    when = row.turn.timestamp[:19].replace("T", " ")
    facts = [f"#{row.seq}", row.session, when, row.turn.source]
    facts += [row.turn.status] if row.turn.status != "complete" else []
    facts += [f"answers {row.turn.prompt_key[:12]}"] if row.turn.prompt_key else []
    facts += [f"Origin: {row.turn.origin}"] if row.turn.origin else []
    facts += [f"from turn {row.turn.origin_turn}"] if row.turn.origin_turn else []
    facts += [f"{v['path']} {v['sha256'][:8]}" for v in row.turn.versions]
    unknown = [c["id"] for c in row.turn.citations if not c["known"]]
    facts += [f"citations not issued: {', '.join(unknown)}"] if unknown else []
    return " · ".join(facts)


def _jsonl(session: str) -> str:
    from ragstream_core.services.history_transfer import export_jsonl

    return "".join(export_jsonl(workspace(), session))


def _markdown(session: str) -> str:
    from ragstream_core.services.history_transfer import export_markdown

    return export_markdown(workspace(), session)[0]


def show() -> None:
    """Draw the panel."""
    left, right = st.columns([2, 3], gap="small")
    with left:
        external_reply.show()
    with right:
        now, bring, load, export, clear = st.columns(
            [5, 3, 3, 3, 4], gap="small", vertical_alignment="center"
        )
        shown = now.toggle(
            "RECENT HISTORY",
            key="show_recent",
            help="Shows the newest turns as the next prompt would see them.",
        )
        with bring.popover("Adopt", width="stretch", help="Brings turns into a project."):
            show_adopt()
        load.button(
            "Import",
            on_click=imports.open_dialog,
            width="stretch",
            help="Brings in conversations of other programs.",
        )
        with export.popover("Export", width="stretch"):
            exports()
        with clear.popover("Clear history", width="stretch"):
            clearing.show()
        clearing.report()
        if shown:
            choice.show_recent()
        show_turns()
