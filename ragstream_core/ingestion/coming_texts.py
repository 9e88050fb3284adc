"""The texts that the next ingest will embed, found as it finds them and handed to others."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.errors import GenerationGone, IntegrityError
from ragstream_core.index.catalog import Catalog, open_catalog
from ragstream_core.index.schema import CATALOG_NAME, project_lock, reading, recover
from ragstream_core.ingestion.staging import Stager

if TYPE_CHECKING:
    from ragstream_core.index.rows import ChunkRow
    from ragstream_core.ports import Embedder, PhaseProgress

# Called with hash → text.
GiveTexts = Callable[[dict[str, str]], None]


class ComingTexts(Stager):
    """A stager that hands the texts without a vector over instead of embedding them."""

    def __init__(
        self,
        store: Catalog,
        embedder: Embedder,
        give: GiveTexts,
        *,
        progress: PhaseProgress,
        batch_texts: int,
    ) -> None:
        super().__init__(store, embedder, progress=progress)
        self._give = give
        self._given: set[bytes] = set()
        self.batch_texts = batch_texts

    def stage(self, rows: Sequence[ChunkRow], texts: Mapping[str, str], share: float) -> None:
        """Take the texts of a document."""
        self.add({h: t for h, t in texts.items() if bytes.fromhex(h) not in self._given})

    def _record(self, *, last: bool = False) -> None:
        batch = self._next_batch()
        self._give(batch)
        self._given.update(map(bytes.fromhex, batch))
        self.embedded += len(batch)
        for text_hash in batch:
            del self._waiting[text_hash]


@contextlib.contextmanager
def nothing_erased(index_dir: Path) -> Iterator[None]:
    """Hold the writer lock of a project that has an index: what is handed over is not forgotten."""
    if not (index_dir / CATALOG_NAME).exists():  # there is nothing to forget
        yield
        return
    with contextlib.suppress(IntegrityError):  # whoever reads it says what is damaged
        recover(index_dir)
    with project_lock(index_dir):
        yield


@contextlib.contextmanager
def read_store(index_dir: Path, *, rebuild: bool = False) -> Iterator[Catalog]:
    """Yield a project's catalog for reading; an empty one if there is none yet."""
    if not _is_readable(index_dir, rebuild=rebuild):
        with tempfile.TemporaryDirectory() as folder, open_catalog(Path(folder)) as empty:
            yield empty
        return
    with reading(index_dir) as db:
        yield Catalog(index_dir, db)


def _is_readable(index_dir: Path, *, rebuild: bool) -> bool:
    """Return whether there is a catalog; one that is damaged is none for a rebuild."""
    if not (index_dir / CATALOG_NAME).exists():
        return False
    try:
        recover(index_dir)
        with reading(index_dir):
            return True
    except GenerationGone:  # a first ingest was killed before it had tables
        return False
    except IntegrityError:
        if not rebuild:
            raise
        return False
