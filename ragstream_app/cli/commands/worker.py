"""`ragstream worker`: embed texts for the ingests of other machines."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Annotated

import typer

from ragstream_app.session import note, session_of
from ragstream_core.errors import OperationFailed, RunCommand, quoted

if TYPE_CHECKING:
    from ragstream_core.config import AppConfig

WORKER_EPILOG = """**Examples**

ragstream worker

ragstream worker --queue gpu --processes 2

ragstream worker --check (does the worker of this machine take batches?)

The settings are those of the machine that ingests: `embeddings.shared`, `embeddings.broker`, and
the same model. Ctrl-C or SIGTERM lets it finish its batch; the batch of a worker that is killed is
done by another one."""


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
        int,
        typer.Option(min=1, max=64, metavar="N", help="Batches at a time, each with a model."),
    ] = 1,
    name: Annotated[
        str, typer.Option(metavar="NAME", help="Its name; default: that of the machine.")
    ] = "",
    check: Annotated[
        bool,
        typer.Option(
            "--check", metavar="", help="Start none: ask the one of this name if it takes batches."
        ),
    ] = False,
) -> None:
    """Embed texts for the ingests of other machines, until it is stopped.

    An ingest puts batches of texts into the database of `embeddings.shared` and says so through the
    Redis of `embeddings.broker`. The vectors go into the database.

    Raises:
        UnknownSetting: A setting is missing or is no address.
        ExtraMissing: Celery is not installed.
        OperationFailed: The database of shared vectors or the broker does not let us in, or the
            worker that is asked does not answer.
        WeightsMissing: The model is not on this machine.
    """
    from ragstream_assets.fan_out import require_workers
    from ragstream_assets.instance import dagster_home
    from ragstream_core.config import adopt_environment
    from ragstream_core.services.shared_embeddings import shared_table

    workspace = session_of(ctx).workspace()
    config = workspace.config
    require_workers(workspace)
    queues = queue or [config.settings.embeddings.queue]
    mine = name or f"ragstream@{platform.node()}"
    mine = mine if "@" in mine else f"{mine}@{platform.node()}"
    if check:
        _require_answer(config, mine, queues)
        return
    from ragstream_assets.celery_executor import require_let_in

    table = shared_table(workspace)
    require_let_in(config)
    note(f"vectors go to {table.database}, of model {table.mine[:12]}")
    adopt_environment(config)
    dagster_home(config.data_dir, config.settings.dagster)
    from ragstream_assets.servers.worker import serve

    serve(config, queues, processes=processes, name=mine)


def _require_answer(config: AppConfig, name: str, queues: list[str]) -> None:
    """Require that a worker answers through the broker, and takes batches from some queues.

    Raises:
        OperationFailed: It does not, or the broker does not answer.
    """
    from ragstream_app.output.workers import others_text
    from ragstream_assets.celery_executor import broker_shown, workers_there

    settings = config.settings.embeddings
    for queue in queues:
        found = workers_there(config, queue)
        if name not in found.there:
            raise OperationFailed(
                f"worker {name} does not take batches from queue {queue} of "
                f"{broker_shown(settings)}; those that do: {', '.join(found.there) or 'none'}"
                f"{others_text(found)}",
                hint=RunCommand("worker", quoted("--queue", queue, "--name", name)),
            )
    typer.echo(f"worker {name} takes batches from {', '.join(queues)} of {broker_shown(settings)}")
