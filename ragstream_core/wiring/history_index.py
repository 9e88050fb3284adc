"""`History`: what is embedded of a data root's conversations, and the selection prompts search."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.conversations.edits import apply_edits, visible_turns
from ragstream_core.conversations.journal.journal import Journal
from ragstream_core.conversations.journal.records import Position
from ragstream_core.conversations.non_answers import is_evidence
from ragstream_core.conversations.units import is_summary
from ragstream_core.errors import (
    InputUnavailable,
    RagstreamError,
)
from ragstream_core.index import history
from ragstream_core.index.check import Finding, Part
from ragstream_core.index.history import Mark
from ragstream_core.index.rows import Generation
from ragstream_core.index.schema import project_lock
from ragstream_core.wiring import models
from ragstream_core.wiring.journal import journal

# The selection is rows of numbers: numpy is read with it, not by who asks only for the status.
if TYPE_CHECKING:
    from ragstream_core.index.selection import LiveRows, SnapshotReport
    from ragstream_core.index.snapshot import HistoryView
    from ragstream_core.wiring.workspace import Workspace


@dataclass(frozen=True, slots=True)
class SnapshotStatus:
    """The selection that prompts read."""

    seq: int  # up to which record it was made
    generation: int  # of the catalog that it was made from
    digest: str  # of its rows
    rows: int  # how many it has
    evicted: int  # how many were left out for newer ones
    age_s: float  # seconds since it was published


@dataclass(frozen=True, slots=True)
class HistoryStatus:
    """What is embedded of the conversations, and what a run would do."""

    records: int  # newest number of the journal
    seq: int  # every turn up to here is embedded
    generation: int  # of the catalog; 0 if there is none
    digest: str  # of it
    created: str  # when it was made, ISO 8601
    model: str  # fingerprint of the model that embedded it
    turns: int  # how many it holds
    chunks: int  # likewise
    pending: int  # how many whole turns lie behind ``seq``
    oldest_pending: str  # time of the first of them, or ""
    other_model: bool  # whether the settings name another model
    snapshot: SnapshotStatus | None  # what prompts read; None if there is none
    damaged: Sequence[str]  # what cannot be read, one sentence each

    @property
    def published(self) -> int:
        """The generation that prompts read; 0 if there is none."""
        return self.snapshot.generation if self.snapshot else 0

    @property
    def is_behind(self) -> bool:
        """Whether a run would have anything to do, or to complain of."""
        return bool(self.pending or self.damaged or self.published != self.generation)


@dataclass(frozen=True, slots=True)
class History:
    """The conversations of a data root beside their journal: catalog and published selection."""

    workspace: Workspace

    @property
    def log(self) -> Journal:
        """The journal, of which all else is derived."""
        return journal(self.workspace)

    @property
    def index_dir(self) -> Path:
        """Where the catalog lies."""
        return self.workspace.layout.history_index

    @property
    def path(self) -> Path:
        """Where the published selection lies."""
        return self.workspace.layout.history_snapshot

    def newest(self) -> tuple[Mark, Generation] | None:
        """Return how far the catalog has come, and its newest generation; None before the first."""
        return history.newest(self.index_dir)

    def selection(self) -> HistoryView | None:
        """Return what prompts search, its rows unread; None before the first publication."""
        from ragstream_core.index import snapshot

        return snapshot.open_snapshot(self.path)

    def check(self, part: Part | None = None) -> list[Finding]:
        """Verify journal, catalog and selection; see `verify_history`."""
        from ragstream_core.index.history_check import verify_history

        return verify_history(self.log, self.index_dir, self.path, part)

    def status(self) -> HistoryStatus:
        """Return what is embedded and what a run would do; loads no model, writes nothing."""
        damaged: list[str] = []
        newest = published = None
        try:
            newest = self.newest()
        except RagstreamError as error:
            damaged.append(str(error))
        try:
            published = self._snapshot_status()
        except RagstreamError as error:
            damaged.append(str(error))
        mark, made = newest or (Mark(), None)
        pending = self._pending(mark.position)
        return HistoryStatus(
            records=self.log.newest().seq,
            seq=mark.position.seq,
            generation=made.n if made else 0,
            digest=made.digest if made else "",
            created=made.created if made else "",
            model=made.embed_fp if made else "",
            turns=made.counts.get("files", 0) if made else 0,
            chunks=made.counts.get("chunks", 0) if made else 0,
            pending=len(pending),
            oldest_pending=pending[0] if pending else "",
            other_model=bool(made) and mark.embed_fp != models.fingerprint(self.workspace.config),
            snapshot=published,
            damaged=damaged,
        )

    def _pending(self, mark: Position) -> list[str]:
        """Return the times of the turns to embed behind the mark that were not cleared."""
        entries = list(self.log.entries(mark.seq + 1, hint=mark))
        turns = visible_turns(entries, apply_edits(entries))
        return [turn.timestamp for _, turn, _ in turns if is_evidence(turn)]

    def _snapshot_status(self) -> SnapshotStatus | None:
        view = self.selection()
        if view is None:
            return None
        return SnapshotStatus(
            seq=view.mark.position.seq,
            generation=view.generation,
            digest=view.digest,
            rows=len(view.chunk_ids),
            evicted=int(view.meta["evicted"]),
            age_s=max(0.0, time.time() - self.path.stat().st_mtime),
        )

    def publish(self) -> SnapshotReport | None:
        """Publish what the catalog holds now; None before anything was embedded."""
        from ragstream_core.index import selection

        cap = self.workspace.config.settings.history.max_chunks
        newest = self.newest()
        if newest is None:
            return None
        wanted = selection.source(newest[0], cap=cap, summarise_after=self._summarise_after)
        if (there := selection.published(self.path, wanted)) is not None:
            return selection.report(there, self.path, written=False)
        with project_lock(self.index_dir):
            live = selection.selection_rows(self.index_dir)
            return selection.publish(self._select(live, cap), self.path)

    def selection_at(self, *, upto: int, digest: str, cap: int) -> HistoryView:
        """Return the selection a prompt was made with, checked; made again if it was replaced."""
        from ragstream_core.index import selection, snapshot

        recent = snapshot.held(digest)
        if recent is not None and recent.is_sound():
            return recent
        with contextlib.suppress(RagstreamError):
            view = self.selection()
            if view is not None and view.digest == digest and view.is_sound():
                return view
        # replaced or damaged: the catalog holds all of it
        live = selection.selection_rows(self.index_dir, upto)
        then = apply_edits(self.log.entries(1, upto + 1))
        tags = {n: sorted(then.tags(row.turn.id, row.turn.tags)) for n, row in live.turns.items()}
        rows = tuple(row._replace(tags=tuple(tags[row.seq])) for row in live.rows)
        made = self._select(replace(live, rows=rows), cap)
        if made.digest != digest:
            raise InputUnavailable(
                f"the older turns up to record {upto} are not what the prompt was made with: turns "
                "were cleared or embedded anew since",
                hint="build the prompt again",
            )
        snapshot.hold(made)
        return made

    @property
    def _summarise_after(self) -> float:
        settings = self.workspace.config.settings.history
        return settings.summarise_after_days if settings.summaries else 0.0

    def _select(self, live: LiveRows, cap: int) -> HistoryView:
        """Return the selection of some rows of the catalog, by the settings of the workspace."""
        from ragstream_core.index import selection

        rolled, tags = self._summarise_after, dict[str, tuple[str, ...]]()
        if rolled:
            edits = apply_edits(self.log.entries(1, live.mark.position.seq + 1)).edits
            tags = {name: tuple(sorted(e.add)) for name, e in edits.items() if is_summary(name)}
        return selection.build(
            live.rows,
            live.vectors,
            mark=live.mark,
            cap=cap,
            summarise_after=rolled,
            summary_tags=tags,
        )
