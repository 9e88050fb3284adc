"""A3 · NLI Gate: by an entailment model, or, without weights, by absolute cosines and BM25.

Reads the view ``reranked``, ``extras.scores`` as retrieval stored them, and ❖ FILES. Writes the
view ``a3`` and exactly one decision a candidate. A candidate stays if it is near enough, by its
best cosine over the query pieces (≥ θ) or by its words (BM25 at least a share of the best
candidate's), and if both together are not far behind the best; or if its rank is ≤ ``keep_top``.
With a model it stays if its probability of entailing some piece (or a language model's score of how
much it helps to answer) is ≥ θ, or by its rank likewise. Text that an injected file or an earlier
candidate already holds is dropped; a passage of a document that another one repeats is shown for
both (``extras.repeats``). Fragments of the conversation have no place of their own: they
must pass by their numbers, and give way to ❖ FILES and to later turns; what differs is listed in
``extras.conflicts``. Locked: an empty view, reason ``locked``. Raising θ never keeps more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pydantic import Field

from ragstream_core.agents.context.passage_selection import stemmed_terms
from ragstream_core.agents.context.repeats import MOST_MORE, shown_once
from ragstream_core.agents.history_conflicts import (
    ConflictVerdict,
    against_files,
    fold,
    is_past,
    superseded,
)
from ragstream_core.agents.hypotheses import hypothesis_of
from ragstream_core.agents.llm_call import Answer, Ask, own, passage, question
from ragstream_core.prompts.blocks import HISTORY_PREFIX, is_locked
from ragstream_core.prompts.render import shows
from ragstream_core.prompts.trail import (
    advance,
    latest_view,
    pass_number,
    pieces_of,
    put_decisions,
    put_notes,
)
from ragstream_core.records import Chunk, Decision, SuperPrompt
from ragstream_core.records.stage_results import Conflict, InjectedFile, Scores

# So much of each candidate is shown.
MAX_CHARS = 800
_TASK = (
    "You judge passages p1, p2, … for somebody who has the questions q1, q2, …. For every passage"
    " give a score: 0 when it does not help to answer any of them, 50 when it may, 100 when it"
    " answers one. verdicts: each passage exactly once."
)


class Verdict(Answer):
    """The score of one passage."""

    passage: str = Field(max_length=16)
    score: int = Field(ge=0, le=100)


class Judged(Answer):
    """The scores of all passages."""

    verdicts: list[Verdict] = Field(max_length=1000)


def judged(
    ask: Ask, pieces: Sequence[str], chunks: Sequence[Chunk]
) -> tuple[dict[str, float], str]:
    """Ask how much each candidate helps.

    Args:
        ask: Asks the model.
        pieces: The query pieces.
        chunks: The candidates, at least one.

    Returns:
        Chunk id → score in [0, 1], and an empty text; or no scores and why there are none.
    """
    names = {f"p{number}": chunk for number, chunk in enumerate(chunks, start=1)}
    parts = [own(f"q{number}", text) for number, text in enumerate(pieces, start=1)]
    parts += [passage(n, chunk, MAX_CHARS) for n, chunk in enumerate(chunks, start=1)]
    said, missed = ask(question(_TASK, parts), Judged, lambda answer: _fault(answer, names))
    if said is None:
        return {}, missed
    return {names[row.passage].id: row.score / 100 for row in said.verdicts}, ""


def _fault(said: Judged, names: Collection[str]) -> str:
    given = [row.passage for row in said.verdicts]
    if any(name not in names for name in given):
        return "it judges a passage that was not shown"
    return "" if len(given) == len(set(given)) == len(names) else "not each passage exactly once"


STAGE = "a3"
OP = "a3_nli_gate"
NEAR_DUPLICATE = "near_duplicate"
UNMEASURED = (
    "gated by similarity: {model} is on this machine, but no measurement says that it is better; "
    "`ragstream eval gate PROJECT` measures"
)

# (statements, passages) → the best probability of entailment of each passage.
Entailment = Callable[[Sequence[str], Sequence[str]], list[float]]


def held_by(chunk: Chunk, files: Sequence[InjectedFile]) -> ConflictVerdict | None:
    """Return why an injected file makes a chunk of its own superfluous, or None (C-55).

    Lines that a PACK leaves out are not in the prompt: their chunks stay.

    Args:
        chunk: The candidate, of a document.
        files: ``extras.files``.
    """
    for file in files:
        project, path = file.home
        if chunk.source == path and chunk.meta.get("project", project) == project:
            packed = file.mode == "PACK"
            why = f"{file.path} {'holds every line of it' if packed else 'is injected as a whole'}"
            if not packed or shows(file.text, chunk.snippet):
                return ConflictVerdict("duplicates_files", why, file.path, conflict=False)
    return None


class Near(NamedTuple):
    """How near a candidate comes to the best one; neither number depends on how scores are scaled.

    Attributes:
        words: Its BM25 as a share of the best candidate's, in [0, 1].
        both: The mean of that and of the same for meaning, at most 1: the share of the best
            candidate's cosine, for the piece where it is largest, since a passage may answer one
            piece alone. Meaning alone if no candidate holds a word of the question.
    """

    words: float = 0.0
    both: float = 1.0


def nearness(scores: Mapping[str, Scores]) -> dict[str, Near]:
    """Return how near each candidate comes to the best one, if its cosines are stored.

    Args:
        scores: ``extras.scores``.
    """
    rows = {i: found.piece_cosines for i, found in scores.items() if found.piece_cosines}
    best = [max(column) for column in zip(*rows.values(), strict=True)]
    most = max((scores[i].bm25 for i in rows), default=0.0)
    near = {}
    for i, row in rows.items():
        meant = max((c / top for c, top in zip(row, best, strict=True) if top > 0), default=1.0)
        words = scores[i].bm25 / most if most > 0 else 0.0
        near[i] = Near(words, (meant + words) / 2 if most > 0 else meant)
    return near


@dataclass(frozen=True)
class Scored:
    """What a model says of the candidates.

    Attributes:
        of: Chunk id → score in [0, 1]; empty: no model decides.
        kind: What the score is: ``entailment`` or ``relevance``.
        by: The model, for people.
        rule: The rule it decides by.
        warnings: Why a language model's answer was not taken.
    """

    of: Mapping[str, float] = field(default_factory=dict)
    kind: str = ""
    by: str = ""
    rule: str = ""
    warnings: Sequence[str] = ()


@dataclass(frozen=True)
class NliGate:
    """Stage ``a3``.

    Attributes:
        theta: Least best cosine in [-1, 1].
        keep_top: So many best-ranked candidates stay whatever their scores.
        relative: Minimum mean share of the best candidate's cosine and BM25, in [0, 1].
        words: Share of the best candidate's BM25 from which words stand in for θ, in [0, 1].
        enabled: Off: every candidate stays that ❖ FILES does not hold.
        entailment: (statements that stand for the query pieces, passages) → the probability that
            each passage entails one of them, in [0, 1]; None: the similarity gate.
        nli_theta: Least such probability.
        name: The model, for people.
        unmeasured: A model that is here and is not taken, since no measurement stands behind it.
        ask: Asks a language model instead, whose score is compared with ``nli_theta``; where its
            answer is no good, the gate decides as without it.
    """

    theta: float
    keep_top: int = 3
    relative: float = 0.0
    words: float = 1.0
    enabled: bool = True
    entailment: Entailment | None = None
    nli_theta: float = 0.5
    name: str = "similarity"
    unmeasured: str = ""
    ask: Ask | None = None

    def __call__(self, prompt: SuperPrompt) -> SuperPrompt:
        """Gate the candidates."""
        result = advance(prompt, STAGE)
        view = [] if is_locked(prompt) else latest_view(prompt, "reranked", "retrieval")
        chunks = {chunk.id: chunk for chunk in prompt.base_context_chunks}
        given_way = self._given_way(prompt, [chunks[i] for i in view])
        rows: list[Decision] = []
        near = nearness(prompt.extras.scores)
        twins = _twins([chunks[i] for i in view if i not in given_way])
        alone = [chunks[i] for i in view if i not in given_way and i not in twins]
        scored = self._scored(prompt, alone)
        kept: list[Chunk] = []
        for rank, chunk_id in enumerate(view, start=1):
            chunk = chunks[chunk_id]
            verdict = given_way.get(chunk_id)
            if verdict:
                decided = (False, verdict.rule, verdict.reason)
            elif chunk_id in twins:
                decided = (False, "duplicate_text", f"same text as {twins[chunk_id]}")
            elif chunk_id in scored.of:
                decided = self._by_model(chunk, rank, scored)
            else:
                decided = self._decide(prompt, chunk, rank, near=near.get(chunk_id, Near()))
            kept += [chunk] if decided[0] else []
            row = _row(prompt, chunk_id, rank, decided=decided, near=near.get(chunk_id))
            rows.append(_with_model(row, scored))
        kept, same = shown_once(kept)
        rows = [_repeating(row, same) for row in rows]
        result.extras.conflicts = tuple(
            Conflict(v.winner, i, v.rule, v.reason) for i, v in given_way.items() if v.conflict
        )
        result.views_by_stage[STAGE] = [chunk.id for chunk in kept]
        result.extras.repeats = _shown_for({**twins, **same}, chunks, kept)
        put_decisions(result, STAGE, rows)
        dropped = sum(not row.kept for row in rows)
        event = f"kept {len(rows) - dropped} of {len(rows)}" if view else "no candidate"
        event += f" by {scored.by}" if scored.of else ""
        events = ["locked" if is_locked(prompt) else event, *_conflict_events(result)]
        if self.unmeasured:
            events.append(UNMEASURED.format(model=self.unmeasured))
        put_notes(result, OP, events=events, warnings=scored.warnings)
        return result

    def _given_way(
        self, prompt: SuperPrompt, chunks: Sequence[Chunk]
    ) -> dict[str, ConflictVerdict]:
        """Return what gives way to ❖ FILES or to a later turn, by id; ❖ FILES first."""
        files = prompt.extras.files
        found = superseded(chunks, stemmed_terms, stemmed_terms(" ".join(pieces_of(prompt))))
        for chunk in chunks:
            verdict = (against_files if is_past(chunk) else held_by)(chunk, files)
            if verdict:
                found[chunk.id] = verdict
        return found

    def _scored(self, prompt: SuperPrompt, chunks: Sequence[Chunk]) -> Scored:
        """Return what a model says of each candidate: nothing without one."""
        if not (self.enabled and chunks):
            return Scored()
        pieces, warnings = pieces_of(prompt), []
        if self.ask is not None:
            scores, missed = judged(self.ask, pieces, chunks)
            if not missed:
                return Scored(scores, "relevance", "the language model", "llm_gate")
            warnings = [f"the language model did not judge ({missed}): gated by {self.name}"]
        if self.entailment is None:
            return Scored(warnings=warnings)
        statements = list(map(hypothesis_of, pieces))
        found = self.entailment(statements, [chunk.snippet for chunk in chunks])
        scores = {chunk.id: float(p) for chunk, p in zip(chunks, found, strict=True)}
        return Scored(scores, "entailment", self.name, "nli_gate", warnings)

    def _by_model(self, chunk: Chunk, rank: int, scored: Scored) -> tuple[bool, str, str]:
        """Decide by a model's score; return kept, rule and reason."""
        keep_top = 0 if is_past(chunk) else self.keep_top
        found = scored.of[chunk.id]
        kept = found >= self.nli_theta
        if not kept and rank <= keep_top:
            return True, "keep_top", f"rank {rank} is among the first {keep_top}"
        sign = "≥" if kept else "<"
        return kept, scored.rule, f"{scored.kind} {found:.3f} {sign} θ {self.nli_theta:g}"

    def _decide(
        self, prompt: SuperPrompt, chunk: Chunk, rank: int, *, near: Near
    ) -> tuple[bool, str, str]:
        if not self.enabled:
            return True, "pass_through", "the gate is switched off"
        keep_top = 0 if is_past(chunk) else self.keep_top
        return self._gate(_best_cosine(prompt, chunk.id), near, rank, keep_top)

    def _gate(self, cosine: float, near: Near, rank: int, keep_top: int) -> tuple[bool, str, str]:
        """Decide by the numbers; return kept, rule and reason."""
        meant, said = cosine >= self.theta, near.words >= self.words
        behind = near.both < self.relative
        if (behind or not (meant or said)) and rank <= keep_top:
            return True, "keep_top", f"rank {rank} is among the first {keep_top}"
        if behind and (meant or said):
            share = f"{near.both:.0%} of the best passage's score"
            limit = f"limit {self.relative:.0%}, gate.relative"
            return False, "relative_score", f"too weak: {share} ({limit})"
        if said and not meant:
            reason = f"its words reach {near.words:.2f} of the best candidate's ≥ {self.words:g}"
            return True, "words_gate", reason
        sign = "≥" if meant else "<"
        return meant, "similarity_gate", f"best cosine {cosine:.3f} {sign} θ {self.theta:g}"


