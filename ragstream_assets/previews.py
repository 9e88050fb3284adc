"""Metadata people look at: tables and previews of what a run did, each small enough to be an event.

Previews are the one place where Dagster holds document or prompt text; they end with the run.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from ragstream_assets.charts import candidate_flow, stage_times, token_shares
from ragstream_assets.verbatim import block, bullets, passage
from ragstream_core.agents.trail import pass_number
from ragstream_core.ingestion.stats import FILE_KEYS, IngestionStats
from ragstream_core.orchestration.prompt_store import PromptRecord
from ragstream_core.records import Chunk, SuperPrompt

ROWS = 50
PREVIEW_CHARS = 8_000
CHUNK_CHARS = 600
CHUNKS = 5

Metadata = dict[str, Any]


def table(rows: Sequence[Mapping[str, str | int | float]], *columns: str) -> dg.TableMetadataValue:
    """Return the first rows as a table; the columns hold even where there are none."""
    return dg.MetadataValue.table(
        records=[dg.TableRecord(dict(row)) for row in rows[:ROWS]],
        schema=dg.TableSchema([dg.TableColumn(name) for name in columns]),
    )


def file_metadata(stats: IngestionStats) -> Metadata:
    """Return what became of the files: counts, and a table of the changed and skipped ones."""
    rows = [
        {"path": path, "what": what, "reason": ""}
        for what, paths in stats.changed.items()
        for path in paths
    ]
    rows += [
        {"path": path, "what": "skipped", "reason": reason}
        for path, reason in stats.skipped_reasons
    ]
    counts = {key: stats.files.get(key, 0) for key in FILE_KEYS}
    return {
        **counts,
        "changes": table(rows, "path", "what", "reason"),
        "rows_not_shown": max(0, len(rows) - ROWS),
    }


def chunk_metadata(stats: IngestionStats, sample: Sequence[Chunk]) -> Metadata:
    """Return how many chunks there are, and what a few of them look like."""
    parts = [
        passage(f"{c.source}, characters {c.span[0]}-{c.span[1]}", c.snippet[:CHUNK_CHARS])
        for c in sample
    ]
    return {
        "live": stats.chunks.get("live", 0),
        "documents": stats.documents,
        "preview": dg.MetadataValue.md("\n\n".join(parts) or "nothing new"),
    }


def embedding_metadata(stats: IngestionStats) -> Metadata:
    """Return what was embedded and what could be used again."""
    return {
        "embedded": stats.chunks.get("embedded", 0),
        "reused": stats.chunks.get("reused", 0),
        "model_seconds": round(stats.model_seconds, 3),
        "dimension": stats.dimension,
        "long_inputs": stats.long_inputs,
        "truncated_inputs": stats.truncated_inputs,
    }


def index_metadata(stats: IngestionStats) -> Metadata:
    """Return which generation is the newest, how large it is, and what making it took."""
    quality: Metadata = {k: stats.quality[k] for k in ("recall", "mrr") if k in stats.quality}
    return {
        "generation": stats.generation,
        "committed": stats.committed,
        "refused": stats.refused or "no",
        "documents": stats.documents,
        "chunks": stats.chunks.get("live", 0),
        **quality,
        "digest": stats.digest or "-",
        "seconds": round(stats.seconds, 3),
        "warnings": dg.MetadataValue.md(bullets(stats.warnings)),
    }


def stage_metadata(prompt: SuperPrompt, seconds: float) -> Metadata:
    """Return what a stage made of a prompt: its view's size, its decisions, its time."""
    decided = decision_rows(prompt, prompt.stage)
    return {
        "stage": prompt.stage,
        "milliseconds": round(seconds * 1000, 1),
        "candidates": len(prompt.base_context_chunks),
        "view": len(prompt.views_by_stage.get(prompt.stage, [])),
        "decisions": table(decided, "pass", "rank", "chunk", "score", "kept", "rule", "reason"),
    }


def prompt_metadata(prompt: SuperPrompt, record: PromptRecord) -> Metadata:
    """Return the finished Super-Prompt, its key, its size and the last word on every candidate."""
    text = prompt.extras["super_prompt"]
    shown = text if len(text) <= PREVIEW_CHARS else f"{text[:PREVIEW_CHARS]}\n\n… shortened"
    return {
        "prompt_key": record.prompt_key,
        "tokens": record.tokens,
        "selected": len(prompt.final_selection_ids),
        "milliseconds_by_stage": dg.MetadataValue.md(stage_times(record.timings_ms)),
        "candidates_by_stage": dg.MetadataValue.md(candidate_flow(prompt)),
        "tokens_by_block": dg.MetadataValue.md(token_shares(prompt)),
        "super_prompt": dg.MetadataValue.md(block(shown)),
        "ledger": table(
            decision_rows(prompt), "pass", "stage", "rank", "chunk", "score", "kept", "reason"
        ),
    }


def decision_rows(prompt: SuperPrompt, stage: str = "") -> list[dict[str, Any]]:
    """Return the ledger rows of the present pass, of one stage or of all, as table rows."""
    now = pass_number(prompt)
    return [
        {
            "pass": row["pass_no"],
            "stage": row["stage"],
            "rank": row["rank"],
            "chunk": _short(row["chunk_id"]),
            "score": row["score"],
            "kept": row["kept"],
            "rule": row["rule"],
            "reason": row["reason"],
        }
        for row in prompt.extras.get("decisions", [])
        if row["pass_no"] == now and stage in ("", row["stage"])
    ]


def _short(chunk_id: str) -> str:
    path, _, index = chunk_id.rpartition("::")
    return f"{path.partition('::')[0]} #{index}"
