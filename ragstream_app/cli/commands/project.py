"""`ragstream init`, `project add`, `list`, `sync`, `remove`: documents in place or mirrored."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragstream_app.cli import options
from ragstream_app.cli.completion import project_names
from ragstream_app.session import emit_json, note, session_of
from ragstream_core.errors import UsageError, quoted, worded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ragstream_core.services.projects import ProjectState
    from ragstream_core.services.remove_project import Removed
    from ragstream_core.services.sync_project import ProjectSync, SyncRequest
    from ragstream_core.wiring.workspace import Workspace

ADD_EPILOG = """**Examples**

ragstream project add notes ~/notes

ragstream project add shop ~/shop/code ~/shop/wiki --label code --label wiki

ragstream project add shop ~/shop --include "*.md" --exclude drafts/ --dry-run

ragstream project add guide s3://bucket/guide https://host/team/wiki.git#main"""
LIST_EPILOG = """**Example**

ragstream project list --json"""
SYNC_EPILOG = """**Examples**

ragstream project sync guide

ragstream project sync guide --label wiki --dry-run"""
REMOVE_EPILOG = """**Examples**

ragstream project remove notes

ragstream project remove notes --keep-index --yes"""

INIT_EPILOG = """**Examples**

ragstream init

ragstream init ~/shop --name shop"""

Name = Annotated[
    str,
    typer.Argument(metavar="NAME", autocompletion=project_names, help="Of the project."),
]
Yes = Annotated[bool, typer.Option("--yes", metavar="", help="Do not ask.")]


