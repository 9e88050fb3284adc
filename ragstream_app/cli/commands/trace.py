"""Commands that follow a prompt back: diff, trace, why-not, verify-prompt and so on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragstream_app.cli import options
from ragstream_app.cli.completion import project_names
from ragstream_app.output.words import size
from ragstream_app.session import emit_json, note, session_of
from ragstream_core.text.plurals import counted

REFUSED = 3

DIFF_EPILOG = """**Examples**

ragstream diff 0a1b2c 3d4e5f

ragstream diff 0a1b2c 3d4e5f --json

A cause is tried out: the first prompt is made again with one input of the second."""
TRACE_EPILOG = """**Examples**

ragstream trace "[source: locks.md, chunk: 1f2e3d4c]" 0a1b2c

ragstream trace 1f2e3d4c 0a1b2c"""
WHY_NOT_EPILOG = """**Examples**

ragstream why-not guide/locks.md 0a1b2c

ragstream why-not "guide/locks.md#3" 0a1b2c"""
VERIFY_EPILOG = """**Examples**

ragstream verify-prompt 0a1b2c

ragstream verify-prompt prompt.md

Exit code 0 if every file is unchanged, 3 if one is not."""
LEAVE_EPILOG = """**Example**

ragstream leave-one-out 0a1b2c"""
BUNDLE_EPILOG = """**Examples**

ragstream bundle 0a1b2c --out prompt.bundle

ragstream replay --bundle prompt.bundle

The file holds the documents that were searched, in plain text: give it only to
people who may read them.
"""


def diff(
    ctx: typer.Context,
    before: Annotated[str, typer.Argument(metavar="KEY", help="The prompt to compare with.")],
    after: Annotated[str, typer.Argument(metavar="KEY", help="The prompt to describe.")],
    as_json: options.Json = False,
) -> None:
    """Show what differs between two recorded prompts and which of their inputs caused it.

    Raises:
        UnknownPrompt: No such prompt.
        RagstreamError: A rendering is lost and cannot be made again.
    """
    from ragstream_core.services import diff_prompts

    found = diff_prompts.diff(session_of(ctx).workspace(), before, after)
    if as_json:
        emit_json(found)
        return
    from ragstream_app.output.explain import print_diff

    print_diff(found)


def trace(
    ctx: typer.Context,
    citation: Annotated[
        str, typer.Argument(metavar="CITATION", help="A marker, its id, PATH#INDEX, or a chunk id.")
    ],
    key: options.PromptKey,
    as_json: options.Json = False,
) -> None:
    """Follow a citation to its chunk, file, generation and the ingest run that brought it in.

    Raises:
        UnknownPrompt: No such prompt.
        UsageError: The prompt knows no such citation.
    """
    from ragstream_core.services.trace import trace as follow

    found = follow(session_of(ctx).workspace(), citation, key)
    if as_json:
        emit_json(found)
        return
    from ragstream_app.output.explain import print_trace

    print_trace(found)


def why_not(
    ctx: typer.Context,
    target: Annotated[
        str,
        typer.Argument(metavar="CHUNK|FILE", help="A chunk id, a short id, PATH#INDEX, or a path."),
    ],
    key: options.PromptKey,
    as_json: options.Json = False,
) -> None:
    """Say which stage and rule kept a chunk or a file out of a prompt, and by how much.

    A chunk that no list of retrieval reached is scored exactly, however far down it is.

    Raises:
        UnknownPrompt: No such prompt.
        UsageError: The projects of the prompt know nothing of that name.
    """
    from ragstream_core.services.why_not import why_not as explain

    found = explain(session_of(ctx).workspace(), target, key)
    if as_json:
        emit_json(found)
        return
    from ragstream_app.output.explain import print_why_not

    print_why_not(found)


def verify_prompt(
    ctx: typer.Context,
    what: Annotated[
        str,
        typer.Argument(metavar="FILE|KEY", help="A file that holds a Super-Prompt, or a key."),
    ],
    projects: Annotated[
        list[str] | None,
        typer.Option(
            "-p",
            "--project",
            metavar="PROJECT",
            autocompletion=project_names,
            help="Whose files an unknown prompt names.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Tell which files of a prompt changed since: the injected ones and the quoted ones.

    Raises:
        UsageError: Neither a prompt nor a file that holds one.
        Exit: With 3, where a file is not as it was.
    """
    from ragstream_core.services.verify_prompt import verify_key, verify_text
    from ragstream_core.wiring.file_states import CURRENT

    workspace, path = session_of(ctx).workspace(), Path(what)
    if path.is_file():
        text = path.read_text(encoding="utf-8", errors="replace")
        found = verify_text(workspace, text, tuple(projects or ()))
    else:
        found = verify_key(workspace, what)
    if as_json:
        emit_json(found)
    else:
        from ragstream_app.output.explain import print_receipts

        print_receipts(found)
    if any(file.state != CURRENT for file in found.files):
        raise typer.Exit(REFUSED)


def leave_one_out(
    ctx: typer.Context, key: options.PromptKey, as_json: options.Json = False
) -> None:
    """Switch each selected file off in turn and show what changes; nothing is kept.

    Raises:
        UnknownPrompt: No such prompt.
        RagstreamError: It cannot be made again.
    """
    from ragstream_core.services import what_if

    found = what_if.leave_one_out(session_of(ctx).workspace(), key)
    if as_json:
        emit_json(found)
        return
    from ragstream_app.output.explain import print_leave_one_out

    print_leave_one_out(found)


def bundle(
    ctx: typer.Context,
    key: options.PromptKey,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where to write it; default: KEY.bundle, 12 digits."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Write one file with which a prompt can be made again on another machine.

    Raises:
        UnknownPrompt: No such prompt.
        GenerationGone: A generation that it was made from is no longer there.
        InputUnavailable: Something else that it was made from cannot be put into a file.
    """
    from ragstream_core.services.replay import write_bundle

    workspace = session_of(ctx).workspace()
    full_key = workspace.store.find(key)
    target = out or Path(f"{full_key[:12]}.bundle")
    found = write_bundle(workspace, full_key, target)
    if as_json:
        emit_json(found)
        return
    typer.echo(f"{found.path}: {size(found.bytes)}, {counted(found.chunks, 'chunk')}")
    if found.records:
        note(f"it holds {found.records:,} records of your conversations")
    if found.secrets:
        from ragstream_app.output.words import printable
        from ragstream_core.ingestion.secrets import phrase

        note(f"warning: it seems to contain secrets: {printable(phrase(found.secrets))}")
    note(f"next: ragstream replay --bundle {found.path}")
