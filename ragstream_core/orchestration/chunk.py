"""`Chunk` under the path of the seeds (R-123); it is defined in `ragstream_core.records`."""

from __future__ import annotations

from ragstream_core.records import Chunk

__all__ = ["Chunk"]
