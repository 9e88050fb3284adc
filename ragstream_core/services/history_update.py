"""Bringing the history up to date unattended, and what shows people how it stands."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.errors import GenerationGone, ModelMismatch
from ragstream_core.ingestion.stats import HistoryStats
from ragstream_core.platform.locks import retry_while_locked
from ragstream_core.wiring.journal import journal

if TYPE_CHECKING:
    from ragstream_core.conversations.journal.records import Position
    from ragstream_core.index.history_turns import TurnCount
    from ragstream_core.index.snapshot import SnapshotReport
    from ragstream_core.ports import PhaseProgress
    from ragstream_core.wiring.workspace import Workspace

SAMPLE = 5
WAIT_S = 300.0
"""So long a run waits for another one: the UI begins two runs of one back-fill at once."""


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What one run did, and how the history stands after it.

    Attributes:
        idle: Why there was nothing to do; empty where there was.
        stats: The numbers of the run.
        snapshot: What was published; None: nothing.
        counts: Embedded turns by conversation and month, the newest first.
        sample: (chunk id, text) of the last turns of the conversations that were read.
    """

    idle: str = ""
    stats: HistoryStats = field(default_factory=HistoryStats)
    snapshot: SnapshotReport | None = None
    counts: Sequence[TurnCount] = ()
    sample: Sequence[tuple[str, str]] = ()


def newest(workspace: Workspace) -> Position:
    """Return the position behind the last record of the journal; reads its end only."""
    return journal(workspace).newest()


def inode(workspace: Workspace, position: Position) -> int:
    """Return the inode of the segment that a position lies in; 0 where it is gone."""
    try:
        return (journal(workspace).folder / position.segment).stat().st_ino
    except OSError:
        return 0


def idle(workspace: Workspace) -> str:
    """Say why there is nothing to do for this data root; empty where there may be."""
    if not workspace.config.settings.history.persist:
        return "history.persist is off: nothing is kept"
    return "" if newest(workspace).seq else "no conversation has been recorded yet"


def behind(workspace: Workspace) -> bool:
    """Say whether a run would have anything to do, or to complain of; loads no model."""
    from ragstream_core.wiring.history_embedding import history_status

    now = history_status(workspace)
    return bool(now.pending or now.damaged or now.published != now.generation)


def waits_for_model(workspace: Workspace) -> bool:
    """Say whether the settings name another model than the one that embedded the history."""
    from ragstream_core.wiring.history_embedding import history_status

    return history_status(workspace).other_model


def catch_up(
    workspace: Workspace,
    *,
    upto: int = 0,
    follow_model: bool = False,
    progress: PhaseProgress | None = None,
    provenance: Mapping[str, str] | None = None,
) -> Upkeep:
    """Embed what lies behind the mark, then publish the selection that prompts read.

    Args:
        workspace: The data root.
        upto: Last record of the journal to read; 0: all.
        follow_model: Where the settings name another model, embed everything for it instead of
            refusing.
        progress: Called with (phase, done, total).
        provenance: Kept in the generation row.

    Raises:
        ModelMismatch: The catalog was made by another model.
        ProjectLocked: Another process kept writing it for `WAIT_S`.
        RagstreamError: It is damaged, the model failed or the disk is full; what was committed is
            kept, and so is the last selection.
    """
    from ragstream_core.wiring.history_embedding import embed
    from ragstream_core.wiring.history_publishing import publish

    if reason := idle(workspace):
        return Upkeep(reason)
    run = functools.partial(
        embed, workspace, progress=progress, provenance=provenance, publish=False
    )
    try:
        stats = retry_while_locked(lambda: run(upto=upto or None), wait_s=WAIT_S)
    except ModelMismatch:
        if not follow_model:
            raise
        stats = retry_while_locked(lambda: run(rebuild=True), wait_s=WAIT_S)
    return _shown(workspace, stats, retry_while_locked(lambda: publish(workspace), wait_s=WAIT_S))


def backfill(
    workspace: Workspace,
    months: Collection[str],
    *,
    progress: PhaseProgress | None = None,
    provenance: Mapping[str, str] | None = None,
) -> Upkeep:
    """Look at all turns of some months again, then publish.

    Args:
        workspace: The data root.
        months: ``2026-10`` and so on.
        progress: Called with (phase, done, total).
        provenance: Kept in the generation row.

    Raises:
        ProjectLocked: Another process kept writing it for `WAIT_S`.
        RagstreamError: As `catch_up`.
    """
    from ragstream_core.wiring.history_embedding import embed
    from ragstream_core.wiring.history_publishing import publish

    if reason := idle(workspace):
        return Upkeep(reason)
    stats = embed(workspace, months=months, progress=progress, provenance=provenance, publish=False)
    return _shown(workspace, stats, publish(workspace))


def session_logs(workspace: Workspace) -> list[Path]:
    """Bring the logs of the conversations up to the journal; return them, the newest first.

    Raises:
        RagstreamError: A newer version of the program wrote the journal.
        OSError: Disk full, permission denied.
    """
    from ragstream_core.conversations.sessions import write_session_logs

    log = journal(workspace)
    write_session_logs(log, log.folder, since=log.newest().seq)
    logs = log.folder.glob("session-*.log")
    return sorted(logs, key=lambda path: path.stat().st_mtime, reverse=True)


def summaries(workspace: Workspace) -> list[tuple[str, str]] | str:
    """Return (chunk id, text) of the published summaries of old spans, or why there are none.

    Raises:
        IntegrityError: The published selection is damaged.
    """
    from ragstream_core.conversations.summaries import SOURCE
    from ragstream_core.index.snapshot import open_snapshot

    if not workspace.config.settings.history.summaries:
        return "off: history.summaries"
    view = open_snapshot(workspace.layout.history_snapshot)
    if view is None:
        return "nothing is published yet"
    sources = view.columns.sources
    rolled = [i for row, i in enumerate(view.chunk_ids) if sources[row] == SOURCE]
    return [(chunk.id, chunk.snippet) for chunk in view.chunks(rolled)]


def _shown(workspace: Workspace, stats: HistoryStats, snapshot: SnapshotReport | None) -> Upkeep:
    from ragstream_core.index.history_turns import first_texts, turn_counts

    index_dir = workspace.layout.history_index
    last = sorted(stats.sessions.values(), reverse=True)[:SAMPLE]
    try:
        return Upkeep(
            stats=stats,
            snapshot=snapshot,
            counts=turn_counts(index_dir),
            sample=first_texts(index_dir, last),
        )
    except GenerationGone:  # all there is broke off or was cleared
        return Upkeep(stats=stats, snapshot=snapshot)
