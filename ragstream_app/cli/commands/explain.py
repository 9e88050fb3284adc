"""`ragstream explain` and `ragstream replay`: why a prompt is as it is, and whether it still is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragstream_app.cli import options
from ragstream_app.session import emit_json, note, session_of
from ragstream_core.errors import UsageError

REFUSED = 3
REPLAY_EPILOG = """**Examples**

ragstream replay 0a1b2c

ragstream replay --bundle prompt.bundle"""


def explain(
    ctx: typer.Context,
    key: options.PromptKey,
    chunk: Annotated[
        str,
        typer.Option(metavar="ID", help="Only this chunk: its id, citation or part of its path."),
    ] = "",
    as_json: options.Json = False,
) -> None:
    """Show why each candidate is in a prompt or is not: its way through the stages.

    Raises:
        UsageError: No such prompt, or no such candidate in it.
        RagstreamError: Its ledger is gone and cannot be made again.
    """
    from ragstream_core.services.explain import explanation

    found = explanation(session_of(ctx).workspace(), key, chunk=chunk)
    if as_json:
        emit_json(found)
        return
    from ragstream_app.output.explain import print_explanation

    print_explanation(found, detailed=bool(chunk))


def replay(
    ctx: typer.Context,
    key: options.PromptKey = "",
    bundle: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A file that `ragstream bundle` wrote, from anywhere."),
    ] = None,
    live: Annotated[
        bool,
        typer.Option("--live", help="Ask the language model again and compare its answers."),
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Make a kept prompt again from its inputs and compare the bytes; exit code 0 if identical.

    Raises:
        UsageError: Neither a key nor a bundle.
        UnknownPrompt: No such prompt.
        IntegrityError: The bundle is not what was written, or of another prompt.
        Exit: With 3 if the bytes are not the same.
    """
    from ragstream_core.services.replay import replay_bundle, replay_prompt

    workspace = session_of(ctx).workspace()
    if bundle is not None:
        full_key, verdict = replay_bundle(workspace, bundle, key=key, live=live)
    elif key:
        full_key = workspace.store.find(key)
        verdict = replay_prompt(workspace, full_key, live=live)
    else:
        raise UsageError("no prompt given", hint="ragstream replay KEY, or --bundle FILE")
    identical = verdict.verdict == "identical"
    if as_json:
        emit_json({"prompt_key": full_key, **verdict.to_json()})
    else:
        first = f", first at {verdict.first_difference}" if verdict.first_difference else ""
        reason = f": {verdict.reason}{first}" if verdict.reason else ""
        typer.echo(f"{full_key[:12]} {verdict.verdict}{reason}", err=not identical)
        if verdict.hint:
            note(f"  next: {verdict.hint}")
    if not identical:
        raise typer.Exit(REFUSED)
