"""Asset group `history`: turns of the journal on their way to what prompts may read.

The journal is the source and everything else is derived from it. `embed_history` embeds what lies
behind the catalog's mark and reports every month it touched; materialising a month looks at all of
its turns again. Prompts read the published snapshot and never wait for any of this.
"""

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import dagster as dg
from pydantic import Field

from ragstream_assets.documents import is_alone, made_of
from ragstream_assets.failures import RETRIES, chosen, reporter, short_errors, unattended
from ragstream_assets.metadata import Metadata, joined, table
from ragstream_assets.resources import Run, WorkspaceResource
from ragstream_assets.specs import asset_spec, check_result
from ragstream_core.conversations.journal.records import HISTORY
from ragstream_core.index.history import TurnCount
from ragstream_core.proposers import kept
from ragstream_core.proposers.collections import COLLECTION as CHROMA
from ragstream_core.proposers.collections import resting
from ragstream_core.records.identity import digest_of
from ragstream_core.services import history_update, verify
from ragstream_core.services.history_update import Upkeep
from ragstream_core.services.verify import HistoryReport, history_report
from ragstream_core.wiring.journal import journal

GROUP = "history"
PUBLISH_OP, SEAL_OP = "publish_snapshot", "seal_history_main"
LOOK_BACK = 100

# Months as the turns were written, from the first that people talked to LLMs in; turns of others
# are embedded all the same.
months = dg.MonthlyPartitionsDefinition(start_date="2022-11", fmt="%Y-%m", end_offset=1)


class DeltaConfig(dg.Config):
    """How far to go."""

    upto: int = Field(default=0, description="Last record of the journal to read; 0: all.")
    follow_model: bool = Field(
        default=False,
        description="If the settings name another model: embed everything for it.",
    )


class SealConfig(dg.Config):
    """How often."""

    rest_s: int = Field(
        default=0, description="Leave the collection while it is younger; making it reads all rows."
    )


JOURNAL = asset_spec(
    (GROUP, "journal"),
    "What was said: `conversation.log` in `paths.logs`, written through to the disk turn by turn. "
    "All other assets of this group are made from it.",
    "file",
)
HISTORY_EMBEDDINGS = asset_spec(
    (GROUP, "embeddings"),
    "The vectors of the turns, a partition a month. Materialise a month to embed it again, a "
    "backfill of several after a change of the model.",
    "numpy",
    after="journal",
)
SNAPSHOT = asset_spec(
    (GROUP, "snapshot"),
    "The selection that prompts read, `history/vectors/history_store.arrow`, replaced as a whole: "
    "a prompt sees the old one or the new one.",
    "file",
    after="embeddings",
)
SESSION_LOGS = asset_spec(
    (GROUP, "session_logs"), "One log a conversation, made from the journal.", "file",
    after="snapshot",
)  # fmt: skip
COLLECTION = asset_spec(
    (GROUP, "chroma_collection"),
    "`history_main`: the same turns for everything that speaks Chroma, sealed and verified.",
    "chroma",
    after="snapshot",
    skippable=True,
)
DIGEST = asset_spec(
    (GROUP, "digest"),
    "Titled summaries in the place of old spans, if `history.summaries` is on.",
    "text",
    after="snapshot",
)


@dg.multi_observable_source_asset(name="observe_journal", specs=[JOURNAL])  # type: ignore[untyped-decorator]
def observe_journal(
    context: dg.AssetExecutionContext, workspace: WorkspaceResource
) -> dg.ObserveResult:
    """Read the end of the journal; the hash of its last line covers all before it."""
    with short_errors():
        newest = journal(workspace.open()).newest()
    version = dg.DataVersion(newest.chain)
    return dg.ObserveResult(
        asset_key=JOURNAL.key, metadata={"records": newest.seq}, data_version=version
    )


@dg.multi_asset(
    name="embed_months",
    specs=[HISTORY_EMBEDDINGS],
    partitions_def=months,
    backfill_policy=dg.BackfillPolicy.single_run(),  # the journal is read once, not by month
)
def embed_months(
    context: dg.AssetExecutionContext, workspace: WorkspaceResource
) -> dg.MaterializeResult[None]:
    """Look at all turns of some months again; equal texts are re-used, other months stay.

    After a change of the model these months are embedded for the new one, which takes over when
    the last month is done.
    """
    with short_errors():
        wanted = chosen(context, "month")
        done = history_update.backfill(
            workspace.open(),
            wanted,
            progress=reporter(context),
            provenance={"run_id": context.run_id},
        )
    report_months(context, done, besides=wanted)
    version = dg.DataVersion(done.stats.digest) if done.stats.digest else None
    return dg.MaterializeResult(metadata=run_metadata(done), data_version=version)


