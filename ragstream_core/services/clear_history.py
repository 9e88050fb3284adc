"""Clear conversations: erase turns, set them aside, or put anonymous copies in their place.

A durable notice comes first: it hides the turns at once and stays as the audit record. What was
made from them goes then (`erasure`); after a kill the next clearing, embedding or check goes on.
An inactive turn stays in the journal and no prompt uses it; it is active again without its tag.
"""

from __future__ import annotations

import datetime as dt
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from ragstream_core.conversations import clearing
from ragstream_core.conversations.clearing import anonymous, masked
from ragstream_core.conversations.edits import Folded, apply_edits, merged, visible_turns
from ragstream_core.conversations.journal.records import (
    INACTIVE,
    NO_VECTORS,
    Asked,
    Cleared,
    Entry,
    Fact,
    Position,
    Record,
    TagEdit,
    Turn,
    uuid7,
)
from ragstream_core.conversations.transfer import jsonl_lines
from ragstream_core.conversations.units import month_of
from ragstream_core.ingestion.secrets import find_secrets, redact
from ragstream_core.platform.files import make_private_dir, replace_text
from ragstream_core.records.identity import sha256_hex
from ragstream_core.services.history_update import embed
from ragstream_core.wiring.erase_turns import drop_vectors, finish
from ragstream_core.wiring.journal import Written, completed, journal

if TYPE_CHECKING:
    from ragstream_core.conversations.clearing import Choice
    from ragstream_core.conversations.journal.journal import Journal
    from ragstream_core.ports import PhaseProgress
    from ragstream_core.records.identity import Json
    from ragstream_core.wiring.workspace import Workspace

UNREACHABLE = (
    "backups, archives and exports that you made, and copies on other machines",
    "what was sent to a language model or an embedding endpoint",
    "blocks that the disk itself keeps of deleted files",
)


@dataclass(frozen=True, slots=True)
class ClearReport:
    """What was done to chosen turns, or would be."""

    dry_run: bool
    sessions: Sequence[str]  # names of the conversations, sorted
    turns: int
    questions: int = 0
    tags: int = 0
    facts: int = 0  # how many facts, remembered or waiting
    damaged: int = 0  # how many lines that cannot be read any more
    archive: str = ""  # path of the archive, or empty
    segments: Sequence[str] = ()  # files of the journal that were rewritten
    rows: int = 0  # chunks that went, of all generations
    texts: int = 0
    removed: Sequence[str] = ()  # names below the data root of what was removed
    left: Sequence[str] = ()  # files of yours that hold the same words
    searched: int = 0
    warnings: Sequence[str] = ()  # what went wrong afterwards
    unreachable: Sequence[str] = ()  # what cannot be cleared from here; empty if the turns stay
    # how often each kind of thing was masked; None if no copies are made
    masked: Mapping[str, int] | None = None

    def to_json(self) -> dict[str, Json]:
        """Return the documented JSON form; turns that stay have no more than their number."""
        row = asdict(self)
        if not self.unreachable:
            return {name: row[name] for name in ("dry_run", "sessions", "turns", "rows")}
        return {name: value for name, value in row.items() if value is not None}


def clear(
    workspace: Workspace,
    choice: Choice,
    *,
    archive: bool = False,
    instead: Callable[[Sequence[Entry]], Sequence[Written]] = lambda found: (),
    dry_run: bool = False,
    progress: PhaseProgress | None = None,
) -> ClearReport:
    """Clear conversations; also finishes what an earlier clearing was killed at.

    Args:
        workspace: The data root.
        choice: What is cleared; `choice_of` reads it from words.
        archive: First put a copy aside that only its owner may read and nothing retrieves.
        instead: Returns what is written with the notice in the place of chosen records; asked for
            all that go, those that came meanwhile among them.
        dry_run: Only show what would be removed.
        progress: Called with (phase, done, total); the phases are `erasure.PHASES`.

    Raises:
        ProjectLocked: Another process kept writing; the turns are hidden, run it again.
        IntegrityError: The catalog is damaged; the turns are hidden.
        OperationFailed: Disk full, or something still holds the text; run it again.
    """
    log = journal(workspace)
    seen = log.newest()
    found = clearing.chosen(clearing.visible(log), choice)
    spoken = [e.record for e in found if isinstance(e.record, Turn | Asked)]
    turns = sum(isinstance(record, Turn) for record in spoken)
    lost = clearing.damaged(log, choice) if log.folder.is_dir() else []
    report = ClearReport(
        dry_run,
        sorted({record.session_id for record in spoken}),
        turns,
        questions=len(spoken) - turns,
        tags=sum(isinstance(entry.record, TagEdit) for entry in found),
        facts=len({e.record.fact for e in found if isinstance(e.record, Fact)}),
        damaged=len(lost),
        unreachable=UNREACHABLE,
    )
    if dry_run:
        return report
    archived = _archive(workspace, found) if archive and found else ""
    if found or lost:
        copies = instead(found)  # before the writers are kept out: it may take long

        def made() -> list[Record]:
            late = _made_since(log, seen, found)
            notice = _notice([*found, *late], lost=lost, choice=choice, archived=archive)
            return [*copies, *(instead(late) if late else ()), notice]

        log.append_made(made)
    done = finish(workspace, choice, progress)
    return replace(
        report,
        archive=archived,
        segments=done.segments,
        rows=done.hidden.chunks,
        texts=done.texts,
        removed=done.removed,
        left=done.left,
        searched=done.searched,
        warnings=done.warnings,
    )


