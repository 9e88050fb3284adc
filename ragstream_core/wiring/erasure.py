"""The one erasure: a subject, a file or turns, out of every place below the data root.

Order: the index loses the rows and gets a tombstone that names the texts; derived files are made
again; known copies, and those that a search of all files finds, are removed; then the journal's
lines, then texts and vectors with the tombstone; then the search again. What says what to look for
goes last, so a kill at any moment leaves a part that tells the next run what is to be done.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ragstream_core.errors import OperationFailed, RunCommand, TryAgain
from ragstream_core.index.remove import Tombstone

if TYPE_CHECKING:
    from ragstream_core.ports import PhaseProgress
    from ragstream_core.text.fingerprints import TextFingerprints
    from ragstream_core.wiring.text_copies import CopyEraser

PHASES = ("index", "copies", "journal", "texts", "search")

# How often copies are searched and removed; other processes may make new ones meanwhile.
ROUNDS = 3
NOTHING = Tombstone("")


class Subject(Protocol):
    """What is erased, in steps that can be repeated.

    A step raises a `RagstreamError` or an `OSError` if it cannot be done.
    """

    name: str  # what a message calls it, e.g. "cleared turns"
    copies: CopyEraser  # finds and removes copies

    def hide(self) -> Tombstone:
        """Take the rows out of every generation; the texts stay, under a tombstone."""

    def publish(self) -> None:
        """Make the derived files again, without it."""

    def sought(self, hidden: Tombstone) -> TextFingerprints:
        """Return what to look for."""

    def erase_known(self, hidden: Tombstone, sought: TextFingerprints) -> None:
        """Remove the copies that are known without a search, or that none would know."""

    def staying(self) -> Iterator[str]:
        """Yield the texts that stay: words that stand there too are no copies."""

    def erase_source(self) -> list[str]:
        """Take it out of the journal; return the names of the files that were rewritten."""

    def erase_texts(self, hidden: Tombstone) -> int:
        """Take texts, vectors and the tombstone off the disk; return how many texts went."""


@dataclass(frozen=True, slots=True)
class ErasureReport:
    """What an erasure did."""

    hidden: Tombstone = NOTHING  # what the index held: generations, chunk rows, texts
    texts: int = 0  # how many texts went; those that others have too stay
    # names of the journal's files that were rewritten
    segments: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)  # names of what was removed, sorted
    # names of the user's files that hold the same words, sorted
    left: list[str] = field(default_factory=list)
    searched: int = 0
    # what went wrong with derived data afterwards
    warnings: list[str] = field(default_factory=list)


def erase(subject: Subject, progress: PhaseProgress | None = None) -> ErasureReport:
    """Erase a subject from every place, and search all files for what is left."""

    def begin(phase: str) -> None:
        if progress is not None:
            progress(phase, PHASES.index(phase), len(PHASES))

    copies = subject.copies
    begin("index")
    hidden = subject.hide()
    subject.publish()
    sought = subject.sought(hidden)
    begin("copies")
    subject.erase_known(hidden, sought)
    for _ in range(ROUNDS):
        if copies.purge(sought, subject.staying):
            break
    begin("journal")
    segments = subject.erase_source()
    begin("texts")
    texts = subject.erase_texts(hidden)
    begin("search")
    ours, yours = copies.left(sought, subject.staying)
    if ours:
        raise OperationFailed(
            f"{len(ours)} files still hold {subject.name}, first {ours[0]}",
            hint=("end ", RunCommand("up"), " and other processes, then ", TryAgain()),
        )
    removed, left = sorted(set(copies.removed)), sorted(yours)
    return ErasureReport(hidden, texts, segments, removed, left, copies.searched)
