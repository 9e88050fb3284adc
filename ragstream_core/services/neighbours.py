"""Anchors and their nearest neighbours, with their texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ragstream_core.conversations.journal.records import HISTORY
from ragstream_core.maps.chunk_map import CONVERSATION
from ragstream_core.wiring.index_views import hidden_ids, open_views

if TYPE_CHECKING:
    from ragstream_core.wiring.workspace import Workspace


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
        RagstreamError: As `open_views`.
    """
    from ragstream_core.maps import neighbours

    views = open_views(workspace, projects, history=history)
    hidden = hidden_ids(workspace, views)
    if chunk:
        named = neighbours.named_anchors(views, chunk, anchors)
        start = [i for i in named if i not in hidden]
    else:
        known = [i for view in views for i in view.chunk_ids if i not in hidden]
        start = neighbours.random_anchors(known, anchors, seed=seed)
    found = neighbours.neighbours(views, start, k=k, hidden=hidden)
    from ragstream_core.wiring.search import load

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
