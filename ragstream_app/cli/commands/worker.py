"""`ragstream worker`: embed texts for the ingests of other machines."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from ragstream_app.session import session_of

WORKER_EPILOG = """**Examples**

ragstream worker

ragstream worker --queue gpu --processes 2

ragstream worker --check (does the worker of this machine take batches?)

The settings are those of the machine that ingests: `embeddings.shared`, and the same model. Ctrl-C
or SIGTERM lets it finish its batch; the batch of a worker that is killed is done by another one."""


def worker(
    ctx: typer.Context,
    queue: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Take batches from this queue; repeatable; default: `embeddings.queue`.",
        ),
    ] = None,
    processes: Annotated[
        int, typer.Option(min=1, max=64, metavar="N", help="Batches at a time, with one model.")
    ] = 1,
    name: Annotated[
        str, typer.Option(metavar="NAME", help="Its name; default: that of the machine.")
    ] = "",
    check: Annotated[
        bool,
        typer.Option(
            "--check", metavar="", help="Start none: look whether the one of this name is there."
        ),
    ] = False,
) -> None:
    """Embed texts for the ingests of other machines, until it is stopped.

    An ingest puts batches of texts into the database of `embeddings.shared`; the vectors go there.
    """
    from ragstream_core.services.shared_embeddings import require_worker, run_worker

    workspace = session_of(ctx).workspace()
    if check:
        typer.echo(require_worker(workspace, queues=queue or (), name=name))
        return
    run_worker(workspace, queues=queue or (), at_once=processes, name=name, say=_say)


def _say(text: str) -> None:
    typer.echo(f"{time.strftime('%H:%M:%S')} {text}")
