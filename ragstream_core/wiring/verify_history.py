"""Verify the conversations: journal, catalog and published selection, each with the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ragstream_core.conversations.edits import apply_edits
from ragstream_core.conversations.journal.records import NO_VECTORS, Turn
from ragstream_core.conversations.non_answers import is_evidence, is_non_answer
from ragstream_core.conversations.units import history_chunk_id, turn_sha
from ragstream_core.errors import RagstreamError
from ragstream_core.index import history
from ragstream_core.index.check import Finding, verify_structure
from ragstream_core.wiring.journal import journal

if TYPE_CHECKING:
    from pathlib import Path

    from ragstream_core.conversations.journal.journal import Journal
    from ragstream_core.index.check import Part
    from ragstream_core.index.history_turns import Mark
    from ragstream_core.wiring.workspace import Workspace


def history_findings(workspace: Workspace, part: Part | None = None) -> list[Finding]:
    """Verify the whole history; read-only.

    Every byte of the journal and its chain; the catalog as a project's index is verified; its mark
    is a record of the journal; the published selection has its digest and is made from the
    catalog. With ``part`` also every text and vector of all generations, and every turn of
    the catalog against the journal.

    Args:
        workspace: The data root.
        part: Which part of the texts and vectors to read; None: none.

    Returns:
        The findings; empty if all is sound. Their ``check`` is that of an index, or
        ``journal``, ``mark``, ``turns`` or ``snapshot``.
    """
    from ragstream_core.index.check import verify_data
    from ragstream_core.index.schema import CATALOG_NAME

    folder, log = workspace.layout.history, journal(workspace)
    findings = list(_journal(log))
    index_dir = folder / "index"
    if (index_dir / CATALOG_NAME).exists() or any(index_dir.glob("vectors-*.f32")):
        findings += verify_structure(index_dir, read_texts=False, name_chunk=name_chunk)
        if part is not None:
            findings += verify_data(index_dir, part)
        try:
            findings += _catalog(index_dir, log, whole=part is not None)
        except RagstreamError as error:
            findings.append(Finding("catalog", error.message))
    findings += _snapshot(folder, index_dir)
    return list(dict.fromkeys(findings))


def name_chunk(path: str, sha256: str, idx: int) -> str:
    """Return the id that a chunk of the history has, by what stands for its file."""
    session, _, seq = path.rpartition("/")
    return history_chunk_id(session, int(seq), int(seq), idx) if seq.isdigit() else ""


def _journal(log: Journal) -> Iterator[Finding]:
    try:
        report = log.check()
    except RagstreamError as error:
        yield Finding("journal", error.message)
        return
    for segment, offset, size, reason in report.damaged:
        yield Finding("journal", f"{segment}: {size} bytes at {offset}: {reason}")
    for first, last in report.gaps:
        yield Finding("journal", f"records {first}…{last} are missing and were not cleared")


def _catalog(index_dir: Path, log: Journal, *, whole: bool) -> Iterator[Finding]:
    found = history.newest(index_dir)
    if found is None:
        return
    mark = found[0]
    newest = log.newest().seq
    if newest < mark.position.seq:
        yield Finding(
            "mark", f"embedded up to record {mark.position.seq}, the journal ends at {newest}"
        )
    for entry in log.entries(mark.position.seq, mark.position.seq + 1):
        if entry.chain != mark.position.chain:
            yield Finding("mark", f"record {entry.seq} is not the one that was embedded")
    yield from _turns(index_dir, log, mark) if whole else ()


def _turns(index_dir: Path, log: Journal, mark: Mark) -> Iterator[Finding]:
    """Compare the turns of the catalog with those of the journal up to the mark."""
    live = {row.seq: row.sha256 for row in history.live_turns(index_dir)}
    wanted: dict[int, str] = {}
    no_answers: set[int] = set()  # once embedded like any other, and left out of every search now
    edits = apply_edits(log.entries())
    for entry in log.entries():
        record = entry.record
        if entry.seq > mark.position.seq:
            break
        if (
            isinstance(record, Turn)
            and is_evidence(record)
            and not edits.is_hidden(entry.seq)
            and NO_VECTORS not in edits.tags(record.id, record.tags)
        ):
            wanted[entry.seq] = turn_sha(record)
        elif isinstance(record, Turn) and is_non_answer(record):
            no_answers |= set() if edits.is_hidden(entry.seq) else {entry.seq}
    for seq in sorted(wanted.keys() - live.keys()):
        yield Finding("turns", f"turn {seq} is not embedded")
    for seq in sorted(live.keys() - wanted.keys() - no_answers):
        yield Finding("turns", f"turn {seq} is embedded, but not in the journal or cleared")
    for seq in sorted(wanted.keys() & live.keys()):
        if wanted[seq] != live[seq]:
            yield Finding("turns", f"turn {seq} was embedded with other words")


def _snapshot(folder: Path, index_dir: Path) -> Iterator[Finding]:
    from ragstream_core.index.snapshot import SNAPSHOT_NAME, open_snapshot

    try:
        view = open_snapshot(folder / "vectors" / SNAPSHOT_NAME)
        found = history.newest(index_dir)
        if view is not None:
            view.verify()
    except RagstreamError as error:
        yield Finding("snapshot", error.message)
        return
    generation = found[0].generation if found is not None else 0
    at = view.generation if view is not None else 0
    if at > generation:
        yield Finding(
            "snapshot", f"made from generation {at}, the catalog has come to {generation}"
        )
    elif at < generation:
        yield Finding("snapshot", f"behind: made from generation {at} of {generation}")
