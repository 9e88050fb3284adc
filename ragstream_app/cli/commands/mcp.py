"""`ragstream mcp`: the server that coding agents and chat programs start, and how they find it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ragstream_app.cli.completion import project_names
from ragstream_app.session import note, session_of, tell
from ragstream_core.errors import UsageError

if TYPE_CHECKING:
    from ragstream_core.config import AppConfig

MCP_HELP = """Answer coding agents and chat programs over the Model Context Protocol (MCP).

A client starts it and speaks to it over stdin and stdout; it answers until stdin is closed."""
MCP_EPILOG = """**Examples**

ragstream mcp --project handbook

ragstream --data /home/me/project/data mcp

ragstream mcp install claude-code"""
INSTALL_EPILOG = """**Examples**

ragstream mcp install claude-code -p handbook

ragstream mcp install vscode > .vscode/mcp.json

ragstream mcp install codex >> ~/.codex/config.toml

It says which file the text belongs in: for claude-code, cursor and vscode one in this folder, or in
that of the project that `ragstream init` made a data root for; for claude-desktop and codex that of
their user. If the file has other servers, add this one to them."""
Projects = Annotated[
    list[str] | None,
    typer.Option(
        "-p",
        "--project",
        metavar="PROJECT",
        autocompletion=project_names,
        help="Serve only this one; repeat for more.",
    ),
]


def mcp(
    ctx: typer.Context,
    projects: Projects = None,
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

    workspace = session_of(ctx).workspace()
    tell(workspace.notices())  # at its end nobody reads it
    desk = Desk(workspace, tuple(dict.fromkeys(projects or ())))
    desk.require()
    if sys.stdin.isatty():
        note("waiting for messages of an MCP client on stdin; Ctrl-C ends it")
    serve(desk)


def install(
    ctx: typer.Context,
    client: Annotated[
        Literal["claude-code", "claude-desktop", "cursor", "vscode", "codex"],
        typer.Argument(metavar="CLIENT", help="claude-code, claude-desktop, cursor, vscode, codex"),
    ],
    projects: Projects = None,
    name: Annotated[
        str, typer.Option(metavar="NAME", help="What the client calls the server.")
    ] = "ragstream",
    write: Annotated[bool, typer.Option("--write", hidden=True)] = False,
) -> None:
    """Print what a client's file has to say of the server, and which file that is.

    Raises:
        UsageError: A name that no client takes, or the --write of before.
        UnknownProject: There is no such project.
    """
    from ragstream_app.mcp import clients
    from ragstream_app.mcp.desk import Desk

    if not clients.NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot be a server's name", hint="letters, digits, '-' and '_'")
    if write:
        raise UsageError(
            "ragstream does not change other programs' files any more",
            hint=f"paste what `ragstream mcp install {client}` prints into the file it names",
        )
    session = session_of(ctx)
    workspace = session.workspace()
    only = tuple(dict.fromkeys(projects or ()))
    Desk(workspace, only).require()
    known = clients.CLIENTS[client]
    command = _command(workspace.config, only)
    entry = known.entry(command)
    path = clients.usual_file(client, _folder(workspace.config)).absolute()
    if not workspace.projects():
        note(f"there are no projects under {workspace.data_dir.absolute()} yet; is it the one?")
    _tell_of_environment(workspace.config)
    typer.echo(clients.snippet(known, name, entry), nl=False)
    note(f"that belongs in {path}; then {known.then}")
    if client == "claude-code":
        note(f"or: claude mcp add {name} -- {shlex.join(command)}")


def _command(config: AppConfig, only: tuple[str, ...]) -> list[str]:
    """Return how a client starts the server, from whichever folder."""
    from ragstream_core.platform.import_path import python

    script = Path(sys.executable).with_name("ragstream")
    program = [str(script)] if script.exists() else python("-m", "ragstream_app.cli.main")
    named = config.file if config.file and config.file.state == "named" else None
    own = ["--config", str(named.path.absolute())] if named else []
    projects = [word for project in only for word in ("--project", project)]
    return [*program, "--data", str(config.data_dir.absolute()), *own, "mcp", *projects]


def _folder(config: AppConfig) -> Path:
    """Return the folder of the project that `ragstream init` was run in, else this one."""
    from ragstream_core.config import found_root

    root = found_root(config.explicit)
    return root.parent if root else Path.cwd()


def _tell_of_environment(config: AppConfig) -> None:
    """Say which settings a client may not know, since it starts the server in another shell."""
    found = [key for key, origin in config.origin.items() if origin in ("environment", ".env")]
    root, file = config.data_dir, config.file
    if file and file.state != "named" and file.path.parent not in (root, root.parent):
        note(f"a client does not read {file.path}, unless you give --config here and now")
    lost = sorted(set(found) - {"paths.data_dir"})
    if lost:
        note(
            f"from this shell's environment or .env, which clients may not pass on: "
            f"{', '.join(lost)}; put them into ragstream.yaml, or into the client's settings"
        )
