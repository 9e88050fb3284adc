"""Retrieval: the query pieces against every chunk of the Eligibility Pool.

Documents and older turns are found together, by one scale. Reads ``extras.query_pieces`` and
``extras.pool`` (off, lock). Writes the view ``retrieval``,
``base_context_chunks`` (the kept candidates' chunks, unique), ``extras.scores`` (absolute and
scaled scores of the kept ones) and one decision a candidate. The only stage that searches vectors.
Locked, or nothing eligible: an empty view and the reason; the embedder is not called.
What takes the place of a document that was found, by its own words, and what defines a constant
that the candidates use, are looked for by name: such a passage goes on beside the candidates
(`Condenser` shows it) and is none itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from ragstream_core.agents.context.definitions import constants_of, is_defined
from ragstream_core.agents.context.supersession import superseded
from ragstream_core.prompts.blocks import HISTORY_PREFIX
from ragstream_core.prompts.trail import advance, pass_number, pieces_of, put_decisions, put_notes
from ragstream_core.records import Chunk, Decision, Hit, SuperPrompt
from ragstream_core.records.stage_results import Scores

STAGE = "retrieval"
OP = "retrieval"
MOST_SUCCESSORS = 3
FOUND_BY_NAME = 10

# (whole query, query pieces, ``project/path`` of files switched off) → ranked candidates.
Search = Callable[[str, Sequence[str], Collection[str]], list[Hit]]


@dataclass(frozen=True)
class RetrievalStage:
    """Stage ``retrieval``.

    Attributes:
        search: Ranks the candidates of the pinned generations.
        load: Loads chunks by id, in the order asked for.
        top_k: Candidates that go on.
        min_score: Least absolute LogAvgExp cosine in [-1, 1] of a candidate that goes on.
        told: What else there is to say about the search, once it is done.
        warned: What a person should know of how it is searched.
        limits: The same, of the question and the passages that were found.
    """

    search: Search
    load: Callable[[Sequence[str]], list[Chunk]]
    top_k: int = 50
    min_score: float = -1.0
    told: Callable[[], Sequence[str]] = tuple
    warned: Sequence[str] = ()
    limits: Callable[[str, Sequence[Chunk]], Sequence[str]] = lambda _question, _found: ()

    def __call__(self, prompt: SuperPrompt) -> SuperPrompt:
        """Find the candidates."""
        result = advance(prompt, STAGE)
        pool = prompt.extras.pool
        pieces = pieces_of(prompt)
        hits = [] if pool.lock else self.search(" ".join(pieces), pieces, pool.off)
        told = self.told()
        now = pass_number(prompt)
        rows = [self._decide(hit, rank, now) for rank, hit in enumerate(hits, 1)]
        kept = [hit for hit, row in zip(hits, rows, strict=True) if row.kept]
        ids = [hit.chunk_id for hit in kept]
        candidates = self.load(ids)
        later = [] if pool.lock else self._successors(candidates, hits, pool.off)
        asked = " ".join(pieces)
        defined = [] if pool.lock else self._definitions(asked, candidates, pool.off)
        result.base_context_chunks = [*candidates, *later, *defined]
        result.views_by_stage[STAGE] = ids
        scored = {*ids, *(chunk.id for chunk in (*later, *defined))}
        result.extras.scores = {
            hit.chunk_id: Scores(
                hit.score, hit.cosine, hit.best_cosine, hit.bm25, hit.scores, hit.piece_cosines
            )
            for hit in hits
            if hit.chunk_id in scored
        }
        put_decisions(result, STAGE, rows)
        low = sum(row.rule == "min_score" for row in rows)
        dropped = f", {low} below retrieval.min_score" if low else ""
        found = [f"{len(hits)} candidates, {len(kept)} go on{dropped}", *told]
        found += [f"{chunk.source} takes the place of a document that was found" for chunk in later]
        found += [f"{chunk.source} defines what the candidates use" for chunk in defined]
        warnings: list[str] = []
        if not pool.lock:
            limits = self.limits(asked, candidates) if now == 1 else ()
            warnings = [*self.warned, *limits]
        put_notes(result, OP, events=["locked"] if pool.lock else found, warnings=warnings)
        return result

    def _successors(
        self, candidates: Sequence[Chunk], hits: Sequence[Hit], off: Collection[str]
    ) -> list[Chunk]:
        """Return a passage of each document that is named as a successor and was not found.

        The one nearest to the question if any was scored, else the one that was found by the name.
        """
        known, asked, later = list(candidates), set[str](), list[Chunk]()
        for _ in range(MOST_SUCCESSORS):
            names = [row.by for row in superseded(known).values() if row.by and not row.found]
            name = next((name for name in names if name not in asked), "")
            if not name:
                break
            asked.add(name)
            named = [hit.chunk_id for hit in self.search(name, [name], off)[:FOUND_BY_NAME]]
            others = [c for c in self.load(named) if not c.id.startswith(HISTORY_PREFIX)]
            marks = superseded([*known, *others]).values()
            new = {row.by for row in marks if row.found} - {chunk.source for chunk in known}
            for source in sorted(new):
                mine = [chunk for chunk in others if chunk.source == source]
                nearest = [hit.chunk_id for hit in hits if hit.chunk_id.startswith(f"{source}::")]
                later += self.load(nearest[:1]) or mine[:1]
                known += mine
        return later

    def _definitions(
        self, asked: str, candidates: Sequence[Chunk], off: Collection[str]
    ) -> list[Chunk]:
        """Return a passage that defines each constant of the candidates that is asked for."""
        found: list[Chunk] = []
        for name in constants_of(asked, candidates):
            if any(is_defined(name, chunk.snippet) for chunk in (*candidates, *found)):
                continue
            hits = sorted(self.search(name, [name], off), key=lambda hit: -hit.bm25)
            named = [hit.chunk_id for hit in hits[:FOUND_BY_NAME]]  # a name is its words
            others = (c for c in self.load(named) if not c.id.startswith(HISTORY_PREFIX))
            found += [c for c in others if is_defined(name, c.snippet)][:1]
        return found

    def _decide(self, hit: Hit, rank: int, pass_no: int) -> Decision:
        kept, rule, reason = True, "top_k", f"rank {rank} of the first {self.top_k}"
        if rank > self.top_k:
            kept, reason = False, f"rank {rank} is behind the first {self.top_k}"
        elif hit.cosine < self.min_score:
            kept, rule = False, "min_score"
            reason = f"cosine {hit.cosine:.3f} is below {self.min_score:.3f}"
        chunk_id, score, cosine, best, bm25, parts, _ = hit
        held = {"score": score, "cosine": cosine, "best_cosine": best, "bm25": bm25, **parts}
        return Decision(STAGE, chunk_id, rank, score, kept, rule, reason, 0, pass_no, held)
