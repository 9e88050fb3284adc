"""`ragstream history import`: turns of an export, of another program's export, or of its logs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ragstream_app.cli import options
from ragstream_app.cli.completion import project_names
from ragstream_app.session import FAILED, emit_json, note, session_of
from ragstream_core.errors import UsageError

if TYPE_CHECKING:
    from ragstream_core.services.import_conversations import ConversationImport
    from ragstream_core.wiring.workspace import Workspace

IMPORT_EPILOG = """**Examples**

ragstream history import chatgpt-export.zip --dry-run

ragstream history import ~/.claude/projects --use-in my_project

ragstream history import ~/notes/chats --format markdown

ragstream history import conversations.jsonl (what `history export` wrote)

What exists already is skipped, so that a newer export adds only what is new."""
# The form of `history export`, and of plain turns.
ROWS = "rows"
SHOWN = 40


def import_(
    ctx: typer.Context,
    source: Annotated[
        str, typer.Argument(metavar="FILE|FOLDER|ZIP", help="What to read; - reads rows on stdin.")
    ],
    form: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="NAME",
            help="chatgpt, claude, gemini, claude-code, codex, markdown or rows; auto: by content.",
        ),
    ] = "auto",
    use_in: Annotated[
        list[str] | None,
        typer.Option(
            "--use-in",
            "--project",
            metavar="WHERE",
            autocompletion=project_names,
            help="Whose prompts may use the turns: nowhere (none, the default), everywhere (all), "
            "or a project; repeatable.",
        ),
    ] = None,
    session: Annotated[
        str,
        typer.Option(metavar="NAME", help="The conversation of rows that name none; default: new."),
    ] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="Only show what would come.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Add conversations: exports of ChatGPT, Claude.ai and Gemini, logs of coding agents, Markdown.

    Nothing is asked of any service, and nothing but text is read: attachments and tool calls are
    named. Rows are JSONL with user, assistant, timestamp, session, tags.

    Raises:
        UsageError: It cannot be read; nothing was written.
        IntegrityError: A row is not what was exported; nothing was written.
        Refused: `history.persist` is off.
        Exit: Nothing of it could be read.
    """
    from ragstream_core.conversations.importers.reader import expanded
    from ragstream_core.services.import_conversations import is_of_rows

    workspace, path = session_of(ctx).workspace(), expanded(source)
    if source == "-" or form == ROWS or (form == "auto" and path.is_file() and is_of_rows(path)):
        if dry_run:
            raise UsageError("--dry-run is for exports of other programs")
        _import_rows(workspace, source, session, use_in=use_in or (), as_json=as_json)
        return
    if session:
        raise UsageError("--session is for rows; these conversations have names of their own")
    if not (use_in or dry_run or as_json) and sys.stdin.isatty():
        use_in = _asked_use(workspace)
    from ragstream_app.output.progress import ingest_progress
    from ragstream_core.services.import_conversations import import_conversations

    with ingest_progress(path.name) as progress:
        done = import_conversations(
            workspace,
            path,
            form="" if form == "auto" else form,
            use_in=use_in or (),
            dry_run=dry_run,
            progress=progress,
        )
    options.tell_of_earlier_turns(workspace)
    if as_json:
        emit_json(done)
    else:
        _print(done)
    if done.problems and not done.conversations:
        raise typer.Exit(FAILED)


def _asked_use(workspace: Workspace) -> list[str]:
    """Ask where the conversations may be used; nothing said is the default."""
    from ragstream_core.conversations.use import NOWHERE

    known = ", ".join(workspace.projects())
    said = typer.prompt(
        f"Use them in: nowhere, everywhere, or projects{f' ({known})' * bool(known)}",
        default=NOWHERE,
        err=True,
    )
    words = str(said).replace(",", " ").split()
    return [] if words == [NOWHERE] else words  # a coding agent's folder may still name a project


def _import_rows(
    workspace: Workspace, source: str, session: str, *, use_in: Sequence[str], as_json: bool
) -> None:
    from ragstream_core.conversations.importers.reader import expanded
    from ragstream_core.services.history_transfer import import_jsonl, read_lines
    from ragstream_core.text.plurals import counted

    lines = _stdin_lines() if source == "-" else read_lines(expanded(source))
    done = import_jsonl(workspace, lines, session=session, use_in=use_in)
    if as_json:
        emit_json(done)
        return
    typer.echo(
        f"{counted(done.added, 'record')} added to {counted(len(done.sessions), 'conversation')}, "
        f"{done.skipped:,} existed already"
    )
    if done.added:
        note("next: ragstream history embed")


def _stdin_lines() -> list[str]:
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise UsageError(f"stdin cannot be read: {error}") from None


def _print(done: ConversationImport) -> None:
    from ragstream_app.output import imported
    from ragstream_app.output.words import printable

    rows = [row for row in done.conversations if row.added or row.unfinished]
    for row in rows[:SHOWN]:
        day = row.timestamp[:10] or " " * 10
        typer.echo(f"{day}  {row.session}  {imported.counted(row)}")
        if row.title:
            typer.echo(f"            {printable(row.title)}")
    if len(rows) > SHOWN:
        typer.echo(f"and {len(rows) - SHOWN} more conversations; --json lists all")
    typer.echo(imported.summed_up(done))
    if done.added:
        typer.echo(imported.used(done.used_in))
    for line in imported.problems(done, rest="; --json lists all"):
        note(line)
    for line in imported.left_out(done, rest="; --json lists all"):
        note(line)
    for name, kinds in done.secrets.items():
        note(f"{name} seems to hold {', '.join(kinds)}: ragstream history show --session {name}")
    if waiting := imported.unfinished(done):
        note(waiting)
    if done.added and not done.dry_run:
        note("next: ragstream history embed")
