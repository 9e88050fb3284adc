"""What lies near what: maps of chunks, and anchors with their nearest neighbours.

Both look at the newest generations of projects and at the published conversations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ragstream_core.conversations.edits import apply_edits
from ragstream_core.conversations.journal.records import HISTORY
from ragstream_core.errors import GenerationGone, ModelMismatch, RunCommand, UsageError
from ragstream_core.index.view import open_view
from ragstream_core.maps.chunk_map import CONVERSATION, ChunkMap, PlacedChunk, stratified
from ragstream_core.maps.projection import LEAST, METHODS, project_vectors, usable_perplexity
from ragstream_core.platform import extras
from ragstream_core.records.identity import digest_of
from ragstream_core.wiring.history_index import History
from ragstream_core.wiring.journal import journal
from ragstream_core.wiring.search import load

if TYPE_CHECKING:
    from ragstream_core.index.snapshot import HistoryView
    from ragstream_core.ports import IndexView, PhaseProgress
    from ragstream_core.wiring.workspace import Workspace


LIMIT, PERPLEXITY = 5_000, 30.0
_BLOCK = 500


@dataclass(frozen=True, slots=True)
class MapRequest:
    """What map is wanted."""

    projects: tuple[str, ...]  # projects whose chunks are shown
    history: bool = False  # also the turns that prompts search
    method: str = "tsne"  # ``tsne`` or ``pca``
    # most points; of more chunks a sample is shown in which every file keeps its share
    limit: int = LIMIT
    seed: int = 0  # of sample and t-SNE, 0 to 2³² − 1
    perplexity: float = PERPLEXITY  # of t-SNE: about how many neighbours count; > 0

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
        RagstreamError: An index is missing, damaged, or made by another model than the rest.
    """
    views = _open_views(workspace, request.projects, history=request.history)
    seen = [[view.project, view.digest] for view in views]
    numbers = [request.method, request.limit, request.seed, request.perplexity]
    return digest_of([seen, sorted(_hidden_ids(workspace, views)), numbers])


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
        RagstreamError: An index is missing, damaged, or made by another model than the rest.
    """
    import numpy as np

    request.require()
    views = _open_views(workspace, request.projects, history=request.history)
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
        RagstreamError: The generation it shows is not there any more, or a text is damaged.
    """
    wanted = places or found.places
    views = {name: _again(workspace, name, n) for name, n in found.generations.items()}
    hidden = _hidden_ids(workspace, list(views.values()))
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
    (view,) = _open_views(workspace, (), history=True)
    if view.generation != generation:
        raise _gone(name)
    return view


def _gone(name: str) -> GenerationGone:
    what = "the conversations" if name == HISTORY else name
    return GenerationGone(f"{what} changed since the map was drawn", hint="draw it again")


def _rows(workspace: Workspace, views: Sequence[IndexView]) -> list[tuple[int, int]]:
    """Return (number of the view, row) of every chunk that may be shown."""
    hidden = _hidden_ids(workspace, views)
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


class Neighbour(NamedTuple):
    """A chunk near another one, and the cosine of both."""

    chunk_id: str
    source: str
    text: str
    score: float


class Anchor(NamedTuple):
    """A chunk, and what lies nearest to it, the best first."""

    chunk_id: str
    source: str
    text: str
    neighbours: Sequence[Neighbour]


def nearest(
    workspace: Workspace,
    projects: Sequence[str],
    *,
    history: bool = False,
    chunk: str = "",
    anchors: int = 5,
    k: int = 5,
    seed: int = 0,
) -> list[Anchor]:
    """Return some chunks and what lies nearest to each; no model is needed.

    Args:
        workspace: The data root.
        projects: Where to look.
        history: Also among the turns that prompts search.
        chunk: A chunk or a file to start from; empty: chosen by chance.
        anchors: How many to start from at most, ≥ 1.
        k: Neighbours of each at most, ≥ 1.
        seed: Of the choice, ≥ 0.

    Raises:
        UsageError: Nothing is called so, or no project is given.
        RagstreamError: An index is missing, damaged, or made by another model than the rest.
    """
    from ragstream_core.maps import neighbours  # with numpy

    views = _open_views(workspace, projects, history=history)
    hidden = _hidden_ids(workspace, views)
    if chunk:
        named = neighbours.named_anchors(views, chunk, anchors)
        start = [i for i in named if i not in hidden]
    else:
        known = [i for view in views for i in view.chunk_ids if i not in hidden]
        start = neighbours.random_anchors(known, anchors, seed=seed)
    found = neighbours.neighbours(views, start, k=k, hidden=hidden)
    ids = list(dict.fromkeys([*start, *(n.chunk_id for row in found for n in row)]))
    several = len(views) > 1
    shown = {
        c.id: (c.id, _source(c.source, str(c.meta["project"]), several=several), c.snippet)
        for c in load(views, ids)
    }
    return [
        Anchor(*shown[anchor], [Neighbour(*shown[n.chunk_id], n.score) for n in row])
        for anchor, row in zip(start, found, strict=True)
    ]


def _source(source: str, project: str, *, several: bool) -> str:
    if project == HISTORY:
        return f"{CONVERSATION}/{source.removeprefix('history/')}"
    return f"{project}/{source}" if several else source


def _open_views(workspace: Workspace, projects: Sequence[str], *, history: bool) -> list[IndexView]:
    """Open the newest generation of some projects, and the turns that prompts search."""
    if not projects and not history:
        raise UsageError("no project given", hint=(RunCommand("status"), " lists them"))
    views: list[IndexView] = []
    for project in dict.fromkeys(projects):
        workspace.require_project(project)
        views.append(open_view(workspace.index_dir(project)))
    if history:
        views.append(_turns(workspace))
    for view in views[1:]:
        if view.embed_fp != views[0].embed_fp:
            raise ModelMismatch(
                f"{view.project} was embedded by model {view.embed_fp[:12]}, {views[0].project} "
                f"by {views[0].embed_fp[:12]}: their vectors cannot be compared",
                hint="look at them one by one, or embed them by one model",
            )
    return views


def _hidden_ids(workspace: Workspace, views: Sequence[IndexView]) -> frozenset[str]:
    """Return the chunks of turns that were cleared after they were published: never shown."""
    from ragstream_core.conversations.eligible_turns import Filters, eligible  # with numpy
    from ragstream_core.index.snapshot import HistoryView

    hidden: set[str] = set()
    for view in views:
        if isinstance(view, HistoryView):
            mark = view.mark.position
            since = apply_edits(list(journal(workspace).entries(mark.seq + 1, hint=mark)))
            found = eligible(view.columns, Filters(), hidden=since.hidden)
            hidden |= {view.chunk_ids[row] for row in (~found.mask).nonzero()[0].tolist()}
    return frozenset(hidden)


def _turns(workspace: Workspace) -> HistoryView:
    view = History(workspace).selection()
    if view is None or not len(view.chunk_ids):
        raise GenerationGone("no turn is embedded yet", hint=RunCommand("history embed"))
    view.verify()
    return view
