"""`ragstream config` and `ragstream doctor`: what is set, by whom, and what works."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragstream_app.cli import options
from ragstream_app.session import emit_json, note, session_of
from ragstream_core.errors import Refused, RunCommand, quoted

if TYPE_CHECKING:
    from ragstream_core.config import AppConfig
    from ragstream_core.services.confirm_files import FileSaid


def show(
    ctx: typer.Context,
    origin: Annotated[
        bool, typer.Option("--origin", metavar="", help="Say where each value came from.")
    ] = False,
    task: Annotated[str, typer.Option(metavar="NAME", help="With this task profile.")] = "",
    as_json: options.Json = False,
) -> None:
    """Show every setting's value; secrets as asterisks."""
    config = session_of(ctx).workspace(task=task).config
    rows = _values(config)
    if as_json:
        plain: dict[str, Any] = {key: value for key, value, _ in rows}
        sourced = {key: {"value": value, "origin": where} for key, value, where in rows}
        for file in config.files:
            for one in file.left_out:
                left = {"file": str(file.path), "value": one.value, "task": one.task}
                sourced[one.name].setdefault("left_out", []).append(left)
        emit_json(sourced if origin else plain)
        return
    from ragstream_app.output.settings_files import print_settings_files
    from ragstream_app.output.tables import print_settings

    print_settings(rows, origin=origin)
    if origin:
        print_settings_files(config.files)


Places = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="PATH",
        show_default=False,
        help="A settings file, or a folder that has some; none: those that are read here.",
    ),
]


def trust(
    ctx: typer.Context,
    paths: Places = None,
    yes: Annotated[bool, typer.Option("--yes", metavar="", help="Confirm without asking.")] = False,
) -> None:
    """Show what the files that came with a folder would set, and confirm them.

    Until then such a file cannot name addresses, code, keys or folders outside of its own, nor say
    what is kept or who may connect. A file that is changed is asked about again.

    Raises:
        UsageError: There is no such file, or there is no terminal to ask at.
        Refused: Somebody said no.
        RagstreamError: A file cannot be read.
        OSError: It cannot be remembered.
    """
    from ragstream_app.output.settings_files import print_asked
    from ragstream_core.services import confirm_files

    files = _files(ctx, paths)
    asked = [file for file in files if file.asks and not file.confirmed]
    for file in asked:
        print_asked(file)
    if not asked:
        for file in files:
            state = "confirmed" if file.confirmed and file.asks else "needs no confirmation"
            note(f"{file.path}: {state}")
        note("nothing is left to confirm" if files else "there are no such files here")
        return
    if not yes:
        if not sys.stdin.isatty():
            words = quoted(*(file.path for file in asked), "--yes")
            raise Refused(
                "nothing was confirmed: there is no terminal to ask at",
                hint=("if all of this is what you want: ", RunCommand("config trust", words)),
            )
        if not typer.confirm("Is all of this what you want?", err=True):
            raise Refused("nothing was confirmed")
    confirm_files.confirm(asked)
    for file in asked:
        note(f"confirmed until it changes: {file.path}")


def untrust(ctx: typer.Context, paths: Places = None) -> None:
    """Take back what `ragstream config trust` confirmed, or what a command wrote for you.

    Raises:
        UsageError: There is no such file.
        RagstreamError: A file cannot be read.
        OSError: It cannot be remembered.
    """
    from ragstream_core.services import confirm_files

    forgotten = confirm_files.forget(_files(ctx, paths))
    for path in forgotten:
        note(f"no longer confirmed: {path}")
    if not forgotten:
        note("none of these files was confirmed")


def _files(ctx: typer.Context, paths: list[Path] | None) -> list[FileSaid]:
    from ragstream_core.services import confirm_files

    data = session_of(ctx).data
    found = [file for path in paths or (None,) for file in confirm_files.files_of(data, path)]
    return list({file.path: file for file in found}.values())


def reference() -> None:
    """Print the settings reference as Markdown, generated from the code."""
    from ragstream_app.output.settings_reference import settings_reference

    typer.echo(settings_reference(), nl=False)


def doctor(ctx: typer.Context, as_json: options.Json = False) -> None:
    """Check Python, packages, models, folders and ports, each with what to do about it.

    Raises:
        Exit: With 1 if something will not work.
    """
    from ragstream_app.cli.doctor import examine

    checks = examine(session_of(ctx).workspace().config)
    if as_json:
        emit_json([asdict(check) for check in checks])
    else:
        from ragstream_app.output.tables import print_checks

        print_checks(checks)
    if any(check.level == "fail" for check in checks):
        raise typer.Exit(1)


def _values(config: AppConfig) -> list[tuple[str, Any, str]]:
    from ragstream_core.settings import known_keys

    tree = config.settings.model_dump(mode="json")
    return [
        (key, tree[key.split(".")[0]][key.split(".")[1]], config.origin[key])
        for key in known_keys()
    ]
