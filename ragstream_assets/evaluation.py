"""Asset group `evaluation`: the gate's thresholds over the gold questions, a partition a pair.

A partition is one (θ, relative) pair for every project with gold questions. Back-filling all of
them in the UI takes a run a row of the heat map, and retrieval happens once in each. Only figures
are kept.
"""

import base64
import functools
import warnings
from collections.abc import Iterator

import dagster as dg
from pydantic import Field

from ragstream_assets.failures import chosen, derived_errors
from ragstream_assets.previews import Metadata, frame
from ragstream_assets.progress import reporter
from ragstream_assets.resources import WorkspaceResource
from ragstream_assets.specs import asset_spec
from ragstream_core.build.evaluating import sweeping
from ragstream_core.build.workspace import Workspace
from ragstream_core.evaluation.sweep import (
    RELATIVES,
    THETAS,
    Point,
    pictures,
    read_points,
    write_point,
)
from ragstream_core.evaluation.tables import sweep_table
from ragstream_core.records.identity import digest_of

GROUP = "evaluation"
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
HEAT_MAP = asset_spec(
    (GROUP, "heat_map"),
    "The figures of `threshold_sweep` as pictures: θ to the right, relative downwards.",
    "image",
    after="threshold_sweep",
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore", dg.BetaWarning)
    _by_thresholds = dg.multi_asset(
        name="sweep_thresholds",
        specs=[SWEEP],
        partitions_def=thresholds,
        backfill_policy=dg.BackfillPolicy.single_run(),  # retrieval is the same for them
    )


@_by_thresholds
def sweep_thresholds(
    context: dg.AssetExecutionContext, config: SweepConfig, workspace: WorkspaceResource
) -> dg.MaterializeResult[None]:
    """Ask the gold questions under some thresholds, and keep a file of figures a pair."""
    space, made = workspace.open(), []
    progress = functools.partial(reporter(context.log.info, None), "sweep")
    with derived_errors():
        keys = {pair_of(key): key for key in chosen(context, "pair of thresholds")}
        for project in _projects(space, config):
            for point in sweeping.sweep(space, project, [*keys], progress=progress):
                write_point(sweeping.points_dir(space, project), point)
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
    with derived_errors():
        for project in _projects(space, config):
            now = sweeping.sweep_fingerprint(space, project)
            found.append((project, read_points(sweeping.points_dir(space, project), now)))
    parts = [line for project, points in found for line in _drawn(project, points)]
    rows = [(project, point) for project, points in found for point in points]
    version = dg.DataVersion(digest_of([[name, point.to_json()] for name, point in rows]))
    shown = {"heat_maps": dg.MetadataValue.md("\n\n".join(parts) or "nothing was swept")}
    return dg.MaterializeResult(metadata={**shown, **_figures(rows)}, data_version=version)


def pair_of(key: object) -> tuple[float, float]:
    """Return (θ, relative) of a partition key; Dagster orders its dimensions by name."""
    assert isinstance(key, dg.MultiPartitionKey)
    return float(key.keys_by_dimension["theta"]), float(key.keys_by_dimension["relative"])


def _projects(workspace: Workspace, config: SweepConfig) -> list[str]:
    return [config.project] if config.project else sweeping.swept_projects(workspace)


def _drawn(project: str, points: list[Point]) -> Iterator[str]:
    yield f"### {project}"
    if not points:
        yield "no point is up to date: materialise `threshold_sweep`"
        return
    yield "To the right: `gate.theta`. Downwards: `gate.relative`."
    for name, png in pictures(points).items():
        yield f"**{name}**"
        yield f"![{name}](data:image/png;base64,{base64.b64encode(png).decode('ascii')})"


def _figures(made: list[tuple[str, Point]]) -> Metadata:
    rows = sweep_table([point for _, point in made])
    rows.insert(0, "project", [name for name, _ in made])
    return {"points": len(made), "figures": frame(rows)}
