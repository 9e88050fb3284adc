"""Candidates for a prompt: dense and lexical lists over one or several pinned generations.

One query piece: plain hybrid. Several: A = BM25(whole) + LogAvgExp of the pieces' cosines, B =
hybrid per piece, then LogAvgExp; final = mix_a · A + (1 − mix_a) · B, both min-max scaled
(`quality.md`). A dense weight of 0 or 1 switches the other signal off and ranks by A alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ragstream_core.errors import ModelMismatch
from ragstream_core.lexical import bm25_scores, terms
from ragstream_core.ports import Embedder, IndexView
from ragstream_core.records import Hit
from ragstream_core.retrieval.lists import SignalList, signal_list
from ragstream_core.scoring import (
    DIGITS,
    convex,
    exact_cosines,
    log_avg_exp,
    min_max,
    reciprocal_rank,
)

F64 = npt.NDArray[np.float64]
F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Fusion:
    """How signals become one score.

    Attributes:
        dense_weight: Weight of the dense signal in [0, 1].
        tau: LogAvgExp sharpness > 0.
        mix_a: Weight of A in the mix for several pieces, in [0, 1].
        depth: Length of each signal's list.
        method: ``convex`` or ``rrf``.
        rrf_k: Constant of reciprocal rank fusion.
    """

    dense_weight: float = 0.5
    tau: float = 9.0
    mix_a: float = 0.3
    depth: int = 100
    method: str = "convex"
    rrf_k: int = 60

    @property
    def pure(self) -> bool:
        """Whether one signal alone decides."""
        return self.dense_weight in (0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Retriever:
    """Scores the live rows of pinned generations against the pieces of one prompt."""

    embedder: Embedder
    fusion: Fusion = Fusion()

    def search(
        self,
        views: Sequence[IndexView],
        whole: str,
        *,
        pieces: Sequence[str],
        off: Collection[str] = (),
    ) -> list[Hit]:
        """Rank the union of all signals' lists.

        Args:
            views: Pinned generations, all built by this embedder.
            whole: The whole query text, for BM25.
            pieces: 1 to 10 query pieces, each within the embedder's window.
            off: ``project/path`` of the files outside the Eligibility Pool.

        Returns:
            All candidates by (−score, chunk_id); a chunk id that several projects hold comes once.

        Raises:
            ModelMismatch: A generation was built by another model.
        """
        for view in views:
            if view.embed_fp != self.embedder.fingerprint:
                raise ModelMismatch(
                    f"project {view.project!r} was embedded by model {view.embed_fp[:12]}, "
                    f"this session uses {self.embedder.fingerprint[:12]} ({self.embedder.name})",
                    hint=f"ragstream ingest {view.project} --rebuild",
                )
        rows = _Rows.of(views, off)
        if not rows.eligible.any() or not pieces:
            return []
        return self._ranked(rows, _Signals.of(self, rows, whole, pieces))

    def _ranked(self, rows: _Rows, signals: _Signals) -> list[Hit]:
        candidates = signals.candidates()
        a = self._fused(signals.dense, signals.lexical, candidates)
        score, parts = a, {"a": a}
        if signals.per_piece and not self.fusion.pure:
            fused = [self._fused(d, lex, candidates) for d, lex in signals.per_piece]
            b = log_avg_exp(np.stack(fused, axis=1), self.fusion.tau)
            parts["b"] = b
            score = convex(min_max(a), min_max(b), self.fusion.mix_a)
        score = np.round(score, DIGITS)
        cosines = exact_cosines(rows.take(candidates), signals.queries)
        whole = np.round(log_avg_exp(cosines, self.fusion.tau), DIGITS)
        parts["dense"], parts["lexical"] = (
            signals.dense.over(candidates),
            signals.lexical.over(candidates),
        )
        order = sorted(
            range(len(candidates)), key=lambda i: (-score[i], rows.ids[int(candidates[i])])
        )
        return [
            Hit(
                chunk_id=rows.ids[int(candidates[i])],
                score=float(score[i]),
                cosine=float(whole[i]),
                best_cosine=float(cosines[i].max()),
                bm25=float(signals.bm25[candidates[i]]),
                scores={name: round(float(part[i]), DIGITS) for name, part in parts.items()},
                piece_cosines=tuple(cosines[i].tolist()),
            )
            for i in order
        ]

    def _fused(self, dense: SignalList, lexical: SignalList, rows: I64) -> F64:
        if self.fusion.method == "rrf":
            ranks = [{r: i + 1 for i, r in enumerate(x.rows.tolist())} for x in (dense, lexical)]
            return np.array(
                [reciprocal_rank([r.get(row) for r in ranks], self.fusion.rrf_k) for row in rows]
            )
        return convex(dense.over(rows), lexical.over(rows), self.fusion.dense_weight)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of several views as one list, without a copy of their vectors."""

    views: Sequence[IndexView]
    ids: list[str]
    eligible: npt.NDArray[np.bool_]
    starts: list[int]

    @classmethod
    def of(cls, views: Sequence[IndexView], off: Collection[str]) -> _Rows:
        ids: list[str] = []
        eligible: list[bool] = []
        starts, seen = [0], set[str]()
        for view in views:
            closed = {path for path in set(view.paths) if f"{view.project}/{path}" in off}
            for identifier, path in zip(view.chunk_ids, view.paths, strict=True):
                eligible.append(path not in closed and identifier not in seen)
                ids.append(identifier)
            if len(views) > 1:
                seen.update(view.chunk_ids)
            starts.append(len(ids))
        return cls(views, ids, np.array(eligible, dtype=bool), starts)

    def approximate(self, queries: F32) -> F32:
        return np.concatenate([view.vectors @ queries.T for view in self.views])

    def take(self, rows: I64) -> F32:
        which = np.searchsorted(self.starts, rows, side="right") - 1
        return np.stack(
            [
                self.views[v].vectors[row - self.starts[v]]
                for v, row in zip(which.tolist(), rows.tolist(), strict=True)
            ]
        )


