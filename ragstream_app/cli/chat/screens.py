"""How a chat is shown: on a terminal, as plain text for pipes, or as one JSON object a line.

What a model writes is text and emphasis, never a link, an image, HTML or a control character. On a
terminal it is shown as it comes, then as a Rich Markdown panel (R-203).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import typer
from rich import box
from rich.live import Live
from rich.markdown import Markdown
from rich.panel import Panel
from rich.segment import Segment, Segments
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from ragstream_app.output.chat_entries import cited_line, origin_line
from ragstream_app.output.tables import SNIPPET_CHARS, answer_facts, print_citations
from ragstream_app.output.words import one_line, printable
from ragstream_app.session import describe, note, show
from ragstream_core.errors import worded
from ragstream_core.text.markup import markdown_parser

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from ragstream_app.output.chat_entries import ChatEntry


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """What a command of the chat has to say.

    Attributes:
        lines: For people; foreign text in them is made harmless when it is shown.
        data: For scripts, beside the lines.
        show: Prints it for people in place of the lines.
    """

    lines: Sequence[str] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    show: Callable[[], object] | None = None


@dataclass(frozen=True, slots=True)
class Hearing:
    """Who is told about an answer on its way.

    Attributes:
        words: Takes each piece of clean text.
        origin: Takes where the answer will come from, before its first word.
    """

    words: Callable[[str], None]
    origin: Callable[[str], None]


class Screen(Protocol):
    """Where a chat is shown."""

    def answering(self) -> AbstractContextManager[Hearing]:
        """Show an answer while it comes."""
        ...

    def answered(self, said: ChatEntry) -> None:
        """Show what is known about an answer that is here."""
        ...

    def failed(self, question: str, error: BaseException) -> None:
        """Show why there is no answer."""
        ...

    def told(self, command: str, told: CommandOutput) -> None:
        """Show what a command says."""
        ...

    def aside(self, text: str) -> None:
        """Say something beside the conversation."""
        ...


@dataclass(slots=True)
class PlainScreen:
    """Plain text: answers and citations on stdout, all else on stderr.

    Attributes:
        markers: Show answers with their citation markers, once they are whole.
    """

    markers: bool = False

    @contextmanager
    def answering(self) -> Iterator[Hearing]:
        """Write each piece at once, where answers are shown clean."""
        yield Hearing(_nothing if self.markers else _write, _nothing)

    def answered(self, said: ChatEntry) -> None:
        """Print the citations, and on stderr what else is known."""
        if self.markers:
            typer.echo(printable(said.text(markers=True)), nl=False)
        print_citations(said.turn.answer)  # which ends the answer's last line
        for warning in said.turn.warnings:
            note(f"warning: {printable(warning)}")
        if line := origin_line(said.turn):
            typer.echo(line)
        typer.echo("")
        sys.stdout.flush()

    def failed(self, question: str, error: BaseException) -> None:
        """Print the error and its next step on stderr."""
        show(error)

    def told(self, command: str, told: CommandOutput) -> None:
        """Print what a command says on stdout."""
        told.show() if told.show else typer.echo("\n".join(map(printable, told.lines)))
        sys.stdout.flush()

    def aside(self, text: str) -> None:
        """Print it on stderr."""
        note(printable(text))


@dataclass(slots=True)
class JsonScreen:
    """One JSON object a line for each question and each command.

    Attributes:
        markers: Leave the citation markers in the answers.
    """

    markers: bool = False

    @contextmanager
    def answering(self) -> Iterator[Hearing]:
        """Show nothing before the answer is whole."""
        yield Hearing(_nothing, _nothing)

    def answered(self, said: ChatEntry) -> None:
        """Print the answer as `Said.to_json`."""
        _line(said.to_json(markers=self.markers))

    def failed(self, question: str, error: BaseException) -> None:
        """Print ``question`` and ``error``."""
        _line({"question": question, "error": describe(error).to_json()})

    def told(self, command: str, told: CommandOutput) -> None:
        """Print ``command``, ``said`` and what the command adds."""
        _line({"command": command, "said": list(told.lines), **told.data})

    def aside(self, text: str) -> None:
        """Print it on stderr."""
        note(printable(text))


def _write(text: str) -> None:
    typer.echo(printable(text), nl=False)
    sys.stdout.flush()


def _line(value: Mapping[str, object]) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, default=str))
    sys.stdout.flush()


def _nothing(text: str) -> None:
    """Show nothing."""


PER_SECOND = 10

# Of a long answer on its way only the end is drawn, as much as the terminal is high.
TAIL_CHARS = 6_000
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

    def answered(self, said: ChatEntry) -> None:
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
            snippet = one_line(citation.snippet)[:SNIPPET_CHARS]
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
        self.console.print(Text(printable(found.message), style="red"))
        if found.advice:
            self.console.print(Text(f"  next: {printable(worded(found.advice))}", style="dim"))

    def told(self, command: str, told: CommandOutput) -> None:
        """Print what a command says."""
        told.show() if told.show else typer.echo("\n".join(map(printable, told.lines)))

    def aside(self, text: str) -> None:
        """Draw it dim."""
        self.console.print(Text(printable(text), style="dim"))


def picked(console: Console, names: Sequence[str], choice: str) -> str:
    """Show the models as a table and return the one whose number a person types.

    Args:
        console: The terminal.
        names: At least one.
        choice: Taken where the person types nothing.
    """
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
