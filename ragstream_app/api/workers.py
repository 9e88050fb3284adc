"""Work for clients: some requests at once, some that wait, and none for a client that left."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import anyio
import anyio.to_thread

from ragstream_app.api.errors import ApiError

if TYPE_CHECKING:
    from starlette.types import Receive

_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class Visit:
    """One client with its request.

    Attributes:
        left: Set once it has left, or the server ends: what is done for it ends.
        waiting: What is cancelled then.
    """

    left: threading.Event = field(default_factory=threading.Event)
    waiting: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    def end(self) -> None:
        """Have the work for it end."""
        self.left.set()
        self.waiting.cancel()


class Workers:
    """The threads of a server.

    Args:
        workers: Maximum requests at work.
        queue: Maximum requests that wait for one of them to end.
    """

    def __init__(self, workers: int, queue: int) -> None:
        self._slots = anyio.CapacityLimiter(workers)
        self._queue = queue
        self._warm = threading.Event()
        self._first = threading.Lock()

    @contextlib.asynccontextmanager
    async def at_work(self, receive: Receive) -> AsyncIterator[Visit | None]:
        """Wait for a slot and hold it; the client's end ends the waiting and the work.

        Args:
            receive: Of the request, whose body has been read.

        Yields:
            The visit; None: the client has left.

        Raises:
            ApiError: Too many wait already.
        """
        waiting = self._slots.statistics().tasks_waiting
        if not self._slots.available_tokens and waiting >= self._queue:
            raise ApiError(
                429, f"{waiting} requests are waiting already: try again", code="queue_full"
            )
        visit, owner = Visit(), object()
        watcher = asyncio.create_task(_watch(receive, visit))
        try:
            with visit.waiting:
                await self._slots.acquire_on_behalf_of(owner)
            yield None if visit.left.is_set() else visit
        finally:
            watcher.cancel()
            visit.left.set()
            with contextlib.suppress(RuntimeError):  # it never had one
                self._slots.release_on_behalf_of(owner)

    async def run(self, work: Callable[[], _Found]) -> _Found:
        """Do some work in a thread; the first one is done alone, since it loads the models.

        Args:
            work: Ends soon once its visit has.
        """
        return await anyio.to_thread.run_sync(self._alone_at_first, work, limiter=self._threads)

    @property
    def _threads(self) -> anyio.CapacityLimiter:
        return anyio.CapacityLimiter(1)  # slots are counted above

    def _alone_at_first(self, work: Callable[[], _Found]) -> _Found:
        if self._warm.is_set():
            return work()
        with self._first:
            found = work()
            self._warm.set()
            return found


async def _watch(receive: Receive, visit: Visit) -> None:
    """End a visit when its client leaves."""
    while (await receive())["type"] != "http.disconnect":
        pass
    visit.end()
