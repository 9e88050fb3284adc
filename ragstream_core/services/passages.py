"""The words behind a citation: the lines of its file, a picture of its page, or the indexed chunk.

A text file that is still what it was shows the cited lines with those around them, by their numbers
in the file. Of everything else the pinned generation has the piece and its neighbours.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragstream_core.errors import InputUnavailable, RunCommand, UsageError
from ragstream_core.index.view import open_view
from ragstream_core.ingestion.file_types import PARSED, file_type, kind_of
from ragstream_core.prompts.traced import Trace, TracedChunk
from ragstream_core.records.identity import chunk_id, sha256_hex
from ragstream_core.wiring.file_states import CURRENT, indexed_text

if TYPE_CHECKING:
    from ragstream_core.index.view import CatalogView
    from ragstream_core.records import Chunk
    from ragstream_core.wiring.workspace import Workspace

# Lines shown before and after the cited ones.
AROUND = 4
# Characters of such a line that are shown; a paragraph may be one line.
WIDE = 160


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a passage."""

    number: int  # 1-based line of the file; 0 where it is not known
    text: str  # without its end
    cited: bool  # whether it belongs to what was cited

    @property
    def shown(self) -> str:
        """The text; of a line around the cited ones the beginning, if it is long."""
        whole = self.cited or len(self.text) <= WIDE
        return self.text if whole else f"{self.text[: WIDE - 1]}…"


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
        f"{'>' if line.cited else ' '} {line.number or '':>{width}}  {line.shown}".rstrip()
        for line in lines
    )


def lines_of(
    workspace: Workspace, project: str, path: str, *, sha256: str, span: tuple[int, int]
) -> tuple[int, int]:
    """Return the first and the last line of a chunk in its file, from 1; (0, 0) if not known.

    Args:
        workspace: The data root.
        project: The file's project.
        path: Relative to the project, as in the index.
        sha256: Of the bytes that were indexed; other bytes have no such lines.
        span: Characters of the chunk.
    """
    rows, first, last = _cited_rows(workspace, (project, path, sha256), span)
    return (first + 1, last + 1) if rows else (0, 0)


def _cited_rows(
    workspace: Workspace, where: tuple[str, str, str], span: Sequence[int]
) -> tuple[list[str], int, int]:
    """Return the lines of a file, and the first and the last one of a chunk; none for no text."""
    if kind_of(file_type(where[1])) in PARSED:  # parsing takes its time
        return [], 0, 0
    text = indexed_text(workspace, *where)
    start, end = span
    if not 0 <= start < end <= len(text):
        return [], 0, 0
    return text.split("\n"), text.count("\n", 0, start), text.count("\n", 0, end - 1)


def _in_file(workspace: Workspace, found: TracedChunk) -> list[Line]:
    if found.now != CURRENT or found.span is None:
        return []
    where = found.project, found.path, found.sha256
    rows, first, last = _cited_rows(workspace, where, found.span)
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


def has_pages(path: str) -> bool:
    """Whether the pages of a file can be shown as pictures."""
    return file_type(path) == "pdf"


def page_picture(workspace: Workspace, project: str, path: str, *, sha256: str, page: int) -> bytes:
    """Return a page of a document as a PNG.

    Args:
        workspace: The data root.
        project: The document's project.
        path: Relative to the project, as in the index.
        sha256: Of the bytes that were indexed.
        page: Its number, from 1.

    Raises:
        UnknownProject: There is no such project.
        InputUnavailable: The file is not what it was, or its page cannot be drawn.
    """
    from ragstream_core.ingestion.parsers.page_image import page_png

    where = f"{project}/{path}"
    limit = workspace.config.settings.discovery.max_pdf_bytes
    try:
        fd = workspace.open_document(project, path)
        with os.fdopen(fd, "rb") as handle:
            data = handle.read(limit + 1)
    except (OSError, ValueError) as error:
        raise InputUnavailable(f"{where} cannot be read any more: {error}") from None
    if sha256_hex(data) != sha256:
        raise InputUnavailable(
            f"{where} was changed since it was indexed; page {page} may be another one now",
            hint=RunCommand("ingest", project),
        )
    picture, problem = page_png(data, page)
    if problem:
        raise InputUnavailable(f"page {page} of {where} cannot be shown: {problem}")
    return picture


@dataclass(frozen=True, slots=True)
class OpenedPassage:
    """A chunk as the index holds it."""

    chunk: Chunk  # its text, file, span and heading
    project: str  # the project that holds it
    generation: int  # the generation of the index that it was read from, ≥ 1
    cited: bool  # whether it is the one that was asked for, and no neighbour


def open_passage(
    workspace: Workspace,
    citation: str,
    projects: Sequence[str],
    *,
    generation: int = 0,
    neighbours: int = 0,
) -> tuple[OpenedPassage, ...]:
    """Return the passage of a citation and its neighbours, in the order of the file.

    Args:
        workspace: The data root.
        citation: A marker ``[source: …, chunk: …]``, a short id, ``path#index``, or a chunk id.
        projects: Where to look, in this order.
        generation: Of the index; 0: the newest.
        neighbours: How many passages of the same file before and after it, ≥ 0.

    Raises:
        UsageError: No passage is called so, or several are.
        GenerationGone: The generation is not kept, or nothing is ingested.
        IntegrityError: The index is damaged.
    """
    from ragstream_core.index.view import open_view
    from ragstream_core.prompts.explain import named

    found: list[tuple[CatalogView, str]] = []
    for project in projects:
        view = open_view(workspace.index_dir(project), generation=generation)
        found += [(view, identifier) for identifier in named(view.chunk_ids, citation)]
    if len({identifier for _, identifier in found}) != 1:
        raise _unclear(citation, projects, [identifier for _, identifier in found])
    view, meant = found[0]
    return tuple(
        OpenedPassage(chunk, view.project, view.generation, chunk.id == meant)
        for chunk in view.chunks(_around(view, meant, neighbours))
    )


def _around(view: CatalogView, identifier: str, neighbours: int) -> list[str]:
    """Return the ids of a chunk and of those beside it, as far as the generation holds them."""
    from ragstream_core.records.identity import chunk_id, parse_chunk_id

    path, sha256, index = parse_chunk_id(identifier)
    first, last = max(0, index - neighbours), index + neighbours
    near = (chunk_id(path, sha256, at) for at in range(first, last + 1))
    return [i for i in near if i == identifier or view.holds(i)]


def _unclear(citation: str, projects: Sequence[str], found: Sequence[str]) -> UsageError:
    """Return the error for a citation that means nothing, or several passages."""
    from ragstream_core.records.identity import sha256_hex, shown_name

    where = ", ".join(projects)
    if not found:
        return UsageError(
            f"{citation[:200]!r} is no passage of {where} as it is indexed now",
            hint=("look for it with ", RunCommand("search", '"…" -p PROJECT')),
        )
    names = (f"{shown_name(i)} ({sha256_hex(i)[:16]})" for i in dict.fromkeys(found[:5]))
    return UsageError(
        f"{citation[:200]!r} may be {len(found)} passages of {where}",
        hint=f"one of: {', '.join(names)}",
    )
