"""How a chat is shown where nobody watches: plain text for pipes, or one JSON object a line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import typer

from ragstream_app.chatting.said import origin_line
from ragstream_app.failures import describe, show
from ragstream_app.rendering import print_citations, printable
from ragstream_app.session import note

if TYPE_CHECKING:
    from ragstream_app.chatting.said import Said


@dataclass(frozen=True, slots=True)
class Told:
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

    def answered(self, said: Said) -> None:
        """Show what is known about an answer that is here."""
        ...

    def failed(self, question: str, error: BaseException) -> None:
        """Show why there is no answer."""
        ...

    def told(self, command: str, told: Told) -> None:
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

    def answered(self, said: Said) -> None:
        """Print the citations, and on stderr what else is known."""
        if self.markers:
            typer.echo(printable(said.text(markers=True)), nl=False)
        for warning in said.turn.warnings:
            note(f"warning: {printable(warning)}")
        print_citations(said.turn.answer)
        if line := origin_line(said.turn):
            typer.echo(line)
        typer.echo("")
        sys.stdout.flush()

    def failed(self, question: str, error: BaseException) -> None:
        """Print the error and its next step on stderr."""
        show(error)

    def told(self, command: str, told: Told) -> None:
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

    def answered(self, said: Said) -> None:
        """Print the answer as `Said.to_json`."""
        _line(said.to_json(markers=self.markers))

    def failed(self, question: str, error: BaseException) -> None:
        """Print ``question`` and ``error``."""
        _line({"question": question, "error": describe(error)})

    def told(self, command: str, told: Told) -> None:
        """Print ``command``, ``said`` and what the command adds."""
        _line({"command": command, "said": list(told.lines), **told.data})

    def aside(self, text: str) -> None:
        """Print it on stderr."""
        note(printable(text))


def _write(text: str) -> None:
    typer.echo(printable(text), nl=False)
    sys.stdout.flush()


def _line(value: Mapping[str, Any]) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, default=str))
    sys.stdout.flush()


def _nothing(text: str) -> None:
    """Show nothing."""
