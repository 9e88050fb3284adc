"""`ragstream prompt` and `ragstream search`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from ragstream_app.asking import announced, ask, settle
from ragstream_app.commands import prompt_options as options
from ragstream_app.delivery import Target, deliver
from ragstream_app.prompt_words import changed_files, read_text, setting_values
from ragstream_app.session import emit_json, is_recorded, note, session_of
from ragstream_core.errors import Refused, UsageError

PROMPT_EPILOG = """**Examples**

ragstream prompt "How do I lock the prompt to one file?" -p handbook

ragstream prompt "What does this say?" -p handbook --file citations.md --lock

git diff | ragstream prompt - -p handbook --set retrieval.top_k=20 --json

ragstream prompt "How do I lock the prompt to one file?" -p handbook --copy

The Super-Prompt goes to stdout, everything else to stderr: pipe it where you like."""


def prompt(
    ctx: typer.Context,
    text: options.Text,
    projects: options.Projects = None,
    files: options.Files = None,
    diffs: options.Diffs = None,
    lock: options.Lock = False,
    off: options.Off = None,
    without: options.Without = None,
    task: options.Task = "",
    through: options.Through = "prompt_builder",
    as_of: options.AsOf = 0,
    stale: options.Stale = "warn",
    session: options.Session = "",
    model_target: options.ModelTarget = "",
    assignments: options.Assignments = None,
    out: options.Out = None,
    copy: options.Copy = False,
    force: options.Force = False,
    fresh: options.Fresh = False,
    no_record: options.NoRecord = False,
    no_persist: options.NoPersist = False,
    as_json: options.Json = False,
) -> None:
    """Turn a question into a Super-Prompt: evidence, files and rules, cited and within a budget.

    Raises:
        RagstreamError: A wrong request, or a stage that refused or failed; nothing is kept then.
    """
    target = Target(out, copy, force, as_json)
    target.check()
    from ragstream_core.orchestration.chain import last_op
    from ragstream_core.orchestration.inputs import PromptRequest

    settings = setting_values(assignments) | ({"history.persist": "false"} if no_persist else {})
    settings |= {"prompt.model_target": model_target} if model_target else {}
    request = PromptRequest(
        text=read_text(text),
        projects=tuple(dict.fromkeys(projects or [])),
        files=tuple(files or []),
        diffs=tuple(diffs or []),
        off=(*(off or []), *(without or [])),
        lock=lock,
        settings=settings,
        task=task,
        as_of=as_of,
        session=session,
    )
    op = last_op(through)
    workspace = session_of(ctx).workspace()
    changed = [] if stale == "ok" or as_of else changed_files(workspace, request.projects)
    if changed and stale == "refuse":
        raise Refused(changed[0], hint=f"ragstream ingest {' '.join(request.projects)}")
    expected = announced(workspace, request)
    recorded = is_recorded(workspace, wanted=not no_record)
    outcome = ask(workspace, request, op, record=recorded, fresh=fresh)
    outcome = replace(outcome, expected=expected)
    outcome.warnings[:0] = changed
    if without:
        from ragstream_core.build.explaining.what_if import compared_with

        compared = compared_with(workspace, outcome.prompt, tuple(without))
        outcome = replace(outcome, compared=compared)
    deliver(outcome, target)
    settle(outcome, note)


def search(
    ctx: typer.Context,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to look for.")],
    projects: options.Projects = None,
    k: Annotated[int, typer.Option("-k", min=1, max=1000, help="How many chunks.")] = 10,
    context: options.AsContext = False,
    separator: options.Separator = "\\n\\n",
    task: options.Task = "",
    assignments: options.Assignments = None,
    as_json: options.Json = False,
) -> None:
    """Rank the chunks of projects for a text, without a prompt around it.

    With --context the chain's reranker puts them in order, and their texts are printed as one:
    within `retrieval.max_context_chars` and `max_context_tokens`, less `token_overhead`.

    Raises:
        UsageError: Nothing to look for, or nowhere to look.
    """
    if not any(c.isalnum() for c in text):
        raise UsageError("the search text is empty", hint='ragstream search "…" -p PROJECT')
    if not projects:
        raise UsageError("no project given", hint="-p PROJECT; `ragstream status` lists them")
    workspace = session_of(ctx).workspace(task=task, explicit=setting_values(assignments))
    if context:
        from ragstream_app.inspect_text import print_context

        print_context(workspace, text, projects, separator=separator, task=task, as_json=as_json)
        return
    rows = workspace.search(text, list(dict.fromkeys(projects)), k=k)
    if as_json:
        emit_json(rows)
        return
    from ragstream_app.rendering import print_search

    print_search(rows, workspace.config.settings.retrieval.min_score)
