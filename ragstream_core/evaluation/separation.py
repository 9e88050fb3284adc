"""How well a score tells two groups apart: AUC, and recall at a share of false alarms.

Fawcett, "An introduction to ROC analysis", Pattern Recognition Letters 27, 2006.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

DIGITS = 4


def auc(positives: Sequence[float], negatives: Sequence[float]) -> float | None:
    """Return the chance that a positive scores above a negative; a tie counts half."""
    if not positives or not negatives:
        return None
    below = sorted(negatives)
    wins = sum((bisect_left(below, p) + bisect_right(below, p)) / 2 for p in positives)
    return round(wins / (len(positives) * len(below)), DIGITS)


def recall_at(
    positives: Sequence[float], negatives: Sequence[float], allowed: float
) -> float | None:
    """Return the largest share of positives that a threshold takes without too many negatives."""
    if not positives or not negatives:
        return None
    below = sorted(negatives)
    best = 0.0
    for threshold in {*positives, *negatives}:
        alarms = (len(below) - bisect_left(below, threshold)) / len(below)
        if alarms <= allowed:
            best = max(best, sum(p >= threshold for p in positives) / len(positives))
    return round(best, DIGITS)
