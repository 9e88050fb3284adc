"""Embed the new turns, then publish them; what is embedded, and what a run would do.

What comes after the commit (snapshot, session logs) is derived: a failure there is a warning, and
the next run makes it again.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from ragstream_core.conversations.journal.records import Record, TagEdit, Turn
from ragstream_core.conversations.non_answers import is_evidence
from ragstream_core.errors import IntegrityError, RagstreamError, RunCommand, UsageError
from ragstream_core.index import history
from ragstream_core.index.history_turns import CUT, Mark
from ragstream_core.ingestion.stats import HistoryStats
from ragstream_core.text.chunk_profiles import ChunkProfile, chunk_profile
from ragstream_core.wiring import erase_turns, models
from ragstream_core.wiring.journal import journal

if TYPE_CHECKING:
    from ragstream_core.conversations.journal.journal import Journal
    from ragstream_core.conversations.journal.records import Position
    from ragstream_core.ingestion.history_worker import HistoryIngestionWorker
    from ragstream_core.ports import PhaseProgress
    from ragstream_core.records.identity import Json
    from ragstream_core.wiring.workspace import Workspace

_MONTH = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])")


def embed(
    workspace: Workspace,
    *,
    months: Collection[str] = (),
    rebuild: bool = False,
    upto: int | None = None,
    progress: PhaseProgress | None = None,
    provenance: Mapping[str, str] | None = None,
    publish: bool = True,
) -> HistoryStats:
    """Bring the history catalog up to the journal and publish it; nothing new loads no model.

    Args:
        workspace: The data root.
        months: Also look again at all turns of these, ``2026-10``; see
            `HistoryIngestionWorker.backfill`.
        rebuild: Read the whole journal again, for the model of the settings; a damaged catalog
            is put aside.
        upto: Last record to read; None: all.
        progress: Called with (phase, done, total).
        provenance: Kept in the generation row, e.g. the Dagster run.
        publish: Bring what is derived up to date as well; what goes wrong there is a warning.

    Raises:
        UsageError: What is no month; nothing was done.
        ModelMismatch: The catalog was made by another model.
        ProjectLocked: Another process writes it.
        IntegrityError: It is damaged.
        RagstreamError: No weights, the model failed or the disk is full; what was committed is
            kept.
    """
    for month in months:
        if not _MONTH.fullmatch(month):
            raise UsageError(
                f"not a month: {month!r}", hint=RunCommand("history backfill", "2026-10")
            )
    warnings = _resumed(workspace, again=bool(months) or rebuild)
    stats = None if months or rebuild else _unchanged(workspace)
    if stats is None:
        worker = _worker(workspace, progress)
        if rebuild:
            stats = worker.rebuild(provenance=provenance)
        elif months:
            stats = worker.backfill(months, provenance=provenance)
        else:
            stats = worker.run(upto, provenance=provenance)
    if publish:
        warnings += _derive(workspace, published=_published(workspace))
        warnings += _promoted(workspace)
    return replace(stats, warnings=(*stats.warnings, *warnings))


def _resumed(workspace: Workspace, *, again: bool) -> list[str]:
    """Finish a clearing that was killed; return what went wrong, which new turns need not wait for.

    Args:
        workspace: The data root.
        again: Turns are to be embedded again: then cleared ones must be gone first, lest another
            model reads them. A damaged catalog is put aside, and they with it.

    Raises:
        RagstreamError: They are not gone.
        OSError: They are not gone.
    """
    try:
        erase_turns.resume(workspace)
    except (RagstreamError, OSError) as error:
        if again and not isinstance(error, IntegrityError):
            raise
        return [f"cleared turns are hidden, not yet gone: {error}"]
    return []


def _worker(workspace: Workspace, progress: PhaseProgress | None) -> HistoryIngestionWorker:
    from ragstream_core.conversations.units import TurnChunker
    from ragstream_core.ingestion.history_worker import HistoryIngestionWorker
    from ragstream_core.text.tokenizer import word_offsets

    embedder = models.embedder(workspace.config)
    offsets = getattr(embedder, "token_offsets", word_offsets)
    return HistoryIngestionWorker(
        journal(workspace),
        workspace.layout.history_index,
        embedder=embedder,
        chunker=TurnChunker(offsets, embedder.window, _profile(workspace)),
        progress=progress or (lambda phase, done, total: None),
    )


def _profile(workspace: Workspace) -> ChunkProfile:
    """Return how turns are cut under the settings."""
    settings = workspace.config.settings.history
    return replace(
        chunk_profile("history_small"),
        max_tokens=settings.chunk_size,
        overlap_tokens=settings.chunk_overlap,
        unit=settings.chunk_unit,
    )


def _unchanged(workspace: Workspace) -> HistoryStats | None:
    """Return the numbers of a run that would do nothing, None where there may be work."""
    began = time.perf_counter()
    found = history.newest(workspace.layout.history_index)
    mark = found[0] if found is not None else Mark()
    tail = journal(workspace).entries(mark.position.seq + 1, hint=mark.position)
    if any(_matters(entry.record) for entry in tail):
        return None
    if mark.generation and mark.embed_fp != models.fingerprint(workspace.config):
        return None
    usual = chunk_profile("history_small").limits  # what those had that do not say it
    if found and found[1].provenance.get(CUT, usual) != _profile(workspace).limits:
        return None
    seconds = time.perf_counter() - began
    return HistoryStats(mark.generation, mark.digest, mark.position.seq, seconds=seconds)


def _matters(record: Record) -> bool:
    """Say whether a record may change what is embedded; a question alone does not."""
    from ragstream_core.conversations.units import is_summary

    if isinstance(record, Turn):
        return is_evidence(record)
    return isinstance(record, TagEdit) and not is_summary(record.turn)


def _published(workspace: Workspace) -> int:
    """Return up to which record the session logs and the snapshot were made; 0 where unknown."""
    from ragstream_core.index.snapshot import open_snapshot

    try:
        view = open_snapshot(workspace.layout.history_snapshot)
    except RagstreamError:
        return 0
    return view.mark.position.seq if view is not None else 0


def _derive(workspace: Workspace, *, published: int) -> list[str]:
    """Publish the snapshot and write the session logs; return what went wrong."""
    from ragstream_core.conversations.sessions import write_session_logs
    from ragstream_core.wiring.history_publishing import publish

    def write_logs() -> None:
        log = journal(workspace)
        write_session_logs(log, log.folder, since=published)

    steps: dict[str, Callable[[], object]] = {
        "the published selection is out of date": lambda: publish(workspace),
        "the session logs are out of date": write_logs,
    }
    warnings = []
    for what, step in steps.items():
        try:
            step()
        except (RagstreamError, OSError) as error:
            warnings.append(f"{what}: {error}")
    return warnings


def _promoted(workspace: Workspace) -> list[str]:
    """Promote summaries that proved useful; return what was done, and what went wrong."""
    from ragstream_core.wiring.history_publishing import promote

    try:
        return promote(workspace)
    except (RagstreamError, OSError) as error:
        return [f"no summary was promoted: {error}"]


@dataclass(frozen=True, slots=True)
class SnapshotStatus:
    """The selection that prompts read.

    Attributes:
        seq: Up to which record it was made.
        generation: Of the catalog that it was made from.
        digest: Of its rows.
        rows: How many it has.
        evicted: How many were left out for newer ones.
        age_s: Seconds since it was published.
    """

    seq: int
    generation: int
    digest: str
    rows: int
    evicted: int
    age_s: float


@dataclass(frozen=True, slots=True)
class HistoryStatus:
    """What is embedded of the conversations, and what a run would do.

    Attributes:
        records: Newest number of the journal.
        seq: Every turn up to here is embedded.
        generation: Of the catalog; 0 if there is none.
        digest: Of it.
        created: When it was made, ISO 8601.
        model: Fingerprint of the model that embedded it.
        turns: How many it holds.
        chunks: Likewise.
        pending: How many whole turns lie behind ``seq``.
        oldest_pending: Time of the first of them, or "".
        other_model: Whether the settings name another model.
        snapshot: What prompts read; None if there is none.
        damaged: What cannot be read, one sentence each.
    """

    records: int
    seq: int
    generation: int
    digest: str
    created: str
    model: str
    turns: int
    chunks: int
    pending: int
    oldest_pending: str
    other_model: bool
    snapshot: SnapshotStatus | None
    damaged: Sequence[str]

    @property
    def published(self) -> int:
        """The generation that prompts read; 0 if there is none."""
        return self.snapshot.generation if self.snapshot else 0

    def to_json(self) -> dict[str, Json]:
        """Return it as `ragstream history check --json` writes it."""
        return asdict(self)


def history_status(workspace: Workspace) -> HistoryStatus:
    """Return what is embedded and what a run would do; loads no model, writes nothing."""
    damaged: list[str] = []
    log = journal(workspace)
    try:
        found = history.newest(workspace.layout.history_index)
    except RagstreamError as error:
        found = None
        damaged.append(str(error))
    mark, made = found if found is not None else (None, None)
    position = mark.position if mark is not None else None
    pending = _pending(log, position)
    return HistoryStatus(
        records=log.newest().seq,
        seq=position.seq if position else 0,
        generation=made.n if made else 0,
        digest=made.digest if made else "",
        created=made.created if made else "",
        model=made.embed_fp if made else "",
        turns=made.counts.get("files", 0) if made else 0,
        chunks=made.counts.get("chunks", 0) if made else 0,
        pending=len(pending),
        oldest_pending=pending[0] if pending else "",
        other_model=bool(made and made.embed_fp != models.fingerprint(workspace.config)),
        snapshot=_snapshot_status(workspace, damaged),
        damaged=damaged,
    )


def _pending(log: Journal, mark: Position | None) -> list[str]:
    """Return the times of the turns to embed behind the mark that were not cleared."""
    from ragstream_core.conversations.edits import apply_edits, visible_turns

    start = mark.seq + 1 if mark is not None else 1
    folded = apply_edits(log.entries(start, hint=mark))
    turns = visible_turns(log.entries(start, hint=mark), folded)
    return [turn.timestamp for _, turn, _ in turns if is_evidence(turn)]


def _snapshot_status(workspace: Workspace, damaged: list[str]) -> SnapshotStatus | None:
    from ragstream_core.index.snapshot import open_snapshot

    path = workspace.layout.history_snapshot
    try:
        view = open_snapshot(path)
    except RagstreamError as error:
        damaged.append(str(error))
        return None
    if view is None:
        return None
    return SnapshotStatus(
        seq=view.mark.position.seq,
        generation=view.generation,
        digest=view.digest,
        rows=len(view.chunk_ids),
        evicted=int(view.meta["evicted"]),
        age_s=max(0.0, time.time() - path.stat().st_mtime),
    )
