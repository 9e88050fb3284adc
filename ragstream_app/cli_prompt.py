"""`ragstream prompt` and `ragstream search`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ragstream_app.asking import Outcome, ask
from ragstream_app.session import emit_json, is_recorded, note, pending_paths, session_of
from ragstream_core.errors import Refused, UsageError

if TYPE_CHECKING:
    from ragstream_core.build.workspace import Workspace

PROMPT_EPILOG = """**Examples**

ragstream prompt "How do I lock the prompt to one file?" -p handbook

ragstream prompt "What does this say?" -p handbook --file citations.md --lock

git diff | ragstream prompt - -p handbook --set retrieval.top_k=20 --json

The Super-Prompt goes to stdout, everything else to stderr: pipe it where you like."""

Projects = Annotated[
    list[str] | None,
    typer.Option("-p", "--project", metavar="PROJECT", help="A project to read; repeatable."),
]
Json = Annotated[bool, typer.Option("--json", metavar="", help="Print JSON on stdout.")]
Assignments = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting for this call; repeatable."),
]


def prompt(
    ctx: typer.Context,
    text: Annotated[
        str,
        typer.Argument(metavar="TEXT|-", help="What you want to ask, or - to read it from stdin."),
    ],
    projects: Projects = None,
    files: Annotated[
        list[str] | None,
        typer.Option(
            "--file", metavar="PATH", help="Inject this file of the project; any type; repeatable."
        ),
    ] = None,
    lock: Annotated[
        bool,
        typer.Option(
            "--lock", metavar="", help="Exact File Lock: use the given files and nothing else."
        ),
    ] = False,
    off: Annotated[
        list[str] | None,
        typer.Option("--off", metavar="PATH", help="Leave this file out; repeatable."),
    ] = None,
    task: Annotated[
        str, typer.Option(metavar="NAME", help="A task profile: a named set of settings.")
    ] = "",
    through: Annotated[
        str,
        typer.Option(
            metavar="STAGE",
            show_default="all of them",
            help="Stop after: preprocessed, a2, retrieval, reranked, a3, a4, a5.",
        ),
    ] = "prompt_builder",
    as_of: Annotated[
        int, typer.Option(metavar="N", min=0, help="Read generation N of the index; 0: the newest.")
    ] = 0,
    stale: Annotated[
        Literal["ok", "warn", "refuse"],
        typer.Option(help="When documents changed since the last ingest."),
    ] = "warn",
    assignments: Assignments = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the Super-Prompt there instead of stdout."),
    ] = None,
    no_record: Annotated[
        bool, typer.Option("--no-record", metavar="", help="Leave no Dagster run behind.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Turn a question into a Super-Prompt: evidence, files and rules, cited and within a budget.

    Raises:
        RagstreamError: A wrong request, or a stage that refused or failed; nothing is kept then.
    """
    from ragstream_core.orchestration.chain import last_op
    from ragstream_core.orchestration.inputs import PromptRequest

    settings = _assigned(assignments)
    request = PromptRequest(
        text=_read(text),
        projects=tuple(dict.fromkeys(projects or [])),
        files=tuple(files or []),
        off=tuple(off or []),
        lock=lock,
        settings=settings,
        task=task,
        as_of=as_of,
    )
    op = last_op(through)
    workspace = session_of(ctx).workspace()
    changed = [] if stale == "ok" or as_of else _stale(workspace, request.projects)
    if changed and stale == "refuse":
        raise Refused(changed[0], hint=f"ragstream ingest {' '.join(request.projects)}")
    outcome = ask(workspace, request, op, record=is_recorded(workspace, wanted=not no_record))
    outcome.warnings[:0] = changed
    _deliver(outcome, out, as_json=as_json)


def search(
    ctx: typer.Context,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to look for.")],
    projects: Projects = None,
    k: Annotated[int, typer.Option("-k", min=1, max=1000, help="How many chunks.")] = 10,
    as_json: Json = False,
) -> None:
    """Rank the chunks of projects for a text, without a prompt around it.

    Raises:
        UsageError: Nothing to look for, or nowhere to look.
    """
    if not any(c.isalnum() for c in text):
        raise UsageError("the search text is empty", hint='ragstream search "…" -p PROJECT')
    if not projects:
        raise UsageError("no project given", hint="-p PROJECT; `ragstream status` lists them")
    rows = session_of(ctx).workspace().search(text, list(dict.fromkeys(projects)), k=k)
    if as_json:
        emit_json(rows)
        return
    from ragstream_app.rendering import print_search

    print_search(rows)


def _deliver(outcome: Outcome, out: Path | None, *, as_json: bool) -> None:
    if out is not None and outcome.text:
        from ragstream_core.atomic import replace_text

        if out.exists() and not out.is_file():  # a pipe or device must not be replaced by a file
            with out.open("w", encoding="utf-8") as stream:
                stream.write(outcome.text)
        else:
            replace_text(out.resolve(), outcome.text)
    if as_json:
        emit_json(outcome.to_json())
        return
    from ragstream_app.rendering import print_prompt

    print_prompt(outcome, out)


def _read(text: str) -> str:
    if text != "-":
        return text
    if sys.stdin.isatty():
        note("type the prompt; end it with Ctrl-D")
    return sys.stdin.buffer.read().decode("utf-8", "replace")


def _assigned(assignments: list[str] | None) -> dict[str, str]:
    if not assignments:
        return {}
    from ragstream_core.config import parse_assignments

    return parse_assignments(assignments)


def _stale(workspace: Workspace, projects: tuple[str, ...]) -> list[str]:
    found = []
    for project in projects:
        pending = pending_paths(workspace.status(project))
        if pending:
            names = ", ".join(pending[:3]) + (" …" if len(pending) > 3 else "")
            found.append(
                f"{project}: {len(pending)} file(s) changed since the last ingest: {names}"
            )
    return found
