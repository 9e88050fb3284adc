"""How long the sweeps of the tests are: a sample in `make test`, more in `make test-all`.

``LENGTH`` is ``short``, ``long`` or ``full``; the full form is `make faults`. A test whose length
follows it has the mark `sweep`, so that `make test-all` takes it again at length.
"""

import os
from typing import TypeVar

LENGTH = os.environ.get("LENGTH", "short")
FULL = LENGTH == "full"
T = TypeVar("T")


def by_length(short: T, long: T, full: T) -> T:
    """Return what fits the length of the sweeps."""
    return {"short": short, "long": long, "full": full}[LENGTH]


def spread(count: int, number: int, turn: int = 0) -> list[int]:
    """Return at most so many of the positions 1 to ``count``, evenly apart.

    Another ``turn`` begins elsewhere, so that several small samples do not repeat each other.
    """
    if number >= count:
        return list(range(1, count + 1))
    start = turn * 0.382 % 1  # the golden section: turns never come close to each other
    return sorted({1 + int(count * (n + start) / number) for n in range(number)})
