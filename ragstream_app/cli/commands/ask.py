"""`ragstream ask`: a prompt, its answer as it comes, and what the answer cites."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from ragstream_app.cli import options
from ragstream_app.session import FAILED, emit_json, note, session_of
from ragstream_core.errors import ChatFailed

if TYPE_CHECKING:
    from ragstream_core.answers.answer import Answer, Prepared

ASK_EPILOG = """**Examples**

ragstream ask "How do I lock the prompt to one file?" -p handbook

ragstream ask "And with two files?" -p handbook --session locks

ragstream ask - -p handbook --json < question.txt

If no language model can be reached, the answer is an extract of the documents and says so.

Answer and citations go to stdout, everything else to stderr. An incomplete answer exits with 1;
what arrived of it is kept."""


def ask(
    ctx: typer.Context,
    text: options.Text,
    projects: options.Projects = None,
    files: options.Files = None,
    diffs: options.Diffs = None,
    lock: options.Lock = False,
    off: options.Off = None,
    task: options.Task = "",
    as_of: options.AsOf = 0,
    stale: options.Stale = "warn",
    session: options.Session = "",
    assignments: options.Assignments = None,
    model: options.Model = "",
    allow_secrets: options.AllowSecrets = False,
    fresh: options.Fresh = False,
    no_persist: options.NoPersist = False,
    dagster: options.InDagster = False,
    no_record: options.NoRecord = False,
    as_json: options.Json = False,
) -> None:
    """Ask a language model: the Super-Prompt of a question, the answer, its citations checked.

    Raises:
        RagstreamError: A wrong request, a stage or the model refused or failed; the question is
            kept where it was sent.
        Exit: The answer broke off.
    """
    from ragstream_core.conversations.follow_ups import FollowUp
    from ragstream_core.prompts.doubt import doubt_of
    from ragstream_core.prompts.inputs import FOLLOW_UP, PromptRequest, inputs_of
    from ragstream_core.services.choose_model import with_model_to_ask
    from ragstream_core.wiring import answering
    from ragstream_core.wiring.make_prompt import make_prompt

    settings = options.setting_values(assignments)
    settings |= {"history.persist": "false"} if no_persist else {}
    settings = ({"prompt.model_target": model} if model else {}) | settings
    workspace = session_of(ctx).workspace(explicit={"provider.model": model} if model else None)
    request = PromptRequest(
        text=options.read_text(text),
        projects=options.read_projects(workspace, projects),
        files=tuple(files or []),
        diffs=tuple(diffs or []),
        off=tuple(off or []),
        lock=lock,
        settings=settings,
        task=task,
        as_of=as_of,
        session=session,
    )
    options.tell_of_earlier_turns(workspace)
    changed = options.stale_documents(workspace, request, stale)
    workspace = with_model_to_ask(workspace)
    make = options.made_by_job if dagster else make_prompt
    made = make(workspace, request, fresh=fresh)
    doubt = doubt_of(made.super_prompt)

    def begun(is_extract: bool) -> None:
        if doubt and not is_extract:  # an extract says it itself
            _note(doubt)

    prepared = answering.prepare(
        workspace,
        made.super_prompt,
        prompt_key=made.key,
        session=session,
        or_extract=True,
        begun=begun,
    )
    for warning in [*changed, *made.warnings]:
        if warning != doubt:
            _note(f"warning: {warning}")
    read_as = FollowUp.of_pinned(inputs_of(made.super_prompt).texts.get(FOLLOW_UP, ""))
    if read_as:
        _note(f"read as: {request.text.strip()} ({read_as.about})")
    _announce(prepared)
    try:
        answer = answering.answer(
            workspace, prepared, allow_secrets=allow_secrets, show=None if as_json else _show
        )
        _deliver(answer, prepared, as_json=as_json)
    except ChatFailed:
        if prepared.session:
            note(f"the question is kept without an answer in session {prepared.session}")
        raise


def _announce(prepared: Prepared) -> None:
    """Say what leaves this machine, where to, and what that costs, before it does."""
    from ragstream_core.answers.extract import EXTRACT

    model = prepared.model
    if model is None or model.is_local or model.name == EXTRACT:
        return
    cost = prepared.estimate_usd
    price = "at an unknown price" if cost is None else f"for about ${cost:.4f} and its answer"
    note(f"sending about {prepared.input_tokens:,} tokens to {model.name} at {model.host}, {price}")


def _show(text: str) -> None:
    """Write a piece of the answer at once."""
    from ragstream_app.output.words import printable

    typer.echo(printable(text), nl=False)
    sys.stdout.flush()


def _deliver(answer: Answer, prepared: Prepared, *, as_json: bool) -> None:
    """Print what the answer cites, and which turns answer in place of the documents."""
    from ragstream_core.answers.extract import said_in

    turns = [
        {"text": issue.text, "source": cited.source, "id": cited.short_id}
        for issue in said_in(prepared.prompt)
        for cited in issue.citations
    ]
    if as_json:
        emit_json({**answer.to_json(), "conversations": turns})
    else:
        from ragstream_app.output.tables import print_citations
        from ragstream_app.output.words import printable

        print_citations(answer)
        for turn in turns:
            typer.echo(printable(f"{turn['text']} [{turn['source']}]"))
    if answer.status == "partial":
        raise typer.Exit(FAILED)


def _note(text: str) -> None:
    from ragstream_app.output.words import printable

    note(printable(text))
