"""A4 · Condenser: the final selection within the budget, and S_ctx with its citations.

Reads the view ``a3``, the chunks, ``extras.scores``, the query pieces and ❖ FILES. Writes the
view ``a4``, ``final_selection_ids``, one decision a candidate, and in ``extras``: ``cuts``,
``windows``, ``short_ids``, ``citations``, ``nothing_relevant``, ``s_ctx``, ``answers``.
Facts are sentences of kept chunks, verbatim, each with its citation; the conversation is no source
of facts unless it is switched on (C-07), and has a budget of its own. When no document answers
any piece, the best passages alone are selected, and if ❖ FILES is empty too the prompt says so: an
injected file is evidence, and what it answers is no open issue. A piece that is *not found* has no
fact, and one with a fact is *perhaps* at least. A language model may choose the sentences; if its
answer is not valid they are extracted as ever, with ``extras.fallback`` = ``SAF-A1``. If the
evidence is to be tight, passages behind its end (`context.evidence_end`) are not selected, and of
long ones behind the best a window is shown (`context.windows`), unless it is not sure that they
answer. Beside a document that is superseded, and a day that has moved, stands what is newer
(`context.newer`), if it was found.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ragstream_core.agents.a3_nli_gate import nearness
from ragstream_core.agents.context.answer_estimate import USUAL
from ragstream_core.agents.context.answer_signs import Nearness
from ragstream_core.agents.context.condensed_notes import repeated_chunks, savings, warnings_of
from ragstream_core.agents.context.condensed_rows import (
    STAGE,
    nearest_only,
    passage_rows,
    piece_rows,
)
from ragstream_core.agents.context.evidence_end import (
    ALWAYS,
    Beyond,
    beyond_evidence,
    can_end,
    strengths_of,
)
from ragstream_core.agents.context.llm_form import SAF_A1, ContextParts, Passages, extracted
from ragstream_core.agents.context.named_rows import row_cells
from ragstream_core.agents.context.newer import Newer, newer_beside
from ragstream_core.agents.context.open_issues import (
    Answers,
    Judged,
    all_not_found,
    conflicts,
    not_worse,
    replaced_sources,
    said_of_superseded,
    unanswered,
    with_facts,
)
from ragstream_core.agents.context.passage_selection import (
    Reading,
    Selection,
    asked_pieces,
    framed_tokens,
    joined,
    select,
    stemmed_terms,
)
from ragstream_core.agents.context.quotable import Quote, Terms
from ragstream_core.agents.context.said_before import found_in_turns
from ragstream_core.agents.context.windows import FROM_RANK, window_of
from ragstream_core.agents.history_conflicts import is_past
from ragstream_core.agents.llm_call import Ask
from ragstream_core.ports import TokenCounter
from ragstream_core.prompts.blocks import (
    Layout,
    citations_of,
    compose,
    injected,
    is_locked,
)
from ragstream_core.prompts.trail import (
    advance,
    latest_view,
    pass_number,
    pieces_of,
    put_decisions,
    put_notes,
)
from ragstream_core.records import Chunk, SuperPrompt, evolve
from ragstream_core.records.identity import short_ids
from ragstream_core.records.s_ctx import (
    ANSWERED,
    IN_CONVERSATION,
    Cited,
    Fact,
    OpenIssue,
    SCtx,
)
from ragstream_core.records.stage_results import Span
from ragstream_core.records.super_prompt import ANSWERS

OP = "a4_condenser"
RERANKED = "reranked"
FACT_TOKENS = 50
MOST_FILLINGS = 4

# Chunk id → its reranked score, and how near it comes to the best one.
Measures = tuple[dict[str, float], dict[str, float]]
# S_ctx beside a selection, and whether that answers each piece.
Told = tuple[SCtx, list[Judged]]


Look = Callable[[list[Chunk]], tuple[Selection, list[Judged]]]


class FirstLook(NamedTuple):
    """What is shown before anybody knows how much room S_ctx leaves.

    Attributes:
        usable: What may be shown.
        ended: What lies behind the end of the evidence.
        picked: What is selected of it.
        seen: What that says of each piece.
        doubt: Why only the nearest passages may be shown; empty: they are not the only ones.
    """

    usable: list[Chunk]
    ended: dict[str, Beyond]
    picked: Selection
    seen: list[Judged]
    doubt: str


@dataclass(frozen=True)
class Condenser:
    """Stage ``a4``.

    Attributes:
        counter: Counts tokens.
        layout: Rules, memory and order of the final prompt: they use up budget as well.
        budget_tokens: Most tokens of the whole prompt.
        max_context_tokens: Most tokens of the attachments.
        max_context_chars: Most characters of the attachments.
        token_overhead: Tokens set aside.
        history_tokens: Most tokens of older turns; never more than a quarter of what is free.
        history_chars: Most characters of older turns; None: those of the attachments.
        history_pieces: Most pieces of older turns; 0: no limit.
        history_first: Older turns take their tokens before the documents, not a quarter at most.
        past_facts: Whether facts may be quoted from the conversation.
        max_facts: Most facts and constraints together.
        keep_top: So many of the best passages are shown if it is not sure that they answer.
        searched: How many passages of documents were searched.
        tight: Attachments end where the evidence ends, not where the budget does.
        support_cosine: Least best cosine at which a chunk counts as an answer, if nothing can be
            estimated.
        terms: Stems a text.
        nearness: How near words come to sentences by token vectors, if the weights of
            `answer_estimate` are for them; None: answers are judged by words alone.
        ask: Asks a language model which sentences to take; None: they are extracted.
        enabled: Off: the selection is made, S_ctx stays empty.
    """

    counter: TokenCounter
    layout: Layout = field(default_factory=Layout)
    budget_tokens: int = 6000
    max_context_tokens: int = 4000
    max_context_chars: int = 24_000
    token_overhead: int = 200
    history_tokens: int = 1000
    history_chars: int | None = None
    history_pieces: int = 0
    history_first: bool = False
    past_facts: bool = False
    max_facts: int = 12
    keep_top: int = 5
    searched: int = USUAL
    tight: bool = False
    support_cosine: float = 0.5
    terms: Terms = stemmed_terms
    nearness: Nearness | None = None
    ask: Ask | None = None
    enabled: bool = True

    def __call__(self, prompt: SuperPrompt) -> SuperPrompt:
        """Condense the kept candidates."""
        result = advance(prompt, STAGE)
        asked = asked_pieces(prompt, self.terms)
        newer = newer_beside(prompt, self._kept(prompt), asked, self.terms)
        kept, beside, replaced = newer.kept, newer.beside, newer.outdated
        reader = Reading.of(prompt, kept, self.terms, past=self.past_facts)
        measures = _measures(prompt)
        reader = replace(reader, strengths=_strengths(prompt, kept, measures))
        ends = self._ends(prompt, kept)
        short = self._short_ids(prompt)
        free = self._free(prompt, SCtx())
        same = repeated_chunks(prompt)
        answers = self._answers(reader, kept)

        def look(usable: list[Chunk]) -> tuple[Selection, list[Judged]]:
            picked = self._select(usable, free, self._reserve(free), same)
            return picked, answers.of_passages(reader.within(picked).evidence, picked.cuts)

        first = self._first(prompt, kept, measures if ends else None, look, beside)
        usable, ended, picked, seen, doubt = first
        found = self._found(prompt, reader.within(picked), picked, seen, newer)

        def s_ctx(selected: Selection) -> Told:
            if found is None:
                return SCtx(), []
            within = reader.within(selected)
            judged = answers.of(within.evidence, selected.cuts, found.open_pieces)
            if found.open_pieces is None:
                judged = not_worse(judged, seen)
            judged = with_facts(judged, found.chosen)
            turns = [chunk for chunk in kept if is_past(chunk) and chunk.id in selected.tokens]
            if replaced:
                others = [
                    e for e in within.evidence if answers.chunks[e.chunk_id].source not in replaced
                ]
                judged = said_of_superseded(judged, answers.of(others, selected.cuts), replaced)
            judged = newer.judged(judged)
            judged, said = found_in_turns(
                judged, reader.asked, turns, terms=self.terms, weight=reader.weight,
                scores=prompt.extras.scores, estimated=answers.of_turns,
            )  # fmt: skip
            told = self._s_ctx(within, found, short, judged, newer)
            issues = [_with_short(issue, short) for issue in said]
            return replace(told, open_issues=(*issues, *told.open_issues)), judged

        picked, (told, verdicts) = self._filled(prompt, usable, free, (picked, s_ctx))
        if ends and all(row.answer.word == ANSWERED for row in seen):
            picked = self._in_windows(picked, usable, reader, (found, told), same)
        if doubt and verdicts and all(row.answer.word == IN_CONVERSATION for row in verdicts):
            picked, doubt = _fewer(picked, usable), nearest_only(seen, ALWAYS)
        put_decisions(result, STAGE, passage_rows(prompt, kept, picked, ended, doubt, beside))
        put_decisions(result, ANSWERS, piece_rows(verdicts, pass_number(prompt)))
        missed = found.missed if found else ""
        extras = result.extras
        extras.short_ids, extras.s_ctx = short, told
        extras.answers = tuple(row.answer for row in verdicts)
        open_ = _all_open(verdicts) if verdicts else bool(doubt)
        extras.nothing_relevant = open_ and not reader.files
        _put(result, picked, missed)
        off = [] if self.enabled else ["switched off: S_ctx stays empty"]
        events = [*off, *map(str, savings(kept, ended, picked, same, self.counter))]
        put_notes(result, OP, events=events, warnings=warnings_of(result, usable, picked, missed))
        return result

    def _kept(self, prompt: SuperPrompt) -> list[Chunk]:
        chunks = {chunk.id: chunk for chunk in prompt.base_context_chunks}
        view = latest_view(prompt, "a3", "reranked", "retrieval")
        return [] if is_locked(prompt) else [chunks[i] for i in view]

    def _answers(self, reader: Reading, kept: list[Chunk]) -> Answers:
        chunks = {chunk.id: chunk for chunk in kept}
        return Answers(
            reader.asked, chunks, reader.files, reader.weight, self.support_cosine, self.terms,
            self.nearness, reader.evidence, self.searched,
            [quote for quote in reader.quotes if row_cells(quote.verbatim)],
        )  # fmt: skip

    def _ends(self, prompt: SuperPrompt, kept: list[Chunk]) -> bool:
        best = next((chunk.source for chunk in kept if not is_past(chunk)), "")
        return self.tight and can_end(pieces_of(prompt), best)

    def _in_windows(
        self, picked: Selection, kept: list[Chunk], reader: Reading,
        said: tuple[ContextParts | None, SCtx], same: Mapping[str, Sequence[Chunk]],
    ) -> Selection:  # fmt: skip
        """Show windows of the passages behind the best ones; what S_ctx quotes stays in them."""
        quoted: dict[str, list[Span]] = {}
        for quote in _quoted(*said, reader.quotes):
            quoted.setdefault(quote.chunk_id, []).append(quote.span)
        asked = frozenset(term for piece in reader.pieces for term in piece.terms)

        def weigh(text: str) -> float:
            return sum(map(reader.weight, sorted(asked.intersection(self.terms(text)))))

        shown = [chunk for chunk in kept if chunk.id in picked.tokens and not is_past(chunk)]
        whole = {*picked.cuts, *same}
        rest = [chunk for chunk in shown[FROM_RANK - 1 :] if chunk.id not in whole]
        found_in = {chunk.id: window_of(chunk, weigh, quoted.get(chunk.id, ())) for chunk in rest}
        windows = {i: parts for i, parts in found_in.items() if parts}
        tokens = {c.id: framed_tokens(c, self.counter, parts=windows[c.id])
                  for c in rest if c.id in windows}  # fmt: skip
        return replace(picked, tokens={**picked.tokens, **tokens}, windows=windows)

    def _first(
        self,
        prompt: SuperPrompt,
        kept: list[Chunk],
        measures: Measures | None,
        look: Look,
        beside: Collection[str] = (),
    ) -> FirstLook:
        """Choose what may be shown by whether it answers: all of it, less, or the nearest alone.

        Args:
            prompt: Before the stage.
            kept: What the gate kept.
            measures: What the end of the evidence is found by; None: it does not end.
            look: Selects from some passages, and says what they answer.
            beside: The passages that stand in for successors of shown documents.
        """
        ended = _ended(kept, measures, ALWAYS, beside) if measures else {}
        usable = [c for c in kept if is_past(c) or c.id not in ended]
        picked, seen = look(usable)
        if all_not_found(seen) and not is_locked(prompt):
            nearest = self._nearest(kept, beside)
            doubt = nearest_only(seen, self.keep_top)
            return FirstLook(nearest, {}, *look(nearest), doubt)
        if measures and ended and any(row.answer.word != ANSWERED for row in seen):
            ended = _ended(kept, measures, max(ALWAYS, self.keep_top), beside)
            usable = [c for c in kept if is_past(c) or c.id not in ended]
            picked, now = look(usable)
            seen = not_worse(now, seen)
        return FirstLook(usable, ended, picked, seen, "")

    def _nearest(self, kept: Sequence[Chunk], beside: Collection[str]) -> list[Chunk]:
        """Return what is shown of documents that probably answer nothing; turns stay."""
        nearest = [chunk.id for chunk in kept if not is_past(chunk)][: self.keep_top]
        shown = {*nearest, *beside}
        return [chunk for chunk in kept if is_past(chunk) or chunk.id in shown]

    def _free(self, prompt: SuperPrompt, s_ctx: SCtx, judged: Sequence[Judged] = ()) -> int:
        """Return the tokens that are free for attachments beside an S_ctx; perhaps none.

        The note that nothing may answer takes its tokens as well.
        """
        bare = evolve(prompt, final_selection_ids=[])
        bare.extras.s_ctx, bare.extras.nothing_relevant = s_ctx, bool(judged) and _all_open(judged)
        bare.extras.answers = tuple(row.answer for row in judged)
        fixed = self.counter.count(compose(bare, self.layout).text)
        return self.budget_tokens - fixed - self.token_overhead

    def _reserve(self, free: int) -> int:
        """Return the tokens that are set aside for S_ctx before anybody knows what it holds."""
        return min(self.max_facts * FACT_TOKENS, free // 3) if self.enabled else 0

    def _filled(
        self,
        prompt: SuperPrompt,
        kept: list[Chunk],
        free: int,
        first: tuple[Selection, Callable[[Selection], Told]],
    ) -> tuple[Selection, Told]:
        """Give back to the attachments what S_ctx leaves of its reserve; return both.

        With more to read S_ctx may find one conflict more or one open issue less, so it is
        measured again; only what fits beside its S_ctx is taken. Where nothing is shown yet,
        nothing is set aside at first: to say that nothing was found takes more than a fact.
        """
        picked, s_ctx = first
        told = needed = s_ctx(picked)
        full = not (picked.left or picked.cuts) or free - self._reserve(free) >= self._most(kept)
        aside = free - self._free(prompt, *needed) if picked.tokens else 0
        for _ in range(0 if full else MOST_FILLINGS):
            wider = self._select(kept, free, aside, repeated_chunks(prompt))
            if sum(wider.tokens.values()) <= sum(picked.tokens.values()):
                break
            needed = s_ctx(wider)
            aside = free - self._free(prompt, *needed)
            if sum(wider.tokens.values()) <= free - aside:
                picked, told = wider, needed
        return picked, told

    def _most(self, kept: list[Chunk]) -> int:
        """Return the tokens that attachments may take at most, whatever is free."""
        past = self.history_tokens if any(is_past(chunk) for chunk in kept) else 0
        return self.max_context_tokens + past

    def _select(
        self, kept: list[Chunk], free: int, aside: int, same: Mapping[str, Sequence[Chunk]]
    ) -> Selection:
        """Select within what is free less what is set aside for S_ctx."""
        chars = self.max_context_chars if self.history_chars is None else self.history_chars
        past = select(
            [chunk for chunk in kept if is_past(chunk)],
            self.counter,
            budget_tokens=max(
                0, min(self.history_tokens, free if self.history_first else free // 4)
            ),
            budget_chars=min(chars, self.max_context_chars),
            most=self.history_pieces,
        )
        left = free - aside - sum(past.tokens.values())
        told = select(
            [chunk for chunk in kept if not is_past(chunk)],
            self.counter,
            budget_tokens=max(0, min(self.max_context_tokens, left)),
            budget_chars=self.max_context_chars,
            also={i: [other.source for other in others] for i, others in same.items()},
        )
        return joined(kept, told, past)

    def _short_ids(self, prompt: SuperPrompt) -> dict[str, str]:
        files = [file.id for file in injected(prompt)]
        return short_ids([*(chunk.id for chunk in prompt.base_context_chunks), *files])

    def _found(
        self, prompt: SuperPrompt, reader: Reading, picked: Selection, seen: Sequence[Judged],
        newer: Newer,
    ) -> ContextParts | None:  # fmt: skip
        """Choose the sentences of S_ctx; no model is asked if there is nothing to choose from.

        A piece that the passages are estimated not to answer gets no fact.
        """
        if not self.enabled or is_locked(prompt):
            return None
        silent = {row.answer.piece_id for row in seen if row.is_open and row.held is not None}
        reader = reader.speaking_to(silent)
        if self.ask is None or not reader.evidence:
            found = extracted(reader, self.max_facts)
        else:
            chunks = {chunk.id: chunk for chunk in prompt.base_context_chunks}
            shown = {f"p{n}": chunks[e.chunk_id] for n, e in enumerate(reader.evidence, start=1)}
            passages = Passages(shown, picked.cuts, reader, self.terms)
            found = passages.found(self.ask, self.max_facts)
        return newer.with_later(found, reader.quotes, reader.pieces, reader.weight, self.max_facts)

    def _s_ctx(
        self,
        reader: Reading,
        found: ContextParts,
        short: dict[str, str],
        judged: list[Judged],
        newer: Newer,
    ) -> SCtx:
        quotes = [quote for quote, _, _ in found.chosen]
        rows = [
            (quote, _fact(quote, ids, score, short, newer.marks(quote)))
            for quote, ids, score in found.chosen
        ]
        issues = unanswered(reader.asked, judged, reader.evidence, reader.files, terms=self.terms)
        issues += newer.conflicts(reader.quotes)
        others = conflicts(quotes, reader.quotes, newer.outdated)
        issues += [issue for issue in others if not newer.is_told(issue)]
        issues += replaced_sources(quotes, newer.replaced)
        return SCtx(
            tuple(row for quote, row in rows if quote not in found.constraints),
            tuple(row for quote, row in rows if quote in found.constraints),
            tuple(_with_short(issue, short) for issue in issues),
        )


def _all_open(judged: Sequence[Judged]) -> bool:
    """Return whether the documents answer nothing of what no conversation answers."""
    return all(row.is_open for row in judged if row.answer.word != IN_CONVERSATION)


def _fewer(picked: Selection, usable: Sequence[Chunk]) -> Selection:
    """Leave out what is nearest and answers nothing, where a conversation answers; two stay."""
    shown = [c.id for c in usable if c.id in picked.tokens and not is_past(c)]
    out = set(shown[ALWAYS:])
    return replace(picked, tokens={i: n for i, n in picked.tokens.items() if i not in out})


def _measures(prompt: SuperPrompt) -> Measures:
    """Return the reranked scores of this pass, and how near each passage comes to the best one."""
    now = pass_number(prompt)
    rows = prompt.extras.decisions
    reranked = {r.chunk_id: r.score for r in rows if (r.stage, r.pass_no) == (RERANKED, now)}
    return reranked, {i: near.both for i, near in nearness(prompt.extras.scores).items()}


def _ended(
    kept: Sequence[Chunk], measures: Measures, least: int, beside: Collection[str]
) -> dict[str, Beyond]:
    """Return the passages of documents behind the end of the evidence."""
    documents = [chunk.id for chunk in kept if not is_past(chunk)]
    ended = beyond_evidence(documents, *measures, least=least)
    return {i: row for i, row in ended.items() if i not in beside}


def _put(result: SuperPrompt, picked: Selection, missed: str) -> None:
    """Write down what is shown, and whether sentences stand in for a model's answer."""
    result.final_selection_ids = list(picked.tokens)
    result.views_by_stage[STAGE] = list(picked.tokens)
    result.extras.cuts, result.extras.windows = picked.cuts, picked.windows
    result.extras.citations = citations_of(result)
    result.extras.drop("fallback")
    if missed:
        result.extras.fallback = SAF_A1


