"""Evaluation results as pandas tables: columns, types, order, what is missing."""

import pandas as pd

from ragstream_core.evaluation.faithfulness import Answered, judged
from ragstream_core.evaluation.judges import QuoteJudge
from ragstream_core.evaluation.sweep import Point
from ragstream_core.evaluation.tables import (
    FAITHFULNESS_COLUMNS,
    GOLD_COLUMNS,
    SWEEP_COLUMNS,
    faithfulness_table,
    gold_table,
    records,
    sweep_table,
)
from ragstream_core.ingestion.quality_gate import GoldQuestion
from ragstream_core.models.embedders.hashed import HashedEmbedder


def test_a_row_an_expected_item_and_no_rank_where_it_was_not_found():
    questions = [
        GoldQuestion(1, "Which\nport?", ("a.md",), ("the port is 8503",)),
        GoldQuestion(3, "Who?", ("b.md",)),
    ]
    table = gold_table(questions, [[2, 0], [1]])
    assert tuple(table.columns) == GOLD_COLUMNS
    assert table["rank"].dtype == "Int64"
    assert [(row["question"], row["expected"], row["rank"]) for row in records(table)] == [
        ("Which port?", "a.md", 2),
        ("Which port?", "“the port is 8503”", None),
        ("Who?", "b.md", 1),
    ]


def test_no_question_is_an_empty_table_with_its_columns():
    assert tuple(gold_table([], []).columns) == GOLD_COLUMNS
    assert tuple(sweep_table([]).columns) == SWEEP_COLUMNS
    assert tuple(faithfulness_table([]).columns) == FAITHFULNESS_COLUMNS


def test_a_sweep_pivots_into_its_heat_map():
    points = [
        Point(theta, relative, theta, 1 - theta, 5.0, 100.0, 9.0, 1.0, 0.0, 0.0, 4, 4, "f")
        for theta in (0.1, 0.2)
        for relative in (0.0, 0.3)
    ]
    wide = sweep_table(points).pivot(index="relative", columns="theta", values="kept_relevant")
    assert wide.to_numpy().tolist() == [[0.1, 0.2], [0.1, 0.2]]


def test_the_least_faithful_first_and_what_claims_nothing_last():
    judge = QuoteJudge(HashedEmbedder().embed_documents)
    texts = ["Is it red?", "It is red.", "It is blue."]
    answers = [
        judged(Answered(text, text, {}, gold=("red",), line=line), judge)
        for line, text in enumerate(texts, 1)
    ]
    table = faithfulness_table(answers)
    assert table["line"].tolist() == [2, 3, 1] and pd.isna(table["score"].iloc[-1])
    assert table["contained"].tolist() == [1.0, 0.0, 1.0]
    assert records(table)[-1]["score"] is None
