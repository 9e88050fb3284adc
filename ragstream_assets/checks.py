"""Asset checks: what `documents` promises, looked up again by project and without changing it.

What guards the commit runs inside the ingest, before the commit; these show the result.
"""

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg

from ragstream_assets.documents import EMBEDDINGS, FILE_MANIFEST, INDEX, projects
from ragstream_assets.previews import table
from ragstream_assets.recording.outcomes import outcome
from ragstream_assets.resources import WorkspaceResource
from ragstream_core.build.quality import KeptQuality, kept_quality
from ragstream_core.build.workspace import Workspace
from ragstream_core.stores.health import Finding, check

COVERS = "manifest_covers_the_folder"
IDS = "ids_are_the_manifests"
UNIT = "vectors_are_finite_and_unit"
WHOLE = "no_truncated_input"
QUALITY = "retrieval_quality_is_kept"


def _specs() -> list[dg.AssetCheckSpec]:
    described = [
        (COVERS, FILE_MANIFEST, "No document of the folder is waiting for an ingest."),
        (IDS, INDEX, "The live chunk ids are exactly those of the manifest's files."),
        (UNIT, EMBEDDINGS, "Every live vector is finite, of length 1, and has its checksum."),
        (WHOLE, EMBEDDINGS, "No text was cut before it was embedded."),
        (QUALITY, INDEX, "Gold questions are answered no worse than by the last generation."),
    ]
    with warnings.catch_warnings():
        # Dagster calls partitions of checks a preview; without them projects overwrite each other.
        warnings.simplefilter("ignore")
        return [
            dg.AssetCheckSpec(
                name, asset=spec.key, description=description, partitions_def=projects
            )
            for name, spec, description in described
        ]


@dg.multi_asset_check(name="index_checks", specs=_specs())
def index_checks(
    context: dg.AssetCheckExecutionContext, workspace: WorkspaceResource
) -> Iterator[dg.AssetCheckResult]:
    """Look the promises of one project's index up again."""
    outcome(context.run.run_id).tell("checks")
    yield from checked(workspace.open(), context.partition_key)


def checked(workspace: Workspace, project: str) -> Iterator[dg.AssetCheckResult]:
    """Yield the result of every check of one project.

    Args:
        workspace: The data root.
        project: Its name.

    Raises:
        UnknownProject: There is no such folder.
    """
    findings = check(workspace.index_dir(project), read_texts=False)
    vectors = [f for f in findings if f.check == "vectors"]
    state = workspace.status(project)
    pending = state["pending"]
    waiting = [Finding(what, path) for what in ("new", "removed") for path in pending[what]]
    cut = state["truncated_inputs"]
    truncated = [Finding("texts", f"{cut} texts were cut")] if cut else []
    yield _result(COVERS, FILE_MANIFEST, waiting, severity=dg.AssetCheckSeverity.WARN)
    yield _result(IDS, INDEX, [f for f in findings if f.check != "vectors"])
    yield _result(UNIT, EMBEDDINGS, vectors)
    yield _result(WHOLE, EMBEDDINGS, truncated)
    yield quality_result(kept_quality(workspace, project))


def quality_result(found: KeptQuality) -> dg.AssetCheckResult:
    """Return the check result of the gold questions, with figures that Dagster plots."""
    figures = found.figures
    metadata: dict[str, Any] = {"questions": figures.questions if figures else 0}
    if figures is not None:
        metadata |= {"recall": figures.recall, "mrr": figures.mrr, "k": figures.k}
    return dg.AssetCheckResult(
        passed=not found.worse,
        check_name=QUALITY,
        asset_key=INDEX.key,
        severity=dg.AssetCheckSeverity.ERROR,
        description=found.worse or found.note,
        metadata=metadata,
    )


def _result(
    name: str,
    spec: dg.AssetSpec,
    findings: Sequence[Finding],
    *,
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR,
) -> dg.AssetCheckResult:
    rows = [{"check": f.check, "message": f.message} for f in findings]
    return dg.AssetCheckResult(
        passed=not findings,
        check_name=name,
        asset_key=spec.key,
        severity=severity,
        metadata={"findings": len(findings), "what": table(rows, "check", "message")},
    )
