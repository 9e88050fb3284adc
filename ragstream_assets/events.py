"""What other faces did, as events of Dagster's assets: once, in order, in figures, keys and links.

A sensor looks each minute. Its cursor says how far it is; before anything is reported, the newest
events of the asset are asked whether it stands there already, since a daemon that is killed between
events and cursor would report again. What a run of Dagster made carries the run's id and is left to
that run, unless the run is gone or ended without having said so.
"""

import json
from collections.abc import Iterator, Mapping
from itertools import islice, takewhile

import dagster as dg

from ragstream_assets.metadata import Metadata, table
from ragstream_assets.resources import WorkspaceResource
from ragstream_assets.specs import CURSOR_VERSION, EVENT_ID, asset_spec, projects, read_cursor
from ragstream_core.index.rows import Generation
from ragstream_core.services import generations
from ragstream_core.services.made_since import (
    Made,
    answers_since,
    is_settled,
    mirror_changed,
    mirror_of,
    not_to_come,
    prompts_since,
)
from ragstream_core.services.sync_project import ProjectSync
from ragstream_core.wiring.workspace import Workspace

MIRROR = asset_spec(
    ("remote", "mirror"),
    "What lies at the addresses of a project's `project.yaml`, in `mirrors/<project>`. Whole files "
    "only; nothing is removed unless a listing came to its end. An ingest with `sync` fetches it "
    "first; `ragstream project sync` fetches it alone.",
    "file",
).replace_attributes(partitions_def=projects)
ANSWERS_SPEC = asset_spec(
    ("history", "answers"),
    "The answers of `ragstream ask` and the page: which prompt, model, tokens, cost and citations. "
    "Their words are in the conversation only.",
    "text",
)
INDEX_KEY = ("documents", "index")
PROMPTS_SPEC = asset_spec(
    ("prompts", "super_prompts"),
    "The Super-Prompts of the command line, the page, programs and agents, in figures. Their words "
    "are in `prompts/KEY` alone; `ragstream explain KEY` shows why each passage is in one.",
    "text",
)

# Events a tick: each is a commit of Dagster's storage, and a tick has a minute.
MOST = 100
# A mirror that waits for files that long without a change is not being written any more.
SYNC_NS = 600_000_000_000
NEW = "Dagster knows nothing of this data root yet: what is kept is reported from its beginning"
Event = dg.AssetMaterialization | dg.AssetObservation


@dg.sensor(
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Reports generations, prompts, answers and syncs that were made without Dagster.",
)
def made_elsewhere(
    context: dg.SensorEvaluationContext, workspace: WorkspaceResource
) -> dg.SensorResult:
    """Report what was made since the last tick, at most `MOST` events; the rest waits."""
    return tick(workspace.open(), context.instance, context.cursor)


def tick(workspace: Workspace, instance: dg.DagsterInstance, cursor: str | None) -> dg.SensorResult:
    """Look once; what a tick has not reported, the next one does."""
    seen = read_cursor(cursor)
    report = Report(workspace, instance, {kind: str(at) for kind, at in seen.items()})
    events = [*islice(report.events(), MOST)]
    said = "" if seen else NEW
    counted = f"{len(events)} events of what was made without Dagster" if events else "nothing new"
    names = sorted({event.partition for event in events if event.partition})
    return dg.SensorResult(
        asset_events=events,
        dynamic_partitions_requests=[projects.build_add_request(names)] if names else None,
        skip_reason="; ".join(filter(None, [said, counted])),
        cursor=json.dumps({"v": CURSOR_VERSION, **report.seen}),
    )


