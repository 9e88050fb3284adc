"""Where a row stands in each signal's list, however far behind: exact scores, rank and distance.

Retrieval keeps the top of each list and forgets the rest. This scores every row of the pool as
retrieval does, so the numbers of a chunk that came to nothing are those it would have had.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ragstream_core.ports import IndexView
from ragstream_core.retrieval.retriever import Retriever
from ragstream_core.retrieval.rows import HistoryRows, rows_of
from ragstream_core.retrieval.scoring import DIGITS, exact_cosines, log_avg_exp
from ragstream_core.text.bm25 import Bm25
from ragstream_core.text.terms import terms

F64 = npt.NDArray[np.float64]


class ListRank(NamedTuple):
    """A row's place in one list.

    Attributes:
        signal: ``dense`` or ``lexical``; of one query piece ``dense q2`` or ``lexical q2``.
        rank: 1-based, by (−score, id); 0 if the row has no term of the query.
        of: Rows that have a rank.
        score: Its exact score: a cosine, or BM25.
        last: Score of the last row that the list holds.
        depth: Length of the list.
    """

    signal: str
    rank: int
    of: int
    score: float
    last: float
    depth: int

    @property
    def listed(self) -> bool:
        """Whether the list holds the row."""
        return 0 < self.rank <= self.depth

    @property
    def distance(self) -> float:
        """What is missing to the last row of the list, 0 if it is in it."""
        return 0.0 if self.listed else round(max(0.0, self.last - self.score), DIGITS)


def list_ranks(
    retriever: Retriever,
    views: Sequence[IndexView],
    whole: str,
    *,
    pieces: Sequence[str],
    wanted: Collection[str],
    off: Collection[str] = (),
    past: HistoryRows | None = None,
) -> dict[str, list[ListRank]]:
    """Return the places of some chunks of the pool in every list that a query makes.

    Args:
        retriever: As for the query itself.
        views: Pinned generations.
        whole: The whole query text.
        pieces: Its query pieces, at least one.
        wanted: Chunk ids; those outside of the pool are left out of the result.
        off: ``project/path`` of the files outside the Eligibility Pool.
        past: Older turns that were searched as well.

    Raises:
        RagstreamError: The pieces cannot be embedded.
    """
    views = [*views, past.view] if past else views
    rows = rows_of(views)
    pool = rows.eligible(off)
    if past:
        pool = past.within(pool, len(rows.ids))
    ids = [rows.ids[row] for row in pool.tolist()]
    at = {identifier: n for n, identifier in enumerate(ids) if identifier in wanted}
    if not at:
        return {}
    cosines = exact_cosines(rows.take(pool), retriever.embedder.embed_queries(list(pieces)))
    bm25 = Bm25([view.lexical for view in rows.views], retriever.fusion.k3)
    found: dict[str, list[ListRank]] = {identifier: [] for identifier in at}
    for signal, scores in _signals(retriever, bm25, cosines, [whole, *pieces], past=past):
        held = scores if len(scores) == len(pool) else scores[pool]
        for identifier, n in at.items():
            found[identifier].append(_place(signal, ids, held, n, retriever.fusion.depth))
    return found


def _signals(
    retriever: Retriever,
    bm25: Bm25,
    cosines: F64,
    asked: Sequence[str],
    *,
    past: HistoryRows | None,
) -> Iterator[tuple[str, F64]]:
    """Yield each list's name and its scores: of the pool's rows, or of all rows."""
    fusion = retriever.fusion
    apart = len(asked) > 2 and not fusion.pure
    names = ["", *(f" q{i}" for i in range(1, len(asked)))] if apart else [""]
    if fusion.dense_weight > 0:
        yield "dense", np.round(log_avg_exp(cosines, fusion.tau), DIGITS)
        yield from ((f"dense{names[i]}", cosines[:, i - 1]) for i in range(1, len(names)))
    for name, text in zip(names, asked, strict=False):
        if fusion.dense_weight < 1:
            scores = bm25.scores(terms(text))
            if past:
                past.add_synonyms(scores, text, bm25)
            yield f"lexical{name}", scores


def _place(signal: str, ids: Sequence[str], scores: F64, at: int, depth: int) -> ListRank:
    own, lexical = float(scores[at]), signal.startswith("lexical")
    ranked = scores[scores > 0] if lexical else scores
    last = 0.0
    if len(ranked):
        n = min(depth, len(ranked))
        last = float(np.partition(ranked, len(ranked) - n)[len(ranked) - n])
    if lexical and own <= 0:
        return ListRank(signal, 0, len(ranked), own, last, depth)
    level = sum(ids[n] < ids[at] for n in np.flatnonzero(scores == own).tolist())
    return ListRank(signal, int((scores > own).sum()) + level + 1, len(ranked), own, last, depth)