def _made_since(log: Journal, seen: Position, found: Sequence[Entry]) -> list[Entry]:
    """Return what was made of some turns after they were looked at: facts, answers given again."""
    ids = {e.record.id for e in found if isinstance(e.record, Turn | Asked)}
    return [
        entry
        for entry in log.entries(seen.seq + 1, hint=seen)
        if (isinstance(entry.record, Fact) and entry.record.turn in ids)
        or (isinstance(entry.record, Turn) and entry.record.origin_turn in ids)
    ]


def _notice(
    gone: Sequence[Entry], *, lost: Sequence[int], choice: Choice, archived: bool
) -> Cleared:
    """Return the notice that hides some records and damaged lines."""
    ranges = merged([*clearing.ranges_of(gone), *((number, number) for number in lost)])
    now = dt.datetime.now().astimezone()
    return Cleared(
        id=uuid7(int(now.timestamp() * 1000), os.urandom(10)),
        timestamp=now.isoformat(timespec="milliseconds"),
        seqs=((1, ranges[-1][1]),) if choice.everything else ranges,
        reason=choice.reason,
        archived=archived,
        turns=sum(isinstance(entry.record, Turn) for entry in gone),
    )


def _archive(workspace: Workspace, found: Sequence[Entry]) -> str:
    """Keep the turns in a file that only its owner may read and nothing retrieves; return it."""
    text = "".join(jsonl_lines(found))
    name = f"cleared-{found[0].seq}-{found[-1].seq}-{sha256_hex(text)[:8]}.jsonl"
    path = make_private_dir(workspace.layout.history_archive) / name
    replace_text(path, text)
    return str(path)


Tagged = tuple[Entry, Turn, tuple[str, ...]]


def put_aside(
    workspace: Workspace, choice: Choice, *, vectors: bool = False, dry_run: bool = False
) -> ClearReport:
    """Mark turns inactive: no prompt, digest, answer cache or search for facts uses them.

    Args:
        workspace: The data root.
        choice: Which turns.
        vectors: Also take their chunks, texts and vectors out of the history's catalog, out of all
            of its generations; prompts that found them cannot be replayed any more.
        dry_run: Only say which.
    """
    wanted = (INACTIVE, NO_VECTORS) if vectors else (INACTIVE,)
    found = [row for row in _chosen(workspace, choice) if not set(wanted) <= set(row[2])]
    report = _report(found, dry_run=dry_run)
    if dry_run:
        return report
    _retag(workspace, found, add=wanted)
    if not vectors:
        return report
    every = [entry for entry, _, tags in _chosen(workspace, choice) if NO_VECTORS in tags]
    gone = Folded(hidden=clearing.ranges_of(every))
    return replace(report, rows=drop_vectors(workspace, gone) if every else 0)


def bring_back(workspace: Workspace, choice: Choice, *, dry_run: bool = False) -> ClearReport:
    """Make inactive turns active again; those without vectors are embedded again.

    Args:
        workspace: The data root.
        choice: Which turns.
        dry_run: Only say which.
    """
    found = [row for row in _chosen(workspace, choice) if INACTIVE in row[2]]
    report = _report(found, dry_run=dry_run)
    if dry_run or not found:
        return report
    _retag(workspace, found, remove=(INACTIVE, NO_VECTORS))
    months = sorted({month_of(turn) for _, turn, tags in found if NO_VECTORS in tags})
    embed(workspace)
    if months:
        embed(workspace, months=months)
    return report


def anonymise(
    workspace: Workspace,
    choice: Choice,
    *,
    mask: Sequence[str] = (),
    dry_run: bool = False,
    progress: PhaseProgress | None = None,
) -> ClearReport:
    """Put anonymous copies of turns in their place, and erase the turns as `clear` does.

    The copies and the notice that hides the turns are one write: a kill leaves both or neither.
    Unanswered questions are erased without a copy.

    Args:
        workspace: The data root.
        choice: Which turns.
        mask: Names and other words to mask; what has a form of its own is found without.
        dry_run: Only count.
        progress: As for `clear`.
    """

    def secrets(text: str) -> str:
        return redact(text, find_secrets(text))

    counts: Counter[str] = Counter()
    log = journal(workspace)

    def copies(found: Sequence[Entry]) -> list[Written]:
        edits = apply_edits(log.entries())
        turns = [replace(turn, tags=tags) for _, turn, tags in visible_turns(found, edits)]
        for turn in turns:
            for text in (turn.user_text, turn.assistant_text):
                counts.update(masked(text, mask, secrets)[1])
        return completed([anonymous(turn, mask, secrets) for turn in turns])

    if dry_run:
        copies(clearing.chosen(clearing.visible(log), choice))
    done = clear(workspace, choice, instead=copies, dry_run=dry_run, progress=progress)
    return replace(done, masked=dict(sorted(counts.items())))


def _chosen(workspace: Workspace, choice: Choice) -> list[Tagged]:
    """Return the chosen turns that were not cleared, with their tags of now."""
    entries = clearing.visible(journal(workspace))
    mine = {entry.seq for entry in clearing.chosen(entries, choice)}
    return [row for row in visible_turns(entries, apply_edits(entries)) if row[0].seq in mine]


def _report(found: Sequence[Tagged], *, dry_run: bool) -> ClearReport:
    return ClearReport(dry_run, sorted({turn.session_id for _, turn, _ in found}), len(found))


def _retag(
    workspace: Workspace,
    found: Sequence[Tagged],
    *,
    add: tuple[str, ...] = (),
    remove: tuple[str, ...] = (),
) -> None:
    edits = [TagEdit("", turn.id, "", add, remove) for _, turn, _ in found]
    journal(workspace).append(completed(edits))
