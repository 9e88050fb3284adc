"""The Rich console that all commands share: where it writes, and that it interprets nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def console(*, stderr: bool = False) -> Console:
    """Return a console for a terminal; strings are shown as they are.

    Args:
        stderr: Write there, so that stdout stays what was asked for.
    """
    from rich.console import Console

    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)
