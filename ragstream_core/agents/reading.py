"""What A4 has to go by, read once: query pieces, quotable sentences, weights, evidence."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from ragstream_core.agents.coverage import Piece, Weights
from ragstream_core.agents.instructions import what_is_asked
from ragstream_core.agents.open_issues import Evidence, supported
from ragstream_core.agents.pieces import NO_BLANKS
from ragstream_core.agents.quotable import Quote, Terms, quotes_of
from ragstream_core.agents.selection import Selection
from ragstream_core.prompting.compose import HISTORY_PREFIX, injected
from ragstream_core.records import Chunk, SuperPrompt


@functools.lru_cache(maxsize=20_000)
def stemmed_terms(text: str) -> tuple[str, ...]:
    """Return the stemmed terms of a text; the lexical module is loaded at first use.

    Where a script has no blanks, neighbouring letters are terms, two by two.
    """
    from ragstream_core.terms import terms

    if not NO_BLANKS.search(text):
        return tuple(terms(text))
    found: list[str] = []
    for part in _DENSE.split(text):
        pairs = [a + b for a, b in pairwise(part)] or [part]
        found += pairs if NO_BLANKS.match(part) else terms(part)
    return tuple(found)


_DENSE = re.compile(rf"({NO_BLANKS.pattern}+)")


@dataclass(frozen=True)
class Reading:
    """The kept chunks and the injected files, read once.

    Attributes:
        pieces: What was searched for; facts are chosen by it.
        asked: The same in the person's own words, instructions left out; support is judged by it.
        quotes: Quotable sentences of the chunks.
        evidence: The chunks.
        files: What ❖ FILES shows.
        weight: Term weights over the quotes.
    """

    pieces: list[Piece]
    asked: list[Piece]
    quotes: list[Quote]
    evidence: list[Evidence]
    files: list[Evidence]
    weight: Weights

    @classmethod
    def of(
        cls, prompt: SuperPrompt, kept: Sequence[Chunk], terms: Terms, *, past: bool = False
    ) -> Reading:
        """Read the kept chunks of documents; the conversation only where ``past`` says (C-07)."""
        rows = prompt.extras.get("query_pieces", [])
        pieces = [Piece(row["id"], row["text"], tuple(terms(row["text"]))) for row in rows]
        asked = [_asked(row, terms) for row in rows]
        told = [chunk for chunk in kept if past or not chunk.id.startswith(HISTORY_PREFIX)]
        quotes = [q for rank, chunk in enumerate(told) for q in quotes_of(chunk, rank, terms)]
        scores = prompt.extras.get("scores", {})
        evidence = [_evidence(chunk, scores.get(chunk.id, {}), terms) for chunk in told]
        files = [_file(row, terms) for row in injected(prompt)]
        return cls(pieces, asked, quotes, evidence, files, Weights.of(quotes))

    def holds(self, at: int, cosine: float) -> bool:
        """Say whether a kept chunk speaks to piece ``at``; as `supported`."""
        return supported(at, self.asked, self.evidence, weight=self.weight, cosine=cosine)

    def within(self, picked: Selection) -> Reading:
        """Keep what stands in the selection; a cut chunk keeps the part that is shown."""
        shown = [
            q
            for q in self.quotes
            if q.chunk_id in picked.tokens and q.span[1] <= picked.cuts.get(q.chunk_id, q.span[1])
        ]
        evidence = [e for e in self.evidence if e.chunk_id in picked.tokens]
        return replace(self, quotes=shown, evidence=evidence)


def _asked(row: Mapping[str, Any], terms: Terms) -> Piece:
    """Return a piece in the person's own words: the audit's words are not theirs."""
    own = str(row.get("asked", row["text"]))
    held = tuple(terms(what_is_asked(own))) or tuple(terms(own))
    return Piece(row["id"], own, held, searched=own == row["text"])


def _file(row: Mapping[str, Any], terms: Terms) -> Evidence:
    return Evidence(row["id"], frozenset(terms(f"{row['path']}\n{row['text']}")), -1.0)


def _evidence(chunk: Chunk, score: dict[str, Any], terms: Terms) -> Evidence:
    return Evidence(
        chunk.id,
        _words(chunk.source, str(chunk.meta.get("heading") or ""), chunk.snippet, terms),
        float(score.get("best_cosine", 0.0)),
        tuple(float(x) for x in score.get("piece_cosines", ())),
    )


@functools.lru_cache(maxsize=4_096)  # the same passages come back prompt after prompt
def _words(source: str, heading: str, text: str, terms: Terms) -> frozenset[str]:
    return frozenset(terms(f"{source.rsplit('.', 1)[0]} {heading}\n{text}"))
