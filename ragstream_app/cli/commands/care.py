"""`ragstream backup`, `restore`, `du`, `forget`, `keep`, `prompts gc`, `runs gc`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragstream_app.cli import options
from ragstream_app.output.words import size
from ragstream_app.session import emit_json, note, session_of

FORGET_EPILOG = """**Example**

ragstream forget notes/salaries.md -p handbook --delete

Backups, copies on other machines and what was sent to a language model cannot be reached."""


def backup(
    ctx: typer.Context,
    destination: Annotated[Path, typer.Argument(metavar="DEST", help="The folder to make.")],
    projects: options.IndexedProjects = None,
    documents: Annotated[
        bool, typer.Option("--documents", metavar="", help="Copy the documents too.")
    ] = False,
    force: options.Overwrite = False,
    as_json: options.Json = False,
) -> None:
    """Copy indexes, project texts, prompts and conversations to a new folder; verify the copy.

    Raises:
        Refused: The folder already exists.
        ProjectLocked: Another process writes a project.
    """
    from ragstream_core.services.backup import backup as make
    from ragstream_core.text.plurals import counted

    workspace = session_of(ctx).workspace()
    made = make(workspace, destination, projects or (), documents=documents, force=force)
    if as_json:
        emit_json(made)
        return
    for name, state in made.projects.items():
        typer.echo(f"{name}: generation {state.generation}, digest {state.digest[:12]}")
    if made.history:
        typer.echo(f"conversations: {counted(made.history.records, 'record')}")
    for folder in made.in_place:
        note(f"{folder} is read in place: its documents are not in the backup")
    for name in made.pulled:
        note(f"the index of {name} is made elsewhere and not in the backup; pull it again")
    done = "the same lay there already; verified" if made.already else "verified"
    typer.echo(
        f"{counted(made.files, 'file')}, {size(made.bytes)}, {counted(made.prompts, 'prompt')} "
        f"in {made.path}; {done}"
    )


def restore(
    ctx: typer.Context,
    source: Annotated[Path, typer.Argument(metavar="SRC", help="A folder made by backup.")],
    force: options.Overwrite = False,
    as_json: options.Json = False,
) -> None:
    """Bring a backup back; every file is verified before the first is written.

    Raises:
        UsageError: No backup lies there.
        IntegrityError: A file is not what was backed up.
        Refused: Something already exists.
    """
    from ragstream_core.services.restore import restore as bring_back
    from ragstream_core.text.plurals import counted

    made = bring_back(session_of(ctx).workspace(), source, force=force)
    if as_json:
        emit_json(made)
        return
    for name, state in made.projects.items():
        typer.echo(f"{name}: generation {state.generation}, digest {state.digest[:12]}")
    typer.echo(f"{counted(made.files, 'file')} restored from {made.path}")
    note("next: ragstream status")


def du(ctx: typer.Context, as_json: options.Json = False) -> None:
    """Show what takes the space below the data root."""
    from ragstream_core.services.disk_usage import disk_usage

    used = disk_usage(session_of(ctx).workspace())
    if as_json:
        emit_json(used)
        return
    for area in used.areas:
        typer.echo(f"{size(area.bytes):>12}  {area.name:<14} {area.path}")
    for project, parts in used.projects.items():
        inside = ", ".join(f"{kind} {size(count)}" for kind, count in parts.items())
        typer.echo(f"{'':>12}  index of {project}: {inside or 'empty'}")
    if used.history:
        inside = ", ".join(f"{part} {size(count)}" for part, count in used.history.items())
        typer.echo(f"{'':>12}  conversations: {inside}")
    typer.echo(f"{size(used.total):>12}  in all; {size(used.free)} free")


def forget(
    ctx: typer.Context,
    path: Annotated[str, typer.Argument(metavar="PATH", help="As `status` writes it.")],
    project: Annotated[
        str, typer.Option("--project", "-p", metavar="NAME", help="The project it belongs to.")
    ],
    delete: Annotated[
        bool,
        typer.Option("--delete", metavar="", help="Delete the file too, if it still lies there."),
    ] = False,
    exclude: Annotated[
        bool,
        typer.Option(
            "--exclude", metavar="", help="In place: leave the file there, and out of the project."
        ),
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Erase a file from every generation and from everything that was made from it.

    Prompts and recorded runs that hold its text go as well, kept ones too. Afterwards every file
    below the data root is searched for copies. A kill at any moment is harmless: run it again.

    Raises:
        UsageError: No generation ever held that path.
        Refused: The file still lies in the project's folder.
        ProjectLocked: Another process writes the project.
        OperationFailed: Something still holds the text.
    """
    from ragstream_core.services.forget import forget as erase

    done = erase(session_of(ctx).workspace(), project, path, delete=delete, exclude=exclude)
    if as_json:
        emit_json(done)
        return
    from ragstream_app.output.words import printable
    from ragstream_core.text.plurals import counted

    if not done.generations:
        typer.echo(f"{printable(path)} was erased from {project} before; nothing is left to do")
        return
    for name in done.removed:
        typer.echo(f"removed {printable(name)}")
    said = any(name.startswith("history/") for name in done.left)
    for name in done.left:
        if not name.startswith("history/"):
            note(f"the same words stand in {printable(name)}, which is yours: it was not touched")
    if said:
        note("the same words were said in conversations, which are yours: ragstream history clear")
    typer.echo(
        f"{printable(path)} is erased from {counted(done.generations, 'generation')} of {project}: "
        f"{counted(done.chunks, 'chunk')}, {counted(done.texts, 'text')} ({done.shared:,} more in "
        f"other files too, which stay); {counted(done.searched, 'file')} searched, none of ours "
        "holds its text"
    )