@dg.multi_asset(name=PUBLISH_OP, specs=[SNAPSHOT], retry_policy=RETRIES)
def publish_snapshot(
    context: dg.AssetExecutionContext, config: DeltaConfig, workspace: WorkspaceResource
) -> dg.MaterializeResult[None]:
    """Embed what lies behind the mark, then publish; prompts read the old file until then."""
    with short_errors(again=unattended(context)):
        done = history_update.catch_up(
            workspace.open(),
            upto=config.upto,
            follow_model=config.follow_model,
            progress=reporter(context),
            provenance={"run_id": context.run_id},
        )
    report_months(context, done)
    made = done.snapshot
    by_month = sorted(_summed(done.counts, "month"), reverse=True)
    return dg.MaterializeResult(
        metadata={
            **run_metadata(done),
            "live_turns": sum(row.turns for row in done.counts),
            "live_chunks": sum(row.chunks for row in done.counts),
            "by_month": table(("month", "turns", "chunks"), by_month),
            "by_session": table(("session", "turns", "chunks"), _summed(done.counts, "session")),
            "published_chunks": made.rows if made else 0,
            "published_turns": made.turns if made else 0,
            "evicted": made.evicted if made else 0,
            "published_bytes": made.size if made else 0,
            "digest": made.digest if made else "-",
        },
        data_version=dg.DataVersion(made.digest) if made else None,
    )


@dg.multi_asset(name="write_session_logs", specs=[SESSION_LOGS])
def write_session_logs(
    context: dg.AssetExecutionContext, workspace: WorkspaceResource
) -> dg.MaterializeResult[None]:
    """Bring the log of each conversation up to the journal; made again where one is lost."""
    with short_errors():
        logs = history_update.session_logs(workspace.open())
    rows = [(path.name, path.stat().st_size) for path in logs]  # the newest first
    return dg.MaterializeResult(
        metadata={"sessions": len(rows), "logs": table(("log", "bytes"), rows)}
    )


@dg.multi_asset(name=SEAL_OP, specs=[COLLECTION])
def seal_history_main(
    context: dg.AssetExecutionContext, config: SealConfig, workspace: WorkspaceResource, run: Run
) -> Iterator[dg.MaterializeResult[None]]:
    """The same turns for everything that speaks Chroma; nothing is embedded."""
    with short_errors():
        space, again = workspace.open(), is_alone(context, SNAPSHOT.key)
        done = resting(space, HISTORY, config.rest_s)
        if done is None:
            (done,) = kept.bring_up_to_date(space, HISTORY, stores=[CHROMA], again=again)
    yield from made_of(context, run, done, upstream=SNAPSHOT.key)


@dg.multi_asset(name="roll_up", specs=[DIGEST])
def roll_up(
    context: dg.AssetExecutionContext, workspace: WorkspaceResource
) -> dg.MaterializeResult[None]:
    """Show the summaries that the snapshot holds in the place of old spans."""
    with short_errors():
        space = workspace.open()
        if not space.config.settings.history.summaries:
            return dg.MaterializeResult(
                metadata={"summaries": 0, "reason": "off: history.summaries"}
            )
        found = history_update.summaries(space)
    spans = table(("span", "characters"), [(row.id, len(row.text)) for row in found])
    return dg.MaterializeResult(
        metadata={"summaries": len(found), "spans": spans},
        data_version=dg.DataVersion(digest_of([[row.id, row.text] for row in found])),
    )


def report_months(
    context: dg.AssetExecutionContext,
    done: history_update.Upkeep,
    *,
    besides: Collection[str] = (),
) -> None:
    """Report every month that a run touched, or of which Dagster knows nothing, or another number.

    Those in `besides` the step materialises itself: they only get their figures.
    """
    events = context.instance.fetch_materializations(
        HISTORY_EMBEDDINGS.key, limit=LOOK_BACK
    ).records
    there = set(months.get_partition_keys())
    known: dict[str, Metadata] = {}  # month → what was reported of it last
    for record in events:  # the newest first
        made = record.asset_materialization
        if made is not None and made.partition:
            row = {k: v.value for k, v in made.metadata.items() if k.endswith("_in_month")}
            known.setdefault(made.partition, row)
    for month, turns, chunks in _summed(done.counts, "month"):
        figures = {"turns_in_month": turns, "chunks_in_month": chunks}
        if month in besides:
            context.add_asset_metadata(figures, partition_key=month)
        elif month in there and (month in done.stats.months or known.get(month) != figures):
            tags = {"dagster/data_version": done.stats.digest}
            event = dg.AssetMaterialization(
                HISTORY_EMBEDDINGS.key, partition=month, metadata=figures, tags=tags
            )
            context.log_event(event)


