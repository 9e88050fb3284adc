"""A passage by its citation, whole, with those before and after it in its file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragstream_core.errors import RunCommand, UsageError

if TYPE_CHECKING:
    from ragstream_core.index.view import CatalogView
    from ragstream_core.records import Chunk
    from ragstream_core.wiring.workspace import Workspace


@dataclass(frozen=True, slots=True)
class OpenedPassage:
    """A chunk as the index holds it.

    Attributes:
        chunk: Its text, file, span and heading.
        project: The project that holds it.
        generation: The generation of the index that it was read from, ≥ 1.
        cited: Whether it is the one that was asked for, and no neighbour.
    """

    chunk: Chunk
    project: str
    generation: int
    cited: bool


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
