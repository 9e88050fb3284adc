"""The final selection: chunks in rank order within a token and a character budget.

The chunk that does not fit any more is cut at the end of a sentence (or of a code block), flagged,
and the rest is left out. What A4 chooses by is read once: query pieces, quotable sentences,
weights, evidence.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from ragstream_core.agents.context.coverage import Piece, Weights
from ragstream_core.agents.context.open_issues import Evidence
from ragstream_core.agents.context.quotable import Quote, Terms, quotes_of
from ragstream_core.ports import TokenCounter
from ragstream_core.prompts.blocks import HISTORY_PREFIX, injected, shown_of
from ragstream_core.prompts.fences import Source, frame
from ragstream_core.prompts.render import also_line, context_line
from ragstream_core.records import Chunk, SuperPrompt
from ragstream_core.records.stage_results import InjectedFile, QueryPiece, Scores, Span
from ragstream_core.text.contexts import shown
from ragstream_core.text.marked_blocks import blocks
from ragstream_core.text.memo import remembered
from ragstream_core.text.sentences import sentences_in
from ragstream_core.text.task_words import what_is_asked

MIN_CUT_TOKENS = 40
_NONCE = "0" * 12


@dataclass
class Selection:
    """What was selected.

    Attributes:
        tokens: Chunk id → tokens of its framed text, in rank order.
        cuts: Chunk id → length in characters of the part that is shown.
        left: Chunk ids that did not fit, in rank order.
        windows: Chunk id → the parts of it that are shown.
    """

    tokens: dict[str, int] = field(default_factory=dict)
    cuts: dict[str, int] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    windows: dict[str, tuple[Span, ...]] = field(default_factory=dict)


def framed_tokens(
    chunk: Chunk, counter: TokenCounter, *, end: int | None = None, also: Sequence[str] = (),
    parts: Sequence[Span] = (),
) -> int:  # fmt: skip
    """Count the tokens of a chunk as an attachment, frame included.

    Args:
        chunk: The chunk.
        counter: Counts tokens.
        end: Length of the part that is shown; all of it by default.
        also: Paths of the passages that it is shown for as well.
        parts: The parts that are shown, in place of ``end``.
    """
    return _framed(
        chunk.snippet, chunk.source, chunk.span, shown(chunk.context), counter, end, tuple(also),
        tuple(parts),
    )  # fmt: skip


@functools.lru_cache(maxsize=4_096)  # the same passages come back prompt after prompt
def _framed(
    snippet: str, path: str, span: Span, context: str, counter: TokenCounter, end: int | None,
    also: tuple[str, ...], parts: tuple[Span, ...],
) -> int:  # fmt: skip
    text = shown_of(snippet, parts) if parts else snippet[:end]
    cut = "" if end is None and not parts else "CUT"
    same = tuple(("0" * 8, other) for other in also)
    source = Source("0" * 8, path, span, "0" * 12, cut, same)
    lines = frame(10, _NONCE, source=source, text=text)
    lines += [context_line(context)] if context else []
    lines += [also_line(source)] if also else []
    return counter.count("\n".join(lines) + "\n\n")


@remembered
def sentence_ends(text: str) -> list[int]:
    """Return where a text may be cut: behind each sentence, row, item and code block."""
    ends: list[int] = []
    for block in blocks(text):
        if block.kind in ("prose", "item"):
            ends += [end for _, end in sentences_in(text, block.start, block.end)]
        elif block.kind != "heading":
            ends.append(block.end)
    return ends


def cut_length(chunk: Chunk, counter: TokenCounter, *, tokens: int, chars: int) -> int:
    """Return the longest cut of a chunk within both limits, 0 if nothing sensible fits.

    Args:
        chunk: The chunk.
        counter: Counts tokens.
        tokens: Token limit, frame included.
        chars: Character limit.
    """
    empty = framed_tokens(chunk, counter, end=0)
    for end in reversed(sentence_ends(chunk.snippet)):
        if end <= chars and framed_tokens(chunk, counter, end=end) <= tokens:
            enough = framed_tokens(chunk, counter, end=end) - empty >= MIN_CUT_TOKENS
            return end if enough else 0
    return 0


def select(
    chunks: Sequence[Chunk],
    counter: TokenCounter,
    *,
    budget_tokens: int,
    budget_chars: int,
    most: int = 0,
    also: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Selection:
    """Select chunks in order until a budget is used up.

    Args:
        chunks: Candidates in rank order.
        counter: Counts tokens.
        budget_tokens: Most tokens of all attachments, frames included.
        budget_chars: Most characters of all excerpts.
        most: Most chunks; 0: no limit.
        also: Chunk id → paths of the passages that it is shown for as well.

    Returns:
        The selection; its tokens never exceed the budget.
    """
    result = Selection()
    tokens, chars = budget_tokens, budget_chars
    for at, chunk in enumerate(chunks):
        need = framed_tokens(chunk, counter, also=also.get(chunk.id, ()))
        if most and len(result.tokens) == most:
            result.left = [c.id for c in chunks[at:]]
            break
        if need <= tokens and len(chunk.snippet) <= chars:
            result.tokens[chunk.id] = need
            tokens, chars = tokens - need, chars - len(chunk.snippet)
            continue
        end = cut_length(chunk, counter, tokens=tokens, chars=chars)
        if end:
            result.tokens[chunk.id] = framed_tokens(chunk, counter, end=end)
            result.cuts[chunk.id] = end
        result.left = [c.id for c in chunks[at + bool(end) :]]
        break
    return result


def joined(chunks: Sequence[Chunk], *parts: Selection) -> Selection:
    """Return several selections of the same candidates as one, in rank order."""
    tokens = {i: n for part in parts for i, n in part.tokens.items()}
    left = {i for part in parts for i in part.left}
    return Selection(
        {chunk.id: tokens[chunk.id] for chunk in chunks if chunk.id in tokens},
        {i: end for part in parts for i, end in part.cuts.items()},
        [chunk.id for chunk in chunks if chunk.id in left],
    )


@functools.lru_cache(maxsize=20_000)
def stemmed_terms(text: str) -> tuple[str, ...]:
    """Return the stemmed terms of a text; the lexical module is loaded at first use."""
    from ragstream_core.text.terms import terms

    return tuple(terms(text))


@dataclass(frozen=True)
class Reading:
    """The kept chunks and the injected files, read once.

    Attributes:
        pieces: What was searched for; facts are chosen by it.
        asked: The same in the person's own words, instructions left out; support is judged by it.
        quotes: Quotable sentences of the chunks.
        evidence: The chunks.
        files: What ❖ FILES shows.
        weight: Weights of the pieces' terms over the quotes.
        strengths: Chunk id → how strong the chunk is for each piece; empty: unknown.
    """

    pieces: list[Piece]
    asked: list[Piece]
    quotes: list[Quote]
    evidence: list[Evidence]
    files: list[Evidence]
    weight: Weights
    strengths: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, prompt: SuperPrompt, kept: Sequence[Chunk], terms: Terms, *, past: bool = False
    ) -> Reading:
        """Read the kept chunks of documents; the conversation only where ``past`` says (C-07)."""
        rows = prompt.extras.query_pieces
        pieces = [Piece(row.id, row.text, tuple(terms(row.text))) for row in rows]
        asked = asked_pieces(prompt, terms)
        told = [chunk for chunk in kept if past or not chunk.id.startswith(HISTORY_PREFIX)]
        quotes = [q for rank, chunk in enumerate(told) for q in quotes_of(chunk, rank, terms)]
        scores = prompt.extras.scores
        evidence = [_evidence(chunk, scores.get(chunk.id, Scores()), terms) for chunk in told]
        files = [_file(row, terms) for row in injected(prompt)]
        wanted = frozenset(term for piece in (*pieces, *asked) for term in piece.terms)
        return cls(pieces, asked, quotes, evidence, files, Weights.of(quotes, wanted))

    def speaking_to(self, left_out: Collection[str]) -> Reading:
        """Leave out what is searched for by some pieces, so that no fact is chosen for them."""
        stay = [at for at, piece in enumerate(self.pieces) if piece.id not in left_out]
        strengths = {i: tuple(row[at] for at in stay) for i, row in self.strengths.items()}
        return replace(self, pieces=[self.pieces[at] for at in stay], strengths=strengths)

    def within(self, picked: Selection) -> Reading:
        """Keep what stands in the selection; a cut chunk keeps the part that is shown."""
        shown = [
            q
            for q in self.quotes
            if q.chunk_id in picked.tokens and q.span[1] <= picked.cuts.get(q.chunk_id, q.span[1])
        ]
        evidence = [e for e in self.evidence if e.chunk_id in picked.tokens]
        return replace(self, quotes=shown, evidence=evidence)


def asked_pieces(prompt: SuperPrompt, terms: Terms) -> list[Piece]:
    """Return the query pieces in the person's own words, instructions left out.

    Args:
        prompt: With query pieces.
        terms: Stems a text.
    """
    return [_asked(row, terms) for row in prompt.extras.query_pieces]


def _asked(row: QueryPiece, terms: Terms) -> Piece:
    """Return a piece in the person's own words: the audit's words are not theirs."""
    own = row.text if row.asked is None else row.asked
    held = tuple(terms(what_is_asked(own))) or tuple(terms(own))
    return Piece(row.id, own, held, searched=own == row.text)


def _file(file: InjectedFile, terms: Terms) -> Evidence:
    return Evidence(file.id, frozenset(terms(f"{file.path}\n{file.text}")), -1.0)


def _evidence(chunk: Chunk, scores: Scores, terms: Terms) -> Evidence:
    return Evidence(
        chunk.id,
        _words(chunk.source, str(chunk.meta.get("heading") or ""), chunk.in_context, terms),
        scores.best_cosine,
        scores.piece_cosines,
    )


@functools.lru_cache(maxsize=4_096)  # the same passages come back prompt after prompt
def _words(source: str, heading: str, text: str, terms: Terms) -> frozenset[str]:
    return frozenset(terms(f"{source.rsplit('.', 1)[0]} {heading}\n{text}"))
