"""Whether a fact says something new: the overlap of its keywords with what is there (R-256).

``overlap(new, old) = |K(new) ∩ K(old)| / |K(new)|``, where ``K`` are the stems of a text's words
without stop words and without the two that stand in every fact. It is 1 where all of the new words
are there already, however many others are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ragstream_core.terms import terms

_EVERYWHERE = frozenset(terms("user users company companies"))


def keywords(text: str) -> frozenset[str]:
    """Return the stems that say what a text is about."""
    return frozenset(terms(text)) - _EVERYWHERE


def overlap(new: Collection[str], old: Collection[str]) -> float:
    """Return the share of new keywords that are among old ones, in [0, 1]; 1 where none is new."""
    fresh = set(new)
    return len(fresh & set(old)) / len(fresh) if fresh else 1.0


def most_alike(text: str, others: Iterable[str]) -> tuple[float, str]:
    """Return the largest overlap of a text with one of some others, and that other one.

    Args:
        text: A new fact.
        others: What is remembered, and what was proposed before.
    """
    mine = keywords(text)
    scored = ((overlap(mine, keywords(other)), other) for other in others)
    return max(scored, key=lambda found: found[0], default=(0.0, ""))
