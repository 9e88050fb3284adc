"""The server over stdin and stdout: lines of bounded length, and an answer to each bad one."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO, cast

import anyio
from anyio import to_thread
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError

from ragstream_app.mcp.server import make_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anyio.streams.memory import MemoryObjectSendStream
    from mcp.server.lowlevel import Server
    from mcp.shared._stream_protocols import ReadStream, WriteStream

    from ragstream_app.mcp.desk import Desk

# As the SDK's limit for messages over HTTP.
MAX_MESSAGE_BYTES = 4 * 1024 * 1024
TOO_LONG = "a message of more than 4 MiB"


class BoundedLines:
    """The lines of a stream; one that is too long is dropped, and stands as a line that is no JSON.

    Args:
        stream: Read to its end, never more than a message at a time.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[str]:
        """Yield line after line."""
        while line := await to_thread.run_sync(self._next):
            yield line

    def _next(self) -> str:
        line = self._stream.readline(MAX_MESSAGE_BYTES + 1)
        if len(line) <= MAX_MESSAGE_BYTES:
            return line.decode("utf-8", "replace")
        while line and not line.endswith(b"\n"):
            line = self._stream.readline(MAX_MESSAGE_BYTES)
        return f"{TOO_LONG}\n"


def serve(desk: Desk) -> None:
    """Serve one client until it closes stdin.

    Only the protocol goes to stdout; what anything else prints there goes to stderr.

    Args:
        desk: What the calls work on.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        # clients send it after they closed stdin; to unwind would wait for the thread that reads it
        signal.signal(number, signal.SIG_DFL)
    anyio.run(_serve, make_server(desk))


async def _serve(server: Server) -> None:
    wire = os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), 0)  # child processes must not read messages
    lines = cast("anyio.AsyncFile[str]", BoundedLines(wire))
    async with stdio_server(stdin=lines) as (read, write):
        good, messages = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        async with anyio.create_task_group() as group:
            group.start_soon(_sorted_out, read, good, write)
            await server.run(messages, write, server.create_initialization_options())


async def _sorted_out(
    read: ReadStream[SessionMessage | Exception],
    good: MemoryObjectSendStream[SessionMessage | Exception],
    write: WriteStream[SessionMessage],
) -> None:
    """Pass messages on; answer what is none."""
    async with good:
        async for item in read:
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                if isinstance(item, Exception):
                    await write.send(SessionMessage(_not_a_message(item)))
                else:
                    await good.send(item)


def _not_a_message(error: Exception) -> JSONRPCError:
    what = TOO_LONG if TOO_LONG in str(error) else "a line that is no JSON-RPC message"
    text = f"{what} was dropped; send one message a line, of at most 4 MiB"
    return JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=PARSE_ERROR, message=text))
