"""`ragstream serve`: the HTTP server for programs, in the foreground, and its token."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ragstream_app.cli.completion import project_names
from ragstream_app.session import note, session_of
from ragstream_core.errors import UsageError

if TYPE_CHECKING:
    from ragstream_app.api.server import Listening

SERVE_EPILOG = """**Examples**

ragstream serve

ragstream serve --project handbook --port 9000

export OPENAI_API_KEY=$(ragstream serve --show-token)

Clients of OpenAI's API take the printed address as base URL and the token as key. The server
listens on this machine only; `api.enabled: true` starts it with `ragstream up` as well."""


def serve(
    ctx: typer.Context,
    port: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, max=65535, help="Its port; default 8510; 0: a free one."),
    ] = None,
    projects: Annotated[
        list[str] | None,
        typer.Option(
            "--project",
            "-p",
            metavar="NAME",
            autocompletion=project_names,
            help="Serve only this one; repeat for more.",
        ),
    ] = None,
    show_token: Annotated[
        bool, typer.Option("--show-token", metavar="", help="Print the token, and do no more.")
    ] = False,
    new_token: Annotated[
        bool,
        typer.Option(
            "--new-token", metavar="", help="Make another token and print it; the old one ends."
        ),
    ] = False,
) -> None:
    """Answer programs that speak OpenAI's API, from the documents; Ctrl-C ends it.

    The token is made at the first start and kept in the data root, readable by you alone.

    Raises:
        UsageError: Both options of the token.
        UnknownProject: There is no such project.
        Refused: The port is in use, or others can read the token.
        OSError: The data root cannot be written.
    """
    from ragstream_app.api.token import ensure_token, replace_token, token_file

    session = session_of(ctx)
    workspace = session.workspace()
    if show_token and new_token:
        raise UsageError("--show-token and --new-token exclude each other", hint="give one of them")
    if show_token or new_token:
        path = token_file(workspace.config)
        typer.echo(replace_token(path) if new_token else ensure_token(path))
        if new_token:
            note("a running server takes it after a restart")
        return
    from ragstream_app.api.server import listen

    wanted = workspace.config.settings.api.port if port is None else port
    made = listen(workspace, port=wanted, projects=tuple(dict.fromkeys(projects or [])))
    data = f" --data {shlex.quote(str(session.data))}" if session.data else ""
    _announce(made, f"ragstream{data} serve --show-token")
    made.run()


def _announce(made: Listening, token: str) -> None:
    """Say where it is, how to get the token, and what to try first."""
    lines = {
        "base URL": f"{made.url}/v1",
        "MCP": f"{made.url}/mcp",
        "token": token,
        "try": f'curl -s -H "Authorization: Bearer $({token})" {made.url}/v1/models',
        "Ctrl-C": "ends it",
    }
    for name, text in lines.items():
        typer.echo(f"{name:<10} {text}")
    sys.stdout.flush()
