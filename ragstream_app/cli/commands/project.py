"""`ragstream project add`, `list`, `remove`: documents that are read where they lie."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragstream_app.cli import options
from ragstream_app.session import emit_json, note, session_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ragstream_core.services.projects import ProjectState

ADD_EPILOG = """**Examples**

ragstream project add notes ~/notes

ragstream project add shop ~/shop/code ~/shop/wiki --label code --label wiki

ragstream project add shop ~/shop --include "*.md" --exclude drafts/ --dry-run"""
LIST_EPILOG = """**Example**

ragstream project list --json"""
REMOVE_EPILOG = """**Examples**

ragstream project remove notes

ragstream project remove notes --keep-index --yes"""

Name = Annotated[str, typer.Argument(metavar="NAME", help="Of the project.")]
Yes = Annotated[bool, typer.Option("--yes", metavar="", help="Do not ask.")]


def add(
    ctx: typer.Context,
    name: Name,
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Folders to read.")],
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="LABEL", help="What a folder is called; once a PATH, in their order."),
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
        emit_json(done.to_json())
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
        note(f"next: ragstream ingest {name}")


def list_(ctx: typer.Context, as_json: options.Json = False) -> None:
    """List all projects: where their documents lie, how many there are, what is missing."""
    from ragstream_core.services import projects

    found = projects.list_projects(session_of(ctx).workspace())
    if as_json:
        emit_json([project.to_json() for project in found])
        return
    _print(found)
    if not found:
        note("no project yet; next: ragstream project add NAME PATH")


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
        confirm(f"project {name} {going}would be removed")
    done = forget(workspace, name, keep_index=keep_index, dry_run=dry_run)
    if as_json:
        emit_json(done.to_json())
        return
    for line in done.stays:
        typer.echo(printable(f"stays: {line}"))
    said = "removed" if done.removed else "would be removed"
    typer.echo(f"{name}: {said}" + (f", {size(done.index_bytes)}" if done.index_bytes else ""))


def _print(found: Iterable[ProjectState]) -> None:
    from ragstream_app.output.words import printable

    for project in found:
        kind = "in place" if project.in_place else "copied"
        made = f"generation {project.generation}" if project.generation else "not ingested yet"
        typer.echo(f"{project.name}  ({kind}; {project.indexed:,} indexed, {made})")
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
