"""Asset `evaluation/gold_questions`: where a project's index ranks what its questions expect.

A partition is a project. The figures are plotted over time by Dagster; the table names every
expected item with its rank, so that a fall can be read question by question.
"""

import functools

import dagster as dg

from ragstream_assets.documents import INDEX, projects
from ragstream_assets.failures import chosen, derived_errors
from ragstream_assets.previews import ROWS, Metadata, frame
from ragstream_assets.progress import reporter
from ragstream_assets.resources import WorkspaceResource
from ragstream_assets.specs import asset_spec
from ragstream_core.build.evaluating.gold import GoldReport, ask_gold
from ragstream_core.evaluation.tables import gold_table
from ragstream_core.records.identity import digest_of

GROUP = "evaluation"
GOLD_QUESTIONS = asset_spec(
    (GROUP, "gold_questions"),
    "The rank of every file and passage that the questions in `gold.jsonl` expect, in the newest "
    "generation; recall and MRR over all questions.",
    "table",
).merge_attributes(deps=[INDEX.key])


@dg.multi_asset(name="ask_gold_questions", specs=[GOLD_QUESTIONS], partitions_def=projects)
def ask_gold_questions(
    context: dg.AssetExecutionContext, workspace: WorkspaceResource
) -> dg.MaterializeResult[None]:
    """Ask one project's gold questions of its newest generation."""
    space = workspace.open()
    with derived_errors():
        (project,) = chosen(context)
        told = functools.partial(reporter(context.log.info, None), "questions")
        report = ask_gold(space, project, progress=told)
    return dg.MaterializeResult(
        metadata=report_metadata(report), data_version=dg.DataVersion(digest_of(report.to_json()))
    )


def report_metadata(report: GoldReport) -> Metadata:
    """Return the figures, and a table with a row an expected item."""
    rows = gold_table(report.questions, report.ranks)
    return {
        "generation": report.generation,
        f"recall@{report.figures.k}": report.figures.recall,
        f"mrr@{report.figures.k}": report.figures.mrr,
        "questions": report.figures.questions,
        "missed": report.missed,
        "ranks": frame(rows),
        "rows_not_shown": max(0, len(rows) - ROWS),
    }
