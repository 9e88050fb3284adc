"""Steps on Celery workers: Dagster's own executor with settings that survive whatever ends.

Celery's defaults lose the step of a worker that is killed, and a run waits for it for ever. Here a
message is acknowledged when its step is through, and a step of which nothing is heard is handed
out again: a batch that is embedded twice costs time and changes nothing.
"""

import contextlib
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import celery.exceptions
import dagster as dg
import kombu
import kombu.exceptions
import redis.exceptions
from celery import Celery
from celery.result import AsyncResult, EagerResult
from dagster_celery.core_execution_loop import core_celery_execution_loop
from dagster_celery.make_app import make_app
from dagster_celery.tasks import create_task

from ragstream_assets import dagster_private
from ragstream_assets.resources import config_of
from ragstream_assets.run_here import brief
from ragstream_assets.run_outcomes import outcome
from ragstream_core.config import AppConfig
from ragstream_core.errors import OperationFailed, RunCommand, SetVariable
from ragstream_core.services.fan_out import require_broker
from ragstream_core.settings.documents import EmbeddingsConfig
from ragstream_core.wiring.models import fingerprint

BATCH_OP = "embed_batch"
"""The op that workers take; the others read documents and stay with the run."""
AWAY = (
    OSError,
    kombu.exceptions.KombuError,
    redis.exceptions.RedisError,
    celery.exceptions.BackendError,
)
"""What is raised while the broker is away."""
HAND_OUTS = 4
"""How often a step is handed out before somebody must look."""
PHASE = "workers"
ANSWER_S = 2.0
_LOOK = {"socket_timeout": 4, "socket_connect_timeout": 4, "retry_on_timeout": False}
"""Of a look: somebody waits for it. redis tries again inside its tries, for many minutes."""
_NOT_LET_IN = re.compile("password|authenticat", re.IGNORECASE)
RESULTS_KEPT_S = 6 * 3600


def queue_name(queue: str, embed_fp: str) -> str:
    """Return the name that a queue has at the broker: each model has its own.

    A worker that refused the batches of another model would be through with them before one that
    embeds, and would get them all.

    Args:
        queue: As in `embeddings.queue`.
        embed_fp: Fingerprint of the model.
    """
    return f"ragstream-{queue}-{embed_fp[:12]}"


def app_args(settings: AppConfig) -> dict[str, Any]:
    """Return what a Celery application of ours is made with, for workers and for launchers.

    Args:
        settings: Those of this machine.

    Raises:
        RagstreamError: They name a model that is not here.
    """
    config = settings.settings.embeddings
    url = config.broker.get_secret_value()
    redis_options = {
        "socket_keepalive": True,
        "retry_on_timeout": True,
        "health_check_interval": 10,
    }
    of_celery = {
        # a step is done when it is through, not when it is taken
        "task_acks_late": True,
        "task_reject_on_worker_lost": True,
        "worker_prefetch_multiplier": 1,
        "broker_transport_options": {
            "visibility_timeout": config.batch_timeout_s, "socket_connect_timeout": 5,
            "socket_timeout": 30, **redis_options,
        },
        "visibility_timeout": config.batch_timeout_s,
        # the broker and its results may be away for any time
        "broker_connection_retry": True,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "result_backend_always_retry": True,
        "result_backend_max_retries": 100,
        "result_backend_max_sleep_between_retries_ms": 5_000,
        "result_backend_transport_options": {
            "visibility_timeout": config.batch_timeout_s, "retry_policy": {"timeout": 5.0},
        },
        "redis_socket_connect_timeout": 5,
        "redis_socket_timeout": 30,
        "redis_socket_keepalive": True,
        "redis_retry_on_timeout": True,
        "redis_backend_health_check_interval": 10,
        "result_expires": RESULTS_KEPT_S,
        "task_default_queue": queue_name(config.queue, fingerprint(settings)),
        "worker_enable_remote_control": True,
        "worker_proc_alive_timeout": 600,  # the model is loaded before a process is ready
    }  # fmt: skip
    return {"broker": url, "backend": url, "config_source": of_celery}


def broker_shown(config: EmbeddingsConfig) -> str:
    """Return the broker's address without user and password."""
    parts = urlsplit(config.broker.get_secret_value())
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"


