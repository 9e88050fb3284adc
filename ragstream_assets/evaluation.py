"""Asset group `evaluation`: gold questions, their prompts and answers, and the gate's thresholds.

A partition is a project, and for the thresholds one (θ, relative) pair for every project with gold
questions: a backfill of all pairs takes a run a row of the heat map, and retrieval happens once in
each. Dagster plots the figures over time; only figures are kept.
"""

import functools
from collections.abc import Iterator
from dataclasses import asdict
from typing import Literal

import dagster as dg
from pydantic import Field

from ragstream_assets.documents import INDEX
from ragstream_assets.failures import chosen, reporter, short_errors
from ragstream_assets.metadata import Metadata, frame, joined
from ragstream_assets.resources import WorkspaceResource
from ragstream_assets.specs import asset_spec, project_check, projects
from ragstream_core.evaluation.faithfulness import Report
from ragstream_core.evaluation.sweep import (
    RELATIVES,
    THETAS,
    Point,
    read_points,
    write_point,
)
from ragstream_core.evaluation.tables import (
    faithfulness_table,
    gold_table,
    prompts_table,
    sweep_table,
)
from ragstream_core.records.identity import digest_of
from ragstream_core.services import eval_faithfulness, eval_gold
from ragstream_core.services.eval_gold import ask_gold, measure_prompts
from ragstream_core.wiring.workspace import Workspace

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
    progress = functools.partial(reporter(context), "questions")
    with short_errors():
        (project,) = chosen(context)
        report = ask_gold(workspace.open(), project, progress=progress)
    # questions are named by line, expected passages not at all
    rows = gold_table(report.questions, report.ranks).drop(columns="question")
    files = {file for question in report.questions for file in question.files}
    rows["expected"] = rows["expected"].where(rows["expected"].isin(files), "a passage")
    return dg.MaterializeResult(
        metadata={
            "generation": report.generation,
            f"recall@{report.figures.k}": report.figures.recall,
            f"mrr@{report.figures.k}": report.figures.mrr,
            "questions": report.figures.questions,
            "missed": report.missed,
            **frame("ranks", rows),
        },
        data_version=dg.DataVersion(digest_of(report.to_json())),
    )


PROMPTS = asset_spec(
    (GROUP, "prompts"),
    "What stands in the prompts of `gold.jsonl`: answers, tokens, facts, open issues.",
    "table",
).merge_attributes(deps=[INDEX.key])


@dg.multi_asset(name="measure_gold_prompts", specs=[PROMPTS], partitions_def=projects)
def measure_gold_prompts(
    context: dg.AssetExecutionContext, workspace: WorkspaceResource
) -> dg.MaterializeResult[None]:
    """Build and measure the prompts of one project's gold questions."""
    progress = functools.partial(reporter(context), "prompts")
    with short_errors():
        (project,) = chosen(context)
        report = measure_prompts(workspace.open(), project, progress=progress)
    figures = report.figures.to_json().items()
    return dg.MaterializeResult(
        metadata={
            "generation": report.generation,
            **{name: value for name, value in figures if value is not None},
            **frame("prompts", prompts_table(report.rows).drop(columns="question")),
        },
        data_version=dg.DataVersion(digest_of(report.to_json())),
    )


thresholds = dg.MultiPartitionsDefinition(
    {
        "theta": dg.StaticPartitionsDefinition([f"{value:g}" for value in THETAS]),
        "relative": dg.StaticPartitionsDefinition([f"{value:g}" for value in RELATIVES]),
    }
)


class SweepConfig(dg.Config):
    """What is swept."""

    project: str = Field(
        default="", description="One project; empty: all that have gold questions."
    )


SWEEP = asset_spec(
    (GROUP, "threshold_sweep"),
    "How much of what the gold questions need the gate keeps, for each pair of θ and relative: "
    "start a backfill of all partitions, then `heat_map`. `kept_relevant` is the share of the "
    "expected items that pass the gate, `shown` the share that stands in the finished prompts.",
    "json",
)
SHADES = "░▒▓█"
HEAT_MAP = asset_spec(
    (GROUP, "heat_map"),
    "The figures of `threshold_sweep` as shaded tables: θ to the right, relative downwards.",
    "json",
    after="threshold_sweep",
)


@dg.multi_asset(
    name="sweep_thresholds",
    specs=[SWEEP],
    partitions_def=thresholds,
    backfill_policy=dg.BackfillPolicy.single_run(),  # retrieval is the same for them
)
def sweep_thresholds(
    context: dg.AssetExecutionContext, config: SweepConfig, workspace: WorkspaceResource
) -> dg.MaterializeResult[None]:
    """Ask the gold questions under some thresholds, and keep a file of figures a pair."""
    space, made = workspace.open(), []
    progress = functools.partial(reporter(context), "sweep")
    with short_errors():
        keys = {pair_of(key): key for key in chosen(context, "pair of thresholds")}
        for project in _projects(space, config):
            for point in eval_gold.sweep(space, project, [*keys], progress=progress):
                write_point(eval_gold.points_dir(space, project), point)
                made.append((project, point))
    for pair, key in keys.items():
        own = [(name, point) for name, point in made if (point.theta, point.relative) == pair]
        context.add_asset_metadata(_figures(own), partition_key=key)
    return dg.MaterializeResult()


