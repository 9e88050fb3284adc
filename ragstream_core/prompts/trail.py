"""What every stage writes in the same way: its place in the trail, decisions, events, warnings.

A stage that is called again replaces what it wrote before, so calling it twice changes nothing.
Events and warnings are ``{"stage": op, "pass_no": n, "message": text}``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ragstream_core.records import Decision, SuperPrompt, decision_row, evolve


def pass_number(prompt: SuperPrompt) -> int:
    """Return which pass this is: 1, or 2 after the audit's re-run."""
    return int(prompt.extras.get("pass_no", 1))


def advance(prompt: SuperPrompt, stage: str) -> SuperPrompt:
    """Return a copy at ``stage``; the trail grows only if the prompt was not there already."""
    return evolve(prompt) if prompt.stage == stage else evolve(prompt, stage=stage)


def put_decisions(prompt: SuperPrompt, stage: str, decisions: Sequence[Decision]) -> None:
    """Replace the ledger rows of one stage in the current pass.

    Args:
        prompt: A copy that the caller owns; its ``extras`` is changed.
        stage: As in the rows.
        decisions: One row a candidate.
    """
    now = pass_number(prompt)
    rows: list[dict[str, Any]] = prompt.extras.get("decisions", [])
    kept = [r for r in rows if not (r["stage"] == stage and r["pass_no"] == now)]
    prompt.extras["decisions"] = [*kept, *map(decision_row, decisions)]


def put_notes(
    prompt: SuperPrompt, op: str, *, events: Iterable[str] = (), warnings: Iterable[str] = ()
) -> None:
    """Replace the events and warnings of one operation in the current pass.

    Args:
        prompt: A copy that the caller owns; its ``extras`` is changed.
        op: Name of the operation, e.g. ``a1_file_injector``.
        events: What happened, for the transparency panel.
        warnings: What the person should look at.
    """
    now = pass_number(prompt)
    for key, messages in (("events", events), ("warnings", warnings)):
        old: list[dict[str, Any]] = prompt.extras.get(key, [])
        kept = [n for n in old if not (n["stage"] == op and n["pass_no"] == now)]
        new = [{"stage": op, "pass_no": now, "message": m} for m in messages]
        prompt.extras[key] = [*kept, *new]


def notes_of(prompt: SuperPrompt) -> list[dict[str, Any]]:
    """Return all events and warnings of a prompt: ``stage, pass_no, message`` and their ``kind``.

    Ordered by pass, then as the stages ran; the events of a stage come before its warnings.
    """
    rows = [
        {"kind": kind.removesuffix("s"), **row}
        for kind in ("events", "warnings")
        for row in prompt.extras.get(kind, [])
    ]
    stages = list(dict.fromkeys(op for op, _ in prompt.extras.get("trail", [])))
    known = {op: place for place, op in enumerate(stages)}
    return sorted(rows, key=lambda row: (row["pass_no"], known.get(row["stage"], len(known))))


def pieces_of(prompt: SuperPrompt) -> list[str]:
    """Return the texts of the query pieces."""
    return [piece["text"] for piece in prompt.extras.get("query_pieces", [])]


def latest_view(prompt: SuperPrompt, *stages: str) -> list[str]:
    """Return the ids of the first of these stages that has a view, else an empty list."""
    for stage in stages:
        if stage in prompt.views_by_stage:
            return list(prompt.views_by_stage[stage])
    return []
