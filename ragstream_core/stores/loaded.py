"""The rows of one generation as a view holds them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ragstream_core.ports import F32


@dataclass(frozen=True)
class Loaded:
    """The rows of a generation, aligned and sorted by chunk id.

    Attributes:
        chunk_ids: Ids, sorted.
        paths: Source path of each.
        vectors: Shape (rows, dimension), float32, read-only.
        epoch: Of the vector file they were read from.
        places: Row of each in that file, int64.
        crcs: Crc32 of each row as it enters the digest, uint32.
    """

    chunk_ids: tuple[str, ...]
    paths: tuple[str, ...]
    vectors: F32
    epoch: int
    places: npt.NDArray[np.int64]
    crcs: npt.NDArray[np.uint32]

    @cached_property
    def row_of(self) -> dict[str, int]:
        """Row number by chunk id."""
        return {chunk_id: row for row, chunk_id in enumerate(self.chunk_ids)}
