"""`ragstream prompt`, `search`, and `rerun`: a kept prompt again, from one of its stages on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from ragstream_app.cli import options
from ragstream_app.output.delivery import Target, deliver
from ragstream_app.session import emit_json, session_of
from ragstream_core.errors import UsageError

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
    evidence: options.Evidence = None,
    assignments: options.Assignments = None,
    out: options.Out = None,
    copy: options.Copy = False,
    force: options.Force = False,
    fresh: options.Fresh = False,
    no_persist: options.NoPersist = False,
    dagster: options.InDagster = False,
    no_record: options.NoRecord = False,
    as_json: options.Json = False,
) -> None:
    """Turn a question into a Super-Prompt: evidence, files and rules, cited and within a budget.

    Raises:
        RagstreamError: A wrong request, or a stage that refused or failed; nothing is kept then.
    """
    target = Target(out, copy, force, as_json)
    target.check()
    from ragstream_app.output.budget import announce
    from ragstream_core.prompts.chain import OPS, last_op
    from ragstream_core.prompts.inputs import PromptRequest
    from ragstream_core.wiring.make_prompt import make_prompt, with_cost

    settings = options.setting_values(assignments)
    settings |= {"history.persist": "false"} if no_persist else {}
    settings |= {"prompt.model_target": model_target} if model_target else {}
    settings |= {"retrieval.evidence": evidence} if evidence else {}
    workspace = session_of(ctx).workspace()
    request = PromptRequest(
        text=options.read_text(text),
        projects=options.read_projects(workspace, projects),
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
    if dagster and op != OPS[-1]:
        raise UsageError("--dagster and --through exclude each other", hint="leave one of them out")
    options.tell_of_earlier_turns(workspace)
    changed = options.stale_documents(workspace, request, stale)
    announce(workspace, request)
    if dagster:
        made = options.made_by_job(workspace, request, fresh=fresh)
    else:
        made = make_prompt(workspace, request, through=op, fresh=fresh)
    compared = None
    if without:
        from ragstream_core.services.what_if import compared_with

        compared = compared_with(workspace, made.super_prompt, tuple(without))
    deliver(with_cost(workspace, made, changed), target, compared)


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
    from ragstream_core.services.search import require_projects, require_search
    from ragstream_core.services.search import search as ranked

    require_search(text, k)
    workspace = session_of(ctx).workspace(task=task, explicit=options.setting_values(assignments))
    named = require_projects(options.read_projects(workspace, projects))
    if context:
        from ragstream_app.output.inspect import print_context

        print_context(workspace, text, list(named), separator=separator, task=task, as_json=as_json)
        return
    found = ranked(workspace, text, named, k=k)
    if as_json:
        emit_json(found)
        return
    from ragstream_app.output.tables import print_search

    print_search(found, workspace.config.settings.retrieval.min_score)


RERUN_EPILOG = """**Examples**

ragstream rerun 0a1b2c a3 --set gate.theta=0.3

ragstream rerun 0a1b2c reranked --set rerank.backend=none --json

What comes before the stage is as it was then; the documents are those the prompt was made from."""


def rerun(
    ctx: typer.Context,
    key: options.PromptKey,
    stage: Annotated[
        str,
        typer.Argument(
            metavar="STAGE",
            help="Where to begin: preprocessed, a2, retrieval, reranked, a3, a4, a5, or an op.",
        ),
    ],
    assignments: options.Assignments = None,
    out: options.Out = None,
    copy: options.Copy = False,
    force: options.Force = False,
    no_record: options.NoRecord = False,
    as_json: options.Json = False,
) -> None:
    """Run a kept prompt again from a stage on, with other settings; the first one stays.

    Raises:
        UnknownPrompt: No such prompt.
        RagstreamError: An input is no longer there, or a stage refused or failed.
    """
    target = Target(out, copy, force, as_json)
    target.check()
    from ragstream_core.wiring.make_prompt import first_op, with_cost
    from ragstream_core.wiring.make_prompt import rerun as remake

    workspace, settings = session_of(ctx).workspace(), options.setting_values(assignments)
    then = workspace.store.record(key)
    made = remake(workspace, key, stage, settings=settings)
    remarks = []
    if settings and made.record and made.record.output_sha256 == then.output_sha256:
        remarks.append(_same(then.prompt_key, first_op(stage), settings))
    deliver(with_cost(workspace, made), target, remarks=remarks)


def _same(key: str, op: str, settings: Mapping[str, str]) -> str:
    """Say that settings made no difference, and where they are read if that is before the op."""
    from ragstream_app.output.words import KEY_DIGITS
    from ragstream_core.prompts.chain import OPS
    from ragstream_core.prompts.chain_steps import readers

    late = {name: readers(name) for name in sorted(settings)}
    told = [
        f"{name} is read at {ops[0]}: ragstream rerun {key[:KEY_DIGITS]} {ops[0]}"
        for name, ops in late.items()
        if OPS.index(ops[-1]) < OPS.index(op)
    ]
    same = f"word for word the Super-Prompt of {key[:KEY_DIGITS]}"
    return "; ".join([same, *told])
