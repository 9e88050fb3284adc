"""Maps of chunks: what is drawn, how it is laid out, and the texts behind the points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragstream_core.conversations.journal.records import HISTORY
from ragstream_core.errors import GenerationGone, RunCommand, UsageError
from ragstream_core.index.view import open_view
from ragstream_core.maps.chunk_map import ChunkMap, PlacedChunk, stratified
from ragstream_core.maps.projection import LEAST, METHODS, project_vectors, usable_perplexity
from ragstream_core.platform import extras
from ragstream_core.records.identity import digest_of
from ragstream_core.wiring.index_views import hidden_ids, open_views

if TYPE_CHECKING:
    from ragstream_core.ports import IndexView, PhaseProgress
    from ragstream_core.wiring.workspace import Workspace


LIMIT, PERPLEXITY = 5_000, 30.0
_BLOCK = 500


@dataclass(frozen=True, slots=True)
class MapRequest:
    """What map is wanted.

    Attributes:
        projects: Projects whose chunks are shown.
        history: Also the turns that prompts search.
        method: ``tsne`` or ``pca``.
        limit: Most points; of more chunks a sample is shown in which every file keeps its share.
        seed: Of sample and t-SNE, 0 to 2³² − 1.
        perplexity: Of t-SNE: about how many neighbours count; > 0.
    """

    projects: tuple[str, ...]
    history: bool = False
    method: str = "tsne"
    limit: int = LIMIT
    seed: int = 0
    perplexity: float = PERPLEXITY

    def require(self) -> None:
        """Refuse what cannot be drawn.

        Raises:
            UsageError: An unknown method, or a number out of its range.
        """
        if self.method not in METHODS:
            raise UsageError(f"no method {self.method!r}", hint=f"one of: {', '.join(METHODS)}")
        if self.limit < 1 or not 0 <= self.seed < 2**32 or not self.perplexity > 0:
            raise UsageError(
                f"limit {self.limit}, seed {self.seed}, perplexity {self.perplexity:g}: "
                "out of range",
                hint="a limit of at least 1, a seed of at least 0, a perplexity above 0",
            )


def state(workspace: Workspace, request: MapRequest) -> str:
    """Return a digest of everything a map depends on: the same digest, the same map.

    Raises:
        RagstreamError: As `open_views`.
    """
    views = open_views(workspace, request.projects, history=request.history)
    seen = [[view.project, view.digest] for view in views]
    numbers = [request.method, request.limit, request.seed, request.perplexity]
    return digest_of([seen, sorted(hidden_ids(workspace, views)), numbers])


def draw(
    workspace: Workspace, request: MapRequest, progress: PhaseProgress | None = None
) -> ChunkMap:
    """Lay the chunks out in the plane.

    Args:
        workspace: The data root.
        request: Which chunks, and how.
        progress: Told how far it is.

    Raises:
        UsageError: The request cannot be drawn.
        GenerationGone: There is no chunk.
        OperationFailed: The projection failed.
        RagstreamError: As `open_views`.
    """
    import numpy as np

    request.require()
    views = open_views(workspace, request.projects, history=request.history)
    rows = _rows(workspace, views)
    if not rows:
        names = ", ".join(view.project for view in views)
        hint = ("put documents into its folder, then ", RunCommand("ingest"))
        raise GenerationGone(f"{names}: there is no chunk to show", hint=hint)
    files = [(number, views[number].paths[row]) for number, row in rows]
    chosen = [rows[i] for i in stratified(files, request.limit, seed=request.seed).tolist()]
    vectors = np.stack([views[number].vectors[row] for number, row in chosen])
    method = request.method if len(chosen) >= LEAST and _has(request.method) else "pca"
    width = usable_perplexity(request.perplexity, len(chosen)) if method == "tsne" else 0.0
    points = project_vectors(
        vectors,
        method=method,
        seed=request.seed,
        perplexity=width,
        told=lambda done, total: progress(method, done, total) if progress else None,
    )
    places = tuple(
        PlacedChunk(
            views[number].project, views[number].paths[row], views[number].chunk_ids[row], x, y
        )
        for (number, row), (x, y) in zip(chosen, points.tolist(), strict=True)
    )
    notes = _notes(request, len(rows), len(chosen), width, method)
    generations = {view.project: view.generation for view in views}
    return ChunkMap(places, len(rows), method, request.seed, width, generations, notes)


def texts(
    workspace: Workspace, found: ChunkMap, places: Sequence[PlacedChunk] = ()
) -> Iterator[str]:
    """Yield the text of each place, in their order.

    Args:
        workspace: The data root.
        found: The map.
        places: Some of its places; all of them where none are given.

    Raises:
        GenerationGone: The generation it shows is not there any more.
        IntegrityError: A text is not what was committed.
    """
    wanted = places or found.places
    views = {name: _again(workspace, name, n) for name, n in found.generations.items()}
    hidden = hidden_ids(workspace, list(views.values()))
    for start in range(0, len(wanted), _BLOCK):
        block = wanted[start : start + _BLOCK]
        known: dict[tuple[str, str], str] = {}
        for name in {place.project for place in block}:
            ids = [p.chunk_id for p in block if p.project == name]
            if hidden.intersection(ids):
                raise _gone(name)
            known |= {(name, c.id): c.snippet for c in views[name].chunks(ids)}
        yield from (known[place.project, place.chunk_id] for place in block)


def _again(workspace: Workspace, name: str, generation: int) -> IndexView:
    if name != HISTORY:
        return open_view(workspace.index_dir(name), generation=generation)
    (view,) = open_views(workspace, (), history=True)
    if view.generation != generation:
        raise _gone(name)
    return view


def _gone(name: str) -> GenerationGone:
    what = "the conversations" if name == HISTORY else name
    return GenerationGone(f"{what} changed since the map was drawn", hint="draw it again")


def _rows(workspace: Workspace, views: Sequence[IndexView]) -> list[tuple[int, int]]:
    """Return (number of the view, row) of every chunk that may be shown."""
    hidden = hidden_ids(workspace, views)
    return [
        (number, row)
        for number, view in enumerate(views)
        for row, chunk_id in enumerate(view.chunk_ids)
        if chunk_id not in hidden
    ]


def _has(method: str) -> bool:
    return method == "pca" or extras.is_here("maps")


def _notes(
    request: MapRequest, total: int, shown: int, width: float, method: str
) -> tuple[str, ...]:
    notes = []
    if shown < total:
        notes.append(
            f"{shown:,} of {total:,} chunks are shown, a sample in which each file keeps its share"
        )
    if not _has(request.method):
        notes.append(
            "laid out by PCA, which keeps the overall layout; t-SNE keeps neighbours together and "
            f"comes with: {extras.install('maps').line}"
        )
    elif method != request.method:
        notes.append(f"t-SNE needs {LEAST} chunks; fewer are laid out by PCA")
    elif method == "tsne" and width < request.perplexity:
        notes.append(f"perplexity {width:.3g} instead of {request.perplexity:g}: few chunks")
    return tuple(notes)
