"""Asset `evaluation/faithfulness`: how well the answers to gold questions rest on what they cite.

A partition is a project. What Dagster plots over time are the figures; the line in the metadata
holds those of earlier generations, from the files that the evaluation keeps.
"""

import functools
import warnings
from collections.abc import Iterator
from typing import Any, Literal

import dagster as dg
from pydantic import Field

from ragstream_assets.charts import line
from ragstream_assets.documents import INDEX, projects
from ragstream_assets.failures import chosen, derived_errors
from ragstream_assets.previews import ROWS, frame
from ragstream_assets.progress import reporter
from ragstream_assets.resources import WorkspaceResource
from ragstream_assets.specs import asset_spec
from ragstream_assets.verbatim import bullets
from ragstream_core.build.evaluating import faithfulness as evaluation
from ragstream_core.evaluation.report import Report, kept
from ragstream_core.evaluation.tables import faithfulness_table
from ragstream_core.records.identity import digest_of

GROUP = "evaluation"
CHECK = "answers_are_faithful"
_NUMBERS = (
    "answers", "scored", "refused", "claims", "supported", "quoted", "uncited", "unknown_citations",
)  # fmt: skip
_SHOWN = 20


class FaithfulnessConfig(dg.Config):
    """What is judged, and by whom."""

    judge: Literal["", "auto", "nli", "quote", "llm"] = Field(
        default="", description="Who judges; empty: as the setting evaluation.judge says."
    )
    ask: bool = Field(
        default=False,
        description="Let the language model answer; else the cited extract of each prompt is "
        "judged, which needs none.",
    )
    limit: int = Field(default=0, ge=0, description="Only so many questions; 0: all.")


FAITHFULNESS = asset_spec(
    (GROUP, "faithfulness"),
    "The share of the claims of answers to `gold.jsonl` that a passage which they cite supports.",
    "json",
).merge_attributes(deps=[INDEX.key])


def _check() -> dg.AssetCheckSpec:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Dagster calls partitions of checks a preview
        return dg.AssetCheckSpec(
            CHECK,
            asset=FAITHFULNESS.key,
            description="The score is at least `evaluation.min_faithfulness`.",
            partitions_def=projects,
        )


@dg.multi_asset(
    name="judge_answers", specs=[FAITHFULNESS], check_specs=[_check()], partitions_def=projects
)
def judge_answers(
    context: dg.AssetExecutionContext, config: FaithfulnessConfig, workspace: WorkspaceResource
) -> Iterator[dg.MaterializeResult[None]]:
    """Answer one project's gold questions, judge the answers, keep the figures."""
    space = workspace.open()
    with derived_errors():
        (project,) = chosen(context)
        report = evaluation.of_gold(
            space,
            project,
            judge=config.judge,
            limit=config.limit,
            ask=config.ask,
            progress=functools.partial(reporter(context.log.info, None), "answers"),
        )
        past = kept(evaluation.figures_dir(space, project), report.series)
    least = space.config.settings.evaluation.min_faithfulness
    yield dg.MaterializeResult(
        metadata=report_metadata(report, past),
        data_version=dg.DataVersion(digest_of(stable(report))),
        check_results=[verdict(report, least)],
    )


def report_metadata(report: Report, past: list[dict[str, Any]]) -> dict[str, Any]:
    """Return figures, a row a question, and the line over generations.

    Args:
        report: What was judged.
        past: The kept figures of its series, ascending.
    """
    figures = report.figures()
    gold = {f"gold_{name}": value for name, value in figures.get("gold", {}).items()}
    points = [(str(row["generation"]), row["score"]) for row in past if row["score"] is not None]
    drawn = line(points[-_SHOWN:]) if points else "nothing claims anything yet"
    skipped = tuple(f"{where}: {why}" for where, why in report.skipped)
    return {
        **({} if report.score is None else {"faithfulness": report.score}),
        **{name: figures[name] for name in _NUMBERS},
        **gold,
        "judge": report.judge,
        "generation": report.generation,
        "over_generations": dg.MetadataValue.md(drawn),
        "questions": frame(faithfulness_table(report.answers)),
        "rows_not_shown": max(0, len(report.answers) - ROWS),
        "skipped": dg.MetadataValue.md(bullets(skipped)),
        "fingerprint": report.fingerprint,
    }


def stable(report: Report) -> dict[str, Any]:
    """Return what equal runs have in common: the figures without the time."""
    return {name: value for name, value in report.figures().items() if name != "created"}


def verdict(report: Report, least: float) -> dg.AssetCheckResult:
    """Return whether the answers are faithful enough; without a claim there is nothing to say.

    Args:
        report: What was judged.
        least: `evaluation.min_faithfulness`, in [0, 1].
    """
    score = report.score
    said = "no answer claims anything" if score is None else f"{score:.3f}, wanted {least:g}"
    return dg.AssetCheckResult(
        passed=score is None or score >= least,
        check_name=CHECK,
        asset_key=FAITHFULNESS.key,
        severity=dg.AssetCheckSeverity.WARN,
        description=said,
        metadata={"least": least, **({} if score is None else {"faithfulness": score})},
    )
