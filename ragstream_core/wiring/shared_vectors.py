"""The vectors that several machines share, if `embeddings.shared` names a database; else nothing.

Vectors of documents alone go there: what was said in conversations stays on its machine, and so do
questions.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ragstream_core.errors import OperationFailed, StoreFailed, UnknownSetting
from ragstream_core.platform.postgres import database_at, has_table
from ragstream_core.records.identity import sha256_hex

if TYPE_CHECKING:
    from ragstream_core.config import AppConfig
    from ragstream_core.models.embedders.shared_vectors import SharedEmbedder
    from ragstream_core.platform.postgres import Database
    from ragstream_core.ports import Embedder

SETTING = "embeddings.shared"
# batches first: a worker adds vectors only while its batch is there, so none comes later
_BY_HASH = (
    ("ragstream_batches", "hashes && %s::bytea[]"),
    ("ragstream_vectors", "text_hash = ANY(%s::bytea[])"),
)


def shared_database(config: AppConfig) -> Database | None:
    """Return the database of shared vectors, None if none is set; nobody is contacted."""
    url = config.settings.embeddings.shared.get_secret_value()
    return database_at(url, setting=SETTING) if url else None


def require_shared(config: AppConfig) -> Database:
    """Return the database of shared vectors; refuse where none is set."""
    database = shared_database(config)
    if database is None:
        raise UnknownSetting(
            f"there is no database of shared vectors, which workers need too: {SETTING} is not set",
            hint=f"set {SETTING} to postgresql://USER@HOST:5432/NAME, here and for each worker",
        )
    return database


@contextlib.contextmanager
def sharing(config: AppConfig, embedder: Embedder) -> Iterator[SharedEmbedder | None]:
    """Yield the embedder behind the shared table while an ingest runs; None without a table."""
    database = shared_database(config)
    if database is None:
        yield None
        return
    from ragstream_core.models.embedders.shared_vectors import SharedEmbedder

    with contextlib.closing(SharedEmbedder(embedder, database)) as shared:
        yield shared


def forget_shared(config: AppConfig, texts: Iterable[str]) -> None:
    """Remove the vectors of erased texts from the shared table, and batches that hold such a text.

    Another machine that has one of the texts too makes its vector again.
    """
    database = shared_database(config)
    hashes = [bytes.fromhex(sha256_hex(text)) for text in texts]
    if database is None or not hashes:
        return
    try:
        with database.connect() as db, database.errors(), db.transaction():
            for table, wanted in _BY_HASH:
                if has_table(db, table):
                    db.execute(f"DELETE FROM {table} WHERE {wanted}".encode(), (hashes,))
    except OperationFailed as error:
        raise StoreFailed(
            f"the vectors of these texts may still be shared: {error.message}",
            hint=(*error.advice, ", or take ", SETTING, " away if that database is gone"),
        ) from error