class Report:
    """One look at a data root; `seen`, where each kind was left, moves as events are taken."""

    def __init__(
        self, workspace: Workspace, instance: dg.DagsterInstance, seen: Mapping[str, str]
    ) -> None:
        self.seen = dict(seen)
        self._workspace, self._instance = workspace, instance

    def events(self) -> Iterator[Event]:
        """Yield what is to be reported, each kind in the order in which it was made."""
        for project in self._workspace.own_projects():
            yield from missed_generations(self._instance, self._workspace, project)
            yield from self._sync(project)
        self.seen["prompts"] = not_to_come(self.seen.get("prompts", ""))
        prompts = prompts_since(self._workspace, self.seen["prompts"])
        yield from self._new("prompts", prompts, dg.AssetMaterialization, PROMPTS_SPEC.key)
        answers = answers_since(self._workspace, self.seen.get("answers", ""))
        yield from self._new("answers", answers, dg.AssetObservation, ANSWERS_SPEC.key)

    def _sync(self, project: str) -> Iterator[Event]:
        kind = f"mirror of {project}"
        changed = mirror_changed(self._workspace, project)
        if changed in ("", self.seen.get(kind)) or not is_settled(int(changed)):
            return
        made = mirror_of(self._workspace, project)
        if made.figures["being_fetched"] and not is_settled(int(changed) + SYNC_NS):
            return  # a sync is at work
        yield from self._new(kind, iter([made]), dg.AssetMaterialization, MIRROR.key, project)

    def _new(
        self,
        kind: str,
        rows: Iterator[Made],
        event: type[dg.AssetMaterialization | dg.AssetObservation],
        key: dg.AssetKey,
        partition: str | None = None,
    ) -> Iterator[Event]:
        """Yield an event for each row that no run has and that stands nowhere yet."""
        known: set[str] | None = None
        for made in islice(rows, MOST):
            known = self._reported(key) if known is None else known
            self.seen[kind] = made.at  # before it is taken: the last of a tick is not asked again
            folder = {"folder": dg.MetadataValue.path(str(made.folder))} if made.folder else {}
            if made.id not in known and not self._has_run(made.run_id):
                yield event(
                    key,
                    description="made without Dagster",
                    partition=partition,
                    metadata={**made.figures, **folder, EVENT_ID: made.id},
                    tags={"ragstream/made_by": "another_face"},
                )

    def _reported(self, key: dg.AssetKey) -> set[str]:
        """Return the ids of the newest events of an asset."""
        materialized = self._instance.fetch_materializations(key, limit=MOST).records
        observed = self._instance.fetch_observations(key, limit=MOST).records
        rows = [
            row.asset_materialization or row.asset_observation for row in (*materialized, *observed)
        ]
        return {
            str(row.metadata[EVENT_ID].value) for row in rows if row and EVENT_ID in row.metadata
        }

    def _has_run(self, run_id: str) -> bool:
        return bool(run_id) and self._instance.get_run_by_id(run_id) is not None


def missed_generations(
    instance: dg.DagsterInstance, workspace: Workspace, project: str
) -> list[dg.AssetMaterialization]:
    """Return an event for each kept generation since the last that Dagster knows, oldest first.

    One that a run has made is left to that run as long as it goes on.
    """
    number, digest = _last_reported(instance, project)
    missed = generations.generations_since(workspace, project, number, digest=digest)
    ended = takewhile(lambda generation: not _is_under_way(instance, generation), missed)
    return [
        dg.AssetMaterialization(
            dg.AssetKey(INDEX_KEY),
            description=f"committed without Dagster, {generation.created}",
            partition=project,
            metadata={
                "generation": generation.n,
                "committed": True,
                "documents": generation.counts.get("files", 0),
                "chunks": generation.counts.get("chunks", 0),
                "digest": generation.digest,
            },
            tags={"dagster/data_version": generation.digest},
        )
        for generation in ended
    ]


def _is_under_way(instance: dg.DagsterInstance, generation: Generation) -> bool:
    """Whether a run that has made a generation has not ended yet: it tells of it itself."""
    run_id = str(generation.provenance.get("run_id") or "")
    run = instance.get_run_by_id(run_id) if run_id else None
    return run is not None and not run.is_finished


def report_missed_generations(
    instance: dg.DagsterInstance, workspace: Workspace, project: str
) -> list[int]:
    """Report them now, before a run makes the next one; return their numbers."""
    missed = missed_generations(instance, workspace, project)
    for event in missed:
        instance.report_runless_asset_event(event)
    return [int(str(event.metadata["generation"].value)) for event in missed]


def _last_reported(instance: dg.DagsterInstance, project: str) -> tuple[int, str]:
    wanted = dg.AssetRecordsFilter(dg.AssetKey(INDEX_KEY), asset_partitions=[project])
    for record in instance.fetch_materializations(wanted, limit=1).records:
        if record.asset_materialization is not None:
            metadata = record.asset_materialization.metadata
            return int(str(metadata["generation"].value)), str(metadata["digest"].value)
    return 0, ""


def mirrored(done: ProjectSync, event_id: str) -> dg.AssetMaterialization:
    """Return how many files were fetched, and what could not be."""
    failed = [row for root in done.roots for row in root.report.failed]
    failed += [(problem.url, problem.message) for problem in done.problems]
    metadata: Metadata = {
        **done.totals(),
        EVENT_ID: event_id,
        "complete": done.is_complete,
        "seconds": round(sum(root.report.seconds for root in done.roots), 3),
        "addresses": table(
            ("label", "address"), [(root.label, root.report.url) for root in done.roots]
        ),
        "not_fetched": table(("path", "reason"), failed),
    }
    return dg.AssetMaterialization(MIRROR.key, partition=done.project, metadata=metadata)
