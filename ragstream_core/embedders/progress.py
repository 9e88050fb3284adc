"""Reports progress a few times a second, however fast the items come."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from ragstream_core.ports import Progress

_T = TypeVar("_T")
INTERVAL_S = 0.2


def throttled(items: Iterable[_T], progress: Progress, *, total: int) -> Iterator[_T]:
    """Yield items and call ``progress(done, total)`` at most every 0.2 s, and once at the end."""
    done, last = 0, time.monotonic()
    for done, item in enumerate(items, start=1):
        yield item
        now = time.monotonic()
        if now - last >= INTERVAL_S and done < total:
            last = now
            progress(done, total)
    progress(done, total)
