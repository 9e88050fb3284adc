"""Publishes the selected history for prompts, and makes an older selection again for a replay."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING

from ragstream_core.build.history.turns import history_dir, journal, snapshot_path
from ragstream_core.errors import InputUnavailable, IntegrityError, RagstreamError

if TYPE_CHECKING:
    from ragstream_core.build.workspace import Workspace
    from ragstream_core.settings.prompts import HistoryConfig
    from ragstream_core.stores.history_rows import LiveRows
    from ragstream_core.stores.history_snapshot import SnapshotReport
    from ragstream_core.stores.history_view import HistoryView


def publish(workspace: Workspace) -> SnapshotReport | None:
    """Publish what the history catalog holds now; None before anything was embedded.

    Args:
        workspace: The data root; its settings say how many chunks prompts search at most.

    Raises:
        ProjectLocked: A worker is writing the catalog; it publishes when it is done.
        IntegrityError: The catalog is damaged; the last snapshot stays.
        OperationFailed: Disk full; the last snapshot stays.
    """
    from ragstream_core.stores import history_snapshot
    from ragstream_core.stores.history_rows import newest, selection_rows
    from ragstream_core.stores.lock import project_lock

    index_dir, path = history_dir(workspace) / "index", snapshot_path(workspace)
    settings = workspace.config.settings.history
    cap, rolled = settings.max_chunks, _summarise_after(settings)
    found = newest(index_dir)
    if found is None:
        return None
    with contextlib.suppress(IntegrityError):  # damaged: it is replaced
        there = history_snapshot.open_snapshot(path)
        wanted = {"cap": cap, "summarise_after": rolled}
        if there is not None and there.mark == found[0] and there.meta.items() >= wanted.items():
            there.verify()
            return history_snapshot.report(there, path, written=False)
    with project_lock(index_dir):
        live = selection_rows(index_dir)
        return history_snapshot.publish(
            live.rows, live.vectors, path, mark=live.mark, cap=cap, summarise_after=rolled
        )


def _summarise_after(settings: HistoryConfig) -> float:
    return settings.summarise_after_days if settings.summaries else 0.0


def snapshot_at(workspace: Workspace, *, upto: int, digest: str, cap: int) -> HistoryView:
    """Return the selection that a prompt was made with, checked; made again if it was replaced.

    Args:
        workspace: The data root.
        upto: The last record of the journal that it covers.
        digest: Digest of its rows.
        cap: Chunks in it at most.

    Raises:
        InputUnavailable: Turns were cleared, or embedded anew, since.
        RagstreamError: The catalog or the journal cannot be read.
    """
    from ragstream_core.stores import history_snapshot
    from ragstream_core.stores.history_rows import selection_rows

    kept = history_snapshot.held(digest)
    if kept is not None and _is_sound(kept):
        return kept
    with contextlib.suppress(RagstreamError):
        view = history_snapshot.open_snapshot(snapshot_path(workspace))
        if view is not None and view.digest == digest and _is_sound(view):
            return view
    # replaced or damaged: the catalog holds all of it
    live = _as_of(workspace, selection_rows(history_dir(workspace) / "index", upto), upto)
    rolled = _summarise_after(workspace.config.settings.history)
    made = history_snapshot.build(
        live.rows, live.vectors, mark=live.mark, cap=cap, summarise_after=rolled
    )
    if made.digest != digest:
        raise InputUnavailable(
            f"the older turns up to record {upto} are not what the prompt was made with: turns "
            "were cleared or embedded anew since",
            hint="build the prompt again",
        )
    history_snapshot.hold(made)
    return made


def _is_sound(view: HistoryView) -> bool:
    try:
        view.verify()
    except IntegrityError:
        return False
    return True


def _as_of(workspace: Workspace, live: LiveRows, upto: int) -> LiveRows:
    """Return the rows with the tags that they had after record ``upto``."""
    from ragstream_core.history.fold import fold

    folded = fold(journal(workspace).entries(1, upto + 1))
    tags = {
        seq: tuple(sorted(folded.tags(row.turn.id, row.turn.tags)))
        for seq, row in live.turns.items()
    }
    rows = tuple(row._replace(tags=tags[row.seq]) for row in live.rows)
    return dataclasses.replace(live, rows=rows)
