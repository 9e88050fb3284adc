"""What `ragstream doctor` asks the databases that the settings name.

Without such a setting nothing is imported and nobody asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragstream_core.config import AppConfig


@dataclass(frozen=True, slots=True)
class Check:
    """One finding.

    Attributes:
        name: What was looked at.
        level: ``ok``, ``warn`` (works, could be better) or ``fail`` (something will not work).
        detail: What was found.
        next_step: What to do about it; empty where nothing is to be done.
    """

    name: str
    level: str
    detail: str
    next_step: str = ""


def shared(config: AppConfig) -> Iterator[Check]:
    """Say whether the database of shared vectors answers, if one is set, and which workers do."""
    if not config.settings.embeddings.shared.get_secret_value():
        return
    from ragstream_app.output.words import workers_text
    from ragstream_core.services.shared_embeddings import shared_table
    from ragstream_core.wiring.workspace import Workspace

    table = shared_table(Workspace(config))
    detail = f"{table.database} reached: {table.vectors:,} vectors of the model configured here"
    waiting = f", {table.waiting:,} texts wait for workers" if table.waiting else ""
    yield Check("shared", "ok", detail + waiting)
    if table.workers is not None:
        step = "start one: ragstream worker; until then ingests embed by themselves"
        level, step = ("ok", "") if table.workers else ("warn", step)
        yield Check("workers", level, workers_text(config.settings.embeddings.queue, table), step)


def records(config: AppConfig) -> Iterator[Check]:
    """Say whether the database of Dagster's records answers, if one is set."""
    if address := config.settings.dagster.storage.get_secret_value():
        from ragstream_core.platform.postgres import database_at

        place = database_at(address, setting="dagster.storage")
        place.connect().close()
        yield Check("records", "ok", f"{place.shown} reached: Dagster's records")


def graphs(config: AppConfig) -> Iterator[Check]:
    """Say whether the database of pgvector's graphs answers and has pgvector, if it is chosen."""
    if config.chain().retrieval.store != "pgvector":
        return
    from ragstream_core.platform.postgres import database_at

    url = config.settings.vector_store.url.get_secret_value()
    place = database_at(url, setting="vector_store.url")
    with place.connect() as db, place.errors():
        query = "SELECT default_version FROM pg_available_extensions WHERE name = 'vector'"
        found = db.execute(query).fetchone()
    detail = f"{place.shown} reached: pgvector {found[0] if found else 'is not installed there'}"
    step = "" if found else "install it there (Debian: postgresql-16-pgvector)"
    yield Check("graphs", "ok" if found else "fail", detail, step)


SERVERS = (shared, records, graphs)
