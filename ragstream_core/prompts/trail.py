"""What every stage writes in the same way: its place in the trail, decisions, events, warnings.

A stage that is called again replaces what it wrote before, so calling it twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ragstream_core.records import Decision, SuperPrompt, evolve
from ragstream_core.records.json_form import Json, json_of
from ragstream_core.records.stage_results import Note


def pass_number(prompt: SuperPrompt) -> int:
    """Return which pass this is: 1, or 2 after the audit's re-run."""
    return prompt.extras.pass_no


def advance(prompt: SuperPrompt, stage: str) -> SuperPrompt:
    """Return a copy at ``stage``; the trail grows only if the prompt was not there already."""
    return evolve(prompt) if prompt.stage == stage else evolve(prompt, stage=stage)


def put_decisions(prompt: SuperPrompt, stage: str, decisions: Sequence[Decision]) -> None:
    """Replace the ledger rows of one stage in the current pass."""
    now = pass_number(prompt)
    rows = prompt.extras.decisions
    kept = [row for row in rows if not (row.stage == stage and row.pass_no == now)]
    prompt.extras.decisions = (*kept, *decisions)


def put_notes(
    prompt: SuperPrompt, op: str, *, events: Iterable[str] = (), warnings: Iterable[str] = ()
) -> None:
    """Replace the events and warnings of one operation in the current pass."""
    now = pass_number(prompt)

    def replaced(notes: Iterable[Note], messages: Iterable[str]) -> tuple[Note, ...]:
        kept = (note for note in notes if not (note.stage == op and note.pass_no == now))
        return (*kept, *(Note(op, now, message) for message in messages))

    prompt.extras.events = replaced(prompt.extras.events, events)
    prompt.extras.warnings = replaced(prompt.extras.warnings, warnings)


def notes_of(prompt: SuperPrompt) -> list[dict[str, Json]]:
    """Return all events and warnings of a prompt: ``stage, pass_no, message`` and their ``kind``.

    Ordered by pass, then as the stages ran; the events of a stage come before its warnings.
    """
    kinds = (("event", prompt.extras.events), ("warning", prompt.extras.warnings))
    found = [(kind, note) for kind, notes in kinds for note in notes]
    stages = list(dict.fromkeys(op for op, _ in prompt.extras.trail))
    known = {op: place for place, op in enumerate(stages)}
    found.sort(key=lambda row: (row[1].pass_no, known.get(row[1].stage, len(known))))
    return [{"kind": kind, **json_of(note)} for kind, note in found]


def pieces_of(prompt: SuperPrompt) -> list[str]:
    """Return the texts of the query pieces."""
    return [piece.text for piece in prompt.extras.query_pieces]


def latest_view(prompt: SuperPrompt, *stages: str) -> list[str]:
    """Return the ids of the first of these stages that has a view, else an empty list."""
    for stage in stages:
        if stage in prompt.views_by_stage:
            return list(prompt.views_by_stage[stage])
    return []
