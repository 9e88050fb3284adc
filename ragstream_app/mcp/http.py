"""The server over HTTP, to be mounted in the server of `ragstream serve`, behind its door.

The SDK is imported with the first request: who never sends one does not pay for it.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from ragstream_app.mcp.desk import Desk

PATH = "/mcp"
MAX_SESSIONS = 1000
IDLE_S = 30 * 60.0

# What the SDK meets if a client sends a notice and ends its session before the notice is read.
_SESSION_ENDED = anyio.ClosedResourceError, anyio.BrokenResourceError


def _is_a_fault(record: logging.LogRecord) -> bool:
    """Return whether an error that the SDK logs is one; a session that has ended is none."""
    return not (record.exc_info and isinstance(record.exc_info[1], _SESSION_ENDED))


class McpOverHttp:
    """An ASGI application that speaks MCP's streamable HTTP.

    Args:
        desk: What all its clients share.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._wanted, self._ready = anyio.Event(), anyio.Event()
        self._app: ASGIApp | None = None

    @contextlib.asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Serve while this is entered; sessions that are open at the end are closed."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._run)
            yield
            group.cancel_scope.cancel()

    async def _run(self) -> None:
        await self._wanted.wait()
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from ragstream_app.mcp.server import make_server

        logging.getLogger("mcp.server.streamable_http").addFilter(_is_a_fault)
        manager = StreamableHTTPSessionManager(
            make_server(self._desk), session_idle_timeout=IDLE_S, max_sessions=MAX_SESSIONS
        )
        async with manager.run():
            self._app = manager.asgi_app
            self._ready.set()
            await anyio.sleep_forever()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; the first one waits for the SDK."""
        self._wanted.set()
        await self._ready.wait()
        assert self._app is not None
        complete = False

        async def once(message: Message) -> None:
            """Send one answer: the SDK accepts a notice, and answers again if it cannot read it."""
            nonlocal complete
            if not complete:
                complete = message["type"] == "http.response.body" and not message.get("more_body")
                await send(message)

        try:
            await self._app(scope, receive, once)
        except _SESSION_ENDED:
            if not complete:
                raise
