"""Let a person pick one of the language models of an endpoint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragstream_app.output.tables import printable

if TYPE_CHECKING:
    from rich.console import Console


def picked(console: Console, names: Sequence[str], choice: str) -> str:
    """Show the models as a table and return the one whose number a person types.

    Args:
        console: The terminal.
        names: At least one.
        choice: Taken where the person types nothing.
    """
    from rich.table import Table
    from rich.text import Text

    table = Table("", "Model", box=None, pad_edge=False)
    for number, name in enumerate(names, start=1):
        mark = Text(printable(name), style="bold" if name == choice else "")
        table.add_row(Text(str(number), style="dim"), mark)
    console.print(table)
    usual = names.index(choice) + 1
    while True:
        try:
            answer = input(f"number [{usual}]: ").strip()
        except EOFError:
            return choice
        if not answer:
            return choice
        if answer in names:
            return answer
        if answer.isascii() and answer.isdigit() and 1 <= int(answer) <= len(names):
            return names[int(answer) - 1]
        console.print(Text(f"type a number from 1 to {len(names)}", style="red"))
