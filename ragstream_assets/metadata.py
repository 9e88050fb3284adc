"""Metadata people look at: figures, tables and links of what a run did, small enough for events.

Events outlive what they tell of, so no word of a document, a question or an answer stands in one:
what was read is named by its path and place, and a link says where to read it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from ragstream_core.agents import reranker
from ragstream_core.ingestion.stats import FILE_KEYS, IngestionStats
from ragstream_core.prompts.blocks import file_texts, selected_texts
from ragstream_core.prompts.exchanges import usage_of
from ragstream_core.prompts.injection_scan import Tally, tally
from ragstream_core.prompts.inputs import inputs_of
from ragstream_core.prompts.store import PromptRecord
from ragstream_core.prompts.trail import pass_number
from ragstream_core.records import Chunk, SuperPrompt
from ragstream_core.records.super_prompt import HEADERS

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


def picked(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> dg.TableMetadataValue:
    """Return some columns of the first rows as a table."""
    return table(columns, ([row[name] for name in columns] for row in rows))


def frame(rows: "pd.DataFrame") -> dg.TableMetadataValue:
    """Return the first rows of a pandas table with the types of its columns."""
    from ragstream_core.evaluation.tables import records

    kinds = {"b": "bool", "i": "int", "u": "int", "f": "float"}
    columns = [
        dg.TableColumn(name, kinds.get(getattr(kind, "kind", "O"), "string"))
        for name, kind in rows.dtypes.items()
    ]
    return dg.MetadataValue.table(
        records=[dg.TableRecord(row) for row in records(rows.head(ROWS))],
        schema=dg.TableSchema(columns),
    )


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


def unfit_metadata(rows: Sequence[tuple[str, str]]) -> Metadata:
    """Return the folders beside the projects' that cannot be projects, and why."""
    return {"no_projects": table(("folder", "reason"), rows)} if rows else {}


