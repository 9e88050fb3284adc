"""How a chat looks on a terminal: the answer as it comes, then as a Rich Markdown panel (R-203).

What a model writes is text and emphasis, never a link, an image, HTML or a control character.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import typer
from rich import box
from rich.live import Live
from rich.markdown import Markdown
from rich.panel import Panel
from rich.segment import Segment, Segments
from rich.spinner import Spinner
from rich.text import Text

from ragstream_app.chatting.said import cited_line, origin_line
from ragstream_app.chatting.screens import Hearing, Told
from ragstream_app.failures import describe
from ragstream_app.panels.markup import markdown_parser
from ragstream_app.rendering import SNIPPET_CHARS, answer_facts, printable

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from ragstream_app.chatting.said import Said

PER_SECOND = 10
TAIL_CHARS = 6_000
"""Of a long answer on its way only the end is drawn, as much as the terminal is high."""
RESERVED = 3
WAITING = {"cached": "remembering", "extract": "quoting", "model": "answering"}


class AnswerMarkdown(Markdown):
    """An answer as Markdown, with the tokens alone that its HTML form on the page may have."""

    def __init__(self, text: str) -> None:
        super().__init__("", hyperlinks=False)
        self.parsed = markdown_parser().parse(printable(text))


@dataclass(slots=True)
class Coming:
    """An answer on its way: a spinner before its first word, then the end of what there is."""

    text: str = ""
    doing: Spinner = field(default_factory=lambda: Spinner("dots", Text("searching", style="dim")))

    def words(self, piece: str) -> None:
        """Take a piece of the answer."""
        self.text += printable(piece)

    def origin(self, origin: str) -> None:
        """Take where the answer will come from."""
        self.doing.update(text=Text(WAITING.get(origin, "answering"), style="dim"))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw what there is."""
        if not self.text.strip():
            yield self.doing
            return
        lines = console.render_lines(Text(self.text[-TAIL_CHARS:]), options, pad=False)
        shown = lines[-max(RESERVED, console.height - RESERVED) :]
        yield Segments([part for line in shown for part in (*line, Segment.line())])


@dataclass(slots=True)
class TerminalScreen:
    """A terminal.

    Attributes:
        console: Where everything goes.
        markers: Show answers with their citation markers.
    """

    console: Console
    markers: bool = False

    @contextmanager
    def answering(self) -> Iterator[Hearing]:
        """Draw the answer in place while it comes; the panel takes its place."""
        coming = Coming()
        with Live(coming, console=self.console, transient=True, refresh_per_second=PER_SECOND):
            yield Hearing(coming.words, coming.origin)

    def answered(self, said: Said) -> None:
        """Draw the panel, its citations under it, and what else is known."""
        answer, origin = said.turn.answer, origin_line(said.turn)
        title = printable(answer.model) if answer.model else said.turn.origin
        self.console.print(
            Panel(
                AnswerMarkdown(said.text(markers=self.markers)),
                title=Text(title),
                title_align="left",
                subtitle=Text(printable(origin)) if origin else None,
                subtitle_align="left",
                border_style="cyan" if answer.status == "complete" else "yellow",
                box=box.ROUNDED,
            )
        )
        for number, citation in enumerate(answer.citations, start=1):
            snippet = printable(" ".join(citation.snippet.split()))[:SNIPPET_CHARS]
            mark = ("✓ ", "green") if citation.verified else ("! ", "red")
            line = Text.assemble(
                (f" {number:>2} ", "dim"), mark, cited_line(citation), (f"  {snippet}", "dim")
            )
            self.console.print(line, no_wrap=True, overflow="ellipsis", crop=True)
        for warning in said.warnings:
            self.console.print(Text(f"warning: {printable(warning)}", style="yellow"))
        facts = answer_facts(replace(answer, session=""))  # it is said once, at the end
        self.console.print(Text(" · ".join(facts), style="dim"))

    def failed(self, question: str, error: BaseException) -> None:
        """Draw the error and its next step."""
        found = describe(error)
        self.console.print(Text(printable(found["message"]), style="red"))
        if found["hint"]:
            self.console.print(Text(f"  next: {printable(found['hint'])}", style="dim"))

    def told(self, command: str, told: Told) -> None:
        """Print what a command says."""
        told.show() if told.show else typer.echo("\n".join(map(printable, told.lines)))

    def aside(self, text: str) -> None:
        """Draw it dim."""
        self.console.print(Text(printable(text), style="dim"))
