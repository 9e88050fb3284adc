"""`ragstream mcp`: the server that coding agents and chat programs start."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ragstream_app.session import note, session_of

MCP_HELP = """Answer coding agents and chat programs over the Model Context Protocol (MCP).

A client starts it and speaks to it over stdin and stdout; it answers until stdin is closed."""
MCP_EPILOG = """**Examples**

ragstream mcp --project handbook

ragstream --data /home/me/project/data mcp"""


def mcp(
    ctx: typer.Context,
    projects: Annotated[
        list[str] | None,
        typer.Option(
            "-p", "--project", metavar="PROJECT", help="Serve only this one; repeat for more."
        ),
    ] = None,
) -> None:
    """Serve MCP over stdin and stdout.

    Raises:
        UnknownProject: There is no such project.
        UnknownSetting: A setting that does not exist or has a bad value.
    """
    if ctx.invoked_subcommand is not None:
        return
    from ragstream_app.mcp.desk import Desk
    from ragstream_app.mcp.stdio import serve

    desk = Desk(session_of(ctx).workspace(), tuple(dict.fromkeys(projects or ())))
    desk.require()
    if sys.stdin.isatty():
        note("waiting for messages of an MCP client on stdin; Ctrl-C ends it")
    serve(desk)
