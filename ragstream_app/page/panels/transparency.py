"""Transparency: what was kept or dropped and why, warnings, citations, events, times.

Drawn from the steps of the tab and kept nowhere: no prompt and no conversation ever holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import streamlit as st

from ragstream_app.output.stages import call_text, last_score, usage_text
from ragstream_app.page.panels import passage as passages
from ragstream_app.page.panels.shared import desk, pick_row, workspace
from ragstream_app.page.prompt_session import BUILD, label_of
from ragstream_core.prompts.edits import COUNTER
from ragstream_core.prompts.exchanges import usage_of

if TYPE_CHECKING:
    from ragstream_core.prompts.explain import Way
    from ragstream_core.prompts.made_prompt import MadePrompt
    from ragstream_core.records import SuperPrompt
    from ragstream_core.records.s_ctx import IssuedCitation

HEIGHT = 300
_WIDTHS = {"kept": 50, "source": 190, "reason": 330, "rule": 110, "stage": 60, "rank": 50,
           "score": 60, "tokens": 60, "heading": 300}  # fmt: skip

# A row of a table.
Row = dict[str, str | float | None]
KEPT = {"all": ("in", "out"), "kept": ("in",), "dropped": ("out",)}


def show() -> None:
    """Show what is known about the newest step and the way to it."""
    step = desk().last
    if step is None:
        st.text(f"Nothing has run yet. Press {BUILD}.")
        return
    behind = (note for earlier in desk().steps.values() for note in earlier.notes)
    found = list(dict.fromkeys([*notes(step), *behind]))
    title = f"Warnings ({len(found)})" if found else "Warnings"
    names = ["Decisions", title, "Citations", "Events", "Times"]
    decisions, warnings, citations, log, times = st.tabs(names)
    with decisions:
        decision_table(step.super_prompt)
    with warnings:
        st.text("\n".join(found) or "No warnings.")
    with citations:
        citation_table(step.super_prompt)
    with log:
        st.text("\n".join(events(step)) or "No events.")
    with times:
        time_table(desk().steps)


def decision_table(prompt: SuperPrompt) -> None:
    """Show the last decision on every candidate: kept or dropped, by which rule, and why."""
    from ragstream_core.wiring.token_budget import counter_of

    everything = last_decisions(prompt, counter_of(workspace(), prompt.extras.inputs).count)
    if not everything:
        st.text(f"No candidates yet: {label_of('Retrieval')} finds them.")
        return
    kept = sum(row["kept"] == "in" for row in everything)
    line, choice = st.columns([3, 2], gap="small", vertical_alignment="center")
    line.text(f"{kept} of {len(everything)} candidates are in. Select a row to read its passage.")
    wanted = choice.segmented_control(
        "Which candidates",
        list(KEPT),
        key="decisions_shown",
        default="all",
        required=True,
        label_visibility="collapsed",
        help="A row is the last decision on one candidate.",
    )
    told = told_of(prompt)
    if told:
        st.text("\n".join(told))
    rows = {str(row["chunk_id"]): row for row in everything if row["kept"] in KEPT[str(wanted)]}
    columns = {name: st.column_config.Column(width=width) for name, width in _WIDTHS.items()}
    columns["score"] = st.column_config.NumberColumn(format="%.3f", width=_WIDTHS["score"])
    picked = pick_row("decisions", rows, height=HEIGHT, columns=columns, order=list(_WIDTHS))
    if picked:
        _candidate(prompt, picked)


def told_of(prompt: SuperPrompt) -> list[str]:
    """Return whether each query piece is answered, and what A4 left out, with the tokens."""
    from ragstream_core.prompts.explain import answers_of

    answers = [f"{row.chunk_id} {row.rule}: {row.reason}"
               for row in answers_of(prompt.extras.decisions)]  # fmt: skip
    saved = [note.message for note in prompt.extras.events
             if (note.stage, note.pass_no) == ("a4_condenser", prompt.extras.pass_no)]  # fmt: skip
    return [*answers, *saved]


def _candidate(prompt: SuperPrompt, chunk_id: str) -> None:
    """Show the passage of a candidate, and the way to its page."""
    st.code(passage(prompt, chunk_id), language=None, wrap_lines=True)
    meta = next((c.meta for c in prompt.base_context_chunks if c.id == chunk_id), {})
    if "path" in meta:
        place = passages.PageOf(
            meta["project"], meta["path"], meta["sha256"], int(meta["page_number"] or 0)
        )
        passages.offer(place, key="page of candidate")


def passage(prompt: SuperPrompt, chunk_id: str) -> str:
    """Return the text of a candidate, empty where it is none."""
    return next((c.snippet for c in prompt.base_context_chunks if c.id == chunk_id), "")


def last_decisions(prompt: SuperPrompt, count: Callable[[str], int] = COUNTER.count) -> list[Row]:
    """Return a row a candidate, those that went furthest and ranked best first.

    Args:
        prompt: At any stage.
        count: Counts the tokens of a passage.
    """
    from ragstream_core.prompts.explain import ways

    found = ways(prompt.extras.decisions)
    known = {c.id: (str(c.meta.get("heading") or ""), c) for c in prompt.base_context_chunks}
    rows = []
    for way in found:
        heading, chunk = known.get(way.chunk_id, ("", None))
        rows.append(_row(way, heading, count(chunk.snippet) if chunk else None))
    return rows


def notes(step: MadePrompt) -> list[str]:
    """Return the warnings of the stages, and of a record that could not answer, in order."""
    warnings = step.super_prompt.extras.warnings
    return [*(f"{warning.stage}: {warning.message}" for warning in warnings), *step.notes]


def events(step: MadePrompt) -> list[str]:
    """Return what the stages report they did."""
    return [f"{event.stage}: {event.message}" for event in step.super_prompt.extras.events]


def citation_table(prompt: SuperPrompt) -> None:
    """Show which short id stands for which chunk."""
    rows = citation_rows(prompt.extras.citations)
    if rows:
        st.dataframe(rows, hide_index=True, height=HEIGHT)
    else:
        st.text(f"No citations yet: {label_of('A4 Condenser')} gives them to what it selects.")


def citation_rows(citations: Mapping[str, IssuedCitation]) -> list[dict[str, str]]:
    """Return the issued citations, short id → chunk, as rows of plain text."""
    return [
        {
            "short id": short_id,
            "source": cited.source,
            "begins with": " ".join(cited.snippet.split()),
            "chunk": cited.chunk_id,
        }
        for short_id, cited in citations.items()
    ]


def time_table(steps: Mapping[str, MadePrompt]) -> None:
    """Show how long each op took, with a bar."""
    rows = time_rows(steps)
    most = max((row["share"] for row in rows), default=0.0)
    spent = usage_of(list(steps.values())[-1].super_prompt) if steps else None
    told = [usage_text(spent)] if spent else []
    st.text(" · ".join([f"{sum(row['ms'] for row in rows):,.0f} ms in all stages", *told]))
    st.dataframe(
        rows,
        hide_index=True,
        column_config={
            "ms": st.column_config.NumberColumn(format="%.1f", width=80),
            "share": st.column_config.ProgressColumn(
                format="percent", max_value=max(most, 0.01), width=200
            ),
        },
    )


def time_rows(steps: Mapping[str, MadePrompt]) -> list[dict[str, Any]]:
    """Return a row an op that ran: its button, milliseconds, and its share of the whole.

    Where an agent asked a language model, each row says whom, and what that took.
    """
    whole = sum(sum(step.timings_ms.values()) for step in steps.values())
    told = {button: _told(step.super_prompt) for button, step in steps.items()}
    return [
        {"button": button, "op": op, "ms": took, "share": took / whole if whole else 0.0}
        | ({"language model": told[button].get(op, "")} if any(told.values()) else {})
        for button, step in steps.items()
        for op, took in step.timings_ms.items()
    ]


def _told(prompt: SuperPrompt) -> dict[str, str]:
    """Return what the agents' questions took, in words, by op; those of a re-run with it."""
    calls: dict[str, list[str]] = {}
    for slot, call in sorted(prompt.extras.llm_usage.items()):
        calls.setdefault(slot.partition("#")[0], []).append(call_text(call))
    return {op: "; ".join(texts) for op, texts in calls.items()}


def _row(way: Way, heading: str, tokens: int | None) -> Row:
    path, _, rest = way.chunk_id.partition("::")
    return {
        "chunk_id": way.chunk_id,
        "kept": "in" if way.last.kept else "out",
        "source": f"{path}#{rest.rpartition('::')[2]}",
        "heading": heading,
        "stage": way.last.stage,
        "rank": way.last.rank,
        "score": last_score(way.steps),
        "tokens": tokens,
        "rule": way.last.rule,
        "reason": way.ended,
    }
