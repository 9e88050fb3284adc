"""Transparency: what was kept or dropped and why, warnings, citations, events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import streamlit as st

from ragstream_app.panels.shared import desk
from ragstream_app.stage_text import last_score

if TYPE_CHECKING:
    from ragstream_app.desk import Step
    from ragstream_core.records import SuperPrompt


def show() -> None:
    """Show the decisions, warnings, citations and events of the newest step."""
    step = desk().last
    if step is None:
        return
    found = notes(step)
    title = f"Warnings ({len(found)})" if found else "Warnings"
    decisions, warnings, citations, log = st.tabs(["Decisions", title, "Citations", "Events"])
    with decisions:
        decision_table(step.prompt)
    with warnings:
        st.text("\n".join(found) or "No warnings.")
    with citations:
        citation_table(step.prompt)
    with log:
        st.text("\n".join(events(step)) or "No events.")


def decision_table(prompt: SuperPrompt) -> None:
    """Show the last decision on every candidate: kept or dropped, by which rule, and why."""
    rows = last_decisions(prompt)
    if not rows:
        st.text("No candidates yet: Retrieval finds them.")
        return
    kept = sum(row["kept"] == "in" for row in rows)
    st.text(f"{kept} of {len(rows)} candidates are in. Each row is the last decision on one.")
    st.dataframe(
        rows,
        hide_index=True,
        height=300,
        column_config={
            "chunk_id": None,
            "kept": st.column_config.TextColumn(width=50),
            "heading": st.column_config.TextColumn(width=280),
            "stage": st.column_config.TextColumn(width=70),
            "rank": st.column_config.NumberColumn(width=50),
            "score": st.column_config.NumberColumn(format="%.3f", width=60),
            "reason": st.column_config.TextColumn(width=380),
        },
    )


def last_decisions(prompt: SuperPrompt) -> list[dict[str, Any]]:
    """Return a row a candidate, those that went furthest and ranked best first."""
    from ragstream_core.orchestration.explain import ways
    from ragstream_core.records import decision_from

    found = ways([decision_from(row) for row in prompt.extras.get("decisions", [])])
    headings = {c.id: str(c.meta.get("heading") or "") for c in prompt.base_context_chunks}
    return [_row(way, headings.get(way["chunk_id"], "")) for way in found]


def notes(step: Step) -> list[str]:
    """Return the warnings of the stages and of the recorder, in order."""
    rows: Iterable[dict[str, Any]] = step.prompt.extras.get("warnings", [])
    return [*(f"{row['stage']}: {row['message']}" for row in rows), *step.notes]


def events(step: Step) -> list[str]:
    """Return what the stages report they did."""
    rows: Iterable[dict[str, Any]] = step.prompt.extras.get("events", [])
    return [f"{row['stage']}: {row['message']}" for row in rows]


def citation_table(prompt: SuperPrompt) -> None:
    """Show which short id stands for which chunk."""
    rows = citation_rows(prompt.extras.get("citations", {}))
    if rows:
        st.dataframe(rows, hide_index=True, height=300)
    else:
        st.text("No citations. A4 Condenser issues them for what it selects.")


def citation_rows(citations: Mapping[str, Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return the issued citations, short id → chunk, as rows of plain text."""
    return [
        {
            "short id": short_id,
            "source": str(cited["source"]),
            "begins with": " ".join(str(cited["snippet"]).split()),
            "chunk": str(cited["chunk_id"]),
        }
        for short_id, cited in citations.items()
    ]


def _row(way: dict[str, Any], heading: str) -> dict[str, Any]:
    step = way["steps"][-1]
    path, _, rest = way["chunk_id"].partition("::")
    return {
        "chunk_id": way["chunk_id"],
        "kept": "in" if step["kept"] else "out",
        "source": f"{path}#{rest.rpartition('::')[2]}",
        "heading": heading,
        "stage": step["stage"],
        "rank": step["rank"],
        "score": last_score(way["steps"]),
        "rule": step["rule"],
        "reason": step["reason"],
    }