class Workers(NamedTuple):
    """The workers that take batches from a queue.

    Attributes:
        there: Names of those that embed by the model of this machine, sorted.
        others: Names of those that embed by another one: they get nothing from here.
    """

    there: list[str]
    others: list[str]


def workers_there(settings: AppConfig, queue: str = "", *, any_of_them: bool = False) -> Workers:
    """Return the workers that take batches from a queue now.

    Args:
        settings: Those of this machine.
        queue: Its name; default: the one of the settings.
        any_of_them: Whether the first one that answers is enough. Who wants all of them waits
            for `ANSWER_S`, since nothing says how many there are.

    Raises:
        UnknownSetting: The broker's address is none.
        OperationFailed: The broker does not answer.
        RagstreamError: The settings name a model that is not here.
    """
    config = settings.settings.embeddings
    require_broker(config)
    wanted = queue_name(queue or config.queue, fingerprint(settings))
    try:
        with _connected(settings) as (app, connection):
            for answers in (1, None) if any_of_them else (None,):
                inspected = app.control.inspect(
                    timeout=ANSWER_S, connection=connection, limit=answers
                )
                found = _that_take(inspected.active_queues() or {}, wanted)
                if found.there:
                    break
    except AWAY as error:
        raise _broker_failure(config, str(error)) from None
    return found


def require_let_in(settings: AppConfig) -> None:
    """Require that the broker lets us in, if it answers: a worker would try for ever.

    Raises:
        OperationFailed: It wants another password.
    """
    try:
        with _connected(settings):
            pass
    except AWAY as error:
        if _NOT_LET_IN.search(str(error)):
            raise _broker_failure(settings.settings.embeddings, str(error)) from None


@contextlib.contextmanager
def _connected(settings: AppConfig) -> Iterator[tuple[Celery, kombu.Connection]]:
    """Connect to the broker for a look.

    Raises:
        Exception: One of `AWAY`.
    """
    args = app_args(settings)
    args["config_source"]["broker_transport_options"].update(_LOOK)
    app = make_app(args)
    with app.connection_for_write() as connection:
        connection.ensure_connection(max_retries=1, interval_start=0.2, timeout=5)
        yield app, connection


def _that_take(queues: dict[str, list[dict[str, str]]], wanted: str) -> Workers:
    """Return those that take from a queue, or from that of another model, of all workers."""
    of_any_model = wanted.rpartition("-")[0]
    there, others = [], []
    for name, taken in sorted(queues.items()):
        names = {each["name"] for each in taken}
        if wanted in names:
            there.append(name)
        elif any(one.rpartition("-")[0] == of_any_model for one in names):
            others.append(name)
    return Workers(there, others)


def _broker_failure(config: EmbeddingsConfig, said: str) -> OperationFailed:
    """Return what is wrong with a broker, by the words of its client."""
    shown = f"the broker {broker_shown(config)} (embeddings.broker)"
    if _NOT_LET_IN.search(said):
        return OperationFailed(
            f"{shown} does not let us in: {said}",
            hint=(SetVariable("RAGSTREAM_EMBEDDINGS__BROKER"),
                  " with its password: redis://:PASSWORD@HOST:6379/0"),
        )  # fmt: skip
    return OperationFailed(
        f"{shown} does not answer: {said}", hint="start Redis there, or correct embeddings.broker"
    )


@dataclass
class Watch:
    """When something was last heard of a run's steps.

    Attributes:
        run_id: The run.
        patience_s: Seconds of silence after which a step is handed out again.
        heard: When the last result came, on the clock of `time.monotonic`.
        done: Batches that are through.
        handed_out: Batches in all, as far as they are known.
    """

    run_id: str
    patience_s: float
    heard: float = field(default_factory=time.monotonic)
    done: int = 0
    handed_out: int = 0

    def came(self) -> None:
        """Take note of a result."""
        self.heard = time.monotonic()
        self.done += 1
        self.tell()

    def tell(self) -> None:
        """Report how many batches are through; what it raises ends the run."""
        progress = outcome(self.run_id).progress
        if progress is not None:
            progress(PHASE, self.done, self.handed_out)


