"""Asset `inspection/map`: a project's chunks in the plane, as a picture, with figures.

It holds no conversations: what Dagster keeps of a run would outlive their clearing. The map of a
project with its conversations is drawn by `ragstream index tsne` and on the page.
"""

import base64

import dagster as dg
from pydantic import Field

from ragstream_assets.charts import bars
from ragstream_assets.document_assets import INDEX
from ragstream_assets.failures import chosen, reporter, short_errors
from ragstream_assets.metadata import Metadata, table
from ragstream_assets.resources import WorkspaceResource
from ragstream_assets.specs import projects
from ragstream_core.maps.chunk_map import ChunkMap
from ragstream_core.maps.drawing import draw
from ragstream_core.services import chunk_maps, inspect_index, neighbours
from ragstream_core.services.inspect_index import IndexReport
from ragstream_core.services.neighbours import Anchor, Neighbour

GROUP = "inspection"
CODE_VERSION = "1"
SIZE = (1000, 700)
"""Pixels: Dagster keeps the picture in its event log, so it is no larger than needed."""
ANCHORS, NEIGHBOURS = 10, 3


class MapConfig(dg.Config):
    """How the map is drawn."""

    method: str = Field(
        default="tsne", description="tsne keeps neighbours, pca the overall layout."
    )
    limit: int = Field(
        default=chunk_maps.LIMIT,
        ge=1,
        description="Maximum number of points; beyond it a fair sample.",
    )
    seed: int = Field(default=0, ge=0, description="The same seed draws the same map.")
    perplexity: float = Field(
        default=chunk_maps.PERPLEXITY,
        gt=0,
        description="About how many neighbours count, for tsne.",
    )


@dg.asset(
    key=[GROUP, "map"], deps=[INDEX.key], group_name=GROUP, partitions_def=projects,
    kinds={"image"}, owners=["team:ragstream"], code_version=CODE_VERSION,
)  # fmt: skip
def draw_project_map(
    context: dg.AssetExecutionContext, config: MapConfig, workspace: WorkspaceResource
) -> dg.MaterializeResult[None]:
    """What lies together in a project's index, what is nearest to what, how long its chunks are."""
    space, progress = workspace.open(), reporter(context.log.info, None)
    with short_errors():
        (project,) = chosen(context)
        request = chunk_maps.MapRequest(
            (project,), False, config.method, config.limit, config.seed, config.perplexity
        )
        version = chunk_maps.state(space, request)
        found = chunk_maps.draw(space, request, progress)
        near = neighbours.nearest(space, [project], anchors=ANCHORS, k=NEIGHBOURS, seed=config.seed)
        shown = {**_picture(found), **_figures(inspect_index.report(space, project))}
    rows = [_row(anchor, other) for anchor in near for other in anchor.neighbours]
    return dg.MaterializeResult(
        metadata={**shown, "neighbours": table(rows, "chunk", "cosine", "near")},
        data_version=dg.DataVersion(version),
    )


draw_map = dg.define_asset_job(
    "draw_map",
    selection=dg.AssetSelection.groups(GROUP),
    description="Draw the map of one project; about half a minute for 5,000 chunks.",
)


def _picture(found: ChunkMap) -> Metadata:
    code = base64.b64encode(draw(found, size=SIZE)).decode("ascii")
    return {
        "map": dg.MetadataValue.md(f"![map](data:image/png;base64,{code})"),
        "points": len(found.places),
        "method": found.method,
        "notes": "; ".join(found.notes) or "-",
    }


def _figures(report: IndexReport) -> Metadata:
    lengths = [(f"{b.low} to {b.high}", b.count) for b in report.tokens.histogram]
    findings = [finding.to_json() for finding in report.findings]
    return {
        "generation": report.generation,
        "chunks": report.chunks,
        "different_texts": report.texts,
        "repeated_chunks": report.repeated.chunks,
        "tokens_a_chunk": report.tokens.mean,
        "lengths": dg.MetadataValue.md(bars(lengths, name="tokens", unit="chunks")),
        "findings": len(findings),
        "what": table(findings, "check", "message"),
    }


def _row(anchor: Anchor, other: Neighbour) -> dict[str, str | float]:
    return {
        "chunk": _name(anchor),
        "cosine": round(other.score, 3),
        "near": _name(other),
    }


def _name(row: Anchor | Neighbour) -> str:
    return f"{row.source} #{row.chunk_id.rpartition('::')[2]}"
