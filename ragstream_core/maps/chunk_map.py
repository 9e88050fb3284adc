"""`ChunkMap`: chunks as points of a plane, and the same as CSV. Near means: similar texts.

Of too many chunks a sample is shown that keeps the shares of the files.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ragstream_core.conversations.journal.records import HISTORY

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def shares(sizes: Sequence[int], limit: int) -> list[int]:
    """Divide a limit ≤ sum(sizes) by size: whole parts, then the largest remainders."""
    total = max(sum(sizes), 1)
    parts = [size * limit // total for size in sizes]
    left = sorted(range(len(sizes)), key=lambda i: (-(sizes[i] * limit % total), i))
    for i in left[: limit - sum(parts)]:
        parts[i] += 1
    return parts


def stratified(groups: Sequence[Hashable], limit: int, *, seed: int) -> NDArray[np.int64]:
    """Choose row numbers, ascending, so that each group keeps its share; repeats with its seed."""
    import numpy as np

    if len(groups) <= limit:
        return np.arange(len(groups), dtype=np.int64)
    sizes = Counter(groups)
    wanted = dict(zip(sizes, shares(list(sizes.values()), limit), strict=True))
    chosen = []
    for row in np.random.default_rng(seed).permutation(len(groups)).tolist():
        if wanted[groups[row]]:
            wanted[groups[row]] -= 1
            chosen.append(row)
    return np.array(sorted(chosen), dtype=np.int64)


COLUMNS = ("x", "y", "project", "file", "chunk", "chunk_id", "text")
FILES, PROJECTS = "file", "project"

# What people read if a place is no project but the history.
CONVERSATION = "conversation"
NAMES = {"tsne": "t-SNE", "pca": "PCA"}


class PlacedChunk(NamedTuple):
    """Where a chunk lies."""

    project: str  # its project; ``~history`` for a turn
    path: str  # its file below the project; of a turn ``<session>/<seq>``
    chunk_id: str
    x: float
    y: float

    @property
    def number(self) -> int:
        """Its number within the file, from 0."""
        return int(self.chunk_id.rpartition("::")[2])

    @property
    def home(self) -> str:
        """Its project, or `CONVERSATION`."""
        return CONVERSATION if self.project == HISTORY else self.project

    @property
    def file(self) -> str:
        """Its file; of a turn its conversation."""
        return self.path.rpartition("/")[0] if self.project == HISTORY else self.path


@dataclass(frozen=True, slots=True)
class ChunkMap:
    """Chunks in the plane."""

    places: tuple[PlacedChunk, ...]  # one a chunk that is shown, by project and chunk id
    total: int  # how many chunks there are; more than places if only a sample is shown
    method: str  # ``tsne`` or ``pca``
    seed: int
    perplexity: float  # t-SNE's, as used; 0 with PCA
    generations: dict[str, int]  # project → generation
    notes: tuple[str, ...] = ()  # what a person should know of it, a sentence each

    @property
    def by(self) -> str:
        """What colours tell apart if nothing else is asked for: files of one, else projects."""
        return FILES if len(self.generations) == 1 else PROJECTS

    @property
    def title(self) -> str:
        """What it shows, in a line."""
        shown = len(self.places)
        names = ", ".join(CONVERSATION if n == HISTORY else n for n in self.generations)
        count = (
            f"{shown:,} chunks" if shown == self.total else f"{shown:,} of {self.total:,} chunks"
        )
        return f"{names} · {count} · {NAMES[self.method]}, seed {self.seed}"


def labels(places: Sequence[PlacedChunk], by: str) -> list[str]:
    """Return what colours each place: its file, its conversation, or its project."""
    if by == PROJECTS:
        return [place.home for place in places]
    several = len({place.project for place in places}) > 1
    return [f"{place.home}/{place.file}" if several else place.file for place in places]


def largest(names: Iterable[str], most: int) -> dict[str, int]:
    """Return the names that come most often with their counts, the most frequent first."""
    counts = Counter(names)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most])


def as_csv(places: Sequence[PlacedChunk], texts: Iterable[str]) -> str:
    """Return a map as CSV with a header line; every text is in it, whole."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    for place, text in zip(places, texts, strict=True):
        head = (place.x, place.y, place.home, place.path, place.number, place.chunk_id)
        writer.writerow((*head, text))
    return out.getvalue()