class HandedOut:
    """A step that workers have been given, once or again; looks like the result of a task.

    Args:
        task: What a worker is to do.
        options: Of the message: queue and priority.
        watch: Of the run.
        step: Its key, for messages.
    """

    def __init__(self, task: Any, options: Mapping[str, object], watch: Watch, step: str) -> None:
        self._task, self._options, self._watch, self._step = task, options, watch, step
        self._results: list[AsyncResult] = []
        self._times = 0
        self._said = ""
        self._since = time.monotonic()
        self._done: AsyncResult | None = None
        watch.handed_out += 1
        self._hand_out()

    def ready(self) -> bool:
        """Return whether a worker is through with it; hands it out again if nothing is heard.

        So it does if a worker could not run it at all, for want of the database: to Dagster's loop
        that is an error after which it begins no step more, and it never ends if one waits for its
        next try.

        Raises:
            OperationFailed: It was handed out so often that somebody must look.
        """
        self._watch.tell()
        try:
            done = next((each for each in self._results if each.ready()), None)
            if done is not None and done.failed():
                self._said = f": {brief(done.result)}"
                self._results.remove(done)
                self._hand_out()
                return False
        except AWAY:
            return False  # the results are still there when the broker is back, or it is done again
        self._done = done
        if done is not None:
            self._watch.came()
            return True
        silent = time.monotonic() - max(self._since, self._watch.heard)
        if not self._results or silent > self._watch.patience_s:
            self._hand_out()
        return False

    def get(self) -> list[str]:
        """Return the events of the step."""
        assert self._done is not None
        events: list[str] = self._done.get(disable_sync_subtasks=False)
        return events

    def revoke(self) -> None:
        """Tell the workers that nobody waits for it any more."""
        for each in self._results:
            try:
                each.revoke()
            except AWAY:
                return

    def _hand_out(self) -> None:
        if self._times >= HAND_OUTS:
            said = f"{self._step} was handed out {HAND_OUTS} times and no worker finished it"
            outcome(self._watch.run_id).unsettled = said = f"{said}{self._said}"
            raise OperationFailed(
                said,
                hint=("look at the workers and at embeddings.batch_timeout_s; is one running? ",
                      RunCommand("worker")),
            )  # fmt: skip
        try:
            if self._times:
                self._declare()
            self._results.append(self._task.apply_async(**self._options))
        except AWAY:
            return  # tried again at the next look
        self._times += 1
        self._since = time.monotonic()

    def _declare(self) -> None:
        """Make the queue known: a broker without its data drops what is sent to an unknown one."""
        app = self._task.app
        with app.connection_for_write() as connection:
            app.amqp.queues[self._options["queue"]](connection.default_channel).declare()


class CeleryWorkersExecutor(dg.Executor):
    """Runs batches on workers and everything else here; the settings are those of the run."""

    _settings: AppConfig

    @property
    def retries(self) -> Any:
        """A step that fails may be run again, by its own policy."""
        return dagster_private.retries_enabled()

    def app_args(self) -> dict[str, Any]:
        """Return what Dagster's loop makes its Celery application with."""
        return app_args(self._settings)

    def execute(self, plan_context: Any, execution_plan: Any) -> Iterator[dg.DagsterEvent]:
        """Execute a run's steps.

        Raises:
            RagstreamError: The settings name no broker, or a model that is not here.
        """
        self._settings = config_of(plan_context.dagster_run.run_config)
        patience_s = 2 * self._settings.settings.embeddings.batch_timeout_s
        watch = Watch(plan_context.dagster_run.run_id, patience_s)

        tasks: list[Any] = []

        def submit(
            app: Celery, context: Any, step: Any, queue: str, priority: int, state: Any
        ) -> HandedOut | EagerResult:
            if not tasks:
                tasks.append(create_task(app))
            task = tasks[0].si(**dagster_private.task_arguments(context, step.key, state))
            if not step.key.startswith(f"{BATCH_OP}["):
                return task.apply()
            return HandedOut(task, {"queue": queue, "priority": priority}, watch, step.key)

        events: Iterator[dg.DagsterEvent] = core_celery_execution_loop(
            plan_context, execution_plan, step_execution_fn=submit
        )
        return events
