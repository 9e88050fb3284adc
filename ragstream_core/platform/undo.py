"""Taking back what was begun if it does not come to its end."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def on_failure(undo: Callable[[], object]) -> Iterator[None]:
    """Call a function if the block does not come to its end, whatever ends it.

    Args:
        undo: Takes back what was begun; not called if the block succeeds.
    """
    try:
        yield
    except BaseException:  # an interrupt, too, leaves nothing half done
        undo()
        raise
