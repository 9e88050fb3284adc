"""`ragstream embeddings status` and `clear`: the table of vectors that machines share."""

from __future__ import annotations

from typing import Annotated

import typer

from ragstream_app.cli import options
from ragstream_app.output.words import size, workers_text
from ragstream_app.session import emit_json, note, session_of
from ragstream_core.errors import AddOption, Refused
from ragstream_core.text.plurals import counted

CLEAR_EPILOG = """**Examples**

ragstream embeddings clear --older-than 180 --dry-run

ragstream embeddings clear --model sentence-transformers/all-MiniLM-L6-v2

ragstream embeddings clear --yes (all of them)"""


def status(ctx: typer.Context, as_json: options.Json = False) -> None:
    """Show what the database of `embeddings.shared` holds, and which workers are there.

    Raises:
        UnknownSetting: No database is set.
        OperationFailed: It does not answer, or lets nobody in.
        Refused: Its tables have another version.
    """
    from ragstream_core.services.shared_embeddings import shared_table

    table = shared_table(session_of(ctx).workspace())
    if as_json:
        emit_json(table)
        return
    typer.echo(f"{table.database}: reached, {size(table.bytes)} on its disk")
    for model in table.models:
        mine = ", configured here" if model.fingerprint == table.mine else ""
        newest = f", newest {model.newest}" if model.newest else ""
        typer.echo(
            f"  {model.model} ({model.fingerprint[:12]}{mine}): "
            f"{counted(model.vectors, 'vector')} of {model.dimension} numbers, "
            f"{size(model.bytes)}{newest}"
        )
    if all(model.fingerprint != table.mine for model in table.models):
        typer.echo(f"  none of the model that is configured here ({table.mine[:12]})")
    if table.workers is not None:
        queue = session_of(ctx).workspace().config.settings.embeddings.queue
        typer.echo(workers_text(queue, table))
        typer.echo(f"texts that wait for workers: {table.waiting:,}")


def clear(
    ctx: typer.Context,
    model: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Only of this model: its name, or 8 digits of its digest or more."
        ),
    ] = "",
    older_than: Annotated[
        int, typer.Option(min=0, metavar="DAYS", help="Only those added before so many days.")
    ] = 0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="Only say how many they are.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", metavar="", help="Remove all, for every machine.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Remove shared vectors; indexes keep theirs, and an ingest makes again what it needs.

    Raises:
        Refused: All of them, or those of several models, and no `--yes`.
        UsageError: The table has no such model.
        UnknownSetting: No database is set.
        OperationFailed: It does not answer; nothing was removed.
    """
    from ragstream_core.services.shared_embeddings import clear_shared

    workspace = session_of(ctx).workspace()
    if not (model or older_than or dry_run or yes):
        raise Refused(
            "this would remove the shared vectors of all models, for every machine",
            hint=(AddOption("--yes"), ", or choose with --model or --older-than"),
        )
    done = clear_shared(
        workspace, model=model, older_than_days=older_than, dry_run=dry_run, several=yes
    )
    if as_json:
        emit_json(done)
    elif done.dry_run:
        typer.echo(f"{counted(done.vectors, 'vector')} would be removed")
    else:
        typer.echo(f"{counted(done.vectors, 'vector')} removed")
        note("the database gives the space back to its disk when it is vacuumed")
