"""Maps drawn in the background, so that the page goes on; one is kept until something changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragstream_app.jobs.background import BackgroundJob

if TYPE_CHECKING:
    from ragstream_core.build.inspecting.maps import MapRequest
    from ragstream_core.build.workspace import Workspace
    from ragstream_core.inspection.places import ChunkMap

SNIPPET_CHARS = 200


@dataclass(frozen=True, slots=True)
class DrawnMap:
    """A map with what it was drawn from.

    Attributes:
        request: What was asked for.
        state: Digest of what it was drawn from.
        chunks: The map.
        snippets: The first characters of each place's text, in the order of its places.
    """

    request: MapRequest
    state: str
    chunks: ChunkMap
    snippets: list[str]


def draw_in_background(workspace: Workspace, request: MapRequest) -> BackgroundJob[DrawnMap]:
    """Start drawing a map.

    Args:
        workspace: The data root.
        request: What is drawn.
    """
    from ragstream_core.build.inspecting import maps

    def draw(note: Callable[[str, int, int], None]) -> DrawnMap:
        state = maps.state(workspace, request)
        found = maps.draw(workspace, request, note)
        snippets = [text[:SNIPPET_CHARS] for text in maps.texts(workspace, found)]
        return DrawnMap(request, state, found, snippets)

    return BackgroundJob("the map", draw)