def chunk_metadata(stats: IngestionStats, sample: Sequence[Chunk]) -> Metadata:
    """Return how many chunks there are, and where a few of the new ones lie."""
    rows = [(chunk.source, *chunk.span, len(chunk.snippet)) for chunk in sample]
    return {
        "live": stats.chunks.get("live", 0),
        "documents": stats.documents,
        "sample": table(("file", "from", "to", "characters"), rows),
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
        "warnings": dg.MetadataValue.md(bullets(warnings)),
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
    decided = [row for row in decision_rows(prompt) if row["stage"] == prompt.stage]
    asked = [row for row in usage_rows(prompt) if row["stage"] == op]
    edits = [f"{edit.target} (after {edit.after})" for edit in prompt.extras.edits]
    return {
        "stage": prompt.stage,
        "milliseconds": round(seconds * 1000, 1),
        "candidates": len(prompt.base_context_chunks),
        "view": len(prompt.views_by_stage.get(prompt.stage, [])),
        "pass": pass_number(prompt),
        "decisions": picked(("rank", "chunk", "score", "kept", "rule", "reason"), decided),
        **(_ranked_by(prompt, device) if op == reranker.OP else {}),
        **_warnings(prompt, op),
        **({"language_model": picked(USAGE, asked[-1:])} if asked else {}),
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
    charts = {
        "milliseconds_by_stage": bars([*record.timings_ms.items()], name="stage", unit="ms"),
        "candidates_by_stage": bars(
            [*views, ("selected", selected)], name="after", unit="candidates"
        ),
        "tokens_by_block": bars(blocks, name="block", unit="tokens"),
    }
    return {
        "prompt_key": record.prompt_key,
        "super_prompt": dg.MetadataValue.path(str(folder / "super_prompt.md")),
        "tokens": record.tokens,
        "selected": selected,
        **_warnings(prompt),
        **_model_totals(prompt),
        **{name: dg.MetadataValue.md(drawn) for name, drawn in charts.items()},
        **suspicion_metadata(_quoted(prompt)),
        "ledger": picked(("chunk", "stage", "rank", "score", "kept", "reason"), last_words(prompt)),
    }


def _warnings(prompt: SuperPrompt, op: str = "") -> Metadata:
    """Return the warnings of a prompt, or of one op of it; nothing where there are none."""
    rows = prompt.extras.warnings
    found = [row.message for row in rows if row.stage == op or not op]
    return {"warnings": dg.MetadataValue.md(bullets(found))} if found else {}


def _quoted(prompt: SuperPrompt) -> Tally:
    """Return what looks suspicious among the texts that a prompt quotes."""
    texts = [*file_texts(prompt), *selected_texts(prompt, history=False)]
    return tally((source.name, text) for source, text in texts)


def usage_rows(prompt: SuperPrompt) -> list[dict[str, Any]]:
    """Return what each question of an agent to a language model took."""
    return [
        {
            "stage": call.op.partition("#")[0],
            "model": call.model,
            "input_tokens": call.usage.input_tokens,
            "output_tokens": call.usage.output_tokens,
            "cost_usd": usd(call.usage.cost_usd),
            "taken": call.taken,
            "instead": call.instead,
        }
        for call in prompt.extras.llm_usage.values()
    ]


def _model_totals(prompt: SuperPrompt) -> Metadata:
    usage = usage_of(prompt)
    if usage is None:
        return {}
    return {
        "language_model": picked(USAGE, usage_rows(prompt)),
        "language_model_input_tokens": usage.input_tokens,
        "language_model_output_tokens": usage.output_tokens,
        "language_model_cost_usd": usd(usage.cost_usd),
    }


def usd(cost: float | None) -> str:
    """Return a cost in US dollars as text; None is unknown."""
    return "unknown" if cost is None else f"{cost:.6f}"


def last_words(prompt: SuperPrompt) -> list[dict[str, Any]]:
    """Return the last decision on every candidate of the present pass; who came furthest first."""
    rows = decision_rows(prompt)
    last = {row["id"]: row for row in rows}
    stages = list(dict.fromkeys(row["stage"] for row in rows))
    return sorted(last.values(), key=lambda row: (-stages.index(row["stage"]), row["rank"]))


def decision_rows(prompt: SuperPrompt) -> list[dict[str, Any]]:
    """Return what the present pass decided on candidates as table rows, as the stages ran."""
    now = pass_number(prompt)
    return [
        {
            "id": row.chunk_id,
            "stage": row.stage,
            "rank": row.rank,
            "chunk": _short(row.chunk_id),
            "score": round(row.score, 4),
            "kept": "yes" if row.kept else "no",
            "rule": row.rule,
            "reason": row.reason,
        }
        for row in prompt.extras.decisions
        if row.pass_no == now and row.stage != HEADERS
    ]


def _short(chunk_id: str) -> str:
    path, _, index = chunk_id.rpartition("::")
    return f"{path.partition('::')[0]} #{index}"


_TICKS = re.compile(r"`+")


def inline(text: str) -> str:
    """Return inline code that shows a text on one line, whatever stands in it."""
    flat = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    fence = "`" * (max(map(len, _TICKS.findall(flat)), default=0) + 1)
    pad = " " if flat.startswith("`") or flat.endswith("`") or not flat.strip() else ""
    return f"{fence}{pad}{flat or ' '}{pad}{fence}"


def bullets(lines: list[str] | tuple[str, ...]) -> str:
    """Return a list of texts, "none" where there are none."""
    return "\n".join(f"- {inline(line)}" for line in lines) or "none"


WIDTH = 24
_COLUMN = 5
_EIGHTHS = " ▏▎▍▌▋▊▉"


def bar(value: float, largest: float) -> str:
    """Return a bar of at most 24 characters, in eighths of one; empty for nothing."""
    eighths = round(8 * WIDTH * value / largest) if largest > 0 else 0
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def bars(rows: Sequence[tuple[str, float]], *, name: str, unit: str) -> str:
    """Return rows of (label, value) as a Markdown table with a bar each.

    Labels are our own words, never foreign text.
    """
    largest = max((value for _, value in rows), default=0)
    lines = [f"| {label} | {value:,.4g} | {bar(value, largest)} |" for label, value in rows]
    return "\n".join([f"| {name} | {unit} | |", "|---|--:|---|", *lines])


def line(rows: Sequence[tuple[str, float]], *, steps: int = 10) -> str:
    """Return values in [0, 1] over their labels as a line in a code block, 0 at the bottom.

    Labels are our own words of at most five letters.
    """
    heights = [round(max(0.0, min(1.0, value)) * steps) for _, value in rows]
    drawn = []
    for height in range(steps, -1, -1):
        cells = ""
        for at, here in enumerate(heights):
            runs_on = at + 1 < len(heights) and here == heights[at + 1] == height
            cells += ("●" if here == height else " ") + ("─" if runs_on else " ") * _COLUMN
        drawn.append(f"{height / steps:4.1f} │ {cells.rstrip()}".rstrip())
    labels = "".join(label[:_COLUMN].ljust(_COLUMN + 1) for label, _ in rows)
    return "\n".join(["```text", *drawn, f"     └─{'─' * len(labels)}", f"       {labels}", "```"])
