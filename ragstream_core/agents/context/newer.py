"""What belongs beside the passages that were kept: successors, moved days, definitions.

The newer passage is shown beside the older one, the older one's facts say so and carry their
document's day, a sentence of the newer one is a fact as well, and nothing is called answered by the
older one alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ragstream_core.agents.context.coverage import Piece, Weights, coverage
from ragstream_core.agents.context.definitions import is_defined, with_definitions
from ragstream_core.agents.context.llm_form import Chosen, ContextParts
from ragstream_core.agents.context.moved_dates import Moved, days_in, moved_dates, told_on
from ragstream_core.agents.context.open_issues import Judged
from ragstream_core.agents.context.quotable import Quote, Terms
from ragstream_core.agents.context.supersession import (
    Replaced,
    best_of_successors,
    superseded,
    with_successors,
)
from ragstream_core.agents.history_conflicts import is_past
from ragstream_core.records import Chunk, SuperPrompt
from ragstream_core.records.s_ctx import ANSWERED, PERHAPS, Cited, OpenIssue


@dataclass(frozen=True)
class Newer:
    """The kept passages with the newer ones beside them, and what is newer than what.

    Attributes:
        kept: In rank order, each newer passage behind the first older one.
        beside: Id of a passage that stands beside another one → why it does.
        replaced: The superseded documents, and those with a later version.
        moved: Days that a later document gives anew.
        defined: Id of a passage that defines a constant → the constant.
        told: Path → the day of the document in figures, where it says one.
    """

    kept: list[Chunk]
    beside: Mapping[str, str]
    replaced: Mapping[str, Replaced]
    moved: Sequence[Moved]
    defined: Mapping[str, str]
    told: Mapping[str, str]

    @property
    def outdated(self) -> dict[str, Replaced]:
        """The documents that count no longer."""
        return {source: row for source, row in self.replaced.items() if row.is_outdated}

    def marks(self, quote: Quote) -> str:
        """Return what stands beside a fact's heading: its document's day, and what is newer."""
        row = next((row for row in self.moved if quote.text in (row.old.text, row.new.text)), None)
        old = self.replaced.get(quote.source)
        day = self.told.get(quote.source, "") if old else ""
        newer = old.told if old else ""
        if row is not None:
            is_old = quote.text == row.old.text
            day = day or (row.old_told if is_old else row.new_told)
            newer = newer or (f"newer: {row.new.source}" if is_old else "")
        day = "" if any(found.year for _, found in days_in(quote.heading)) else day
        return "; ".join(filter(None, (day and f"of {day}", newer)))

    def with_later(self, found: ContextParts, quotes: Sequence[Quote], pieces: Sequence[Piece],
                   weight: Weights, limit: int) -> ContextParts:  # fmt: skip
        """Return the chosen sentences, behind each that is outdated the one that is newer.

        Args:
            found: What was chosen.
            quotes: All sentences that are shown.
            pieces: What is asked.
            weight: Term weights.
            limit: Most sentences.
        """
        rows: list[Chosen] = list(found.chosen)
        added: set[str] = set()
        for quote, ids, score in sorted(found.chosen, key=lambda row: -row[2]):
            later = self._later(quote, quotes, [p for p in pieces if p.id in ids], weight, rows)
            if later is not None:
                at = next(i for i, row in enumerate(rows) if row[0] == quote)
                rows = [r for r in rows if r[0].text != later.text or r[0].source != later.source]
                rows.insert(min(at + 1, len(rows)), (later, ids, score))
                added |= {quote.text, later.text}
        for chunk_id, name in self.defined.items() if rows else ():
            mine = (q for q in quotes if q.chunk_id == chunk_id and is_defined(name, q.text))
            for said in list(mine)[:1]:
                rows = [row for row in rows if row[0] != said]
                rows.append((said, [piece.id for piece in pieces], max(row[2] for row in rows)))
                added.add(said.text)
        while len(rows) > limit and (less := [r for r in rows if r[0].text not in added]):
            rows.remove(min(less, key=lambda row: row[2]))
        return replace(found, chosen=rows[:limit])

    def _later(
        self, quote: Quote, quotes: Sequence[Quote], pieces: Sequence[Piece], weight: Weights,
        chosen: Sequence[Chosen],
    ) -> Quote | None:  # fmt: skip
        shown = {row.chunk_id for row in quotes}
        for row in self.moved:
            if row.old.text == quote.text and row.new.chunk_id in shown:
                return row.new
        old = self.replaced.get(quote.source)
        if old is None or any(row[0].source == old.by for row in chosen):
            return None

        def share(said: Quote) -> float:
            return max((coverage(p, said.held, said.context, weight) for p in pieces), default=0.0)

        mine = [said for said in quotes if said.source == old.by and said.is_said]
        best = max(mine, key=share, default=None)
        return best if best is not None and share(best) > 0 else None

    def judged(self, rows: Sequence[Judged]) -> list[Judged]:
        """Return verdicts that call nothing answered by a day that has moved.

        Args:
            rows: What is said of each piece.
        """
        found = []
        for row in rows:
            moved = [m for m in self.moved if row.answer.piece_id in m.piece_ids]
            nearest = row.answer.nearest
            newer = {m.new.chunk_id for m in moved}
            if (
                moved
                and row.answer.word == ANSWERED
                and not (nearest is not None and nearest.chunk_id in newer)
            ):
                reason = f"{row.reason}; but a newer date stands in {moved[0].new.source}"
                row = Judged(replace(row.answer, word=PERHAPS), row.held, reason)
            found.append(row)
        return found

    def conflicts(self, shown: Sequence[Quote]) -> list[OpenIssue]:
        """Return the days that have moved between passages that are shown.

        Args:
            shown: All sentences that are shown.
        """
        ids = {quote.chunk_id for quote in shown}
        return [
            OpenIssue("conflict", row.conflict, row.piece_ids[0],
                      tuple(Cited(q.chunk_id, q.source) for q in (row.old, row.new)))
            for row in self.moved
            if {row.old.chunk_id, row.new.chunk_id} <= ids
        ]  # fmt: skip

    def is_told(self, issue: OpenIssue) -> bool:
        """Return whether a conflict of sentences is one of days that `conflicts` tells."""
        return any(f"“{m.old.text}”" in issue.text and f"“{m.new.text}”" in issue.text
                   for m in self.moved)  # fmt: skip


def newer_beside(
    prompt: SuperPrompt, kept: Sequence[Chunk], pieces: Sequence[Piece], terms: Terms
) -> Newer:
    """Look among all passages that were found for what is newer than the kept ones.

    Args:
        prompt: With the passages and their scores.
        kept: What the gate kept, in rank order.
        pieces: What is asked, in the person's own words.
        terms: Stems a text.
    """
    chunks = _best_first(prompt)
    replaced = superseded(chunks)
    beside_old = with_successors(kept, chunks, replaced)
    reasons = {i: f"successor of {old}"
               for i, old in best_of_successors(beside_old, replaced).items()}  # fmt: skip
    documents = [chunk for chunk in beside_old if not is_past(chunk)]
    moved = moved_dates(documents, chunks, pieces, terms)
    asked = " ".join(piece.text for piece in pieces)
    result, defined = with_definitions(asked, beside_old, chunks)
    reasons = {**{i: f"defines {name}" for i, name in defined.items()}, **reasons}
    by_id = {chunk.id: chunk for chunk in chunks}
    for row in moved:
        at = next(i for i, chunk in enumerate(result) if chunk.id == row.old.chunk_id)
        if row.new.chunk_id not in {chunk.id for chunk in result[:at]}:
            result = [chunk for chunk in result if chunk.id != row.new.chunk_id]
            at = next(i for i, chunk in enumerate(result) if chunk.id == row.old.chunk_id)
            result.insert(at + 1, by_id[row.new.chunk_id])
        reasons.setdefault(row.new.chunk_id, f"a newer date than in {row.old.source}")
    texts: dict[str, list[str]] = {}
    for chunk in chunks:
        texts.setdefault(chunk.source, []).append(chunk.snippet)
    days = {source: told_on(source, texts[source]) for source in replaced if source in texts}
    told = {source: day.told for source, day in days.items() if day is not None}
    return Newer(result, reasons, replaced, moved, defined, told)


def _best_first(prompt: SuperPrompt) -> list[Chunk]:
    """Return the passages of documents that were found, the nearest to the question first."""
    scores = prompt.extras.scores
    told = [chunk for chunk in prompt.base_context_chunks if not is_past(chunk)]
    near = {c.id: max(scores[c.id].piece_cosines, default=-1.0) for c in told if c.id in scores}
    return sorted(told, key=lambda chunk: -near.get(chunk.id, -1.0))
