"""Answers beside right ones: exact match and token F1 as SQuAD defines them.

Rajpurkar et al., "SQuAD: 100,000+ Questions for Machine Comprehension of Text", EMNLP 2016: lower
case, punctuation and the articles a, an, the left out, white space collapsed; the best of several
right answers counts. An answer of whole sentences is never an exact match of a short right answer,
so `contained` says whether one stands in it.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

DIGITS = 4
FIGURES = ("exact_match", "f1", "contained")
"""Names of what `figures` returns."""
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_SIGNS = str.maketrans("", "", string.punctuation)


def normalised(text: str) -> list[str]:
    """Return the tokens of an answer as SQuAD compares them."""
    return _ARTICLES.sub(" ", text.lower().translate(_SIGNS)).split()


def f1(answer: str, right: str) -> float:
    """Return the harmonic mean of the precision and recall of tokens, in [0, 1]."""
    said, wanted = normalised(answer), normalised(right)
    if not said or not wanted:
        return float(said == wanted)
    same = sum((Counter(said) & Counter(wanted)).values())
    return 2 * same / (len(said) + len(wanted))


def figures(answer: str, right: Sequence[str]) -> dict[str, float]:
    """Compare an answer with right ones; the best of them counts.

    Args:
        answer: Without markers.
        right: At least one.

    Returns:
        ``exact_match`` and ``contained``, 0 or 1, and ``f1`` in [0, 1].
    """
    said = normalised(answer)
    wanted = [normalised(text) for text in right]
    spoken = f" {' '.join(said)} "
    return {
        "exact_match": float(said in wanted),
        "f1": round(max(f1(answer, text) for text in right), DIGITS),
        "contained": float(any(f" {' '.join(text)} " in spoken for text in wanted if text)),
    }
