"""Clients of the MCP server for tests: the SDK's own, over pipes or HTTP, to a real process."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import asynccontextmanager

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

MODULE = ("-m", "ragstream_app.cli.main")


def environment(**more):
    """Return the environment of a server: the hashed embedder, no Dagster."""
    own = {"RAGSTREAM_EMBEDDINGS__BACKEND": "hashed", "RAGSTREAM_DAGSTER__RECORD": "none"}
    return {**os.environ, **own, **more}


def server(root, *words, **env):
    """Return how the server over a data root is started."""
    args = [*MODULE, "--data", str(root), "mcp", *words]
    return StdioServerParameters(command=sys.executable, args=args, env=environment(**env))


@asynccontextmanager
async def client(parameters):
    """Yield a client that has shaken hands."""
    async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        yield session


@asynccontextmanager
async def http_client(served):
    """Yield a client of a running `ragstream serve` that has shaken hands."""
    headers = {"Authorization": f"Bearer {served.token}"}
    async with (
        create_mcp_http_client(headers) as http,
        streamable_http_client(f"{served.url}/mcp", http_client=http) as (read, write, *_),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        yield session


def with_client(parameters, use):
    """Return what a coroutine makes of a client."""

    async def run():
        async with client(parameters) as session:
            return await use(session)

    return asyncio.run(run())


def text_of(result):
    """Return all texts of a result."""
    return "\n".join(block.text for block in result.content)
