"""Publishes the selected history for prompts, and makes an older selection again for a replay."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING

from ragstream_core.conversations.journal.records import SILVER, TagEdit
from ragstream_core.errors import InputUnavailable, IntegrityError, RagstreamError
from ragstream_core.wiring.journal import completed, journal

if TYPE_CHECKING:
    from ragstream_core.index.history import LiveRows
    from ragstream_core.index.history_view import HistoryView
    from ragstream_core.index.snapshot import SnapshotReport
    from ragstream_core.records import Chunk
    from ragstream_core.records.identity import Json
    from ragstream_core.settings.prompts import HistoryConfig
    from ragstream_core.wiring.workspace import Workspace


def publish(workspace: Workspace) -> SnapshotReport | None:
    """Publish what the history catalog holds now; None before anything was embedded.

    Args:
        workspace: The data root; its settings say how many chunks prompts search at most.

    Raises:
        ProjectLocked: A worker is writing the catalog; it publishes when it is done.
        IntegrityError: The catalog is damaged; the last snapshot stays.
        OperationFailed: Disk full; the last snapshot stays.
    """
    from ragstream_core.index import snapshot
    from ragstream_core.index.history import newest, selection_rows
    from ragstream_core.index.schema import project_lock

    index_dir, path = workspace.layout.history_index, workspace.layout.history_snapshot
    settings = workspace.config.settings.history
    cap, rolled = settings.max_chunks, _summarise_after(settings)
    found = newest(index_dir)
    if found is None:
        return None
    wanted = snapshot.source(found[0], cap=cap, summarise_after=rolled)
    if (there := snapshot.published(path, wanted)) is not None:
        return snapshot.report(there, path, written=False)
    with project_lock(index_dir):
        live = selection_rows(index_dir)
        return snapshot.publish(_made(workspace, live, cap), path)


def _made(workspace: Workspace, live: LiveRows, cap: int) -> HistoryView:
    """Return the selection of some rows of the catalog, by the settings of the workspace."""
    from ragstream_core.index import snapshot

    rolled = _summarise_after(workspace.config.settings.history)
    return snapshot.build(
        live.rows,
        live.vectors,
        mark=live.mark,
        cap=cap,
        summarise_after=rolled,
        summary_tags=_summary_tags(workspace, live.mark.position.seq) if rolled else {},
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
    from ragstream_core.index import snapshot
    from ragstream_core.index.history import selection_rows

    kept = snapshot.held(digest)
    if kept is not None and _is_sound(kept):
        return kept
    with contextlib.suppress(RagstreamError):
        view = snapshot.open_snapshot(workspace.layout.history_snapshot)
        if view is not None and view.digest == digest and _is_sound(view):
            return view
    # replaced or damaged: the catalog holds all of it
    live = _as_of(workspace, selection_rows(workspace.layout.history_index, upto), upto)
    made = _made(workspace, live, cap)
    if made.digest != digest:
        raise InputUnavailable(
            f"the older turns up to record {upto} are not what the prompt was made with: turns "
            "were cleared or embedded anew since",
            hint="build the prompt again",
        )
    snapshot.hold(made)
    return made


def promote(workspace: Workspace) -> list[str]:
    """Tag summaries that proved useful SILVER, by a record; return what was done, for people.

    The tag is an edit like any other: the next prompt obeys, a replay has the tags of then, and
    whoever takes it off has the last word.

    Raises:
        RagstreamError: The journal cannot be read or written.
    """
    from ragstream_core.conversations.edits import apply_edits, visible_turns
    from ragstream_core.conversations.summaries import promoted

    settings = workspace.config.settings.history
    if not (settings.summaries and settings.persist):
        return []
    log = journal(workspace)
    folded = apply_edits(log.entries())
    turns = (turn for _, turn, _ in visible_turns(log.entries(), folded))
    found = promoted([row.id for row in _published_summaries(workspace)], turns, folded.edits)
    log.append(completed([TagEdit("", name, "", add=(SILVER,)) for name in found]))
    undo = "take it off: ragstream history tag {0} --remove SILVER"
    return [
        f"the summary {name} is cited by several answers and now ranks higher (SILVER); "
        + undo.format(name)
        for name in found
    ]


@dataclasses.dataclass(frozen=True, slots=True)
class SummaryRow:
    """A summary of an old span that prompts search.

    Attributes:
        id: Its id.
        title: Its first line.
        text: All of it.
        answers: How many answers cite it.
        tags: As of now.
    """

    id: str
    title: str
    text: str
    answers: int
    tags: list[str]

    def to_json(self) -> dict[str, Json]:
        """Return the documented JSON form."""
        return dataclasses.asdict(self)


def summaries(workspace: Workspace) -> list[SummaryRow]:
    """Return the summaries of old spans that prompts search, in the order of their ids.

    Raises:
        RagstreamError: The journal or the published selection cannot be read.
    """
    from ragstream_core.conversations.edits import apply_edits, visible_turns
    from ragstream_core.conversations.summaries import citing

    found = _published_summaries(workspace)
    log = journal(workspace)
    folded = apply_edits(log.entries()) if found else apply_edits([])
    turns = (turn for _, turn, _ in visible_turns(log.entries(), folded)) if found else ()
    counts = citing([chunk.id for chunk in found], turns)
    return [
        SummaryRow(
            chunk.id,
            chunk.snippet.partition("\n")[0],
            chunk.snippet,
            counts[chunk.id],
            list(folded.tags(chunk.id, ())),
        )
        for chunk in found
    ]


def _published_summaries(workspace: Workspace) -> list[Chunk]:
    from ragstream_core.conversations.summaries import SOURCE
    from ragstream_core.index.snapshot import open_snapshot

    view = open_snapshot(workspace.layout.history_snapshot)
    if view is None:
        return []
    rows = view.columns.sources.where(SOURCE.__eq__).nonzero()[0].tolist()
    return view.chunks(view.chunk_ids[row] for row in rows)


def _summary_tags(workspace: Workspace, upto: int) -> dict[str, tuple[str, ...]]:
    """Return the tags that summaries had after a record."""
    from ragstream_core.conversations.edits import apply_edits
    from ragstream_core.conversations.units import is_summary

    edits = apply_edits(journal(workspace).entries(1, upto + 1)).edits
    return {name: tuple(sorted(edit.add)) for name, edit in edits.items() if is_summary(name)}


def _is_sound(view: HistoryView) -> bool:
    try:
        view.verify()
    except IntegrityError:
        return False
    return True


def _as_of(workspace: Workspace, live: LiveRows, upto: int) -> LiveRows:
    """Return the rows with the tags that they had after record ``upto``."""
    from ragstream_core.conversations.edits import apply_edits

    folded = apply_edits(journal(workspace).entries(1, upto + 1))
    tags = {
        seq: tuple(sorted(folded.tags(row.turn.id, row.turn.tags)))
        for seq, row in live.turns.items()
    }
    rows = tuple(row._replace(tags=tags[row.seq]) for row in live.rows)
    return dataclasses.replace(live, rows=rows)
