"""A Celery worker that embeds batches of texts, with our settings; runs until it is stopped."""

import importlib
import sys
import time

from ragstream_assets.celery_executor import app_args, broker_shown, queue_name
from ragstream_core.config import AppConfig
from ragstream_core.wiring.models import fingerprint


def serve(config: AppConfig, queues: list[str], *, processes: int, name: str) -> None:
    """Take batches from queues and embed them, each in a process that keeps the model.

    SIGTERM lets it finish what it has begun; what is killed is done by another worker.

    Args:
        config: The settings of this machine.
        queues: Names of queues, as in `embeddings.queue`.
        processes: Batches at the same time.
        name: The worker's name; workers of one broker have different ones.
    """
    from celery import signals
    from dagster_celery.make_app import make_app
    from dagster_celery.tasks import create_task

    settings = config.settings.embeddings
    app = make_app(app_args(config))
    create_task(app)
    place = broker_shown(settings)
    names = [queue_name(queue, fingerprint(config)) for queue in queues]

    def ready(sender: object = None, **_: object) -> None:
        _say(f"worker {name} takes batches from {', '.join(queues)} of {place}")

    def warm_up(**_: object) -> None:
        from ragstream_assets.resources import WorkerResource
        from ragstream_core.wiring.models import embedder

        embedder(WorkerResource().open().config)  # the first batch does not wait for the model
        importlib.import_module("ragstream_assets.definitions")

    def done(sender: object = None, state: str = "", **_: object) -> None:
        _say(f"batch: {state.lower() or 'ended'}")

    signals.worker_ready.connect(ready, weak=False)
    signals.worker_process_init.connect(warm_up, weak=False)
    signals.task_postrun.connect(done, weak=False)
    app.worker_main(
        [
            "worker", "--pool=prefork", f"--concurrency={processes}", f"--hostname={name}",
            f"--queues={','.join(names)}", "--loglevel=WARNING",
            "--without-gossip", "--without-mingle",
        ]
    )  # fmt: skip


def _say(text: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stdout.flush()