def keep(
    ctx: typer.Context,
    key: options.PromptKey,
    undo: Annotated[
        bool, typer.Option("--undo", metavar="", help="Do not keep it any longer.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Keep a prompt: the generations it was made from stay, however old they become.

    Raises:
        UnknownPrompt: No such prompt.
        GenerationGone: A generation that it needs is no longer there.
    """
    from ragstream_core.services import prompt_retention
    from ragstream_core.wiring.projects import pulled

    workspace = session_of(ctx).workspace()
    change = prompt_retention.unkeep if undo else prompt_retention.keep
    done = change(workspace, key)
    if as_json:
        emit_json(done)
        return
    if undo:
        typer.echo(f"{done.prompt_key[:12]} is no longer kept")
        return
    elsewhere = pulled(workspace.layout)
    pins = [f"generation {n} of {name}" for name, n in done.pins if name not in elsewhere]
    with_it = f", and with it {', '.join(pins)}" if pins else ""
    typer.echo(f"{done.prompt_key[:12]} is kept{with_it}")
    for name, n in done.pins:
        if name in elsewhere:
            note(f"generation {n} of {name} is there until it is dropped where its index is made")


def prompts_gc(
    ctx: typer.Context,
    dry_run: options.RemovalDryRun = False,
    as_json: options.Json = False,
) -> None:
    """Drop old prompts that `ragstream keep` does not hold, and the stage files of their runs.

    `retention.prompt_days` and `retention.prompt_count` say which; `ragstream keep` spares one.

    Raises:
        OSError: Something cannot be removed.
    """
    from ragstream_core.services import prompt_retention
    from ragstream_core.text.plurals import counted

    done = prompt_retention.gc(session_of(ctx).workspace(), dry_run=dry_run)
    if as_json:
        emit_json(done)
        return
    verb = "would free" if dry_run else "freed"
    typer.echo(
        f"{counted(len(done.prompts), 'prompt')}, stage files of {counted(done.runs, 'run')}, "
        f"{counted(done.files, 'other file')}; {verb} {size(done.bytes)}"
    )


def runs_gc(
    ctx: typer.Context,
    dry_run: options.RemovalDryRun = False,
    as_json: options.Json = False,
) -> None:
    """Drop recorded runs that are old and that nothing needs, with their files, and debug logs.

    `retention.run_days` and `retention.run_count` say which. A run stays that holds the latest
    state of an asset, that made a kept prompt, or that a run which stays was built on.

    Raises:
        OSError: Something cannot be removed.
    """
    from ragstream_assets import run_retention
    from ragstream_core.text.plurals import counted

    done = run_retention.gc(session_of(ctx).workspace(), dry_run=dry_run)
    if as_json:
        emit_json(done)
        return
    verb = "would free" if dry_run else "freed"
    typer.echo(
        f"{counted(len(done.runs), 'run')}, "
        f"{counted(done.orphans, 'event file')} without a run, "
        f"{counted(done.logs, 'debug log')}; {verb} {size(done.bytes)}"
    )
