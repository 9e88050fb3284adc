"""MaxSim: a closer look at each passage, token by token, in the place of it that fits best.

A question is answered in one place of a passage, and by its rare words: a piece is compared with
windows of two blocks of tokens, and each of its tokens counts by how rare its word is in the
index. A text that only tells is compared with whole passages, and all its tokens count alike.
"""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from ragstream_core.retrieval.scoring import DIGITS, coherence, log_avg_exp, telling
from ragstream_core.text.bm25 import PostingLists, idf
from ragstream_core.text.terms import located_terms, term_id

if TYPE_CHECKING:
    from ragstream_core.ports import F16
    from ragstream_core.text.tokenizer import TokenOffsets

F64 = npt.NDArray[np.float64]
F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

# Half a window: about one sentence.
BLOCK_TOKENS = 24
# What a token counts that belongs to no term: a sign, a stop word.
COMMON = 0.3


class TokenVectors(Protocol):
    """Gives token vectors, fresh or cached: the values are the same."""

    def token_vectors(self, texts: Sequence[str]) -> list[F16]:
        """Return one array (tokens, dimension) a text, float16."""
        ...


# Of products that are kept; a prompt of ten short pieces has a tenth of it.
PRODUCTS_BYTES = 64 * 2**20


class RecentProducts:
    """The products of tokens of the pieces and passages that were compared last.

    A later stage compares the same ones again, word by word. Products are exact (see `max_sim`), so
    that it does not matter which of both worked them out. Safe for threads.
    """

    def __init__(self, most: int = 16, most_bytes: int = PRODUCTS_BYTES) -> None:
        """Keep the products of the newest pieces: of so many, and no more than so many bytes."""
        self._most, self._most_bytes = most, most_bytes
        self._bytes = 0
        self._known: OrderedDict[str, tuple[dict[str, slice], F64]] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, piece: str, places: dict[str, slice], products: F64) -> None:
        """Keep the products of a piece.

        Args:
            piece: Its text.
            places: Text of a passage → the rows of its tokens.
            products: Shape (tokens of all passages, tokens of the piece).
        """
        with self._lock:
            _, before = self._known.pop(piece, ({}, None))
            self._known[piece] = places, products
            self._bytes += products.nbytes - (0 if before is None else before.nbytes)
            while len(self._known) > self._most or self._bytes > self._most_bytes:
                _, (_, oldest) = self._known.popitem(last=False)
                self._bytes -= oldest.nbytes

    def of(self, piece: str, passage: str) -> F64 | None:
        """Return the products of a piece and a passage, if both were compared."""
        with self._lock:
            places, products = self._known.get(piece, ({}, None))
        at = places.get(passage)
        return None if at is None or products is None else products[at]


def max_sim(
    queries: Sequence[npt.ArrayLike],
    passages: Sequence[npt.ArrayLike],
    weights: Sequence[F64 | None] | None = None,
    *,
    told: Callable[[int, F64], None] | None = None,
) -> list[list[float]]:
    """Late interaction: mean over query tokens of the best cosine with a passage token.

    Khattab & Zaharia, "ColBERT", 2020, as a mean so that it lies in [-1, 1]; 0 if one side has
    no token. Rounded to 6 digits. Both sides are rounded to float16: their products then are
    multiples of 2⁻⁴⁸ and sums of a few hundred of them exact in float64, so that any BLAS, in any
    shape and order and with any number of threads, gives the same bits.

    Args:
        queries: For each query its unit token vectors, shape (q, d).
        passages: For each passage its unit token vectors, shape (t, d).
        weights: For each query what its tokens count, shape (q,), > 0 in sum: it is compared with
            windows, and the best one of a passage decides. None: with whole passages, all alike.
        told: Called with the number of a query and its products with the tokens of all passages,
            one passage after the other.

    Returns:
        For each query one score a passage.
    """
    rights = [np.asarray(p, dtype=np.float16) for p in passages]
    held = [i for i, right in enumerate(rights) if right.size]
    found = [[0.0] * len(rights) for _ in queries]
    if not held:
        return found
    joined = np.concatenate([rights[i] for i in held]).astype(np.float64)
    blocks, firsts = _blocks([len(rights[i]) for i in held])
    for number, query in enumerate(queries):
        left = np.asarray(query, dtype=np.float16).astype(np.float64)
        if not left.size:
            continue
        products: F64 = joined @ left.T
        if told is not None:
            told(number, products)
        best = np.clip(np.maximum.reduceat(products, blocks, axis=0), -1.0, 1.0)
        weight = weights[number] if weights is not None else None
        if weight is None:
            scores = [float(row.mean()) for row in np.maximum.reduceat(best, firsts, axis=0)]
        else:
            scores = _in_windows(best, firsts, weight)
        for i, score in zip(held, scores, strict=True):
            found[number][i] = round(score, DIGITS)
    return found


def _blocks(lengths: Sequence[int]) -> tuple[I64, I64]:
    """Return the first token of every block, and the first block of every passage."""
    ends = list(itertools.accumulate(lengths))
    parts = [np.arange(end - n, end, BLOCK_TOKENS) for n, end in zip(lengths, ends, strict=True)]
    firsts = np.cumsum([0, *(len(part) for part in parts[:-1])])
    return np.concatenate(parts), np.asarray(firsts, dtype=np.int64)


