"""What `ragstream history clear` can do short of erasing: inactive, without vectors, anonymous.

An inactive turn stays in the journal and is used by no prompt; a tag says so, so it is listed by
it and becomes active again when it loses it. Anonymous copies take the place of turns that are
erased like any others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ragstream_core.build.history.clearing import clear_chosen
from ragstream_core.build.history.embedding import embed
from ragstream_core.build.history.erasing import Erasing
from ragstream_core.build.history.turns import completed, journal
from ragstream_core.history import clearing
from ragstream_core.history.anonymising import anonymous, masked
from ragstream_core.history.fold import Folded, fold, visible_turns
from ragstream_core.history.records import INACTIVE, NO_VECTORS, Entry, TagEdit, Turn
from ragstream_core.history.units import month_of
from ragstream_core.ingestion.secrets import find_secrets, redact

if TYPE_CHECKING:
    from ragstream_core.build.workspace import IngestProgress, Workspace
    from ragstream_core.history.clearing import Choice

Tagged = tuple[Entry, Turn, tuple[str, ...]]


def put_aside(
    workspace: Workspace, choice: Choice, *, vectors: bool = False, dry_run: bool = False
) -> dict[str, Any]:
    """Mark turns inactive: no prompt, digest, answer cache or search for facts uses them.

    Args:
        workspace: The data root.
        choice: Which turns.
        vectors: Also take their chunks, texts and vectors out of the history's catalog, out of all
            of its generations; prompts that found them cannot be replayed any more.
        dry_run: Only say which.

    Returns:
        ``dry_run``, ``sessions``, ``turns`` (now inactive), ``rows`` (chunks that went).

    Raises:
        RagstreamError: The journal or the catalog cannot be written; run it again.
    """
    wanted = (INACTIVE, NO_VECTORS) if vectors else (INACTIVE,)
    found = [row for row in _chosen(workspace, choice) if not set(wanted) <= set(row[2])]
    told = _told(found, dry_run=dry_run)
    if dry_run:
        return told
    _retag(workspace, found, add=wanted)
    if not vectors:
        return told
    every = [entry for entry, _, tags in _chosen(workspace, choice) if NO_VECTORS in tags]
    gone = Folded(hidden=clearing.ranges_of(every))
    rows = Erasing(workspace, journal(workspace), [], (), gone).drop_vectors() if every else 0
    return {**told, "rows": rows}


def bring_back(workspace: Workspace, choice: Choice, *, dry_run: bool = False) -> dict[str, Any]:
    """Make inactive turns active again; those without vectors are embedded again.

    Args:
        workspace: The data root.
        choice: Which turns.
        dry_run: Only say which.

    Returns:
        As `put_aside`; ``rows`` is 0.

    Raises:
        RagstreamError: The journal cannot be written, or the model failed; run it again.
    """
    found = [row for row in _chosen(workspace, choice) if INACTIVE in row[2]]
    told = _told(found, dry_run=dry_run)
    if dry_run or not found:
        return told
    _retag(workspace, found, remove=(INACTIVE, NO_VECTORS))
    months = sorted({month_of(turn) for _, turn, tags in found if NO_VECTORS in tags})
    embed(workspace)
    if months:
        embed(workspace, months=months)
    return told


def anonymise(
    workspace: Workspace,
    choice: Choice,
    *,
    mask: Sequence[str] = (),
    dry_run: bool = False,
    progress: IngestProgress | None = None,
) -> dict[str, Any]:
    """Put anonymous copies of turns in their place, and erase the turns as `clear` does.

    The copies and the notice that hides the turns are one write: a kill leaves both or neither.
    Unanswered questions are erased without a copy.

    Args:
        workspace: The data root.
        choice: Which turns.
        mask: Names and other words to mask; what has a form of its own is found without.
        dry_run: Only count.
        progress: As for `clear`.

    Returns:
        As `clear`, and ``masked``: how often each kind of thing was found.

    Raises:
        RagstreamError: As `clear`.
        OSError: As `clear`.
    """

    def secrets(text: str) -> str:
        return redact(text, find_secrets(text))

    found = _chosen(workspace, choice)
    counts: Counter[str] = Counter()
    for _, turn, _ in found:
        for text in (turn.user_text, turn.assistant_text):
            counts += masked(text, mask, secrets)[1]
    copies = [anonymous(turn, mask, secrets) for _, turn, _ in found]
    done = clear_chosen(
        workspace, choice, instead=completed(copies), dry_run=dry_run, progress=progress
    )
    return {**done, "masked": dict(sorted(counts.items()))}


def _chosen(workspace: Workspace, choice: Choice) -> list[Tagged]:
    """Return the chosen turns that were not cleared, with their tags of now."""
    entries = clearing.visible(journal(workspace))
    mine = {entry.seq for entry in clearing.chosen(entries, choice)}
    return [row for row in visible_turns(entries, fold(entries)) if row[0].seq in mine]


def _told(found: Sequence[Tagged], *, dry_run: bool) -> dict[str, Any]:
    names = sorted({turn.session_id for _, turn, _ in found})
    return {"dry_run": dry_run, "sessions": names, "turns": len(found), "rows": 0}


def _retag(
    workspace: Workspace,
    found: Sequence[Tagged],
    *,
    add: tuple[str, ...] = (),
    remove: tuple[str, ...] = (),
) -> None:
    edits = [TagEdit("", turn.id, "", add, remove) for _, turn, _ in found]
    journal(workspace).append(completed(edits))
