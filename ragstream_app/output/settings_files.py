"""Words for settings files: which ones count, and what a person is asked to confirm."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import indent
from typing import TYPE_CHECKING

import typer

from ragstream_app.output.words import printable

if TYPE_CHECKING:
    from ragstream_core.services.confirm_files import FileSaid
    from ragstream_core.settings.confirmation import SettingsFile

# What the state of a `SettingsFile` means.
STATES = {
    "named": "named by you: all of it counts",
    "confirmed": "confirmed by you: all of it counts",
    "unconfirmed": "not confirmed by you: only what can do no harm counts",
}


def print_settings_files(files: Iterable[SettingsFile]) -> None:
    """Print which settings files were read, whether they count, and what of them does not."""
    for file in files:
        typer.echo(f"{printable(str(file.path))}: {STATES[file.state]}")
        for one in file.left_out:
            where = f" of task {one.task}" if one.task else ""
            typer.echo(f"  left out: {one.name}{where} = {one.value}  ({one.what})")


def print_asked(file: FileSaid) -> None:
    """Print what of a file a person is asked to confirm."""
    changed = ", which has changed since you confirmed it," if file.changed else ""
    typer.echo(f"{printable(str(file.path))}{changed} would set:")
    for one in file.asks:
        where = f" (of task {one.task})" if one.task else ""
        value = printable(one.value)
        value = f"\n{indent(value, '    ')}" if "\n" in value else f" {value}"
        typer.echo(f"  {printable(one.name + where)}:{value}")
        typer.echo(f"      decides {one.what}")