_ALL = dg.AssetSelection.assets(
    *(spec.key for spec in (JOURNAL, SNAPSHOT, SESSION_LOGS, COLLECTION, DIGEST))
)
embed_history = dg.define_asset_job(
    "embed_history",
    selection=_ALL.without_checks(),
    description="Embed the turns added since the last run, and make all that derives from them.",
)
reconcile_history = dg.define_asset_job(
    "reconcile_history",
    selection=_ALL | dg.AssetSelection.checks_for_assets(HISTORY_EMBEDDINGS.key),
    description="As embed_history, and verify journal, catalog and snapshot; every night.",
)


def run_metadata(done: Upkeep) -> Metadata:
    """Return what a run embedded, how long it took, and the last turns it read."""
    stats = done.stats
    return {
        "idle": done.idle or "no",
        "turns": stats.turns,
        "embedded": stats.embedded,
        "reused": stats.reused,
        "retagged": stats.retagged,
        "passed_over": stats.passed_over,
        "missing_for_the_new_model": stats.missing,
        "generation": stats.generation,
        "committed": stats.committed,
        "up_to_record": stats.seq,
        "seconds": round(stats.seconds, 3),
        "model_seconds": round(stats.model_seconds, 3),
        "warnings": joined(stats.warnings),
    }


def _summed(counts: Sequence[TurnCount], name: str) -> list[tuple[str, int, int]]:
    """Return turns and chunks by month or session, in the order in which they come."""
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    for row in counts:
        sums[getattr(row, name)].update(turns=row.turns, chunks=row.chunks)
    return [(value, sum_["turns"], sum_["chunks"]) for value, sum_ in sums.items()]


HISTORY_WHOLE = "journal_is_whole"
SOUND = "vectors_and_turns_are_sound"
PROMPT = "no_turn_waits_over_a_day"
READABLE = "snapshot_is_readable"
HIGH_WATER = "high_water_is_in_the_journal"
FRESH = "snapshot_is_fresh"
EQUAL = "history_main_equals_the_history"
_CHECKS = (
    (HISTORY_WHOLE, JOURNAL, verify.JOURNAL, "Every line verifies and no number is missing."),
    (SOUND, HISTORY_EMBEDDINGS, verify.CATALOG, "Ids, texts and vectors are as committed."),
    (PROMPT, HISTORY_EMBEDDINGS, verify.WAITING, "No turn waits for more than a day."),
    (READABLE, SNAPSHOT, verify.SNAPSHOT, "It has its digest and is the newest."),
    (HIGH_WATER, SNAPSHOT, verify.MARK, "The last embedded record is in the journal."),
    (FRESH, SNAPSHOT, verify.AGE, "It is not older than a day while turns wait."),
    (EQUAL, COLLECTION, verify.COLLECTION, "It is that of the newest generation."),
)
_WARNINGS = (PROMPT, FRESH, EQUAL)
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
        report = history_report(workspace.open(), dt.datetime.now(dt.UTC))
    wanted = {key.name for key in context.selected_asset_check_keys}
    yield from (result for result in results(report) if result.check_name in wanted)


def results(report: HistoryReport) -> Iterator[dg.AssetCheckResult]:
    """Yield the result of every check, with figures that Dagster plots."""
    figures = _figures(report)
    for name, spec, part, _ in _CHECKS:
        yield check_result(
            name,
            spec.key,
            ("message",),
            [(finding.message,) for finding in report.findings[part]],
            is_error=name not in _WARNINGS,
            **figures.get(part, {}),
        )


def _figures(report: HistoryReport) -> dict[str, dict[str, Any]]:
    status, snapshot = report.status, report.status.snapshot
    figures: dict[str, dict[str, Any]] = {
        verify.JOURNAL: {"records": status.records},
        verify.CATALOG: {"turns": status.turns, "chunks": status.chunks},
        verify.WAITING: {"pending": status.pending},
        verify.MARK: {"records": status.records, "up_to_record": status.seq},
    }
    if snapshot is not None:
        figures[verify.SNAPSHOT] = {"rows": snapshot.rows, "digest": snapshot.digest}
        figures[verify.AGE] = {"age_hours": round(snapshot.age_s / 3600, 2)}
    return figures
