"""Asset group `documents`: one project's files on their way into its index, partition by project.

The four assets are one function: one ingest in one process under one lock yields all of them. A
gap between embedding and commit is where indexes become inconsistent.
"""

from collections.abc import Iterator

import dagster as dg
from pydantic import Field

from ragstream_assets.failures import chosen, short_errors
from ragstream_assets.previews import (
    chunk_metadata,
    embedding_metadata,
    file_metadata,
    index_metadata,
    suspicion_metadata,
    unfit_metadata,
)
from ragstream_assets.progress import reporter
from ragstream_assets.recording.outcomes import outcome
from ragstream_assets.resources import WorkspaceResource
from ragstream_assets.specs import asset_spec
from ragstream_core.build.upkeep.suspicion import suspicious_passages
from ragstream_core.build.workspace import Workspace
from ragstream_core.errors import RagstreamError
from ragstream_core.ingestion.stats import IngestionStats
from ragstream_core.prompting.suspicion import Tally
from ragstream_core.records import Chunk

GROUP = "documents"
INGEST_JOB = "ingest_documents"
SAMPLE = 5
projects = dg.DynamicPartitionsDefinition(name="project")


class IngestConfig(dg.Config):
    """How to ingest."""

    verify: bool = Field(default=False, description="Hash every file, check every vector.")
    rebuild: bool = Field(
        default=False, description="Start a new store; after a change of the model, or damage."
    )


FILE_MANIFEST = asset_spec(
    (GROUP, "file_manifest"),
    "Which files of `doc_raw/<project>` there are, and what became of each: new, updated, touched, "
    "unchanged, deleted, or skipped and why. A file counts as changed when its bytes did.",
    "file",
)
CHUNKS = asset_spec(
    (GROUP, "chunks"),
    "The pieces that the files were cut into, with their spans and headings. Equal texts are one.",
    "text",
    after="file_manifest",
)
EMBEDDINGS = asset_spec(
    (GROUP, "embeddings"),
    "One unit vector a text, in `index/<project>/vectors-*.f32`. Only new texts are embedded.",
    "numpy",
    after="chunks",
)
INDEX = asset_spec(
    (GROUP, "index"),
    "The committed generation, in `index/<project>/catalog.sqlite`: all of it or none of it. "
    "Prompts name the generation they read, and can be replayed from it.",
    "sqlite",
    after="embeddings",
)


@dg.multi_asset(
    name="ingest",
    specs=[FILE_MANIFEST, CHUNKS, EMBEDDINGS, INDEX],
    can_subset=False,
    partitions_def=projects,
)
def ingest(
    context: dg.AssetExecutionContext, config: IngestConfig, workspace: WorkspaceResource
) -> Iterator[dg.MaterializeResult[None]]:
    """Bring one project's index up to date: scan, chunk, embed what is new, commit."""
    space, left = workspace.open(), outcome(context.run_id)
    with short_errors(context.run_id):
        (project,) = chosen(context)
        stats = space.ingest(
            project,
            verify=config.verify,
            rebuild=config.rebuild,
            progress=reporter(context.log.info, left.progress),
            provenance={"run_id": context.run_id},
            collection=False,  # an asset of its own, downstream
        )
        left.ingested(stats)
        left.tell("suspicion")
        reported = list(results(stats, sample(space, stats), suspicious(space, stats)))
        unfit = space.unfit_folders()
    context.add_asset_metadata(unfit_metadata(unfit), asset_key=FILE_MANIFEST.key)
    yield from reported


def results(
    stats: IngestionStats, chunks: list[Chunk], seen: Tally | None = None
) -> Iterator[dg.MaterializeResult[None]]:
    """Yield one result an asset; the generation's digest is the version of all of them."""
    metadata = (
        (FILE_MANIFEST, file_metadata(stats)),
        (CHUNKS, chunk_metadata(stats, chunks)),
        (EMBEDDINGS, embedding_metadata(stats)),
        (INDEX, {**index_metadata(stats), **(suspicion_metadata(seen) if seen else {})}),
    )
    version = dg.DataVersion(stats.digest) if stats.digest else None
    for spec, shown in metadata:
        yield dg.MaterializeResult(asset_key=spec.key, metadata=shown, data_version=version)


def sample(workspace: Workspace, stats: IngestionStats) -> list[Chunk]:
    """Return the first chunks of files that changed; none where nothing was committed.

    What was committed stays committed when it cannot be shown.
    """
    changed = {*stats.changed.get("new", ()), *stats.changed.get("updated", ())}
    if not (stats.committed and changed):
        return []
    try:
        view = workspace.view(stats.project, stats.generation, keep=True)
        rows = zip(view.chunk_ids, view.paths, strict=True)
        return view.chunks([i for i, path in rows if path in changed][:SAMPLE])
    except RagstreamError:
        return []


def suspicious(workspace: Workspace, stats: IngestionStats) -> Tally | None:
    """Return what looks like commands to a language model in files that changed; None: nothing did.

    Figures for people: nothing is left out of the index for it.
    """
    changed = {*stats.changed.get("new", ()), *stats.changed.get("updated", ())}
    if not (stats.committed and changed):
        return None
    try:
        return suspicious_passages(workspace, stats.project, changed)
    except RagstreamError:
        return None


ingest_documents = dg.define_asset_job(
    INGEST_JOB,
    selection=dg.AssetSelection.groups(GROUP),
    description="Ingest one project; a new generation if anything changed.",
)
