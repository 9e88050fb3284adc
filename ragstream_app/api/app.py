"""The application: its routes, its error boundary, and what is mounted beside them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Mount, Route

from ragstream_app.api.chat import ChatCompletions
from ragstream_app.api.door import HEALTH, OPENAPI, Door
from ragstream_app.api.embeddings import Embeddings
from ragstream_app.api.errors import ApiError, api_error, response_of
from ragstream_app.api.models import model_routes
from ragstream_app.api.openapi import description
from ragstream_app.api.workers import Workers
from ragstream_core.errors import RagstreamError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

    from ragstream_app.api.models import Models


@dataclass(frozen=True, slots=True)
class Mounted:
    """Another application in this server, behind the same door.

    Attributes:
        path: Where it is, e.g. ``/mcp``.
        app: The application.
        lifespan: Entered before the first request and left after the last one.
    """

    path: str
    app: ASGIApp
    lifespan: Callable[[], AbstractAsyncContextManager[None]]


def make_app(
    models: Models, *, hosts: frozenset[str], token: str, mounted: Sequence[Mounted] = ()
) -> ASGIApp:
    """Return the application.

    Args:
        models: What is served, of which data root.
        hosts: The values of a Host header that are accepted, lower case.
        token: What a request must know.
        mounted: Other applications in this server.
    """
    settings = models.workspace.config.settings.api
    workers = Workers(settings.workers, settings.queue)
    routes: list[BaseRoute] = [
        Route(HEALTH, _health),
        Route(OPENAPI, _description),
        *model_routes(models),
        Route("/v1/chat/completions", ChatCompletions(models, workers), methods=["POST"]),
        Route("/v1/embeddings", Embeddings(models, workers), methods=["POST"]),
    ]
    for one in mounted:
        routes += [Route(one.path, one.app), Mount(one.path, one.app)]  # with and without a slash

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for one in mounted:
                await stack.enter_async_context(one.lifespan())
            yield

    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={
            HTTPException: _no_route,
            ApiError: _failed,
            RagstreamError: _failed,
            Exception: _failed,
        },
    )
    return Door(app, hosts, token)


async def _health(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _description(_: Request) -> Response:
    return JSONResponse(description())


async def _failed(_: Request, error: Exception) -> Response:
    return response_of(api_error(error))


async def _no_route(request: Request, error: Exception) -> Response:
    """Answer a request for what is not here."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    what = f"{request.method} {request.url.path}"
    texts = {404: f"there is no {what} here; /openapi.json lists what there is"}
    texts[405] = f"{what} is not allowed; /openapi.json lists what is"
    allowed = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    return response_of(ApiError(status, texts.get(status, str(error)), code="not_found"), allowed)
