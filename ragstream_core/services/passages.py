"""The words behind a citation: the lines of its file, or the pieces that the index holds of them.

A text file that is still what it was shows the cited lines with those around them, by their numbers
in the file. Of everything else the pinned generation has the piece and its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragstream_core.index.view import open_view
from ragstream_core.ingestion.file_types import file_type, kind_of
from ragstream_core.prompts.traced import Trace, TracedChunk
from ragstream_core.records.identity import chunk_id
from ragstream_core.wiring.file_states import CURRENT, indexed_text

if TYPE_CHECKING:
    from ragstream_core.wiring.workspace import Workspace

AROUND = 4
"""Lines shown before and after the cited ones."""
WIDE = 160
"""Characters of such a line that are shown; a paragraph may be one line."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a passage.

    Attributes:
        number: 1-based line of the file; 0 where it is not known.
        text: Without its end.
        cited: Whether it belongs to what was cited.
    """

    number: int
    text: str
    cited: bool


def passage(workspace: Workspace, found: Trace) -> list[Line]:
    """Return the lines of a citation with those around it; empty where there are none any more.

    Args:
        workspace: The data root.
        found: What `ragstream_core.services.trace.trace` says about it; only a chunk
            of a document has a passage.

    Raises:
        IntegrityError: The index is damaged.
    """
    if not isinstance(found, TracedChunk):
        return []
    return _in_file(workspace, found) or _in_index(workspace, found)


def as_text(lines: list[Line]) -> str:
    """Return a passage as plain text: ``>`` before the cited lines, then the numbers of all.

    Long lines around the cited ones are cut.
    """
    width = max((len(str(line.number)) for line in lines), default=0)
    return "\n".join(
        f"{'>' if line.cited else ' '} {line.number or '':>{width}}  {_shown(line)}".rstrip()
        for line in lines
    )


def _shown(line: Line) -> str:
    return line.text if line.cited or len(line.text) <= WIDE else f"{line.text[: WIDE - 1]}…"


def _in_file(workspace: Workspace, found: TracedChunk) -> list[Line]:
    if found.now != CURRENT or found.span is None:
        return []
    if kind_of(file_type(found.path)) in ("pdf", "office"):  # parsing takes its time
        return []
    text = indexed_text(workspace, found.project, found.path, found.sha256)
    start, end = found.span
    if not 0 <= start < end <= len(text):
        return []
    first = text.count("\n", 0, start)
    last = text.count("\n", 0, end - 1)
    rows = text.split("\n")
    near = range(max(0, first - AROUND), min(len(rows), last + AROUND + 1))
    return [Line(n + 1, rows[n], first <= n <= last) for n in near]


def _in_index(workspace: Workspace, found: TracedChunk) -> list[Line]:
    if not found.generation.kept or found.span is None:
        return []
    view = open_view(workspace.index_dir(found.project), generation=found.generation.n)

    def pieces() -> Iterator[Line]:
        for idx in range(max(0, found.chunk_idx - 1), found.chunk_idx + 2):
            identifier = chunk_id(found.path, found.sha256, idx)
            try:
                (chunk,) = view.chunks([identifier])
            except KeyError:
                continue
            for row in chunk.snippet.split("\n"):
                yield Line(0, row, idx == found.chunk_idx)

    return list(pieces())
