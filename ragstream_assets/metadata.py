"""Metadata people look at: figures, tables and links of what a run did, small enough for events.

Events outlive what they tell of, so no word of a document, a question or an answer stands in one:
what was read is named by its path and place, and a link says where to read it.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from ragstream_core.agents import reranker
from ragstream_core.ingestion.stats import FILE_KEYS, IngestionStats
from ragstream_core.prompts.blocks import file_texts, selected_texts
from ragstream_core.prompts.exchanges import usage_of
from ragstream_core.prompts.explain import answers_of, candidates_of, ways
from ragstream_core.prompts.injection_scan import Tally, tally
from ragstream_core.prompts.inputs import inputs_of
from ragstream_core.prompts.store import PromptRecord
from ragstream_core.prompts.trail import pass_number
from ragstream_core.records import Decision, SuperPrompt
from ragstream_core.records.identity import shown_name

if TYPE_CHECKING:
    import pandas as pd


ROWS = 50
USAGE = ("stage", "model", "input_tokens", "output_tokens", "cost_usd", "taken", "instead")
Metadata = dict[str, Any]


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> dg.TableMetadataValue:
    """Return the first rows as a table; the columns hold even where there are none."""
    return dg.MetadataValue.table(
        records=[
            dg.TableRecord(dict(zip(columns, row, strict=True))) for row in islice(rows, ROWS)
        ],
        schema=dg.TableSchema([dg.TableColumn(name) for name in columns]),
    )


def frame(name: str, rows: "pd.DataFrame") -> Metadata:
    """Return the first rows of a pandas table with the types of its columns, and how many lack."""
    from ragstream_core.evaluation.tables import records

    kinds = {"b": "bool", "i": "int", "u": "int", "f": "float"}
    columns = [
        dg.TableColumn(column, kinds.get(getattr(kind, "kind", "O"), "string"))
        for column, kind in rows.dtypes.items()
    ]
    shown = dg.MetadataValue.table(
        records=[dg.TableRecord(row) for row in records(rows.head(ROWS))],
        schema=dg.TableSchema(columns),
    )
    return {name: shown, "rows_not_shown": max(0, len(rows) - ROWS)}


def file_metadata(stats: IngestionStats) -> Metadata:
    """Return what became of the files: counts, and a table of the changed and skipped ones."""
    rows = [(path, what, "") for what, paths in stats.changed.items() for path in paths]
    rows += [(path, "skipped", reason) for path, reason in stats.skipped_reasons]
    counts = {key: stats.files.get(key, 0) for key in FILE_KEYS}
    return {
        **counts,
        "changes": table(("path", "what", "reason"), rows),
        "rows_not_shown": max(0, len(rows) - ROWS),
    }


def embedding_metadata(stats: IngestionStats) -> Metadata:
    """Return what was embedded and what could be used again."""
    return {
        "embedded": stats.chunks.get("embedded", 0),
        "reused": stats.chunks.get("reused", 0),
        "model_seconds": round(stats.model_seconds, 3),
        "dimension": stats.dimension,
        **({"model": stats.model, "device": stats.device or "not said"} if stats.model else {}),
        "long_inputs": stats.long_inputs,
        "truncated_inputs": stats.truncated_inputs,
    }


def index_metadata(stats: IngestionStats) -> Metadata:
    """Return which generation is the newest, how large it is, and what making it took."""
    verdict = stats.quality
    figures = verdict.figures if verdict else None
    quality: Metadata = {"recall": figures.recall, "mrr": figures.mrr} if figures else {}
    lost = set(verdict.worse) if verdict else set()  # these lines quote the gold questions
    warnings = [line for line in stats.warnings if line not in lost]
    if lost:
        warnings.append(f"{len(lost)} expected items are found worse: quality_report.json")
    return {
        "generation": stats.generation,
        "committed": stats.committed,
        "refused": stats.refused or "no",
        "documents": stats.documents,
        "chunks": stats.chunks.get("live", 0),
        **quality,
        "digest": stats.digest or "-",
        "seconds": round(stats.seconds, 3),
        "warnings": joined(warnings),
    }


def suspicion_metadata(seen: Tally) -> Metadata:
    """Return what looks like commands to a language model, by kind, and where."""
    rows = [(name, ", ".join(kinds)) for name, kinds in seen.places]
    counts = {f"suspicious_{kind}": n for kind, n in seen.to_json()["kinds"].items()}
    return {
        "suspicious_passages": seen.suspicious,
        "passages_read": seen.texts,
        **counts,
        **({"suspicious": table(("place", "kinds"), rows)} if rows else {}),
    }


def stage_metadata(prompt: SuperPrompt, seconds: float, *, device: str = "") -> Metadata:
    """Return what a stage made of a prompt: its view's size, its decisions, its time.

    Warnings, what a language model was asked and what people changed by hand are there where they
    happened; `device` is where its model computed, empty where it has none.
    """
    op = prompt.extras.trail[-1][0]
    now = pass_number(prompt)
    decided = [
        row
        for row in candidates_of(prompt.extras.decisions)
        if (row.stage, row.pass_no) == (prompt.stage, now)
    ]
    asked = [row for row in _model_calls(prompt) if row[0] == op]
    warnings = [row.message for row in prompt.extras.warnings if row.stage == op]
    edits = [f"{edit.target} (after {edit.after})" for edit in prompt.extras.edits]
    return {
        "stage": prompt.stage,
        "milliseconds": round(seconds * 1000, 1),
        "candidates": len(prompt.base_context_chunks),
        "view": len(prompt.views_by_stage.get(prompt.stage, [])),
        "pass": now,
        "decisions": _decision_table(decided),
        **(_ranked_by(prompt, device) if op == reranker.OP else {}),
        **({"warnings": joined(warnings)} if warnings else {}),
        **({"language_model": table(USAGE, asked[-1:])} if asked else {}),
        **({"edited_by_hand": ", ".join(edits)} if edits else {}),
    }


def _ranked_by(prompt: SuperPrompt, device: str) -> Metadata:
    """Return which model ranked how many candidates, and where it computed (R-009)."""
    rows = [row for row in prompt.extras.decisions if row.stage == prompt.stage]
    ranked = sum(not {*row.scores} <= {"retrieval"} for row in rows)
    name = str(inputs_of(prompt).models.get("reranker", ""))
    return {"reranker": name, "reranked": ranked, **({"device": device} if device else {})}


def prompt_metadata(prompt: SuperPrompt, record: PromptRecord, folder: Path) -> Metadata:
    """Return a finished Super-Prompt's key, file and size, and the last word on every candidate."""
    selected = len(prompt.final_selection_ids)
    views = [(stage, len(view)) for stage, view in prompt.views_by_stage.items() if view]
    blocks = [(block.name, block.tokens) for block in prompt.extras.token_tree.blocks]
    quoted = [*file_texts(prompt), *selected_texts(prompt, history=False)]
    warnings, ledger = [row.message for row in prompt.extras.warnings], prompt.extras.decisions
    return {
        "prompt_key": record.prompt_key,
        "super_prompt": dg.MetadataValue.path(str(folder / "super_prompt.md")),
        "tokens": record.tokens,
        "selected": selected,
        **({"warnings": joined(warnings)} if warnings else {}),
        **_model_totals(prompt),
        "milliseconds_by_stage": table(("stage", "ms"), record.timings_ms.items()),
        "candidates_by_stage": table(("after", "candidates"), [*views, ("selected", selected)]),
        "tokens_by_block": table(("block", "tokens"), blocks),
        **suspicion_metadata(tally((source.name, text) for source, text in quoted)),
        "ledger": _decision_table([*(way.last for way in ways(ledger)), *answers_of(ledger)]),
    }


