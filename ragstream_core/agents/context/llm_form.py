"""A4's form with a language model: it points at sentences, which are checked and cited as ever.

The model names passages and quotes words of them. Words that stand in a sentence stand for the
whole sentence: half of one may say the opposite. One wrong answer in any part, and the stage takes
its extractive form (SAF-A1).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pydantic import Field

from ragstream_core.agents.context.constraints import is_constraint
from ragstream_core.agents.context.facts import choose, reading_order
from ragstream_core.agents.context.passage_selection import Reading
from ragstream_core.agents.context.quotable import Quote, Terms
from ragstream_core.agents.context.shown import readable
from ragstream_core.agents.llm_call import Answer, Ask, own, passage, question
from ragstream_core.records import Chunk
from ragstream_core.text.marked_blocks import blocks
from ragstream_core.text.sentences import sentences_in

SAF_A1 = "SAF-A1"
MAX_POINTS = 100
MAX_QUOTE_CHARS = 600
_TASK = (
    "You condense passages for somebody who will answer the questions q1, q2, … from them.\n"
    "facts: what answers a question. constraints: what limits or demands something that matters to"
    " it. open_pieces: the questions that no passage answers, by id. Each fact and constraint names"
    " its passage (p1, p2, …), quotes words of that passage exactly, and lists the questions it"
    " speaks to. Together at most {limit} facts and constraints, the most useful ones first."
)

# A sentence, the ids of the pieces it speaks to, its score.
Chosen = tuple[Quote, list[str], float]


class Point(Answer):
    """One quotation."""

    passage: str = Field(max_length=16)
    quote: str = Field(max_length=MAX_QUOTE_CHARS)
    pieces: list[str] = Field(max_length=10)


class Condensed(Answer):
    """What the model finds in the passages."""

    facts: list[Point] = Field(max_length=MAX_POINTS)
    constraints: list[Point] = Field(max_length=MAX_POINTS)
    open_pieces: list[str] = Field(max_length=10)


@dataclass(frozen=True)
class ContextParts:
    """What goes into S_ctx, by either form.

    Attributes:
        chosen: Facts and constraints in reading order.
        constraints: Those of the sentences that are constraints.
        open_pieces: Ids of the pieces that a model calls unanswered; None: found by words and
            cosines.
        missed: Why the answer was not taken, for people; empty: it was, or no model was asked.
    """

    chosen: Sequence[Chosen]
    constraints: frozenset[Quote]
    open_pieces: Collection[str] | None = None
    missed: str = ""


def extracted(reader: Reading, limit: int, *, missed: str = "") -> ContextParts:
    """Choose sentences by their words: the deterministic form.

    Args:
        reader: The selected chunks' sentences.
        limit: Most sentences.
        missed: Why no language model chose them.
    """
    found = choose(
        reader.quotes, reader.pieces, limit=limit, weight=reader.weight, strengths=reader.strengths
    )
    chosen = reading_order(found)
    limits = frozenset(
        quote for quote, _, _ in chosen if quote.is_said and is_constraint(quote.text)
    )
    return ContextParts(chosen, limits, missed=missed)


@dataclass(frozen=True)
class Passages:
    """The selected chunks as they are shown to a model.

    Attributes:
        chunks: Id in the question, ``p1`` …, → chunk.
        cuts: Chunk id → where its text ends, if it is cut.
        reader: Their sentences, and the query pieces.
        terms: Stems a text.
    """

    chunks: Mapping[str, Chunk]
    cuts: Mapping[str, int]
    reader: Reading
    terms: Terms

    def found(self, ask: Ask, limit: int) -> ContextParts:
        """Let a language model choose; if its answer is not valid, choose without it.

        Args:
            ask: Asks the model.
            limit: Most facts and constraints together.
        """
        parts = [own(piece.id, piece.text) for piece in self.reader.asked if piece.text]
        for number, chunk in enumerate(self.chunks.values(), start=1):
            parts.append(passage(number, chunk, self.cuts.get(chunk.id)))
        messages = question(_TASK.format(limit=limit), parts)
        said, missed = ask(messages, Condensed, lambda answer: self.fault(answer, limit))
        if said is None:
            return extracted(self.reader, limit, missed=missed)
        chosen = self.sentences([*said.facts, *said.constraints])[:limit]
        limits = {quote for quote, _, _ in self.sentences(said.constraints)}
        limits -= {quote for quote, _, _ in self.sentences(said.facts)}
        return ContextParts(reading_order(chosen), frozenset(limits), frozenset(said.open_pieces))

    def fault(self, said: Condensed, limit: int) -> str:
        """Return what is wrong with an answer, repeating nothing of it; empty: nothing."""
        points = [*said.facts, *said.constraints]
        if not points and not said.open_pieces:
            return "an empty answer"
        if len(points) > limit:
            return f"more than {limit} facts and constraints"
        known = {piece.id for piece in self.reader.asked if piece.text}
        if not known.issuperset([*said.open_pieces, *(i for p in points for i in p.pieces)]):
            return "it names a question that was not asked"
        if any(point.passage not in self.chunks for point in points):
            return "it names a passage that was not shown"
        if not all(self._stands(point) for point in points):
            return "it quotes words that their passage does not hold"
        return ""

    def sentences(self, points: Sequence[Point]) -> list[Chosen]:
        """Return what some points quote as whole sentences, each once, the first one best."""
        found: dict[tuple[str, str], Chosen] = {}
        for place, point in enumerate(points):
            for quote in self._quoted(point):
                score = round(1.0 - place / MAX_POINTS, 6)
                found.setdefault((quote.chunk_id, quote.text), (quote, point.pieces, score))
        return list(found.values())

    def _stands(self, point: Point) -> bool:
        chunk, said = self.chunks[point.passage], readable(point.quote)
        shown = readable(chunk.snippet[: self.cuts.get(chunk.id)])
        return any(c.isalnum() for c in said) and said in shown

    def _quoted(self, point: Point) -> list[Quote]:
        chunk, said = self.chunks[point.passage], readable(point.quote)
        mine = [quote for quote in self.reader.quotes if quote.chunk_id == chunk.id]
        around = [quote for quote in mine if said in quote.verbatim]
        whole = around[:1] or [quote for quote in mine if quote.verbatim in said]
        if whole:
            return whole
        text = _sentences_around(chunk.snippet[: self.cuts.get(chunk.id)], said)
        if len(text) > MAX_QUOTE_CHARS:
            return []  # too long for a fact; its passage is attached
        rank = list(self.chunks).index(point.passage)
        heading = str(chunk.meta.get("heading") or "")[:60]
        span, stems, none = (0, len(chunk.snippet)), tuple(self.terms(text)), frozenset[str]()
        parts = (span, text, heading, stems, frozenset(stems), none)
        return [Quote(chunk.id, chunk.source, rank, *parts)]


def _sentences_around(text: str, said: str) -> str:
    """Return the fewest whole sentences of one block that hold some words; elsewhere the words."""
    for block in blocks(text):
        spans = sentences_in(text, block.start, block.end)
        if block.kind not in ("prose", "item") or said not in readable(
            text[spans[0][0] : block.end]
        ):
            continue
        windows = (
            readable(text[begin:end])
            for at, (_, end) in enumerate(spans)
            for begin, _ in reversed(spans[: at + 1])
        )
        return next(window for window in windows if said in window)
    return said
