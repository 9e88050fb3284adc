"""Metadata of the history: what was embedded, where the turns lie, what is published."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from ragstream_assets.charts import bullets
from ragstream_assets.metadata import Metadata, table
from ragstream_core.index.history_turns import TurnCount
from ragstream_core.services.history_update import Upkeep


def run_metadata(done: Upkeep) -> Metadata:
    """Return what a run embedded, how long it took, and the last turns it read."""
    stats = done.stats
    sample = [{"turn": name, "characters": len(text)} for name, text in done.sample]
    return {
        "idle": done.idle or "no",
        "turns": stats.turns,
        "embedded": stats.embedded,
        "reused": stats.reused,
        "retagged": stats.retagged,
        "passed_over": stats.passed_over,
        "missing_for_the_new_model": stats.missing,
        "generation": stats.generation,
        "committed": stats.committed,
        "up_to_record": stats.seq,
        "seconds": round(stats.seconds, 3),
        "model_seconds": round(stats.model_seconds, 3),
        "sample": table(sample, "turn", "characters"),
        "warnings": dg.MetadataValue.md(bullets(stats.warnings)),
    }


def state_metadata(done: Upkeep) -> Metadata:
    """Return what is embedded by month and conversation, and what of it is published."""
    made = done.snapshot
    by_month = sorted(_summed(done.counts, "month"), key=lambda row: row["month"], reverse=True)
    return {
        "live_turns": sum(row.turns for row in done.counts),
        "live_chunks": sum(row.chunks for row in done.counts),
        "by_month": table(by_month, "month", "turns", "chunks"),
        "by_session": table(_summed(done.counts, "session"), "session", "turns", "chunks"),
        "published_chunks": made.rows if made else 0,
        "published_turns": made.turns if made else 0,
        "evicted": made.evicted if made else 0,
        "published_bytes": made.size if made else 0,
        "digest": made.digest if made else "-",
    }


def month_metadata(done: Upkeep) -> dict[str, Metadata]:
    """Return month → what it holds, for the months in which anything was said."""
    return {
        row["month"]: {"turns_in_month": row["turns"], "chunks_in_month": row["chunks"]}
        for row in _summed(done.counts, "month")
    }


def reported(events: Sequence[dg.EventLogRecord]) -> dict[str, Metadata]:
    """Return month → what was reported of it last.

    Args:
        events: Materialisations, the newest first.
    """
    found: dict[str, Metadata] = {}
    for event in events:
        made = event.asset_materialization
        if made is not None and made.partition:
            row = {k: v.value for k, v in made.metadata.items() if k.endswith("_in_month")}
            found.setdefault(made.partition, row)
    return found


def log_metadata(logs: Sequence[Path]) -> Metadata:
    """Return which logs there are, the newest first."""
    rows: list[dict[str, Any]] = [{"log": path.name, "bytes": path.stat().st_size} for path in logs]
    return {"sessions": len(rows), "logs": table(rows, "log", "bytes")}


def summary_metadata(summaries: Sequence[tuple[str, str]]) -> Metadata:
    """Return how many summaries there are, of which spans, and how long they are."""
    rows = [{"span": name, "characters": len(text)} for name, text in summaries]
    return {"summaries": len(summaries), "spans": table(rows, "span", "characters")}


def _summed(counts: Sequence[TurnCount], name: str) -> list[dict[str, Any]]:
    """Add up turns and chunks by month or session, in the order in which they come."""
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    for row in counts:
        sums[getattr(row, name)].update(turns=row.turns, chunks=row.chunks)
    return [{name: value, **found} for value, found in sums.items()]
