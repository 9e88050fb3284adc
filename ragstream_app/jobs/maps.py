"""Maps drawn in a thread, so that the page goes on; one is kept as long as nothing changed.

Nothing here knows Streamlit. A map that is stopped leaves nothing behind.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from ragstream_app.failures import describe
from ragstream_app.progress import duration
from ragstream_core.errors import OperationFailed

if TYPE_CHECKING:
    from ragstream_core.build.inspecting.maps import MapRequest
    from ragstream_core.build.workspace import Workspace
    from ragstream_core.inspection.places import ChunkMap

STOPPED = "the map was stopped"
SNIPPET_CHARS = 200


class MapJob:
    """One map on its way; written by its thread, read by any other.

    Args:
        workspace: The data root.
        request: What is drawn.

    Attributes:
        request: What is drawn.
        state: Digest of what it was drawn from; empty until that is known.
        result: The map, once it is there.
        snippets: The first characters of each place's text, in the order of its places.
        problem: Why there is none, as `describe` says it; empty where there is one.
    """

    def __init__(self, workspace: Workspace, request: MapRequest) -> None:
        self.request = request
        self.state = ""
        self.result: ChunkMap | None = None
        self.snippets: list[str] = []
        self.problem: dict[str, str] = {}
        self._line, self._fraction, self._began = "reading the vectors", 0.0, time.monotonic()
        self._ended, self._stop = threading.Event(), threading.Event()
        threading.Thread(target=self._draw, args=(workspace,), name="map", daemon=True).start()

    @property
    def running(self) -> bool:
        """Whether it is not there yet, and may still come."""
        return not self._ended.is_set()

    @property
    def line(self) -> str:
        """Where it is, for people."""
        return self._line

    @property
    def fraction(self) -> float:
        """How much of it is done, 0 to 1."""
        return self._fraction

    def stop(self) -> None:
        """Give it up; its child process ends within a second or two."""
        self._stop.set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for its end; return whether it has ended."""
        return self._ended.wait(timeout_s)

    def note(self, phase: str, done: int, total: int) -> None:
        """Take a report: an `IngestProgress`.

        Raises:
            OperationFailed: It was stopped.
        """
        if self._stop.is_set():
            raise OperationFailed(STOPPED)
        spent = time.monotonic() - self._began
        left = f", about {duration(spent * (total - done) / done)} left" if done else ""
        self._line, self._fraction = f"step {done:,} of {total:,}{left}", done / max(total, 1)

    def _draw(self, workspace: Workspace) -> None:
        """Draw once; whatever goes wrong is the job's problem, never the thread's."""
        from ragstream_core.build.inspecting import maps

        try:
            self.state = maps.state(workspace, self.request)
            found = maps.draw(workspace, self.request, self.note)
            self.snippets = [text[:SNIPPET_CHARS] for text in maps.texts(workspace, found)]
            self.result = found
        except Exception as error:  # the page's error boundary
            self.problem = describe(error)
        finally:
            self._ended.set()
