"""Evaluation results as pandas tables: one row a thing that was measured, plain columns.

Dagster shows them as metadata, and a notebook can go on from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from ragstream_core.evaluation.gold_answers import Comparison
from ragstream_core.platform import extras

if TYPE_CHECKING:
    import pandas as pd

    from ragstream_core.evaluation.faithfulness import Judged
    from ragstream_core.evaluation.prompt_quality import PromptMeasure
    from ragstream_core.evaluation.sweep import Point
    from ragstream_core.ingestion.quality_gate import GoldQuestion

GOLD_COLUMNS = ("line", "question", "expected", "rank")
SWEEP_COLUMNS = (
    "theta", "relative", "kept_relevant", "shown", "candidates", "tokens", "saved", "answered",
    "perhaps", "not_found", "found", "questions",
)  # fmt: skip
FAITHFULNESS_COLUMNS = (
    "line", "question", "score", "claims", "supported", "quoted", "uncited", "unknown_citations",
    "refused", "origin",
)  # fmt: skip
PROMPT_COLUMNS = (
    "line", "question", "answer_shown", "answer_in_facts", "tokens", "tokens_before", "passages",
    "facts", "facts_relevant", "facts_complete", "constraints", "constraints_binding",
    "open_issues", "word", "doubt", "unanswerable",
)  # fmt: skip
PASSAGE_CHARS = 80
QUESTION_CHARS = 120


def gold_table(questions: Sequence[GoldQuestion], ranks: Sequence[Sequence[int]]) -> pd.DataFrame:
    """Return a row an expected item, in the order of the questions."""
    pd = _pandas()
    rows = [
        (question.line, _short(question.question, QUESTION_CHARS), item, rank or pd.NA)
        for question, found in zip(questions, ranks, strict=True)
        for item, rank in zip(_expected(question), found, strict=True)
    ]
    table = pd.DataFrame(rows, columns=[*GOLD_COLUMNS])
    return table.astype({"rank": "Int64"})


def sweep_table(points: Sequence[Point]) -> pd.DataFrame:
    """Return a row a pair of thresholds, in the order given."""
    pd = _pandas()
    rows = [[getattr(point, name) for name in SWEEP_COLUMNS] for point in points]
    return pd.DataFrame(rows, columns=[*SWEEP_COLUMNS])


def faithfulness_table(answers: Sequence[Judged]) -> pd.DataFrame:
    """Return a row an answer, the least faithful first, those that claim nothing last."""
    pd = _pandas()
    rows = [
        {**judged.counts().to_json(), "question": _short(judged.of.question, QUESTION_CHARS)}
        for judged in answers
    ]
    known = [field.name for field in fields(Comparison) if any(field.name in row for row in rows)]
    table = pd.DataFrame(rows, columns=[*FAITHFULNESS_COLUMNS, *known])
    table["score"] = table["score"].astype("Float64")
    return table.sort_values(["score", "line"], ignore_index=True, na_position="last")


def prompts_table(measures: Sequence[PromptMeasure]) -> pd.DataFrame:
    """Return a row a prompt, in the order given."""
    pd = _pandas()
    rows = [[getattr(row, name) for name in PROMPT_COLUMNS] for row in measures]
    table = pd.DataFrame(rows, columns=[*PROMPT_COLUMNS])
    table["question"] = [_short(row.question, QUESTION_CHARS) for row in measures]
    known = {"answer_shown": "boolean", "answer_in_facts": "boolean", "tokens_before": "Int64"}
    return table.astype(known)


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table as plain Python values; a missing one is None."""
    rows: list[dict[str, Any]] = table.astype(object).where(table.notna(), None).to_dict("records")
    return rows


def _pandas() -> ModuleType:
    """Return pandas."""
    extras.require("a table of an evaluation", "eval", "pandas")
    import pandas

    return cast("ModuleType", pandas)


def _expected(question: GoldQuestion) -> list[str]:
    return [*question.files, *(f"“{_short(text, PASSAGE_CHARS)}”" for text in question.passages)]


def _short(text: str, most: int) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= most else f"{plain[: most - 2]} …"
