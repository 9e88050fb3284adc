"""What one command was called with, and how it answers: JSON or text for people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from ragstream_core.build.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Session:
    """The global options.

    Attributes:
        data: The data root, or None where the settings decide.
        config: The configuration file, or None for the default.
        command: The running command, e.g. ``ragstream prompt``.
    """

    data: Path | None = None
    config: Path | None = None
    command: str = ""

    def workspace(self, *, task: str = "", explicit: dict[str, Any] | None = None) -> Workspace:
        """Load the settings and return the workspace.

        Args:
            task: Name of a task profile.
            explicit: Dotted setting → value, the strongest layer.

        Raises:
            UnknownSetting: A setting that does not exist or has a bad value.
        """
        from ragstream_core.build.workspace import open_workspace

        space = open_workspace(self.data, config_path=self.config, task=task, explicit=explicit)
        if space.config.settings.debug.enabled:
            from ragstream_core.build import debugging

            debugging.begin_command(self.command)
        return space


def session_of(ctx: typer.Context) -> Session:
    """Return the global options of the running command."""
    found = ctx.find_root().obj
    return replace(found if isinstance(found, Session) else Session(), command=ctx.command_path)


def emit_json(value: Any) -> None:
    """Write one JSON value to stdout."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))


def note(text: str) -> None:
    """Write a line for people to stderr, so that stdout stays what was asked for."""
    typer.echo(text, err=True)


def pending_paths(status: Mapping[str, Any]) -> list[str]:
    """Return the paths of a project's status that an ingest would read or drop, sorted."""
    pending: Mapping[str, list[str]] = status["pending"]
    return sorted({path for kind in ("new", "changed", "removed") for path in pending[kind]})


def is_recorded(workspace: Workspace, *, wanted: bool) -> bool:
    """Whether a command records a Dagster run: asked for, and not switched off by the settings."""
    return wanted and workspace.config.settings.dagster.record == "dagster"