def _twins(chunks: Sequence[Chunk]) -> dict[str, str]:
    """Return for each chunk that repeats the text of an earlier one the id of that one."""
    first: dict[str, str] = {}
    found = ((c.id, first.setdefault(fold(c.in_context), c.id)) for c in chunks)
    return {chunk_id: twin for chunk_id, twin in found if twin != chunk_id}


def _repeating(row: Decision, same: Mapping[str, str]) -> Decision:
    if row.chunk_id not in same:
        return row
    reason = f"all that it says stands in {same[row.chunk_id]}"
    return row._replace(kept=False, rule=NEAR_DUPLICATE, reason=reason)


def _shown_for(
    same: Mapping[str, str], chunks: Mapping[str, Chunk], kept: Sequence[Chunk]
) -> dict[str, str]:
    """Return for each repeated passage of a document the kept one that says the same.

    One that says more than a quarter more is not named as the same: what it adds does not stand
    in the repeated one.
    """
    shown = {chunk.id: len(chunk.snippet) for chunk in kept if not is_past(chunk)}
    found = {}
    for repeat, holder in same.items():
        while holder in same:
            holder = same[holder]
        if holder not in shown or repeat.startswith(HISTORY_PREFIX):
            continue
        if shown[holder] <= MOST_MORE * len(chunks[repeat].snippet):
            found[repeat] = holder
    return found


def _conflict_events(prompt: SuperPrompt) -> list[str]:
    rows = prompt.extras.conflicts
    return [f"conflict: {row.winner} wins over {row.loser}: {row.reason}" for row in rows]


def _best_cosine(prompt: SuperPrompt, chunk_id: str) -> float:
    return prompt.extras.scores.get(chunk_id, Scores()).best_cosine


def _with_model(row: Decision, scored: Scored) -> Decision:
    if row.chunk_id not in scored.of:
        return row
    found = scored.of[row.chunk_id]
    return row._replace(score=found, scores={**row.scores, scored.kind: found})


def _row(
    prompt: SuperPrompt,
    chunk_id: str,
    rank: int,
    *,
    decided: tuple[bool, str, str],
    near: Near | None,
) -> Decision:
    cosine = round(_best_cosine(prompt, chunk_id), 6)
    kept, rule, reason = decided
    parts = {"words": round(near.words, 6), "both": round(near.both, 6)} if near else {}
    return Decision(
        STAGE, chunk_id, rank, cosine, kept, rule, reason,
        pass_no=pass_number(prompt), scores={"best_cosine": cosine, **parts},
    )  # fmt: skip
