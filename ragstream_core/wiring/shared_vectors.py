"""The vectors that several machines share, if `embeddings.shared` names a database; else nothing.

Vectors of documents alone go there: what was said in conversations stays on its machine, and so do
questions.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragstream_core.config import AppConfig
    from ragstream_core.models.embedders.shared_vectors import SharedEmbedder
    from ragstream_core.platform.postgres import Database
    from ragstream_core.ports import Embedder

SETTING = "embeddings.shared"


def shared_database(config: AppConfig) -> Database | None:
    """Return the database of shared vectors, None if none is set; nobody is contacted.

    Raises:
        UnknownSetting: The setting is no address of a database.
    """
    url = config.settings.embeddings.shared.get_secret_value()
    if not url:
        return None
    from ragstream_core.platform.postgres import database_at

    return database_at(url, setting=SETTING)


@contextlib.contextmanager
def sharing(config: AppConfig, embedder: Embedder) -> Iterator[SharedEmbedder | None]:
    """Yield the embedder behind the shared table while an ingest runs; None if there is no table.

    Raises:
        UnknownSetting: The setting is no address of a database.
    """
    database = shared_database(config)
    if database is None:
        yield None
        return
    from ragstream_core.models.embedders.shared_vectors import SharedEmbedder

    shared = SharedEmbedder(embedder, database)
    try:
        yield shared
    finally:
        shared.close()