def add(
    ctx: typer.Context,
    name: Name,
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH|URL...", help="Folders to read, addresses to fetch from."),
    ],
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="LABEL", help="A name for each PATH, in the same order."),
    ] = None,
    include: Annotated[
        list[str] | None,
        typer.Option(metavar="GLOB", help="Take only what matches; as in .gitignore; repeatable."),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(metavar="GLOB", help="Leave out what matches; repeatable."),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", metavar="", help="Forget the folders it had before.")
    ] = False,
    overlap: Annotated[
        bool,
        typer.Option("--overlap", metavar="", help="Also folders that another project reads."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="Only show what would be found.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Read folders in place as a project: nothing is copied, and nothing is written there.

    A project that has folders already gets these as well. `ragstream ingest NAME` then indexes
    what is in them. .gitignore and .ragignore are respected, links are not followed. A folder
    that is missing or not mounted later keeps its documents in the index.

    An address is s3://, gs://, az://, sftp://, https:// (one file, or a listing), or a git
    repository. It is only noted: `ragstream project sync NAME` fetches it.

    Raises:
        UsageError: A folder, a label or a glob that cannot be used.
        Refused: Another project reads one of the folders.
    """
    from ragstream_core.services import projects

    request = projects.AddRequest(
        paths, label or (), include or (), exclude or (), replace=replace, overlap=overlap
    )
    done = projects.add(session_of(ctx).workspace(), name, request, dry_run=dry_run)
    if as_json:
        emit_json(done)
        return
    _print([done.project])
    if done.left_out:
        shown = f"ragstream status {name} --skipped lists them"
        typer.echo(f"left out: {done.left_out:,}" + ("" if dry_run else f"; {shown}"))
    for line in done.notes:
        note(line)
    if dry_run:
        note(f"nothing was written; {done.file} would be")
    else:
        fetched = any("://" in root.path or "@" in root.path for root in done.project.roots)
        note(
            f"next: ragstream project sync {name}" if fetched else f"next: ragstream ingest {name}"
        )


def init(
    ctx: typer.Context,
    folder: Annotated[
        Path, typer.Argument(metavar="[FOLDER]", help="Of your project; default: this one.")
    ] = Path(),
    name: Annotated[
        str, typer.Option(metavar="NAME", help="Of the project; default: the folder's name.")
    ] = "",
    as_json: options.Json = False,
) -> None:
    """Make a data root, .ragstream, in the folder of a project, and read that folder in place.

    Commands that run in the folder or below it then use it, as git does. Git ignores .ragstream.
    A root that --data, $RAGSTREAM_DATA_DIR or a configuration file names goes first.

    Raises:
        UsageError: There is no such folder.
        Refused: It has a data root already.
    """
    from ragstream_app.output.words import printable
    from ragstream_core.services.projects import init_folder

    if session_of(ctx).data is not None:
        raise UsageError("init takes no --data", hint="name the folder instead")
    made = init_folder(folder, name)
    if as_json:
        emit_json(made)
        return
    typer.echo(
        printable(f"project {made.project} reads {made.folder}; all else is in {made.data_dir}")
    )
    typer.echo(f"left out besides what .gitignore names: {', '.join(made.exclude)}")
    if made.above:
        note(printable(f"commands here no longer use {made.above}"))
    note(f"next: ragstream ingest {made.project}")


def list_(ctx: typer.Context, as_json: options.Json = False) -> None:
    """List all projects: where their documents lie, how many there are, what is missing."""
    from ragstream_core.services import projects

    found = projects.list_projects(session_of(ctx).workspace())
    if as_json:
        emit_json(found)
        return
    _print(found)
    if not found:
        note("no project yet; next: ragstream project add NAME PATH")


def sync(
    ctx: typer.Context,
    name: Name,
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="LABEL", help="Only this address; repeatable."),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", metavar="", help="Only ask what there is; fetch nothing."),
    ] = False,
    yes: Annotated[
        bool,
        typer.Option("--yes", metavar="", help="Take a place that lists nothing for emptied."),
    ] = False,
    no_record: options.NoRecord = False,
    as_json: options.Json = False,
) -> None:
    """Fetch what is new at the addresses of a project, and drop what is no longer there.

    This is the only command that contacts them, and `ragstream ingest NAME --sync`. Interrupted,
    it goes on where it stopped. Keys come from the environment, ~/.netrc or an SSH agent.

    Raises:
        UsageError: The project has no address, or there is no such place.
        Refused: A place lets nobody in, lists nothing, or too much.
        OperationFailed: It does not answer.
        Exit: Files or addresses could not be had; the old ones stay.
    """
    from ragstream_core.services.sync_project import SyncRequest

    workspace = session_of(ctx).workspace()
    request = SyncRequest(tuple(label or ()), empty_ok=yes, dry_run=dry_run)
    done = _synced(workspace, name, request)
    if as_json:
        emit_json({**done.to_json(), "run_id": ""})
    else:
        _print_sync(done)
    if not as_json and not dry_run:
        note(f"next: ragstream ingest {name}")
    if not done.is_complete:
        raise typer.Exit(1)


def sync_and_note(workspace: Workspace, name: str, *, quiet: bool) -> bool:
    """Sync a project before an ingest; return whether all of it is here.

    Args:
        workspace: The data root.
        name: The project.
        quiet: Keep standard output for JSON; what failed is noted.

    Raises:
        RagstreamError: As `sync_project`.
    """
    done = _synced(workspace, name)
    if not quiet:
        _print_sync(done)
    elif not done.is_complete:
        note(f"{name}: not all of it could be fetched; ragstream project sync {name}")
    return done.is_complete


def _synced(workspace: Workspace, name: str, request: SyncRequest | None = None) -> ProjectSync:
    """Sync a project with progress.

    Raises:
        RagstreamError: As `sync_project`.
    """
    from ragstream_app.output.progress import ingest_progress
    from ragstream_core.services.sync_project import sync_project

    with ingest_progress(name) as progress:
        return sync_project(workspace, name, request, progress=progress)


def _print_sync(done: ProjectSync) -> None:
    from ragstream_app.output.synced import sync_lines
    from ragstream_app.output.words import printable

    for line in sync_lines(done):
        typer.echo(line)
    for row in done.problems:
        typer.echo(printable(f"{row.url}: {row.message}"))
        if row.advice:
            typer.echo(printable(f"  next: {worded(row.advice)}"))


def remove(
    ctx: typer.Context,
    name: Name,
    keep_index: Annotated[
        bool,
        typer.Option(
            "--keep-index", metavar="", help="Leave the index: prompts can still be replayed."
        ),
    ] = False,
    dry_run: options.RemovalDryRun = False,
    yes: Yes = False,
    as_json: options.Json = False,
) -> None:
    """Forget a project whose documents are read in place, and delete its index.

    The documents are never touched. Prompts, conversations and gold questions stay.

    Raises:
        UsageError: There is no such project, or it was not confirmed.
        Refused: Its documents lie below the data root, or kept prompts need its index.
        Abort: The answer was no.
    """
    from ragstream_app.output.history_ways import confirm
    from ragstream_app.output.words import printable, size
    from ragstream_core.services.remove_project import remove as forget

    workspace = session_of(ctx).workspace()
    if not dry_run and not yes:
        found = forget(workspace, name, keep_index=keep_index, dry_run=True)
        going = f"and its index ({size(found.index_bytes)}) " if found.index_bytes else ""
        for line in found.stays:
            note(printable(f"stays: {line}"))
        _note_exclude(found)
        confirm(f"project {name} {going}would be removed")
    done = forget(workspace, name, keep_index=keep_index, dry_run=dry_run)
    if as_json:
        emit_json(done)
        return
    for line in done.stays:
        typer.echo(printable(f"stays: {line}"))
    if dry_run or yes:
        _note_exclude(done)
    said = "removed" if done.removed else "would be removed"
    typer.echo(f"{name}: {said}" + (f", {size(done.index_bytes)}" if done.index_bytes else ""))


def _note_exclude(removed: Removed) -> None:
    """Say that documents which were kept out come back if the folders are added again."""
    from ragstream_app.output.words import printable

    if removed.exclude:
        options_ = quoted(*(word for glob in removed.exclude for word in ("--exclude", glob)))
        note(
            "goes: what keeps documents out, those of `forget --exclude` too; a new `project add` "
            f"of these folders reads them again unless it has {printable(options_)}"
        )


def _print(found: Iterable[ProjectState]) -> None:
    from ragstream_app.output.words import printable

    for project in found:
        kind = "in place" if project.in_place else "copied"
        kind = f"pulled from {project.pulled_from}" if project.pulled_from else kind
        made = f"generation {project.generation}" if project.generation else "not ingested yet"
        kind += ", but it cannot be read" if project.problem else ""
        typer.echo(printable(f"{project.name}  ({kind}; {project.indexed:,} indexed, {made})"))
        if project.problem:
            typer.echo(printable(f"  unusable: {project.problem}"))
        for root in project.roots:
            state = f"{root.state}: {root.reason}" if root.reason else root.state
            label = f"{root.label}  " if root.label else ""
            count = f"{root.documents:,} document" + ("" if root.documents == 1 else "s")
            typer.echo(printable(f"  {label}{root.path}  {count}, {state}"))
        for kind, globs in (("include", project.include), ("exclude", project.exclude)):
            if globs:
                typer.echo(printable(f"  {kind}: {', '.join(globs)}"))
