"""A sample that keeps the shares of the files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def shares(sizes: Sequence[int], limit: int) -> list[int]:
    """Divide a limit among groups by their size: whole parts, then the largest remainders.

    Args:
        sizes: Members of each group, ≥ 0.
        limit: How many are taken in all, 0 ≤ limit ≤ sum(sizes).

    Returns:
        How many of each; they add up to ``limit``, each within 1 of its exact share.
    """
    total = max(sum(sizes), 1)
    parts = [size * limit // total for size in sizes]
    left = sorted(range(len(sizes)), key=lambda i: (-(sizes[i] * limit % total), i))
    for i in left[: limit - sum(parts)]:
        parts[i] += 1
    return parts


def stratified(groups: Sequence[Hashable], limit: int, *, seed: int) -> NDArray[np.int64]:
    """Choose rows so that each group keeps its share; the same seed chooses the same.

    Args:
        groups: The group of each row.
        limit: How many rows at most, ≥ 0.
        seed: Of the choice within a group, ≥ 0.

    Returns:
        Row numbers, ascending: min(limit, rows) of them.
    """
    import numpy as np

    if len(groups) <= limit:
        return np.arange(len(groups), dtype=np.int64)
    sizes = Counter(groups)
    wanted = dict(zip(sizes, shares(list(sizes.values()), limit), strict=True))
    chosen = []
    for row in np.random.default_rng(seed).permutation(len(groups)).tolist():
        if wanted[groups[row]]:
            wanted[groups[row]] -= 1
            chosen.append(row)
    return np.array(sorted(chosen), dtype=np.int64)
