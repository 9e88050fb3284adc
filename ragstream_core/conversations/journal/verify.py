"""A check of the whole journal: every byte, the chain, and every number."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from ragstream_core.conversations.journal.records import Cleared
from ragstream_core.conversations.journal.segments import (
    CURRENT,
    Parsed,
    Piece,
    closed_segments,
    count_possibly_acknowledged,
    entry_of,
    read_forward,
    torn_files,
)


@dataclass(slots=True)
class JournalReport:
    """What a check of the journal found."""

    records: int = 0  # verified records
    segments: int = 0  # files
    # (segment, offset, size, reason) of bytes that are not what was written
    damaged: list[tuple[str, int, int, str]] = field(default_factory=list)
    # (file, size) of lines broken off by crashes, quarantined or still at the end
    torn: list[tuple[str, int]] = field(default_factory=list)
    # (first, last) numbers that are missing and were not cleared
    gaps: list[tuple[int, int]] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Whether every acknowledged record is there as it was written."""
        return not self.damaged and not self.gaps


def check_journal(folder: Path) -> JournalReport:
    """Read every segment; see `Journal.check`."""
    paths = [segment.path for segment in closed_segments(folder)]
    paths += [folder / CURRENT] if (folder / CURRENT).exists() else []
    report = JournalReport(segments=len(paths))
    report.torn += [(path.name, path.stat().st_size) for path in torn_files(folder)]
    cleared: list[tuple[int, int]] = []
    seqs: set[int] = set()
    last: Parsed | None = None
    for path in paths:
        for piece in _joined(path):
            if piece.parsed is not None:
                reason = _misplaced(last, piece.parsed)
                last = piece.parsed
                seqs.add(last.seq)
                reason = _counted(report, piece, last, path.name, cleared) or reason
            elif _is_torn(piece, path):
                report.torn.append((path.name, piece.size))
                continue
            else:
                reason = "not what was written"
            if reason:
                report.damaged.append((path.name, piece.offset, piece.size, reason))
    report.gaps += _gaps(seqs, cleared)
    return report


def _counted(
    report: JournalReport,
    piece: Piece,
    parsed: Parsed,
    name: str,
    cleared: list[tuple[int, int]],
) -> str:
    """Count a verified line; return what is wrong with its record, or nothing."""
    entry = entry_of(piece, parsed, name)
    if entry is None:
        return "not a record that this version knows"
    report.records += 1
    if isinstance(entry.record, Cleared):
        cleared += [(int(first), int(until)) for first, until in entry.record.seqs]
    return ""


def _misplaced(last: Parsed | None, parsed: Parsed) -> str:
    """Return what is wrong with a line's place, or nothing; behind a gap nothing can be said."""
    if last is not None and parsed.seq <= last.seq:
        return f"number {parsed.seq} was given before"
    if last is not None and parsed.seq == last.seq + 1 and parsed.prev != last.chain:
        return "does not follow the line before it"
    return ""


def _is_torn(piece: Piece, path: Path) -> bool:
    """Whether damage is what a crash leaves: at the very end, and never a complete line."""
    at_end = piece.offset + piece.size >= path.stat().st_size
    return path.name == CURRENT and at_end and not count_possibly_acknowledged([piece.raw])


def _gaps(seqs: Iterable[int], cleared: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the ranges of missing numbers that no `Cleared` record names."""
    gaps: list[tuple[int, int]] = []
    behind = 1
    known = [(seq, seq) for seq in seqs] + list(cleared)
    for first, until in sorted(known):
        if first > behind:
            gaps.append((behind, first - 1))
        behind = max(behind, until + 1)
    return gaps


def _joined(path: Path) -> Iterator[Piece]:
    """Yield the pieces of a file; runs of damage are joined."""
    fd = os.open(path, os.O_RDONLY)
    try:
        for damaged, run in groupby(read_forward(fd), key=lambda piece: piece.parsed is None):
            if not damaged:
                yield from run
                continue
            first, *others = run
            raw = b"".join(piece.raw for piece in (first, *others))
            yield Piece(first.offset, first.size + sum(p.size for p in others), None, raw)
    finally:
        os.close(fd)
