"""Why a chunk is in a prompt or is not: each candidate's way through the stages, and its names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from ragstream_core.prompts.citations import parse_markers
from ragstream_core.records import Decision
from ragstream_core.records.identity import sha256_hex, shown_name
from ragstream_core.records.super_prompt import HEADERS

MIN_DIGITS = 6
"""So many digits of a citation id name a candidate."""


def named(known: Iterable[str], wanted: str) -> list[str]:
    """Return the candidates that a person means, in their order; of several ways the exact one.

    Args:
        known: Chunk ids, or ids of injected files.
        wanted: A citation marker, a chunk id, a name as of `shown_name`, or the first digits of a
            citation id, at least `MIN_DIGITS`.
    """
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
    """Read the ledger of a kept prompt.

    Args:
        folder: The prompt's folder.

    Returns:
        Its rows in the order they were decided; None if the derived file is missing or damaged
        (replay makes it again).
    """
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
    """Return the rows of a ledger that are about candidates, not about headers."""
    return [row for row in decisions if row.stage != HEADERS]


def headers_of(decisions: Sequence[Decision]) -> list[dict[str, Any]]:
    """Return what the audit decided about headers: ``header, kept, rule, reason`` each.

    Args:
        decisions: Rows of one prompt.
    """
    return [
        {"header": row.chunk_id, "kept": row.kept, "rule": row.rule, "reason": row.reason}
        for row in decisions
        if row.stage == HEADERS
    ]


def ways(decisions: Sequence[Decision]) -> list[dict[str, Any]]:
    """Group a ledger by candidate, for people and for `--json`; headers are none.

    Args:
        decisions: Rows of one prompt.

    Returns:
        One entry a candidate: ``chunk_id``, ``kept`` (to the end), ``steps`` in order; candidates
        that went furthest and ranked best come first.
    """
    last = max((d.pass_no for d in decisions), default=1)
    by_chunk: dict[str, list[Decision]] = {}
    for decision in candidates_of(decisions):
        by_chunk.setdefault(decision.chunk_id, []).append(decision)

    def order(item: tuple[str, list[Decision]]) -> tuple[bool, int, int]:
        final = [d for d in item[1] if d.pass_no == last] or item[1]
        return (not final[-1].kept, -len(final), final[-1].rank)

    return [
        {
            "chunk_id": chunk_id,
            "kept": steps[-1].kept,
            "steps": [
                {
                    "pass": d.pass_no,
                    "stage": d.stage,
                    "rank": d.rank,
                    "score": d.score,
                    "kept": d.kept,
                    "rule": d.rule,
                    "reason": d.reason,
                    "scores": dict(sorted(d.scores.items())),
                }
                for d in steps
            ],
        }
        for chunk_id, steps in sorted(by_chunk.items(), key=order)
    ]
