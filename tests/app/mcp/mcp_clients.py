"""Clients of the MCP server for tests: the SDK's own, over pipes or HTTP, to a real process."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.types import CallToolResult, TextContent

from tests.app.serving import Served

Result = TypeVar("Result")

MODULE = ("-m", "ragstream_app.cli.main")


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a server: the hashed embedder, no Dagster."""
    own = {"RAGSTREAM_EMBEDDINGS__BACKEND": "hashed"}
    return {**os.environ, **own, **more}


def server(root: Path, *words: str, **env: str) -> StdioServerParameters:
    """Return how the server over a data root is started."""
    args = [*MODULE, "--data", str(root), "mcp", *words]
    return StdioServerParameters(command=sys.executable, args=args, env=environment(**env))


@asynccontextmanager
async def client(parameters: StdioServerParameters) -> AsyncIterator[ClientSession]:
    """Yield a client that has shaken hands."""
    async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        yield session


@asynccontextmanager
async def http_client(served: Served) -> AsyncIterator[ClientSession]:
    """Yield a client of a running `ragstream serve` that has shaken hands."""
    headers = {"Authorization": f"Bearer {served.token}"}
    async with (
        create_mcp_http_client(headers) as http,
        streamable_http_client(f"{served.url}/mcp", http_client=http) as (read, write, *_),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        yield session


def with_client(
    parameters: StdioServerParameters, use: Callable[[ClientSession], Awaitable[Result]]
) -> Result:
    """Return what a coroutine makes of a client."""

    async def run() -> Result:
        async with client(parameters) as session:
            return await use(session)

    return asyncio.run(run())


def text_of(result: CallToolResult) -> str:
    """Return all texts of a result."""
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))
