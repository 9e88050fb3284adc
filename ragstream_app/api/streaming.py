"""Streams an answer to a client as server-sent events, for as long as the client takes them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from ragstream_app.api.answering import Answered
from ragstream_app.api.errors import ApiError, api_error
from ragstream_app.api.replies import Reply, event
from ragstream_core.errors import RagstreamError, Stopped

if TYPE_CHECKING:
    from starlette.types import Send

# A client that takes no byte of a stream for so long has left.
SEND_S = 60.0
# Pieces of an answer, and the whole of it or an error at the end.
Said = asyncio.Queue[str | Answered | Exception]


@dataclass
class Sender:
    """Sends a stream; its head goes out with the first bytes.

    Attributes:
        send: The server's.
        headers: Of the response, beside those that every stream has.
        begun: Whether the head is out.
    """

    send: Send
    headers: dict[str, str]
    begun: bool = False

    async def write(self, data: bytes, *, more: bool = True) -> None:
        """Send some bytes.

        Raises:
            Stopped: The client takes none.
        """
        with anyio.move_on_after(SEND_S) as limit:
            if not self.begun:
                self.begun = True
                found = {
                    "content-type": "text/event-stream; charset=utf-8",
                    "cache-control": "no-store",
                    **self.headers,
                }
                rows = [(name.lower().encode(), text.encode()) for name, text in found.items()]
                await self.send({"type": "http.response.start", "status": 200, "headers": rows})
            await self.send({"type": "http.response.body", "body": data, "more_body": more})
        if limit.cancelled_caught:
            raise Stopped("the client takes no more")


async def send_all(said: Said, reply: Reply, sender: Sender) -> None:
    """Send what is said, to its end.

    Args:
        said: What comes of the answer.
        reply: Makes events of it.
        sender: Sends them.

    Raises:
        RagstreamError: It failed before anything was sent.
        Stopped: The client left.
        Exception: What nobody expected, for the server's log; the client has been told.
    """
    while True:
        item = await said.get()
        if isinstance(item, Exception):
            if not sender.begun or isinstance(item, Stopped):
                raise item
            await sender.write(event(api_error(item).to_json()), more=False)
            if isinstance(item, (ApiError, RagstreamError)):
                return
            raise item
        if not sender.begun:
            await sender.write(reply.first())
        if isinstance(item, str):
            if item:
                await sender.write(reply.piece(item))
            continue
        tail = reply.tail(item)
        rest = reply.piece(tail) if tail else b""
        await sender.write(rest + reply.end(item), more=False)
        return
