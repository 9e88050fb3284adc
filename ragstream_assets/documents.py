"""Asset group `documents`: one project's files on their way into its index, partition by project.

Four assets are one function: one ingest in one process under one lock yields all of them. A gap
between embedding and commit is where indexes become inconsistent.

The sealed Chroma collection comes after the commit and is never part of it: if it cannot be made,
the ingest succeeds, every prompt can be asked, and the collection of the last generation stays.
"""

import time
from collections.abc import Iterator
from typing import Any

import dagster as dg
from pydantic import Field

from ragstream_assets.events import mirrored, report_missed_generations
from ragstream_assets.failures import (
    RETRIES,
    chosen,
    failure,
    reporter,
    short_errors,
    unattended,
)
from ragstream_assets.metadata import (
    embedding_metadata,
    file_metadata,
    index_metadata,
    suspicion_metadata,
    table,
)
from ragstream_assets.resources import Run, RunState, WorkspaceResource
from ragstream_assets.specs import OWNERS, asset_spec, check_result, project_check, projects
from ragstream_core.errors import RagstreamError
from ragstream_core.index.check import Finding, verify_structure
from ragstream_core.ingestion.stats import IngestionStats
from ragstream_core.ports import PhaseProgress
from ragstream_core.prompts.injection_scan import Tally
from ragstream_core.proposers import kept
from ragstream_core.proposers.collections import COLLECTION, compare
from ragstream_core.proposers.derived_store import Outcome
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.made_since import mirror_of
from ragstream_core.services.sync_project import ProjectSync, SyncRequest, roots, sync_project
from ragstream_core.services.verify import suspicious_passages
from ragstream_core.wiring import ingestion
from ragstream_core.wiring.quality_gate import kept_quality
from ragstream_core.wiring.workspace import Workspace

GROUP = "documents"
INGEST_JOB = "ingest_documents"
SYNC_JOB = "sync_documents"

# Both take `verify` and `rebuild`; the first one `accept_missing` as well.
INGEST_OPS = ("ingest", "documents__chroma_collection")


class IngestConfig(dg.Config):
    """How to ingest."""

    verify: bool = Field(default=False, description="Hash every file, check every vector.")
    rebuild: bool = Field(
        default=False, description="Start a new store; after a change of the model, or damage."
    )
    accept_missing: bool = Field(
        default=False,
        description="Take documents of a missing or empty folder in place for deleted.",
    )
    sync: bool = Field(
        default=False, description="First fetch what is new at the project's addresses."
    )
    sync_labels: list[str] = Field(
        default=[], description="Of its addresses only these; none: all of them."
    )
    sync_empty_ok: bool = Field(
        default=False, description="A place that lists nothing may empty its mirror."
    )


FILE_MANIFEST = asset_spec(
    (GROUP, "file_manifest"),
    "Which documents of the project there are, and what became of each: new, updated, touched, "
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
    retry_policy=RETRIES,
)
def ingest(
    context: dg.AssetExecutionContext, config: IngestConfig, workspace: WorkspaceResource, run: Run
) -> Iterator[dg.MaterializeResult[None]]:
    """Bring one project's index up to date: fetch if asked, scan, chunk, embed, commit."""
    space = workspace.open()
    with short_errors(run, again=unattended(context)):
        (project,) = chosen(context)
        progress = reporter(context, run.progress)
        report_missed_generations(context.instance, space, project)  # before its own: in order
        unfetched = fetch(context, config, space, project, progress) if config.sync else None
        stats = ingest_project(
            space,
            project,
            verify=config.verify,
            rebuild=config.rebuild,
            accept_missing=config.accept_missing,
            progress=progress,
            provenance={"run_id": context.run_id},
            collection=False,  # an asset of its own, downstream
        )
        run.stats, run.ingested_at = stats, time.perf_counter()
        run.tell("suspicion")
        reported = list(results(stats, suspicious(space, stats)))
        unfit, lists = space.unfit_folders(), kept.figures(space, project)
    context.add_asset_metadata(lists, asset_key=INDEX.key)
    if unfit:
        rows = table(("folder", "reason"), unfit)
        context.add_asset_metadata({"no_projects": rows}, asset_key=FILE_MANIFEST.key)
    yield from reported
    if unfetched:  # what is here was ingested all the same
        with short_errors(run):
            raise unfetched


