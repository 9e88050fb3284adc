"""Why a chunk is in a prompt or is not: each candidate's way through the stages, and its names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from ragstream_core.prompts.citations import parse_markers
from ragstream_core.records import Decision
from ragstream_core.records.identity import Json, sha256_hex, shown_name, with_names
from ragstream_core.records.super_prompt import ANSWERS, HEADERS

# Rules of A4 by which a passage is shown in part.
IN_PART = ("window", "cut_at_budget")
# So many digits of a citation id name a candidate.
MIN_DIGITS = 6


class HeaderDecision(NamedTuple):
    """What the audit decided about a header."""

    header: str
    kept: bool
    rule: str
    reason: str


class Way(NamedTuple):
    """A candidate's way through the stages."""

    chunk_id: str  # the candidate
    kept: bool  # whether it is in the prompt
    steps: Sequence[Decision]  # what the stages decided about it, in order; at least one

    @property
    def last(self) -> Decision:
        """What was decided about it at the end."""
        return self.steps[-1]

    @property
    def ended(self) -> str:
        """Why it is in the prompt or is not; of what is shown in part also which part that is."""
        last = self.last
        parts = [
            step.reason
            for step in self.steps[:-1]
            if last.kept and step.pass_no == last.pass_no and step.rule in IN_PART
        ]
        return with_names("; ".join([last.reason, *parts]))

    def to_json(self) -> dict[str, Json]:
        """Return it as `ragstream explain --json` writes it."""
        steps: list[Json] = [step_row(step) for step in self.steps]
        return {"chunk_id": self.chunk_id, "kept": self.kept, "steps": steps}


def step_row(step: Decision) -> dict[str, Json]:
    """Return what a stage decided about a candidate, as `ragstream explain --json` writes it."""
    return {
        "pass": step.pass_no,
        "stage": step.stage,
        "rank": step.rank,
        "score": step.score,
        "kept": step.kept,
        "rule": step.rule,
        "reason": step.reason,
        "scores": dict(sorted(step.scores.items())),
    }


def named(known: Iterable[str], wanted: str) -> list[str]:
    """Return the candidates that a person means, in their order; of several ways the exact one."""
    markers = parse_markers(wanted)
    text = markers[0].id if markers else wanted
    digits = text.strip().lower()
    if len(digits) < MIN_DIGITS:
        digits = "none"
    ways_to_name: tuple[Callable[[str], bool], ...] = (
        lambda i: i == text,
        lambda i: shown_name(i) == text,
        lambda i: sha256_hex(i).startswith(digits),
    )
    ids = list(dict.fromkeys(known))
    return next(filter(None, ([i for i in ids if means(i)] for means in ways_to_name)), [])


def load_decisions(folder: Path) -> list[Decision] | None:
    """Read the ledger of a kept prompt; None if the derived file is missing or damaged."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / "decisions.parquet"
    if not path.is_file():
        return None
    try:
        with pq.ParquetFile(path) as ledger:  # pq.read_table would import pandas
            rows = ledger.read().to_pylist()
    except (pa.ArrowInvalid, OSError):
        return None
    return [Decision(**{**row, "scores": json.loads(row["scores"])}) for row in rows]


def candidates_of(decisions: Sequence[Decision]) -> list[Decision]:
    """Return the rows of a ledger that are about candidates, not about headers or query pieces."""
    return [row for row in decisions if row.stage not in (HEADERS, ANSWERS)]


def headers_of(decisions: Sequence[Decision]) -> list[HeaderDecision]:
    """Return what the audit decided about headers."""
    return [
        HeaderDecision(row.chunk_id, row.kept, row.rule, row.reason)
        for row in decisions
        if row.stage == HEADERS
    ]


def answers_of(decisions: Sequence[Decision]) -> list[Decision]:
    """Return what was estimated of each query piece, by the last pass."""
    last = max((row.pass_no for row in decisions), default=1)
    return [row for row in decisions if row.stage == ANSWERS and row.pass_no == last]


def ways(decisions: Sequence[Decision]) -> list[Way]:
    """Group a ledger by candidate; those that went furthest and ranked best come first."""
    last = max((d.pass_no for d in decisions), default=1)
    by_chunk: dict[str, list[Decision]] = {}
    for decision in candidates_of(decisions):
        by_chunk.setdefault(decision.chunk_id, []).append(decision)

    def order(item: tuple[str, list[Decision]]) -> tuple[bool, int, int]:
        final = [d for d in item[1] if d.pass_no == last] or item[1]
        return (not final[-1].kept, -len(final), final[-1].rank)

    return [
        Way(chunk_id, steps[-1].kept, steps)
        for chunk_id, steps in sorted(by_chunk.items(), key=order)
    ]
