"""The options of `ragstream history append`, one name each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Session = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="The conversation; default: the answered prompt's, or a new one."
    ),
]
User = Annotated[str, typer.Option(metavar="TEXT", help="What was asked; - reads stdin.")]
Assistant = Annotated[str, typer.Option(metavar="TEXT", help="What was answered; - reads stdin.")]
UserFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Read the question from a file.")
]
AssistantFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Read the answer from a file.")
]
External = Annotated[
    bool, typer.Option("--external", metavar="", help="The answer comes from another program.")
]
Answers = Annotated[
    str, typer.Option(metavar="KEY", help="The prompt that it answers; its citations are checked.")
]
Tags = Annotated[
    list[str] | None, typer.Option("--tag", metavar="TAG", help="GOLD, SILVER, BLUE or yours.")
]
Projects = Annotated[
    list[str] | None,
    typer.Option("--project", "-p", metavar="NAME", help="A project that it belongs to."),
]
Importance = Annotated[
    float, typer.Option(metavar="X", min=0.0, max=1.0, help="0 to 1; raises its rank.")
]
