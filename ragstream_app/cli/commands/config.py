"""`ragstream config` and `ragstream doctor`: what is set, where it comes from, and what works."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragstream_app.cli import options
from ragstream_app.session import emit_json, session_of

if TYPE_CHECKING:
    from ragstream_core.config import AppConfig


def show(
    ctx: typer.Context,
    origin: Annotated[
        bool, typer.Option("--origin", metavar="", help="Say where each value came from.")
    ] = False,
    task: Annotated[str, typer.Option(metavar="NAME", help="With this task profile.")] = "",
    as_json: options.Json = False,
) -> None:
    """Show every setting's value; secrets as asterisks."""
    rows = _values(session_of(ctx).workspace(task=task).config)
    if as_json:
        plain: dict[str, Any] = {key: value for key, value, _ in rows}
        sourced = {key: {"value": value, "origin": where} for key, value, where in rows}
        emit_json(sourced if origin else plain)
        return
    from ragstream_app.output.tables import print_settings

    print_settings(rows, origin=origin)


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
