"""Asset checks: what the indexes and the history promise, looked up again without changing it.

What guards the commit runs inside the ingest, before the commit; these show the result.
"""

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg

from ragstream_assets.document_assets import EMBEDDINGS, FILE_MANIFEST, INDEX
from ragstream_assets.failures import short_errors
from ragstream_assets.history_assets import COLLECTION, HISTORY_EMBEDDINGS, JOURNAL, SNAPSHOT
from ragstream_assets.metadata import table
from ragstream_assets.resources import WorkspaceResource
from ragstream_assets.run_state import state_of
from ragstream_assets.specs import partitioned_check, projects
from ragstream_core.index.check import Finding, verify_structure
from ragstream_core.services import verify
from ragstream_core.services.verify import HistoryReport, history_report
from ragstream_core.wiring import ingestion
from ragstream_core.wiring.quality_gate import KeptQuality, kept_quality
from ragstream_core.wiring.workspace import Workspace

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
    specs=[partitioned_check(name, spec.key, what, projects) for name, spec, what in _INDEX_CHECKS],
)
def index_checks(
    context: dg.AssetCheckExecutionContext, workspace: WorkspaceResource
) -> Iterator[dg.AssetCheckResult]:
    """Look the promises of one project's index up again."""
    state_of(context.run.run_id).tell("checks")
    yield from checked(workspace.open(), context.partition_key)


def checked(workspace: Workspace, project: str) -> Iterator[dg.AssetCheckResult]:
    """Yield the result of every check of one project."""
    findings = verify_structure(workspace.index_dir(project), read_texts=False)
    vectors = [f for f in findings if f.check == "vectors"]
    state = ingestion.status(workspace, project)
    waiting = [Finding("new", path) for path in state.pending.new]
    waiting += [Finding("removed", path) for path in state.pending.removed]
    cut = state.truncated_inputs
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


HISTORY_WHOLE = "journal_is_whole"
SOUND = "vectors_and_turns_are_sound"
PROMPT = "no_turn_waits_over_a_day"
READABLE = "snapshot_is_readable"
HIGH_WATER = "high_water_is_in_the_journal"
FRESH = "snapshot_is_fresh"
EQUAL = "history_main_equals_the_history"
_CHECKS = (
    (
        HISTORY_WHOLE,
        JOURNAL,
        verify.JOURNAL,
        "Every line verifies and no number is missing.",
    ),
    (SOUND, HISTORY_EMBEDDINGS, verify.CATALOG, "Ids, texts and vectors are as committed."),
    (PROMPT, HISTORY_EMBEDDINGS, verify.WAITING, "No turn waits for more than a day."),
    (READABLE, SNAPSHOT, verify.SNAPSHOT, "It has its digest and is the newest."),
    (HIGH_WATER, SNAPSHOT, verify.MARK, "The last embedded record is in the journal."),
    (FRESH, SNAPSHOT, verify.AGE, "It is not older than a day while turns wait."),
    (EQUAL, COLLECTION, verify.COLLECTION, "It is that of the newest generation."),
)
_WARNINGS = frozenset({PROMPT, FRESH, EQUAL})


_SPECS = [
    dg.AssetCheckSpec(name, asset=spec.key, description=what) for name, spec, _, what in _CHECKS
]


@dg.multi_asset_check(name="history_checks", specs=_SPECS[:-1], can_subset=True)
def history_checks(
    context: dg.AssetCheckExecutionContext, workspace: WorkspaceResource
) -> Iterator[dg.AssetCheckResult]:
    """Look the promises of the history up again."""
    yield from _wanted(context, workspace)


@dg.multi_asset_check(name="history_main_check", specs=_SPECS[-1:])
def history_main_check(
    context: dg.AssetCheckExecutionContext, workspace: WorkspaceResource
) -> Iterator[dg.AssetCheckResult]:
    """Compare the collection with the history; passed over with the step where none is made."""
    yield from _wanted(context, workspace)


def _wanted(
    context: dg.AssetCheckExecutionContext, workspace: WorkspaceResource
) -> Iterator[dg.AssetCheckResult]:
    with short_errors():
        found = history_report(workspace.open(), dt.datetime.now(dt.UTC))
    wanted = {key.name for key in context.selected_asset_check_keys}
    yield from (result for result in results(found) if result.check_name in wanted)


def results(found: HistoryReport) -> Iterator[dg.AssetCheckResult]:
    """Yield the result of every check, with figures that Dagster plots."""
    figures = _figures(found)
    for name, spec, part, _ in _CHECKS:
        findings = found.findings[part]
        rows = [{"message": finding.message} for finding in findings]
        yield dg.AssetCheckResult(
            passed=not findings,
            check_name=name,
            asset_key=spec.key,
            severity=_severity(name),
            metadata={"findings": len(findings), "what": table(rows, "message"), **figures[part]},
        )


def _severity(name: str) -> dg.AssetCheckSeverity:
    return dg.AssetCheckSeverity.WARN if name in _WARNINGS else dg.AssetCheckSeverity.ERROR


def _figures(found: HistoryReport) -> dict[str, dict[str, Any]]:
    status, snapshot = found.status, found.status.snapshot
    known: dict[str, dict[str, Any]] = {
        verify.JOURNAL: {"records": status.records},
        verify.CATALOG: {"turns": status.turns, "chunks": status.chunks},
        verify.WAITING: {"pending": status.pending},
        verify.MARK: {"records": status.records, "up_to_record": status.seq},
    }
    if snapshot is not None:
        known[verify.SNAPSHOT] = {"rows": snapshot.rows, "digest": snapshot.digest}
        known[verify.AGE] = {"age_hours": round(snapshot.age_s / 3600, 2)}
    return {part: known.get(part, {}) for part in verify.PARTS}