@dg.multi_asset(name="draw_heat_map", specs=[HEAT_MAP])
def draw_heat_map(
    context: dg.AssetExecutionContext, config: SweepConfig, workspace: WorkspaceResource
) -> dg.MaterializeResult[None]:
    """Draw the points that were measured on the present generation, questions and settings."""
    space, found = workspace.open(), []
    with short_errors():
        for project in _projects(space, config):
            now = eval_gold.sweep_fingerprint(space, project)
            found.append((project, read_points(eval_gold.points_dir(space, project), now)))
    parts = [line for project, points in found for line in _drawn(project, points)]
    rows = [(project, point) for project, points in found for point in points]
    version = dg.DataVersion(digest_of([[name, asdict(point)] for name, point in rows]))
    shown = {"heat_maps": dg.MetadataValue.md("\n\n".join(parts) or "nothing was swept")}
    return dg.MaterializeResult(metadata={**shown, **_figures(rows)}, data_version=version)


def pair_of(key: object) -> tuple[float, float]:
    """Return (θ, relative) of a partition key; Dagster orders its dimensions by name."""
    assert isinstance(key, dg.MultiPartitionKey)
    return float(key.keys_by_dimension["theta"]), float(key.keys_by_dimension["relative"])


def _projects(workspace: Workspace, config: SweepConfig) -> list[str]:
    return [config.project] if config.project else eval_gold.swept_projects(workspace)


def _drawn(project: str, points: list[Point]) -> Iterator[str]:
    yield f"### {project}"
    if not points:
        yield "no point is up to date: materialise `threshold_sweep`"
        return
    thetas, relatives = (sorted({getattr(p, n) for p in points}) for n in ("theta", "relative"))
    for field, form in (("kept_relevant", ".3f"), ("shown", ".3f"), ("tokens", ".0f")):
        cells = _shaded({(p.theta, p.relative): float(getattr(p, field)) for p in points}, form)
        head = [f"{field.replace('_', ' ')}: relative \\ θ", *(f"{t:g}" for t in thetas)]
        rows = [[f"{r:g}", *(cells.get((t, r), "") for t in thetas)] for r in relatives]
        yield "\n".join(f"|{'|'.join(row)}|" for row in [head, ["---"] * len(head), *rows])


def _shaded(values: dict[tuple[float, float], float], form: str) -> dict[tuple[float, float], str]:
    """Return numbers with a block before each, the fuller the larger; Markdown has no colours."""
    low, high = min(values.values()), max(values.values())
    step = (high - low) / (len(SHADES) - 1) or 1.0
    return {at: f"{SHADES[round((x - low) / step)]} {x:{form}}" for at, x in values.items()}


def _figures(made: list[tuple[str, Point]]) -> Metadata:
    rows = sweep_table([point for _, point in made])
    rows.insert(0, "project", [name for name, _ in made])
    return {"points": len(made), **frame("figures", rows)}


CHECK = "answers_are_faithful"
_NUMBERS = (
    "answers", "scored", "refused", "claims", "supported", "quoted", "uncited", "unknown_citations",
)  # fmt: skip


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


_FAITHFUL = project_check(
    CHECK, FAITHFULNESS.key, "The score is at least `evaluation.min_faithfulness`."
)


@dg.multi_asset(
    name="judge_answers", specs=[FAITHFULNESS], check_specs=[_FAITHFUL], partitions_def=projects
)
def judge_answers(
    context: dg.AssetExecutionContext, config: FaithfulnessConfig, workspace: WorkspaceResource
) -> Iterator[dg.MaterializeResult[None]]:
    """Answer one project's gold questions, judge the answers, keep the figures."""
    space = workspace.open()
    with short_errors():
        (project,) = chosen(context)
        report = eval_faithfulness.evaluate_gold(
            space,
            project,
            judge=config.judge,
            limit=config.limit,
            ask=config.ask,
            progress=functools.partial(reporter(context), "answers"),
        )
    stable = {name: value for name, value in report.figures().items() if name != "created"}
    least = space.config.settings.evaluation.min_faithfulness
    yield dg.MaterializeResult(
        metadata=faithfulness_metadata(report),
        data_version=dg.DataVersion(digest_of(stable)),
        check_results=[verdict(report, least)],
    )


def faithfulness_metadata(report: Report) -> Metadata:
    """Return the figures, which Dagster plots over time, and a row a question."""
    figures = report.totals
    gold = {"answers": figures.right_known, **asdict(figures.right)} if figures.right else {}
    return {
        **({} if report.score is None else {"faithfulness": report.score}),
        **{name: getattr(figures, name) for name in _NUMBERS},
        **{f"gold_{name}": value for name, value in gold.items()},
        "judge": report.judge,
        "generation": report.generation,
        **frame("questions", faithfulness_table(report.answers).drop(columns="question")),
        "skipped": joined(f"{where}: {why}" for where, why in report.skipped),
        "fingerprint": report.fingerprint,
    }


def verdict(report: Report, least: float) -> dg.AssetCheckResult:
    """Return whether the answers are faithful enough; without a claim there is nothing to say."""
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
