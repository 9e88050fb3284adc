"""``POST /v1/chat/completions``: a question of a client, its answer whole or as it comes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.responses import Response

from ragstream_app.api.answering import Answered, Answering
from ragstream_app.api.body import read_form
from ragstream_app.api.conversation import asked_in
from ragstream_app.api.forms import ChatForm
from ragstream_app.api.replies import PROMPT_HEADER, Reply, json_bytes
from ragstream_app.api.streaming import Said, Sender, send_all
from ragstream_core.errors import Stopped

if TYPE_CHECKING:
    import threading

    from starlette.types import Receive, Scope, Send

    from ragstream_app.api.models import Models, Target
    from ragstream_app.api.workers import Workers

JSON = "application/json"


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
            work = Answering(space, target, form, asked, visit.left, only=self.models.only)
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
        said, loop = Said(), asyncio.get_running_loop()

        def tell(item: str | Answered | Exception) -> None:
            loop.call_soon_threadsafe(said.put_nowait, item)

        def answer() -> None:
            try:
                tell(work.answer(tell))
            except Exception as error:  # raised again, or told, by the reader
                tell(error)

        asking = asyncio.create_task(self.workers.run(answer))
        try:
            await send_all(said, reply, Sender(send, _headers(work)))
        finally:
            left.set()
            await asking


def _headers(work: Answering) -> dict[str, str]:
    return {PROMPT_HEADER: work.key} if work.key else {}