def _in_windows(best: F64, firsts: I64, weight: F64) -> list[float]:
    """Return the score of each passage's best window of two blocks that follow each other.

    Args:
        best: For each block and query token the best cosine, shape (blocks, q).
        firsts: First block of each passage.
        weight: What the tokens count, shape (q,).
    """
    windows = best.copy()
    np.maximum(best[:-1], best[1:], out=windows[:-1])
    last = np.append(firsts[1:], len(best)) - 1
    windows[last] = best[last]  # behind it lies another passage
    scores = (windows * weight).sum(axis=1) / weight.sum()
    return [float(score) for score in np.maximum.reduceat(scores, firsts)]


def weights_of_pieces(pieces: Sequence[str], tokens: Sequence[F16]) -> F64:
    """Return how much each piece counts where pieces are compared with passages one by one.

    1 if it asks, 1 − `coherence` if it tells: what is told is there to be answered only as
    far as it stands by itself; the more it belongs to the rest, the more it is background.

    Args:
        pieces: One or more.
        tokens: Their token vectors, each of shape (tokens, dimension).

    Returns:
        Shape (pieces,), in [0, 1]; a single piece has 1.
    """
    if len(pieces) == 1:
        return np.ones(1)
    return np.where(telling(pieces), 1.0 - coherence(_mean_vectors(tokens)), 1.0)


def _mean_vectors(tokens: Sequence[F16]) -> F32:
    """Return the unit mean of each piece's token vectors; zeros if it has none."""
    sums = np.stack([np.asarray(rows, dtype=np.float64).sum(axis=0) for rows in tokens])
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    return np.asarray(sums / np.where(lengths == 0, 1.0, lengths), dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Rarity:
    """Tells how rare the words of a query are in the indexes that were searched.

    Attributes:
        indexes: Returns their term arrays.
        offsets: Cuts a text into the tokens of the model.
    """

    indexes: Callable[[], Sequence[PostingLists]]
    offsets: TokenOffsets

    def weights(self, text: str) -> F64:
        """Return what each token of a text counts: √idf of its word's term, `COMMON` without one.

        Returns:
            Shape (tokens,), ≥ 0, rounded to 6 digits; all 1 if nothing would count.
        """
        spans = located_terms(text)
        indexes = self.indexes()
        rare = {term: idf(indexes, term_id(term)) ** 0.5 for _, _, term in spans if term}
        found, at = [], 0
        for start, _ in self.offsets(text):
            while at < len(spans) and spans[at][1] <= start:
                at += 1
            inside = at < len(spans) and spans[at][0] <= start
            found.append(rare.get(spans[at][2], COMMON) if inside else COMMON)
        weights: F64 = np.asarray(np.round(found, DIGITS), dtype=np.float64)
        return weights if weights.any() else np.ones(len(weights))


@dataclass(frozen=True, slots=True)
class MaxSimScorer:
    """Scores passages by late interaction with the query pieces, joined by LogAvgExp.

    A piece that only tells counts less (`weights_of_pieces`).

    Attributes:
        queries: Encodes the pieces.
        passages: Encodes the passages; usually through a cache.
        tau: Sharpness over the pieces > 0; one piece is its own score.
        rarity: Tells what the tokens of a question count; None: all alike, in whole passages.
        recent: Keeps the products of tokens for a later stage; None: nobody needs them.
    """

    queries: TokenVectors
    passages: TokenVectors
    tau: float = 9.0
    rarity: Rarity | None = None
    recent: RecentProducts | None = None

    def score(self, pieces: Sequence[str], passages: Sequence[str]) -> list[float]:
        """Return one score a passage in [-1, 1], higher is better, aligned with ``passages``."""
        asked = self.queries.token_vectors(list(pieces))
        tokens = self.passages.token_vectors(list(passages))
        told = self._keeper(pieces, passages, tokens) if self.recent is not None else None
        rows = max_sim(asked, tokens, self._weights(pieces, asked), told=told)
        weights = weights_of_pieces(pieces, asked)
        joined = log_avg_exp(np.array(rows).T, self.tau, weights if weights.any() else None)
        return [float(score) for score in np.round(joined, DIGITS)]

    def _keeper(
        self, pieces: Sequence[str], passages: Sequence[str], tokens: Sequence[F16]
    ) -> Callable[[int, F64], None]:
        recent = self.recent
        assert recent is not None
        ends = itertools.accumulate(map(len, tokens))
        places = {
            passage: slice(end - len(rows), end)
            for passage, rows, end in zip(passages, tokens, ends, strict=True)
            if rows.size
        }
        return lambda number, products: recent.put(pieces[number], places, products)

    def _weights(self, pieces: Sequence[str], tokens: Sequence[F16]) -> list[F64 | None]:
        """Return what each piece's tokens count; None for all if several pieces only tell."""
        if self.rarity is None or (len(pieces) > 1 and telling(pieces).all()):
            return [None] * len(pieces)
        found: list[F64 | None] = []
        for piece, rows in zip(pieces, tokens, strict=True):
            weight = self.rarity.weights(piece)
            # a model may cut tokens that its offsets do not tell of
            found.append(weight if len(weight) == len(rows) else np.ones(len(rows), np.float64))
        return found

    def share(self, pieces: Sequence[str]) -> float:
        """Return how much these scores count beside retrieval's: as the piece that counts most.

        Returns:
            In [0, 1], rounded to 6 digits; 1 for a single piece, and if any piece asks.
        """
        if len(pieces) == 1:
            return 1.0
        weights = weights_of_pieces(pieces, self.queries.token_vectors(list(pieces)))
        return round(float(weights.max()), DIGITS)
