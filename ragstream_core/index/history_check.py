"""Compare the journal, the catalog of its turns and the published selection, each with the others.

The catalog is verified as a project's index is; beyond that its mark must be a record of the
journal, its turns those of the journal, and the selection made from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ragstream_core.conversations.edits import apply_edits
from ragstream_core.conversations.journal.journal import Journal
from ragstream_core.conversations.journal.records import NO_VECTORS, Turn
from ragstream_core.conversations.non_answers import is_evidence, is_non_answer
from ragstream_core.conversations.units import history_chunk_id, turn_sha
from ragstream_core.errors import RagstreamError
from ragstream_core.index import history
from ragstream_core.index.check import Finding, Part, verify_data, verify_structure
from ragstream_core.index.history import Mark
from ragstream_core.index.schema import CATALOG_NAME
from ragstream_core.index.snapshot import open_snapshot


def verify_history(
    log: Journal, index_dir: Path, selection: Path, part: Part | None = None
) -> list[Finding]:
    """Verify the whole history; read-only.

    With ``part`` also that part of the texts and vectors of all generations, and every turn of the
    catalog against the journal. The ``check`` of a finding is that of an index, or ``journal``,
    ``mark``, ``turns`` or ``snapshot``.
    """
    findings = list(_journal(log))
    if (index_dir / CATALOG_NAME).exists() or any(index_dir.glob("vectors-*.f32")):
        findings += verify_structure(index_dir, read_texts=False, name_chunk=name_chunk)
        if part is not None:
            findings += verify_data(index_dir, part)
        try:
            findings += _catalog(index_dir, log, whole=part is not None)
        except RagstreamError as error:
            findings.append(Finding("catalog", error.message))
    findings += _selection(selection, index_dir)
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
    newest = history.newest(index_dir)
    if newest is None:
        return
    mark, end = newest[0], log.newest().seq
    at = mark.position.seq
    if end < at:
        yield Finding("mark", f"embedded up to record {at}, the journal ends at {end}")
    for entry in log.entries(at, at + 1):
        if entry.chain != mark.position.chain:
            yield Finding("mark", f"record {entry.seq} is not the one that was embedded")
    yield from _turns(index_dir, log, mark) if whole else ()


def _turns(index_dir: Path, log: Journal, mark: Mark) -> Iterator[Finding]:
    """Compare the turns of the catalog with those of the journal up to the mark."""
    live = {row.seq: row.sha256 for row in history.live_turns(index_dir)}
    wanted: dict[int, str] = {}
    no_answers: set[int] = set()  # once embedded like any other, and left out of every search now
    edits = apply_edits(log.entries())
    for entry in log.entries(1, mark.position.seq + 1):
        turn = entry.record
        if not isinstance(turn, Turn) or edits.is_hidden(entry.seq):
            continue
        if is_evidence(turn):
            if NO_VECTORS not in edits.tags(turn.id, turn.tags):
                wanted[entry.seq] = turn_sha(turn)
        elif is_non_answer(turn):
            no_answers.add(entry.seq)
    for seq in sorted(wanted.keys() - live.keys()):
        yield Finding("turns", f"turn {seq} is not embedded")
    for seq in sorted(live.keys() - wanted.keys() - no_answers):
        yield Finding("turns", f"turn {seq} is embedded, but not in the journal or cleared")
    for seq in sorted(wanted.keys() & live.keys()):
        if wanted[seq] != live[seq]:
            yield Finding("turns", f"turn {seq} was embedded with other words")


def _selection(path: Path, index_dir: Path) -> Iterator[Finding]:
    try:
        view = open_snapshot(path)
        newest = history.newest(index_dir)
        if view is not None:
            view.verify()
    except RagstreamError as error:
        yield Finding("snapshot", error.message)
        return
    generation = newest[0].generation if newest is not None else 0
    at = view.generation if view is not None else 0
    if at > generation:
        message = f"made from generation {at}, the catalog has come to {generation}"
        yield Finding("snapshot", message)
    elif at < generation:
        yield Finding("snapshot", f"behind: made from generation {at} of {generation}")