def _model_calls(prompt: SuperPrompt) -> list[tuple[Any, ...]]:
    """Return what each question of an agent to a language model took, in rows of `USAGE`."""
    return [
        (
            call.op.partition("#")[0],
            call.model,
            call.usage.input_tokens,
            call.usage.output_tokens,
            usd(call.usage.cost_usd),
            call.taken,
            call.instead,
        )
        for call in prompt.extras.llm_usage.values()
    ]


def _model_totals(prompt: SuperPrompt) -> Metadata:
    usage = usage_of(prompt)
    if usage is None:
        return {}
    return {
        "language_model": table(USAGE, _model_calls(prompt)),
        "language_model_input_tokens": usage.input_tokens,
        "language_model_output_tokens": usage.output_tokens,
        "language_model_cost_usd": usd(usage.cost_usd),
    }


def usd(cost: float | None) -> str:
    """Return a cost in US dollars as text; None is unknown."""
    return "unknown" if cost is None else f"{cost:.6f}"


def _decision_table(decisions: Iterable[Decision]) -> dg.TableMetadataValue:
    rows = (
        (
            row.stage,
            row.rank,
            shown_name(row.chunk_id),
            round(row.score, 4),
            "yes" if row.kept else "no",
            row.rule,
            row.reason,
        )
        for row in decisions
    )
    return table(("stage", "rank", "chunk", "score", "kept", "rule", "reason"), rows)


def joined(lines: Iterable[str]) -> str:
    """Return lines as one text; Dagster shows it as it is, never as Markdown."""
    return "; ".join(lines) or "-"