def fetch(
    context: dg.AssetExecutionContext,
    config: IngestConfig,
    space: Workspace,
    project: str,
    progress: PhaseProgress,
) -> RagstreamError | None:
    """Bring the project's mirror up to date and report it; return why that was not possible."""
    request = SyncRequest(tuple(config.sync_labels), empty_ok=config.sync_empty_ok)
    try:
        synced = ProjectSync(project)  # complete as it is without an address
        if roots(space, project):
            synced = sync_project(space, project, request, progress=progress)
    except RagstreamError as error:
        return error
    context.log_event(mirrored(synced, mirror_of(space, project).id))
    return None


def results(
    stats: IngestionStats, seen: Tally | None = None
) -> Iterator[dg.MaterializeResult[None]]:
    """Yield one result an asset; the generation's digest is the version of all of them."""
    metadata = (
        (FILE_MANIFEST, file_metadata(stats)),
        (CHUNKS, {"live": stats.chunks.get("live", 0), "documents": stats.documents}),
        (EMBEDDINGS, embedding_metadata(stats)),
        (INDEX, {**index_metadata(stats), **(suspicion_metadata(seen) if seen else {})}),
    )
    version = dg.DataVersion(stats.digest) if stats.digest else None
    for spec, shown in metadata:
        yield dg.MaterializeResult(asset_key=spec.key, metadata=shown, data_version=version)


def suspicious(workspace: Workspace, stats: IngestionStats) -> Tally | None:
    """Return what looks like commands to a language model in files that changed; None: nothing did.

    Figures for people: nothing is left out of the index for it.
    """
    try:
        changed = {*stats.changed.get("new", ()), *stats.changed.get("updated", ())}
        if stats.committed and changed:
            return suspicious_passages(workspace, stats.project, changed)
    except RagstreamError:
        pass  # what was committed stays committed when it cannot be shown
    return None


ALL = dg.AssetSelection.groups(GROUP)
ingest_documents = dg.define_asset_job(
    INGEST_JOB,
    selection=ALL,
    description="Ingest one project; a new generation if anything changed.",
)
sync_documents = dg.define_asset_job(
    SYNC_JOB,
    selection=ALL,
    description="Fetch what is new at a project's addresses, then ingest what is here.",
    config={"ops": {INGEST_OPS[0]: {"config": {"sync": True}}}},
    executor_def=dg.in_process_executor,
)
EQUAL = "chroma_equals_the_index"
CHROMA = dg.AssetKey([GROUP, "chroma_collection"])


class CollectionConfig(dg.Config):
    """How to bring a collection up to date."""

    verify: bool = Field(default=False, description="Ask for every vector, not only the changed.")
    rebuild: bool = Field(default=False, description="Build it anew from the catalog.")


@dg.asset(
    key=CHROMA, deps=[INDEX.key], group_name=GROUP, partitions_def=projects, kinds={"chroma"},
    owners=OWNERS, code_version="1", output_required=False,
)  # fmt: skip
def chroma_collection(
    context: dg.AssetExecutionContext,
    config: CollectionConfig,
    workspace: WorkspaceResource,
    run: Run,
) -> Iterator[dg.MaterializeResult[None]]:
    """The same chunks for everything that speaks Chroma: sealed, verified, never half-written.

    Where none is to be there, nothing is materialized and the check is passed over. Where it cannot
    be made, a run that also ingests goes on with a warning, and the check fails; launched alone,
    the step fails.
    """
    run.tell("collection")
    with short_errors():
        (project,) = chosen(context)
        (done,) = kept.bring_up_to_date(
            workspace.open(),
            project,
            stores=[COLLECTION],
            rebuild=config.rebuild,
            verify=config.verify,
            again=is_alone(context, INDEX.key),
        )
    yield from made_of(context, run, done, upstream=INDEX.key)


def is_alone(context: dg.AssetExecutionContext, upstream: dg.AssetKey) -> bool:
    """Whether a person launched a collection itself, without what it is made from."""
    selected = context.run.asset_selection  # none or empty: all that the job holds
    return upstream not in selected if selected else False


