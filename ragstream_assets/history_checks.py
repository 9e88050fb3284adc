"""Asset checks of the history: journal, catalog and snapshot, looked up again; nothing changes."""

import datetime as dt
from collections.abc import Iterator
from typing import Any

import dagster as dg

from ragstream_assets.failures import derived_errors
from ragstream_assets.history import COLLECTION, EMBEDDINGS, JOURNAL, SNAPSHOT
from ragstream_assets.previews import table
from ragstream_assets.resources import WorkspaceResource
from ragstream_core.build.history import review as history_review
from ragstream_core.build.history.review import Review, review

WHOLE = "journal_is_whole"
SOUND = "vectors_and_turns_are_sound"
PROMPT = "no_turn_waits_over_a_day"
READABLE = "snapshot_is_readable"
HIGH_WATER = "high_water_is_in_the_journal"
FRESH = "snapshot_is_fresh"
EQUAL = "history_main_equals_the_history"
_CHECKS = (
    (WHOLE, JOURNAL, history_review.JOURNAL, "Every line verifies and no number is missing."),
    (SOUND, EMBEDDINGS, history_review.CATALOG, "Ids, texts and vectors are as committed."),
    (PROMPT, EMBEDDINGS, history_review.WAITING, "No turn waits for more than a day."),
    (READABLE, SNAPSHOT, history_review.SNAPSHOT, "It has its digest and is the newest."),
    (HIGH_WATER, SNAPSHOT, history_review.MARK, "The last embedded record is in the journal."),
    (FRESH, SNAPSHOT, history_review.AGE, "It is not older than a day while turns wait."),
    (EQUAL, COLLECTION, history_review.COLLECTION, "It is that of the newest generation."),
)
_WARNINGS = frozenset({PROMPT, FRESH, EQUAL})


@dg.multi_asset_check(
    name="history_checks",
    specs=[
        dg.AssetCheckSpec(name, asset=spec.key, description=what) for name, spec, _, what in _CHECKS
    ],
    can_subset=True,
)
def history_checks(
    context: dg.AssetCheckExecutionContext, workspace: WorkspaceResource
) -> Iterator[dg.AssetCheckResult]:
    """Look the promises of the history up again."""
    with derived_errors():
        found = review(workspace.open(), dt.datetime.now(dt.UTC))
    wanted = {key.name for key in context.selected_asset_check_keys}
    yield from (result for result in results(found) if result.check_name in wanted)


def results(found: Review) -> Iterator[dg.AssetCheckResult]:
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


def _figures(found: Review) -> dict[str, dict[str, Any]]:
    status, snapshot = found.status, found.status["snapshot"]
    known: dict[str, dict[str, Any]] = {
        history_review.JOURNAL: {"records": status["records"]},
        history_review.CATALOG: {"turns": status["turns"], "chunks": status["chunks"]},
        history_review.WAITING: {"pending": status["pending"]},
        history_review.MARK: {"records": status["records"], "up_to_record": status["seq"]},
    }
    if snapshot is not None:
        known[history_review.SNAPSHOT] = {"rows": snapshot["rows"], "digest": snapshot["digest"]}
        known[history_review.AGE] = {"age_hours": round(snapshot["age_s"] / 3600, 2)}
    return {part: known.get(part, {}) for part in history_review.PARTS}
