"""Which workers there are, for people; the broker is asked when somebody wants to know."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragstream_assets.celery_executor import Workers
    from ragstream_core.config import AppConfig


def workers_of(config: AppConfig) -> Workers | None:
    """Return the workers that take batches; None without a broker.

    Raises:
        ExtraMissing: Celery is not installed.
        UnknownSetting: The broker's address is none.
        OperationFailed: The broker does not answer.
    """
    if not config.settings.embeddings.broker.get_secret_value():
        return None
    from ragstream_core.platform import extras

    extras.require("embeddings.broker (Celery)", "distributed", "celery", "redis", "dagster_celery")
    from ragstream_assets.celery_executor import workers_there

    return workers_there(config)


def workers_text(config: AppConfig, found: Workers) -> str:
    """Return a line with the workers that were found."""
    names = ", ".join(found.there) or "none; start one with `ragstream worker`"
    return f"workers of queue {config.settings.embeddings.queue}: {names}{others_text(found)}"


def others_text(found: Workers) -> str:
    """Return which workers are of no use here; empty if there are none."""
    return f"; of another model: {', '.join(found.others)}" if found.others else ""
