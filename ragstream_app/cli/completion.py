"""What the Tab key completes beside commands and options: projects, prompts, settings, profiles.

Only names are read, and what cannot be read completes to nothing: a shell is no place for errors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from ragstream_app.session import Session
from ragstream_core.errors import RagstreamError

if TYPE_CHECKING:
    from ragstream_core.wiring.workspace import Workspace

MOST_PROMPTS = 50


def project_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the projects of the data root whose names begin so.

    Args:
        ctx: Of the command that is typed.
        incomplete: What is typed of the word.
    """
    return _beginning(incomplete, ctx, lambda space: space.projects())


def task_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the task profiles whose names begin so, those of the configuration included.

    Args:
        ctx: Of the command that is typed.
        incomplete: What is typed of the word.
    """
    return _beginning(incomplete, ctx, lambda space: sorted(space.config.tasks))


def prompt_keys(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the newest recorded prompts whose keys begin so, the newest first.

    Args:
        ctx: Of the command that is typed.
        incomplete: What is typed of the word.
    """
    from ragstream_app.output.words import KEY_DIGITS

    def newest(space: Workspace) -> list[str]:
        found = space.layout.prompts.glob(f"{incomplete}*/record.json")
        records = sorted(((p.stat().st_mtime, p.parent.name) for p in found), reverse=True)
        return [key[: max(KEY_DIGITS, len(incomplete))] for _, key in records[:MOST_PROMPTS]]

    return _beginning(incomplete, ctx, newest)


def setting_keys(incomplete: str) -> list[str]:
    """Return the settings whose dotted names begin so, each with its ``=``.

    Args:
        incomplete: What is typed of the word.
    """
    from ragstream_core.settings import known_keys

    return [f"{key}=" for key in known_keys() if key.startswith(incomplete)]


def _beginning(
    incomplete: str, ctx: typer.Context, names: Callable[[Workspace], list[str]]
) -> list[str]:
    given = ctx.find_root().params  # the root's own function does not run for a completion
    try:
        found = names(Session(given.get("data"), given.get("config")).workspace())
    except (RagstreamError, OSError):
        return []
    return [name for name in found if name.startswith(incomplete)]
