"""Candidates for a prompt: dense and lexical lists over one or several pinned generations.

One query piece: plain hybrid. Several: A = BM25(whole) + LogAvgExp of the pieces' cosines, B =
hybrid per piece, then LogAvgExp; final = w · A + (1 − w) · B, both min-max scaled, w by `scoring`.
A dense weight of 0 or 1 switches the other signal off and ranks by A alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ragstream_core.errors import ModelMismatch, RunCommand
from ragstream_core.ports import Embedder, IndexView
from ragstream_core.records import Hit
from ragstream_core.retrieval.lists import (
    NO_ROWS,
    Proposed,
    SignalList,
    lexical_list,
    proposal,
    signal_list,
)
from ragstream_core.retrieval.proposers import Proposer, narrowed
from ragstream_core.retrieval.rows import HistoryRows, Multiply, Rows, rows_of
from ragstream_core.retrieval.scoring import (
    DIGITS,
    approximate_log_avg_exp,
    convex,
    exact_cosines,
    log_avg_exp,
    reciprocal_rank,
    scale,
    top,
    weight_of_whole,
)
from ragstream_core.text.bm25 import K3, Bm25
from ragstream_core.text.terms import terms

F64 = npt.NDArray[np.float64]
F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Fusion:
    """How signals become one score.

    Attributes:
        dense_weight: Weight of the dense signal in [0, 1].
        tau: LogAvgExp sharpness > 0.
        mix_a: Weight of A in the mix for a list of questions, in [0, 1].
        mix_coherence: How much more it is where pieces tell one thing, ≥ 0.
        depth: Length of each signal's list.
        method: ``convex`` or ``rrf``.
        rrf_k: Constant of reciprocal rank fusion.
        k3: How late repeating a word in a question saturates in BM25, ≥ 0.
    """

    dense_weight: float = 0.5
    tau: float = 9.0
    mix_a: float = 0.25
    mix_coherence: float = 1.5
    depth: int = 100
    method: str = "convex"
    rrf_k: int = 60
    k3: float = K3

    @property
    def pure(self) -> bool:
        """Whether one signal alone decides."""
        return self.dense_weight in (0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Retriever:
    """Scores the live rows of pinned generations against the pieces of one prompt.

    Attributes:
        embedder: Embeds the pieces.
        fusion: How signals become one score.
        proposer: Names the rows worth a dense score; None: all of them are.
        multiply: Multiplies many rows with several queries; None: BLAS does.
    """

    embedder: Embedder
    fusion: Fusion = Fusion()
    proposer: Proposer | None = None
    multiply: Multiply | None = None

    def search(
        self,
        views: Sequence[IndexView],
        whole: str,
        *,
        pieces: Sequence[str],
        off: Collection[str] = (),
        past: HistoryRows | None = None,
    ) -> list[Hit]:
        """Rank the union of all signals' lists.

        Args:
            views: Pinned generations, all built by this embedder.
            whole: The whole query text, for BM25.
            pieces: 1 to 10 query pieces, each within the embedder's window.
            off: ``project/path`` of the files outside the Eligibility Pool.
            past: Older turns to search as well.

        Returns:
            All candidates by (−score, chunk_id); a chunk id that several projects hold comes once.

        Raises:
            ModelMismatch: A generation was built by another model.
        """
        views = [*views, past.view] if past else views
        self._require_model(views)
        rows = rows_of(views)
        pool = rows.eligible(off)
        if past:
            pool = past.within(pool, len(rows.ids))
        if len(pool) == 0 or not pieces:
            return []
        queries = self.embedder.embed_queries(list(pieces))
        asked = [whole, *pieces]
        apart = len(pieces) > 1 and not self.fusion.pure
        # a pool of one or two must not set its own scale
        few = apart and len(pool) < min(self.fusion.depth, len(rows.ids))
        wide = rows.eligible(()) if few else pool
        bm25 = Bm25([view.lexical for view in rows.views], self.fusion.k3)
        scored = list(bm25.scores_of([terms(t) for t in (asked if apart else asked[:1])]))
        if past:
            for scores, text in zip(scored, asked, strict=False):
                past.add_synonyms(scores, text, bm25)
        anchors = _Signals.of(self, rows, wide, queries=queries, scored=scored)
        signals = anchors.within(self.fusion, rows, pool, queries) if few else anchors
        share = self.fusion.mix_a, self.fusion.mix_coherence
        weight = weight_of_whole(pieces, queries, *share) if apart else 1.0
        return self._ranked(rows, signals, anchors, weight)

    def _require_model(self, views: Sequence[IndexView]) -> None:
        other = next((v for v in views if v.embed_fp != self.embedder.fingerprint), None)
        if other is None:
            return
        precision = getattr(self.embedder, "precision", "float32")
        named = self.embedder.name + (f", {precision}" if precision != "float32" else "")
        raise ModelMismatch(
            f"project {other.project!r} was embedded by model {other.embed_fp[:12]}, "
            f"this session uses {self.embedder.fingerprint[:12]} ({named})",
            hint=RunCommand("ingest", f"{other.project} --rebuild"),
        )

    def _parts(self, signals: _Signals, candidates: I64) -> dict[str, F64]:
        """Return A and, for several pieces, B of some rows."""
        parts = {"a": self._fused(signals.dense, signals.lexical, candidates)}
        if signals.per_piece:
            fused = [self._fused(d, lex, candidates) for d, lex in signals.per_piece]
            parts["b"] = log_avg_exp(np.stack(fused, axis=1), self.fusion.tau)
        return parts

    def _ranked(self, rows: Rows, signals: _Signals, anchors: _Signals, weight: float) -> list[Hit]:
        """Rank the candidates; several pieces mix A and B, each scaled by its anchors."""
        candidates = signals.candidates()
        parts = self._parts(signals, candidates)
        score = parts["a"]
        if "b" in parts:
            wide = parts if signals is anchors else self._parts(anchors, anchors.candidates())
            a, b = (scale(parts[n], float(wide[n].min()), float(wide[n].max())) for n in "ab")
            score = convex(a, b, weight)
            parts["weight_a"] = np.full(len(candidates), weight)
        parts["dense"], parts["lexical"] = (
            signals.dense.over(candidates),
            signals.lexical.over(candidates),
        )
        score, ids = np.round(score, DIGITS), rows.tie_ids
        tied = None if ids is None else [ids[row] for row in candidates.tolist()]
        order = top(tied, score, len(candidates))
        found = candidates[order]
        cosines = signals.cosines.of(found)
        return _hits(
            [rows.ids[row] for row in found.tolist()],
            score[order],
            cosines,
            whole=np.round(log_avg_exp(cosines, self.fusion.tau), DIGITS),
            bm25=signals.scored[0][found],
            parts={name: part[order] for name, part in parts.items()},
        )

    def _fused(self, dense: SignalList, lexical: SignalList, rows: I64) -> F64:
        if self.fusion.method == "rrf":
            ranks = [{r: i + 1 for i, r in enumerate(x.rows.tolist())} for x in (dense, lexical)]
            return np.array(
                [
                    reciprocal_rank([r.get(row) for r in ranks], self.fusion.rrf_k)
                    for row in rows.tolist()
                ]
            )
        return convex(dense.over(rows), lexical.over(rows), self.fusion.dense_weight)


def _hits(
    ids: list[str], score: F64, cosines: F64, *, whole: F64, bm25: F64, parts: dict[str, F64]
) -> list[Hit]:
    columns = [np.round(part, DIGITS).tolist() for part in parts.values()]
    fields = zip(
        ids,
        score.tolist(),
        whole.tolist(),
        cosines.max(axis=1).tolist(),
        bm25.tolist(),
        [dict(zip(parts, row, strict=False)) for row in zip(*columns, strict=True)],
        zip(*cosines.T.tolist(), strict=True),
        strict=True,
    )
    return list(map(Hit._make, fields))


@dataclass(frozen=True, slots=True)
class _Cosines:
    """Exact cosines of some rows with every piece, computed once for all lists."""

    rows: I64
    values: F64

    @classmethod
    def over(cls, rows: Rows, held: I64, queries: F32, known: _Cosines | None = None) -> _Cosines:
        """Compute those of ``held`` that are not known yet; both ascending."""
        fresh = held if known is None else np.setdiff1d(held, known.rows, assume_unique=True)
        values = exact_cosines(rows.take(fresh), queries)
        if known is None:
            return cls(fresh, values)
        joined = np.concatenate([known.rows, fresh])
        order = np.argsort(joined)
        return cls(joined[order], np.concatenate([known.values, values])[order])

    def of(self, rows: I64) -> F64:
        return np.asarray(self.values[np.searchsorted(self.rows, rows)])


@dataclass(frozen=True, slots=True)
class _Signals:
    """Every list of one query: whole, and per piece if there are several."""

    cosines: _Cosines
    scored: list[F64]
    dense: SignalList
    lexical: SignalList
    per_piece: list[tuple[SignalList, SignalList]]

    @classmethod
    def of(
        cls, retriever: Retriever, rows: Rows, pool: I64, *, queries: F32, scored: list[F64]
    ) -> _Signals:
        fusion = retriever.fusion
        apart = len(queries) > 1 and not fusion.pure
        near = narrowed(retriever.proposer, rows, queries, pool=pool, depth=fusion.depth)
        proposed = _proposed(rows, queries, near, retriever=retriever, apart=apart)
        on = _held([pool] if fusion.dense_weight < 1 else [], len(rows.ids))
        lexical = [lexical_list(rows.tie_ids, s, pool=on, depth=fusion.depth) for s in scored]
        held = _held([p.rows for p in proposed] + [x.rows for x in lexical], len(rows.ids))
        cosines = _Cosines.over(rows, np.flatnonzero(held), queries)
        dense = [
            signal_list(rows.tie_ids, p, exact, depth=fusion.depth)
            for p, exact in zip(proposed, _exact_scores(cosines, fusion.tau, apart), strict=True)
        ]
        pairs = list(zip(dense[1:], lexical[1:], strict=True))
        return cls(cosines, scored, dense[0], lexical[0], pairs)

    def within(self, fusion: Fusion, rows: Rows, pool: I64, queries: F32) -> _Signals:
        """Return the lists of a pool shorter than a list, scaled by the anchors of these."""
        cosines = _Cosines.over(rows, pool, queries, self.cosines)
        wide_dense, wide_lexical = zip((self.dense, self.lexical), *self.per_piece, strict=True)
        exacts = _exact_scores(cosines, fusion.tau, True)
        dense = [
            signal_list(
                rows.tie_ids, Proposed(pool), exact, depth=fusion.depth, anchors=wide.anchors
            )
            for exact, wide in zip(exacts, wide_dense, strict=True)
        ]
        on = _held([pool], len(rows.ids))
        lexical = [
            lexical_list(rows.tie_ids, s, pool=on, depth=fusion.depth, anchors=wide.anchors)
            for s, wide in zip(self.scored, wide_lexical, strict=True)
        ]
        pairs = list(zip(dense[1:], lexical[1:], strict=True))
        return _Signals(cosines, self.scored, dense[0], lexical[0], pairs)

    def candidates(self) -> I64:
        """Return the rows in any list, ascending."""
        lists = [self.dense, self.lexical, *(x for pair in self.per_piece for x in pair)]
        return np.flatnonzero(_held([x.rows for x in lists], len(self.scored[0])))


def _held(parts: Sequence[I64], total: int) -> npt.NDArray[np.bool_]:
    """Return which of ``total`` rows are in any part."""
    held = np.zeros(total, dtype=bool)
    for part in parts:
        held[part] = True
    return held


def _proposed(
    rows: Rows, queries: F32, pool: I64, *, retriever: Retriever, apart: bool
) -> list[Proposed]:
    """Return what may belong to the dense list of the whole and, apart, of each piece."""
    fusion = retriever.fusion
    if fusion.dense_weight == 0:
        return [Proposed(NO_ROWS)] * (1 + apart * len(queries))
    total = len(rows.ids)
    wanted = pool if len(pool) >= fusion.depth else np.arange(total)
    near = rows.products(queries, wanted, retriever.multiply)
    signals = [approximate_log_avg_exp(near, fusion.tau), *(near if apart else ())]
    return [proposal(s, pool=pool, total=total, depth=fusion.depth) for s in signals]


def _exact_scores(cosines: _Cosines, tau: float, apart: bool) -> list[Callable[[I64], F64]]:
    """Return the exact score of rows for the whole and, apart, for each piece."""

    def of_piece(j: int) -> Callable[[I64], F64]:
        return lambda rows: cosines.of(rows)[:, j]

    def of_whole(rows: I64) -> F64:
        return np.round(log_avg_exp(cosines.of(rows), tau), DIGITS) if len(rows) else np.zeros(0)

    return [of_whole, *(of_piece(j) for j in range(cosines.values.shape[1]) if apart)]
