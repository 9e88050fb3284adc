"""The options and arguments that commands share; what only one command takes stands with it.

First those that say what a prompt is asked with, then those of turns, then those of all commands;
at the end how a request is read from them.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ragstream_app.cli.completion import project_names, prompt_keys, setting_keys, task_names
from ragstream_app.session import note
from ragstream_core.errors import ChooseProject, ExtraMissing, Refused, RunProgram, UsageError

if TYPE_CHECKING:
    from ragstream_core.prompts.inputs import PromptRequest
    from ragstream_core.prompts.made_prompt import MadePrompt
    from ragstream_core.wiring.workspace import Workspace


def _say_gone(given: bool) -> bool:
    if given:
        typer.echo("--no-record does nothing any more: leave it out", err=True)
    return given


Text = Annotated[
    str, typer.Argument(metavar="TEXT|-", help="What you want to ask, or - to read it from stdin.")
]
Projects = Annotated[
    list[str] | None,
    typer.Option(
        "-p",
        "--project",
        metavar="PROJECT",
        autocompletion=project_names,
        help="A project to read; repeatable. None: the only one.",
    ),
]
Files = Annotated[
    list[str] | None,
    typer.Option(
        "--file", metavar="PATH", help="Inject this file of the project; any type; repeatable."
    ),
]
Diffs = Annotated[
    list[str] | None,
    typer.Option(
        "--diff", metavar="PATH", help="Show what git says changed in this file; repeatable."
    ),
]
Lock = Annotated[
    bool,
    typer.Option(
        "--lock", metavar="", help="Exact File Lock: use the given files and nothing else."
    ),
]
Off = Annotated[
    list[str] | None,
    typer.Option("--off", metavar="PATH", help="Leave this file out; repeatable."),
]
Without = Annotated[
    list[str] | None,
    typer.Option(
        "--without",
        metavar="PATH",
        help="Like --off, and say what differs from the prompt with it; repeatable.",
    ),
]
Task = Annotated[
    str,
    typer.Option(
        metavar="NAME", autocompletion=task_names, help="A task profile: a named set of settings."
    ),
]
Through = Annotated[
    str,
    typer.Option(
        metavar="STAGE",
        show_default="all of them",
        help="Stop after: preprocessed, a2, retrieval, reranked, a3, a4, a5.",
    ),
]
AsOf = Annotated[
    int, typer.Option(metavar="N", min=0, help="Read generation N of the index; 0: the newest.")
]
Stale = Annotated[
    Literal["ok", "warn", "refuse"],
    typer.Option(help="When documents changed since the last ingest."),
]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        autocompletion=setting_keys,
        help="Change a setting for this call; repeatable.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the Super-Prompt to a new file instead of stdout."),
]
Copy = Annotated[
    bool,
    typer.Option("--copy", metavar="", help="Put the Super-Prompt on the clipboard instead."),
]
Force = Annotated[bool, typer.Option("--force", metavar="", help="Replace the FILE that is there.")]
Session = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="The conversation it belongs to: its newest turns are shown verbatim."
    ),
]
ModelTarget = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="The model it is meant for: bounds the budget, and its price is shown first.",
    ),
]
Evidence = Annotated[
    Literal["tight", "full"] | None,
    typer.Option(
        help="Attachments end where the evidence for one question does, or where the budget does.",
    ),
]
Fresh = Annotated[
    bool,
    typer.Option("--fresh", metavar="", help="Run the chain even if the kept prompt is unchanged."),
]
InDagster = Annotated[
    bool,
    typer.Option("--dagster", metavar="", help="Execute the Dagster job: its pages show the run."),
]

# Of scripts from before Dagster stood beside the path; goes with the next release.
NoRecord = Annotated[
    bool,
    typer.Option("--no-record", metavar="", hidden=True, callback=_say_gone, help="Does nothing."),
]
NoPersist = Annotated[
    bool, typer.Option("--no-persist", metavar="", help="Write nothing of this prompt anywhere.")
]
AsContext = Annotated[
    bool,
    typer.Option("--context", metavar="", help="Print the passages as one text for a model."),
]
Separator = Annotated[
    str,
    typer.Option(metavar="TEXT", help="With --context: between two passages; \\n is a new line."),
]
Model = Annotated[
    str, typer.Option(metavar="NAME", help="Ask this model instead of provider.model.")
]
AllowSecrets = Annotated[
    bool,
    typer.Option(
        "--allow-secrets", metavar="", help="Send it even if it seems to contain keys or passwords."
    ),
]

TurnSession = Annotated[
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
TurnTags = Annotated[
    list[str] | None, typer.Option("--tag", metavar="TAG", help="GOLD, SILVER, BLUE or yours.")
]
TurnProjects = Annotated[
    list[str] | None,
    typer.Option(
        "--project", "-p", metavar="NAME", help="A project whose prompts may use it; repeatable."
    ),
]
Importance = Annotated[
    float, typer.Option(metavar="X", min=0.0, max=1.0, help="0 to 1; raises its rank.")
]
OnlyTags = Annotated[
    list[str] | None, typer.Option("--tag", metavar="TAG", help="Only turns with this tag.")
]

PromptKey = Annotated[
    str,
    typer.Argument(
        metavar="KEY",
        autocompletion=prompt_keys,
        help="A prompt's key, its first 6 digits, or `latest`; `ragstream status` lists them.",
    ),
]
IndexedProject = Annotated[
    str,
    typer.Argument(
        metavar="PROJECT", autocompletion=project_names, help="A project with an index."
    ),
]
IndexedProjects = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[PROJECT]...",
        autocompletion=project_names,
        help="Projects with an index; none: all of them.",
    ),
]
GoldProject = Annotated[str, typer.Argument(help="A project with gold questions.")]
ReadData = Annotated[
    str,
    typer.Option(
        metavar="N/T", help="Also read texts and vectors: the n-th of t parts, 1/1 for all."
    ),
]
RemovalDryRun = Annotated[
    bool, typer.Option("--dry-run", metavar="", help="Only show what would be removed.")
]
Overwrite = Annotated[bool, typer.Option("--force", metavar="", help="Overwrite what exists.")]
Json = Annotated[bool, typer.Option("--json", metavar="", help="Print JSON on stdout.")]


def read_text(text: str) -> str:
    """Return the text of a prompt; ``-`` reads stdin."""
    if text != "-":
        return text
    if sys.stdin.isatty():
        note("type the prompt; end it with Ctrl-D")
    return sys.stdin.buffer.read().decode("utf-8-sig", "replace")  # a mark of its encoding goes


def read_projects(workspace: Workspace, named: list[str] | None) -> tuple[str, ...]:
    """Return the projects to read, without doubles: those named, else the only one there is.

    Where there is none at all, conversations alone are read.

    Raises:
        UsageError: Several are there, and none is named.
    """
    if named:
        return tuple(dict.fromkeys(named))
    known = workspace.projects()
    if len(known) > 1:
        raise UsageError(f"no project given; there are {', '.join(known)}", hint=ChooseProject())
    return tuple(known)


def tell_of_earlier_turns(workspace: Workspace) -> None:
    """Say, the first time, where turns of earlier versions are used."""
    from ragstream_core.services.history_transfer import told_once

    with contextlib.suppress(OSError):
        if told := told_once(workspace):
            note(told)


def setting_values(assignments: list[str] | None) -> dict[str, str]:
    """Return dotted setting → value of ``--set``.

    Raises:
        UnknownSetting: A word that sets nothing.
    """
    if not assignments:
        return {}
    from ragstream_core.config import parse_assignments

    return parse_assignments(assignments)


def stale_documents(workspace: Workspace, request: PromptRequest, stale: str) -> list[str]:
    """Return what changed since the last ingest of the projects that a prompt reads.

    Args:
        workspace: The data root.
        request: What is asked; one of an older generation is never stale.
        stale: ``ok`` looks at nothing, ``refuse`` refuses what has changed.

    Raises:
        Refused: Something changed, and that is to be refused.
        UnknownProject: There is no such folder.
    """
    from ragstream_core.wiring.ingestion import changed_files

    changed = [] if stale == "ok" or request.as_of else changed_files(workspace, request.projects)
    if changed and stale == "refuse":
        raise Refused(changed[0], hint=f"ragstream ingest {' '.join(request.projects)}")
    return changed


def made_by_job(workspace: Workspace, request: PromptRequest, *, fresh: bool) -> MadePrompt:
    """Return the prompt of a request by Dagster's job; no run where its record answers.

    Raises:
        RagstreamError: A wrong request, or a stage refused or failed.
    """
    from ragstream_core.wiring.make_prompt import recorded_prompt

    recorded = None if fresh else recorded_prompt(workspace, request)
    made: MadePrompt = recorded or execution().prompt(workspace, request, fresh=True)
    return made


def execution() -> ModuleType:
    """Return the module that executes jobs of Dagster in this process.

    Raises:
        ExtraMissing: Dagster is not installed.
    """
    if importlib.util.find_spec("dagster") is None:
        raise ExtraMissing(
            "--dagster needs Dagster, which is not installed",
            hint=RunProgram("pip install 'dagster>=1.13,<1.14' 'dagster-webserver>=1.13,<1.14'"),
        )
    from ragstream_app.server import dagster_runs

    return dagster_runs