@dataclass(frozen=True, slots=True)
class _Signals:
    """Every list of one query: whole, and per piece where there are several."""

    queries: F32
    bm25: F64
    dense: SignalList
    lexical: SignalList
    per_piece: list[tuple[SignalList, SignalList]]

    @classmethod
    def of(cls, retriever: Retriever, rows: _Rows, whole: str, pieces: Sequence[str]) -> _Signals:
        fusion = retriever.fusion
        lexicals = [view.lexical for view in rows.views]
        queries = retriever.embedder.embed_queries(list(pieces))
        near = rows.approximate(queries)

        def lexical(text: str) -> tuple[F64, SignalList]:
            scores = np.concatenate(bm25_scores(lexicals, terms(text)))
            on = rows.eligible if fusion.dense_weight < 1 else np.zeros_like(rows.eligible)
            return scores, signal_list(
                rows.ids, scores, lambda r: scores[r], eligible=on, depth=fusion.depth, floor=0.0
            )

        def dense(columns: slice) -> SignalList:
            on = rows.eligible if fusion.dense_weight > 0 else np.zeros_like(rows.eligible)
            return signal_list(
                rows.ids,
                log_avg_exp(near[:, columns], fusion.tau),
                lambda r: (
                    np.round(
                        log_avg_exp(exact_cosines(rows.take(r), queries[columns]), fusion.tau),
                        DIGITS,
                    )
                    if len(r)
                    else np.zeros(0)
                ),
                eligible=on,
                depth=fusion.depth,
            )

        bm25, lexical_list = lexical(whole)
        per_piece = (
            [(dense(slice(j, j + 1)), lexical(piece)[1]) for j, piece in enumerate(pieces)]
            if len(pieces) > 1 and not fusion.pure
            else []
        )
        return cls(queries, bm25, dense(slice(None)), lexical_list, per_piece)

    def candidates(self) -> I64:
        """Return the rows in any list, ascending."""
        lists = [self.dense, self.lexical, *(x for pair in self.per_piece for x in pair)]
        return np.unique(np.concatenate([x.rows for x in lists])).astype(np.int64)
