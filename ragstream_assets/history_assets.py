"""Asset group `history`: turns of the journal on their way to what prompts may read.

The journal is the source and everything else is derived from it. `embed_history` embeds what lies
behind the catalog's mark and reports every month it touched; materialising a month looks at all of
its turns again. Prompts read the published snapshot and never wait for any of this.
"""

import warnings
from collections.abc import Collection, Iterator
from typing import Any

import dagster as dg
from pydantic import Field

from ragstream_assets.document_assets import is_alone, made_of
from ragstream_assets.failures import RETRIES, chosen, reporter, short_errors, unattended
from ragstream_assets.history_metadata import (
    log_metadata,
    month_metadata,
    reported,
    run_metadata,
    state_metadata,
    summary_metadata,
)
from ragstream_assets.resources import WorkspaceResource
from ragstream_assets.specs import asset_spec
from ragstream_core.conversations.journal.records import HISTORY
from ragstream_core.proposers import kept
from ragstream_core.proposers.collections import COLLECTION as CHROMA
from ragstream_core.proposers.collections import resting
from ragstream_core.records.identity import digest_of
from ragstream_core.services import history_update

GROUP = "history"
EMBED_JOB = "embed_history"
RECONCILE_JOB = "reconcile_history"
PUBLISH_OP, SEAL_OP = "publish_snapshot", "seal_history_main"
DATA_VERSION_TAG = "dagster/data_version"
LOOK_BACK = 100
months = dg.MonthlyPartitionsDefinition(start_date="2022-11", fmt="%Y-%m", end_offset=1)
"""Months as the turns were written, from the first that people talked to LLMs in; turns of others
are embedded all the same."""


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

with warnings.catch_warnings():
    warnings.simplefilter("ignore", dg.BetaWarning)
    _observed = dg.multi_observable_source_asset(name="observe_journal", specs=[JOURNAL])
    _by_month = dg.multi_asset(
        name="embed_months",
        specs=[HISTORY_EMBEDDINGS],
        partitions_def=months,
        backfill_policy=dg.BackfillPolicy.single_run(),  # the journal is read once, not by month
    )


@_observed  # type: ignore[untyped-decorator]  # Dagster's has no types
def observe_journal(
    context: dg.AssetExecutionContext, workspace: WorkspaceResource
) -> dg.ObserveResult:
    """Read the end of the journal; the hash of its last line covers all before it."""
    with short_errors():
        newest = history_update.newest(workspace.open())
    version = dg.DataVersion(newest.chain)
    return dg.ObserveResult(
        asset_key=JOURNAL.key, metadata={"records": newest.seq}, data_version=version
    )


@_by_month
def embed_months(
    context: dg.AssetExecutionContext, workspace: WorkspaceResource
) -> dg.MaterializeResult[None]:
    """Look at all turns of some months again; equal texts are re-used, other months stay.

    After a change of the model these months are embedded for the new one, which takes over when
    the last month is done.
    """
    with short_errors():
        wanted = chosen(context, "month")
        done = history_update.backfill(workspace.open(), wanted, **_given(context))
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
            **_given(context),
        )
    report_months(context, done)
    version = dg.DataVersion(done.snapshot.digest) if done.snapshot else None
    return dg.MaterializeResult(
        metadata={**run_metadata(done), **state_metadata(done)}, data_version=version
    )


@dg.multi_asset(name="write_session_logs", specs=[SESSION_LOGS])
def write_session_logs(
    context: dg.AssetExecutionContext, workspace: WorkspaceResource
) -> dg.MaterializeResult[None]:
    """Bring the log of each conversation up to the journal; made again where one is lost."""
    with short_errors():
        logs = history_update.session_logs(workspace.open())
    return dg.MaterializeResult(metadata=log_metadata(logs))


@dg.multi_asset(name=SEAL_OP, specs=[COLLECTION])
def seal_history_main(
    context: dg.AssetExecutionContext, config: SealConfig, workspace: WorkspaceResource
) -> Iterator[dg.MaterializeResult[None]]:
    """The same turns for everything that speaks Chroma; nothing is embedded."""
    with short_errors():
        space, again = workspace.open(), is_alone(context, SNAPSHOT.key)
        done = resting(space, HISTORY, config.rest_s)
        if done is None:
            (done,) = kept.bring_up_to_date(space, HISTORY, stores=[CHROMA], again=again)
    yield from made_of(context, done, upstream=SNAPSHOT.key)


@dg.multi_asset(name="roll_up", specs=[DIGEST])
def roll_up(
    context: dg.AssetExecutionContext, workspace: WorkspaceResource
) -> dg.MaterializeResult[None]:
    """Show the summaries that the snapshot holds in the place of old spans."""
    with short_errors():
        found = history_update.summaries(workspace.open())
    if isinstance(found, str):
        return dg.MaterializeResult(metadata={"summaries": 0, "reason": found})
    version = dg.DataVersion(digest_of([list(row) for row in found]))
    return dg.MaterializeResult(metadata=summary_metadata(found), data_version=version)


def report_months(
    context: dg.AssetExecutionContext,
    done: history_update.Upkeep,
    *,
    besides: Collection[str] = (),
) -> None:
    """Report every month that a run touched, or of which Dagster knows nothing, or another number.

    Args:
        context: The step; months that it materialises itself only get their figures.
        done: The run.
        besides: These months.
    """
    events = context.instance.fetch_materializations(
        HISTORY_EMBEDDINGS.key, limit=LOOK_BACK
    ).records
    known, there = reported(events), set(months.get_partition_keys())
    for month, figures in month_metadata(done).items():
        if month in besides:
            context.add_asset_metadata(figures, partition_key=month)
        elif month in there and (month in done.stats.months or known.get(month) != figures):
            tags = {DATA_VERSION_TAG: done.stats.digest}
            event = dg.AssetMaterialization(
                HISTORY_EMBEDDINGS.key, partition=month, metadata=figures, tags=tags
            )
            context.log_event(event)


def _given(context: dg.AssetExecutionContext) -> dict[str, Any]:
    return {
        "progress": reporter(context.log.info, None),
        "provenance": {"run_id": context.run_id},
    }


_ALL = dg.AssetSelection.assets(
    *(spec.key for spec in (JOURNAL, SNAPSHOT, SESSION_LOGS, COLLECTION, DIGEST))
)
embed_history = dg.define_asset_job(
    EMBED_JOB,
    selection=_ALL.without_checks(),
    description="Embed the turns added since the last run, and make all that derives from them.",
)
reconcile_history = dg.define_asset_job(
    RECONCILE_JOB,
    selection=_ALL | dg.AssetSelection.checks_for_assets(HISTORY_EMBEDDINGS.key),
    description="As embed_history, and verify journal, catalog and snapshot; every night.",
)
