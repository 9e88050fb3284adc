"""Bring what is derived of the conversations up to the journal: embed, publish, write their logs.

What comes after the commit of the catalog is derived: a failure there is a warning, and the next
run makes it again.
"""

from __future__ import annotations

import contextlib
import functools
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.conversations.edits import Folded, apply_edits, visible_turns
from ragstream_core.conversations.journal.records import SILVER, Record, TagEdit, Turn
from ragstream_core.conversations.non_answers import is_evidence
from ragstream_core.conversations.sessions import write_session_logs
from ragstream_core.conversations.units import TurnChunker, is_summary
from ragstream_core.errors import (
    GenerationGone,
    IntegrityError,
    ModelMismatch,
    RagstreamError,
    RunCommand,
    UsageError,
)
from ragstream_core.index.history import CUT, Mark, TurnCount, turn_counts
from ragstream_core.ingestion.history_worker import HistoryIngestionWorker
from ragstream_core.ingestion.stats import HistoryStats
from ragstream_core.platform.locks import retry_while_locked
from ragstream_core.text.chunk_profiles import ChunkProfile, chunk_profile
from ragstream_core.text.tokenizer import word_offsets
from ragstream_core.wiring import erase_turns, models
from ragstream_core.wiring.history_index import History
from ragstream_core.wiring.journal import completed, journal

if TYPE_CHECKING:
    from ragstream_core.index.selection import SnapshotReport
    from ragstream_core.ports import PhaseProgress
    from ragstream_core.records import Chunk
    from ragstream_core.wiring.workspace import Workspace

# How long a run waits for another one: the UI begins two runs of one back-fill at once.
WAIT_S = 300.0
_MONTH = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])")


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What one run did, and how the history stands after it."""

    idle: str = ""  # why there was nothing to do; empty where there was
    stats: HistoryStats = field(default_factory=HistoryStats)  # the numbers of the run
    snapshot: SnapshotReport | None = None  # what was published; None: nothing
    counts: Sequence[TurnCount] = ()  # embedded turns by conversation and month, the newest first


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
    """Bring the catalog up to the journal and publish it; nothing new loads no model.

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
        UsageError: Not a month; nothing was done.
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
    history = History(workspace)
    warnings = _finish_clearing(history, again=bool(months) or rebuild)
    stats = None if months or rebuild else _unchanged(history)
    if stats is None:
        worker = _worker(history, progress)
        if rebuild:
            stats = worker.rebuild(provenance=provenance)
        elif months:
            stats = worker.backfill(months, provenance=provenance)
        else:
            stats = worker.run(upto, provenance=provenance)
    if publish:
        warnings += _derive(history)
    return replace(stats, warnings=(*stats.warnings, *warnings))


def _finish_clearing(history: History, *, again: bool) -> list[str]:
    """Finish a clearing that was killed; return what went wrong: new turns don't wait for it.

    Where turns are to be embedded ``again``, cleared ones must be gone first, lest another
    model reads them; a damaged catalog is put aside, and they with it.
    """
    try:
        erase_turns.resume(history.workspace)
    except (RagstreamError, OSError) as error:
        if again and not isinstance(error, IntegrityError):
            raise
        return [f"cleared turns are hidden, not yet gone: {error}"]
    return []


def _worker(history: History, progress: PhaseProgress | None) -> HistoryIngestionWorker:
    embedder = models.embedder(history.workspace.config)
    offsets = getattr(embedder, "token_offsets", word_offsets)
    return HistoryIngestionWorker(
        history.log,
        history.index_dir,
        embedder=embedder,
        chunker=TurnChunker(offsets, embedder.window, _profile(history)),
        progress=progress or (lambda phase, done, total: None),
    )


def _profile(history: History) -> ChunkProfile:
    """Return how turns are cut under the settings."""
    settings = history.workspace.config.settings.history
    return replace(
        chunk_profile("history_small"),
        max_tokens=settings.chunk_size,
        overlap_tokens=settings.chunk_overlap,
        unit=settings.chunk_unit,
    )


def _unchanged(history: History) -> HistoryStats | None:
    """Return the numbers of a run that would do nothing, None where there may be work."""
    began = time.perf_counter()
    newest = history.newest()
    mark = newest[0] if newest else Mark()
    behind = history.log.entries(mark.position.seq + 1, hint=mark.position)
    if any(_matters(entry.record) for entry in behind):
        return None
    if mark.generation and mark.embed_fp != models.fingerprint(history.workspace.config):
        return None
    usual = chunk_profile("history_small").limits  # of a catalog made before it said so
    if newest and newest[1].provenance.get(CUT, usual) != _profile(history).limits:
        return None
    seconds = time.perf_counter() - began
    return HistoryStats(mark.generation, mark.digest, mark.position.seq, seconds=seconds)


