"""`Past`: the older turns that are searched beside the documents, by the same scale."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ragstream_core.lexical import Bm25
from ragstream_core.ports import IndexView
from ragstream_core.terms import terms

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Past:
    """Older turns; their rows come behind those of the documents.

    Attributes:
        view: The selection of turns.
        open: Which of its rows may be found, shape (rows,).
        expand: Returns what else a query could have said, "" for nothing; turns are looked up by
            these words too, documents are not.
    """

    view: IndexView
    open: npt.NDArray[np.bool_]
    expand: Callable[[str], str]

    def within(self, rows: I64, total: int) -> I64:
        """Return those of some rows that are of documents, or of turns that may be found.

        Args:
            rows: Row numbers, ascending.
            total: Number of all rows; the last of them are the turns'.
        """
        first = total - len(self.open)
        turns = rows[np.searchsorted(rows, first) :]
        return np.concatenate([rows[: len(rows) - len(turns)], turns[self.open[turns - first]]])

    def add_synonyms(self, scores: F64, text: str, bm25: Bm25) -> None:
        """Add to the BM25 scores of turns what the other words for a query are worth.

        Args:
            scores: Of all rows; changed in place, rounded to 6 digits.
            text: The query.
            bm25: Scores the same rows.
        """
        other = self.expand(text)
        fresh = sorted(set(terms(other)).difference(terms(text))) if other else []
        if fresh:
            first = len(scores) - len(self.open)
            scores[first:] = np.round(scores[first:] + bm25.scores(fresh)[first:], 6)