def made_of(
    context: dg.AssetExecutionContext, run: RunState, done: Outcome, *, upstream: dg.AssetKey
) -> Iterator[dg.MaterializeResult[None]]:
    """Yield what a collection is now, or why it was left; where none is to be there, nothing."""
    if done.made:
        details = done.details
        same = ("generation", "rows", "added", "deleted", "self_recall", "graph", "chromadb",
                "collection", "seconds")  # fmt: skip
        yield dg.MaterializeResult(
            metadata={
                "made": done.made,
                "reason": done.reason or "-",
                **{key: details[key] for key in same},
                "dead_rows": details["dead"],
                "vectors_verified": details["verified"],
                "folder": dg.MetadataValue.path(str(details["folder"])),
            },
            data_version=dg.DataVersion(str(details["digest"])),
        )
        return
    if done.is_off:
        context.log.info(f"no collection is made: {done.reason}")
        if "dagster/backfill" not in context.run.tags:
            return  # a back-fill without all that it names would be shown as failed
    if done.problem and is_alone(context, upstream):
        raise failure(done.problem, done.next)
    if done.problem:
        context.log.warning(done.warning)
        run.warn(done.warning)
    why = done.problem or done.reason
    yield dg.MaterializeResult(metadata={"made": why, "next": done.next or "-"})


@dg.multi_asset_check(
    name="chroma_check",
    specs=[
        project_check(
            EQUAL, CHROMA, "The sealed collection is that of the newest generation, as verified."
        )
    ],
)
def chroma_check(
    context: dg.AssetCheckExecutionContext, workspace: WorkspaceResource
) -> dg.AssetCheckResult:
    """Compare one project's collection with its index and with what was sealed."""
    with short_errors():
        faults = compare(workspace.open(), context.partition_key)
    findings = [(fault,) for fault in faults]
    return check_result(EQUAL, CHROMA, ("message",), findings, is_error=False)


COVERS = "manifest_covers_the_folder"
IDS = "ids_are_the_manifests"
UNIT = "vectors_are_finite_and_unit"
WHOLE = "no_truncated_input"
QUALITY = "retrieval_quality_is_kept"
_INDEX_CHECKS = (
    (COVERS, FILE_MANIFEST, "No document of the folder is waiting for an ingest."),
    (IDS, INDEX, "The live chunk ids are exactly those of the manifest's files."),
    (UNIT, EMBEDDINGS, "Every live vector is finite, of length 1, and has its checksum."),
    (WHOLE, EMBEDDINGS, "No text was cut before it was embedded."),
    (QUALITY, INDEX, "Gold questions are answered no worse than by the last generation."),
)


@dg.multi_asset_check(
    name="index_checks",
    specs=[project_check(name, spec.key, what) for name, spec, what in _INDEX_CHECKS],
)
def index_checks(
    context: dg.AssetCheckExecutionContext, workspace: WorkspaceResource, run: Run
) -> Iterator[dg.AssetCheckResult]:
    """Look the promises of one project's index up again."""
    run.tell("checks")
    yield from checked(workspace.open(), context.partition_key)


def checked(workspace: Workspace, project: str) -> Iterator[dg.AssetCheckResult]:
    """Yield the result of every check of one project."""
    findings = verify_structure(workspace.index_dir(project), read_texts=False)
    state = ingestion.status(workspace, project)
    waiting = [Finding("new", path) for path in state.pending.new]
    waiting += [Finding("removed", path) for path in state.pending.removed]
    cut = state.truncated_inputs
    by_check = {
        COVERS: waiting,
        IDS: [finding for finding in findings if finding.check != "vectors"],
        UNIT: [finding for finding in findings if finding.check == "vectors"],
        WHOLE: [Finding("texts", f"{cut} texts were cut")] if cut else [],
    }
    for name, spec, _ in _INDEX_CHECKS[:-1]:
        rows = [(finding.check, finding.message) for finding in by_check[name]]
        yield check_result(name, spec.key, ("check", "message"), rows, is_error=name != COVERS)
    quality = kept_quality(workspace, project)
    figures = quality.figures
    shown: dict[str, Any] = {"questions": figures.questions if figures else 0}
    if figures is not None:
        shown |= {"recall": figures.recall, "mrr": figures.mrr, "k": figures.k}
    yield dg.AssetCheckResult(
        passed=not quality.worse,
        check_name=QUALITY,
        asset_key=INDEX.key,
        description=quality.worse or quality.note,
        metadata=shown,
    )