def _derive(history: History) -> list[str]:
    """Publish, write the session logs, promote; return what was done and what went wrong."""
    log, since, notes = history.log, 0, list[str]()
    with contextlib.suppress(RagstreamError):  # damaged: all logs are written anew
        view = history.selection()
        since = view.mark.position.seq if view else 0
    steps: dict[str, Callable[[], object]] = {
        "the published selection is out of date": history.publish,
        "the session logs are out of date": lambda: write_session_logs(log, log.folder, since),
        "no summary was promoted": lambda: notes.extend(_promote(history)),
    }
    for what, step in steps.items():
        try:
            step()
        except (RagstreamError, OSError) as error:
            notes.append(f"{what}: {error}")
    return notes


def _matters(record: Record) -> bool:
    """Say whether a record may change what is embedded; a question alone does not."""
    if isinstance(record, Turn):
        return is_evidence(record)
    return isinstance(record, TagEdit) and not is_summary(record.turn)


def idle(workspace: Workspace) -> str:
    """Say why there is nothing to do for this data root; empty where there may be."""
    if not workspace.config.settings.history.persist:
        return "history.persist is off: nothing is kept"
    return "" if journal(workspace).newest().seq else "no conversation has been recorded yet"


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
    return _shown(History(workspace), stats)


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
    if reason := idle(workspace):
        return Upkeep(reason)
    stats = embed(workspace, months=months, progress=progress, provenance=provenance, publish=False)
    return _shown(History(workspace), stats)


def session_logs(workspace: Workspace) -> list[Path]:
    """Bring the logs of the conversations up to the journal; return them, the newest first.

    Raises:
        RagstreamError: A newer version of the program wrote the journal.
        OSError: Disk full, permission denied.
    """
    log = journal(workspace)
    write_session_logs(log, log.folder, since=log.newest().seq)
    logs = log.folder.glob("session-*.log")
    return sorted(logs, key=lambda path: path.stat().st_mtime, reverse=True)


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """A summary of an old span that prompts search."""

    id: str  # its id
    title: str  # its first line
    text: str  # all of it
    answers: int  # how many answers cite it
    tags: tuple[str, ...]  # as of now


def summaries(workspace: Workspace) -> list[SummaryRow]:
    """Return the summaries of old spans that prompts search, in the order of their ids.

    Args:
        workspace: The data root.

    Raises:
        RagstreamError: The journal or the published selection cannot be read.
    """
    chunks, counts, edits = _cited(History(workspace))
    return [
        SummaryRow(
            chunk.id,
            chunk.snippet.partition("\n")[0],
            chunk.snippet,
            counts[chunk.id],
            edits.tags(chunk.id, ()),
        )
        for chunk in chunks
    ]


def _shown(history: History, stats: HistoryStats) -> Upkeep:
    """Publish; return what the run did, and how the history stands after it."""
    snapshot = retry_while_locked(history.publish, wait_s=WAIT_S)
    try:
        return Upkeep(stats=stats, snapshot=snapshot, counts=turn_counts(history.index_dir))
    except GenerationGone:  # all there is broke off or was cleared
        return Upkeep(stats=stats, snapshot=snapshot)


def _promote(history: History) -> list[str]:
    """Tag summaries that proved useful SILVER, by a record; return what was done, for people.

    The tag is an edit like any other: the next prompt obeys, a replay has the tags of then, and
    whoever takes it off has the last word.
    """
    from ragstream_core.conversations.summaries import promoted  # with numpy

    settings = history.workspace.config.settings.history
    if not (settings.summaries and settings.persist):
        return []
    _, counts, edits = _cited(history)
    names = promoted(counts, edits.edits)
    history.log.append(completed([TagEdit("", name, "", add=(SILVER,)) for name in names]))
    return [
        f"the summary {name} is cited by several answers and now ranks higher (SILVER); "
        f"take it off: ragstream history tag {name} --remove SILVER"
        for name in names
    ]


def _cited(history: History) -> tuple[list[Chunk], dict[str, int], Folded]:
    """Return the summaries, how many answers cite each, and the edits of now."""
    from ragstream_core.conversations.summaries import SOURCE, citing  # with numpy

    view = history.selection()
    rows = view.columns.sources.where(SOURCE.__eq__).nonzero()[0].tolist() if view else []
    chunks = view.chunks(view.chunk_ids[row] for row in rows) if view and rows else []
    if not chunks:
        return [], {}, apply_edits([])
    edits = apply_edits(history.log.entries())
    turns = (turn for _, turn, _ in visible_turns(history.log.entries(), edits))
    return chunks, citing([chunk.id for chunk in chunks], turns), edits