def _strengths(
    prompt: SuperPrompt, kept: list[Chunk], measures: Measures
) -> dict[str, tuple[float, ...]]:
    pieces, scores = len(prompt.extras.query_pieces), prompt.extras.scores
    held = {chunk.id: scores[chunk.id].piece_cosines for chunk in kept if chunk.id in scores}
    cosines = {i: row for i, row in held.items() if len(row) == pieces}
    return strengths_of([chunk.id for chunk in kept], *measures, cosines)


def _quoted(found: ContextParts | None, told: SCtx, quotes: Sequence[Quote]) -> Iterator[Quote]:
    """Yield the sentences of the facts and both of each pair of passages that disagree."""
    yield from (quote for quote, _, _ in (found.chosen if found else ()))
    for issue in told.open_issues:
        cited = {passage.chunk_id for passage in issue.citations}
        if issue.kind == "conflict":
            yield from (q for q in quotes if q.chunk_id in cited and q.text in issue.text)


def _fact(
    quote: Quote,
    piece_ids: list[str],
    score: float,
    short: dict[str, str],
    marks: str,
) -> Fact:
    cited = Cited(quote.chunk_id, quote.source, short[quote.chunk_id])
    heading = "; ".join(filter(None, (quote.heading, marks)))
    return Fact(quote.text, heading, tuple(piece_ids), score, (cited,), quote.quoted or None)


def _with_short(issue: OpenIssue, short: dict[str, str]) -> OpenIssue:
    cited = (replace(passage, short_id=short[passage.chunk_id]) for passage in issue.citations)
    return replace(issue, citations=tuple(cited))
