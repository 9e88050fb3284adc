"""``POST /v1/chat/completions``: a question of a client, its answer whole or as it comes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio
from starlette.responses import Response

from ragstream_app.api.answering import Answered, Answering
from ragstream_app.api.body import read_form
from ragstream_app.api.conversation import asked_in
from ragstream_app.api.errors import ApiError, api_error
from ragstream_app.api.forms import ChatForm
from ragstream_app.api.replies import PROMPT_HEADER, Reply, event, json_bytes
from ragstream_core.errors import RagstreamError, Stopped

if TYPE_CHECKING:
    import threading

    from starlette.types import Receive, Scope, Send

    from ragstream_app.api.models import Models, Target
    from ragstream_app.api.workers import Workers

JSON = "application/json"
SEND_S = 60.0
"""A client that takes no byte of a stream for so long has left."""
_Said = asyncio.Queue["str | Answered | Exception"]


@dataclass(frozen=True)
class ChatCompletions:
    """The endpoint, an ASGI application.

    Attributes:
        models: What is served, of which data root.
        workers: Do the work.
    """

    models: Models
    workers: Workers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request.

        Raises:
            ApiError: A wrong request.
            RagstreamError: There is no answer.
        """
        form = await read_form(ChatForm, scope, receive)
        if form is None:
            return
        asked = asked_in(form.messages)
        target = self.models.target(form.model)
        space = self.models.workspace
        async with self.workers.at_work(receive) as visit:
            if visit is None:
                return
            work = Answering(space, target, form, asked, visit.left)
            reply = self._reply(form, target)
            try:
                await self.workers.run(work.build)
                if form.stream:
                    await self._stream(work, reply, send, visit.left)
                else:
                    found = await self.workers.run(work.answer)
                    body = json_bytes(reply.whole(found))
                    response = Response(body, headers=_headers(work), media_type=JSON)
                    await response(scope, receive, send)
            except Stopped:
                return  # nobody is there to be told

    def _reply(self, form: ChatForm, target: Target) -> Reply:
        options = form.stream_options
        return Reply(
            target.name,
            self.models.workspace.config.settings.api.sources,
            usage_event=bool(options and options.include_usage),
            ignored=tuple(form.ignored),
        )

    async def _stream(
        self, work: Answering, reply: Reply, send: Send, left: threading.Event
    ) -> None:
        """Send an answer as it comes.

        Raises:
            RagstreamError: There is no answer, and nothing has been sent.
        """
        said, loop = _Said(), asyncio.get_running_loop()

        def tell(item: str | Answered | Exception) -> None:
            loop.call_soon_threadsafe(said.put_nowait, item)

        def answer() -> None:
            try:
                tell(work.answer(tell))
            except Exception as error:  # raised again, or told, by the reader
                tell(error)

        asking = asyncio.create_task(self.workers.run(answer))
        try:
            await _send_all(said, reply, _Sender(send, _headers(work)))
        finally:
            left.set()
            await asking


@dataclass
class _Sender:
    """Sends a stream; its head goes out with the first bytes."""

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


async def _send_all(said: _Said, reply: Reply, sender: _Sender) -> None:
    """Send what is said, to its end.

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


def _headers(work: Answering) -> dict[str, str]:
    return {PROMPT_HEADER: work.key} if work.key else {}
