"""Open Issues: what the kept passages leave unanswered, never mention, or contradict."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import NamedTuple

from ragstream_core.agents.context.answer_estimate import (
    USUAL,
    Estimate,
    Scale,
    estimate,
    weights_table,
)
from ragstream_core.agents.context.answer_signs import (
    MOST_PASSAGES,
    SMALL_WORDS,
    Nearness,
    Passage,
    sentences_of,
    signs_of,
)
from ragstream_core.agents.context.contradictions import disagree, newer_of, values_of
from ragstream_core.agents.context.coverage import VAGUE, Piece, Weights, coverage
from ragstream_core.agents.context.named_rows import meant, row_cells
from ragstream_core.agents.context.quotable import Quote, Terms
from ragstream_core.agents.context.supersession import SUPERSEDED, Replaced
from ragstream_core.records import Chunk
from ragstream_core.records.s_ctx import (
    ANSWERED,
    NOT_FOUND,
    PERHAPS,
    Cited,
    OpenIssue,
    PieceAnswer,
)
from ragstream_core.text.task_words import is_saying, only_tells, small_words, what_is_asked
from ragstream_core.text.terms import NO_BLANKS

CHUNK_SUPPORT = 0.6
MAX_PIECE_CHARS = 160
MAX_TERMS = 6
MAX_CONFLICTS = 4
_WORD = re.compile(r"(?<!\w)[^\W_][\w.+#-]{1,60}")


@dataclass(frozen=True)
class Evidence:
    """One kept chunk, or one injected file, as far as this module looks at it.

    Attributes:
        chunk_id: Its id.
        terms: Its terms and those of its headings and path.
        best_cosine: Largest cosine over the query pieces; -1 for a file, which has none.
        piece_cosines: Cosine of each piece where retrieval stored them, else empty.
    """

    chunk_id: str
    terms: frozenset[str]
    best_cosine: float
    piece_cosines: tuple[float, ...] = ()


def supported(
    at: int,
    pieces: Sequence[Piece],
    evidence: Sequence[Evidence],
    *,
    weight: Weights,
    cosine: float,
) -> bool:
    """Return whether a kept chunk or a file speaks to piece ``at``.

    By its terms (60 % of the piece's weight in one of them) or by its meaning (cosine ≥ ``cosine``,
    of the piece itself if it is known, of the prompt's only piece otherwise).

    Args:
        at: Position of the piece.
        pieces: All pieces, in the person's own words.
        evidence: The kept chunks.
        weight: Term weights.
        cosine: Least cosine.
    """
    empty: frozenset[str] = frozenset()
    for chunk in evidence:
        near = chunk.best_cosine if len(pieces) == 1 else -1.0
        if at < len(chunk.piece_cosines):
            near = chunk.piece_cosines[at]
        near = near if pieces[at].searched else -1.0
        if near >= cosine or coverage(pieces[at], chunk.terms, empty, weight) >= CHUNK_SUPPORT:
            return True
    return False


def missing_words(piece: Piece, known: frozenset[str], terms: Terms) -> list[str]:
    """Return the words of a piece that no evidence holds in any form, in order, each once.

    What tells the reader to do something is no such word, nor are words that say little in a
    question, nor those of a script without blanks.
    """
    small = small_words(piece.text)
    words = (m.group().rstrip(".-") for m in _WORD.finditer(what_is_asked(piece.text)))
    words = (w for w in words if not is_saying(w) and not NO_BLANKS.search(w))
    words = (w for w in words if is_name(w, piece) or w.lower() not in small | SMALL_WORDS)
    stems = ((word, next(iter(terms(word)), "")) for word in words)
    found = {w.lower(): w for w, stem in stems if stem and stem not in known | VAGUE}
    return list(found.values())[:MAX_TERMS]


def is_name(word: str, piece: Piece) -> bool:
    """Return whether a word names something: digit, ``_``, inner or mid-sentence capital."""
    if any(c.isdigit() or c == "_" for c in word) or any(c.isupper() for c in word[1:]):
        return True
    return word[:1].isupper() and not piece.text.lstrip("\"'`*([ ").startswith(word)


def _issue(kind: str, text: str, *, piece_id: str = "", quotes: Sequence[Quote] = ()) -> OpenIssue:
    return OpenIssue(kind, text, piece_id, tuple(Cited(q.chunk_id, q.source) for q in quotes))


class Judged(NamedTuple):
    """Whether a piece is answered, and why that is said.

    Attributes:
        answer: What is said.
        held: The estimate behind it; None: it was not estimated.
        reason: One sentence for people.
    """

    answer: PieceAnswer
    held: Estimate | None
    reason: str

    @property
    def is_open(self) -> bool:
        """Whether nothing answers it."""
        return self.answer.word == NOT_FOUND


def all_not_found(judged: Sequence[Judged]) -> bool:
    """Return whether something is asked and no piece of it is answered, or perhaps."""
    return bool(judged) and all(row.is_open for row in judged)


def not_worse(judged: Sequence[Judged], before: Sequence[Judged]) -> list[Judged]:
    """Return verdicts that more passages beside the same ones do not turn into *not found*.

    Args:
        judged: As of `Answers.of`.
        before: Of fewer passages.
    """
    found = {row.answer.piece_id: row for row in before if not row.is_open}
    return [found.get(row.answer.piece_id, row) if row.is_open else row for row in judged]


def with_facts(
    judged: Sequence[Judged], chosen: Sequence[tuple[Quote, Sequence[str], float]]
) -> list[Judged]:
    """Return verdicts that no fact contradicts: a piece that has one is *perhaps* at least.

    Args:
        judged: As of `Answers.of`.
        chosen: Each fact, the ids of the pieces that it speaks to, its score.
    """
    found: dict[str, Quote] = {}
    for quote, ids, _ in sorted(chosen, key=lambda row: -row[2]):
        found.update((i, quote) for i in ids if i not in found)
    return [
        _lifted(row, found[row.answer.piece_id])
        if row.is_open and row.answer.piece_id in found
        else row
        for row in judged
    ]


def _lifted(row: Judged, fact: Quote) -> Judged:
    nearest = Cited(fact.chunk_id, fact.source)
    answer = replace(row.answer, word=PERHAPS, nearest=nearest)
    return Judged(answer, row.held, f"{row.reason}; a fact speaks to it")


def said_of_superseded(
    judged: Sequence[Judged], newer: Sequence[Judged], replaced: Mapping[str, Replaced]
) -> list[Judged]:
    """Return verdicts that call nothing answered by a document that says it is superseded.

    Args:
        judged: As of `Answers.of`.
        newer: The same by the other documents alone: what they answer is answered by them.
        replaced: The superseded documents.
    """
    others = {row.answer.piece_id: row for row in newer}
    rows = []
    for row in judged:
        nearest = row.answer.nearest
        old = replaced.get(nearest.source) if nearest else None
        other = others.get(row.answer.piece_id)
        if old is not None and row.answer.word == ANSWERED and nearest is not None:
            if other is not None and other.answer.word == ANSWERED:
                row = other
            else:
                reason = f"{row.reason}; but of {nearest.source}: {old.told}"
                row = Judged(replace(row.answer, word=PERHAPS), row.held, reason)
        rows.append(row)
    return rows


def replaced_sources(chosen: Sequence[Quote], replaced: Mapping[str, Replaced]) -> list[OpenIssue]:
    """Say of each document with a fact that it is superseded, and by what.

    Args:
        chosen: The facts.
        replaced: The superseded documents.
    """
    firsts = {quote.source: quote for quote in reversed(chosen) if quote.source in replaced}
    return [
        _issue("superseded", f"{source}{sign} {row.told}", quotes=(firsts[source],))
        for source in sorted(firsts)
        for row in (replaced[source],)
        for sign in (" is" if row.word == SUPERSEDED else ":",)
    ]


@dataclass(frozen=True)
class Answers:
    """Judges whether the shown passages answer each piece.

    Attributes:
        pieces: Query pieces, in the person's own words.
        chunks: Chunk id → chunk, of the kept ones.
        files: The injected files.
        weight: Term weights over the sentences of the kept chunks.
        cosine: Least cosine that counts as support if nothing can be estimated.
        terms: Stems a text.
        nearness: By token vectors; None: by words.
        kept: All kept passages: what is not shown is compared with what is.
        searched: How many passages they are the best of.
        rows: The rows of tables in the kept passages.
    """

    pieces: Sequence[Piece]
    chunks: Mapping[str, Chunk]
    files: Sequence[Evidence]
    weight: Weights
    cosine: float
    terms: Terms
    nearness: Nearness | None = None
    kept: Sequence[Evidence] = ()
    searched: int = USUAL
    rows: Sequence[Quote] = ()
    _known: dict[tuple[object, ...], Estimate | None] = field(default_factory=dict, repr=False)

    def of(
        self, evidence: Sequence[Evidence], cuts: Mapping[str, int],
        open_pieces: Collection[str] | None = None,
    ) -> list[Judged]:  # fmt: skip
        """Return for each piece that asks something whether it is answered, and by what signs.

        What only tells of the person's case, beside a piece that asks, has no answer.

        Args:
            evidence: The passages that are shown, in rank order.
            cuts: Chunk id → length of the part that is shown.
            open_pieces: Ids of the unanswered pieces if a model has read the passages.
        """
        found: list[Judged] = []
        told = {piece.id for piece in self.pieces if only_tells(piece.text)}
        told = told if len(told) < len(self.pieces) else set()
        for at, piece in enumerate(self.pieces):
            if not piece.terms or piece.id in told:
                continue
            shown = [*evidence, *self.files]
            if open_pieces is not None:
                is_open = piece.id in open_pieces and not self._supported(at, self.files)
                word = NOT_FOUND if is_open else ANSWERED
                answer = PieceAnswer(piece.id, piece.text, word)
                found.append(Judged(answer, None, "the language model that condensed says so"))
                continue
            nearest = _nearest(evidence, at, MOST_PASSAGES)
            known = {passage.chunk_id for passage in evidence}
            beside = [passage for passage in self.kept if passage.chunk_id not in known]
            rest = _nearest(beside, at, MOST_PASSAGES - len(nearest))
            held = self._estimate(piece, nearest, rest, at, cuts)
            if held is None or self._supported(at, self.files):
                word = ANSWERED if self._supported(at, shown) else NOT_FOUND
                answer = PieceAnswer(piece.id, piece.text, word)
                found.append(Judged(answer, None, self._unestimated(at, shown)))
                continue
            passage = nearest[held.signs.passage].chunk_id
            cited = Cited(passage, self.chunks[passage].source)
            answer = PieceAnswer(piece.id, piece.text, held.word, held.chance, cited)
            judged = Judged(answer, held, held.reason)
            row = self._meant(piece, known, cuts) if judged.is_open else None
            found.append(judged if row is None else _lifted(judged, row))
        return found

    def _meant(self, piece: Piece, known: Collection[str], cuts: Mapping[str, int]) -> Quote | None:
        """Return a row of a table that a piece names, if it is shown."""
        cells = [row_cells(row.verbatim) for row in self.rows]
        named = meant(piece.text, cells, [row.source for row in self.rows])
        return next(
            (
                row for row, is_meant in zip(self.rows, named, strict=True)
                if is_meant and row.chunk_id in known
                and row.span[1] <= cuts.get(row.chunk_id, row.span[1])
            ),
            None,
        )  # fmt: skip

    def of_passages(self, evidence: Sequence[Evidence], cuts: Mapping[str, int]) -> list[Judged]:
        """As `of`, by the passages alone: no injected file and no model is heard."""
        return replace(self, files=()).of(evidence, cuts)

    def of_turns(self, piece: Piece, said: Sequence[tuple[str, float]]) -> Estimate | None:
        """Return what is estimated of a piece by texts with their cosines, as of passages.

        Words alone say too little of a turn: None without token vectors.
        """
        if self.nearness is None or not said or NO_BLANKS.search(piece.text):
            return None
        order = sorted(range(len(said)), key=lambda i: -said[i][1])[:MOST_PASSAGES]
        read = [Passage(said[i][0], sentences_of(said[i][0], self.terms), said[i][1])
                for i in order]  # fmt: skip
        signs = signs_of(piece.text, read, self.terms, self.nearness)
        if signs is None:
            return None
        signs = signs._replace(passage=order[signs.passage])
        return estimate(signs, self._scale(), searched=self.searched)

    def _unestimated(self, at: int, shown: Sequence[Evidence]) -> str:
        """Say why there is no estimate for piece ``at``."""
        if not shown:
            return "not estimated: no passage was found"
        if self._supported(at, self.files):
            return "not estimated: an injected file holds its words"
        return "not estimated: judged by the words and the meaning of whole passages"

    def _supported(self, at: int, shown: Sequence[Evidence]) -> bool:
        return supported(at, self.pieces, shown, weight=self.weight, cosine=self.cosine)

    def _estimate(
        self, piece: Piece, nearest: Sequence[Evidence], beside: Sequence[Evidence], at: int,
        cuts: Mapping[str, int],
    ) -> Estimate | None:  # fmt: skip
        if NO_BLANKS.search(piece.text):
            return None  # its words cannot be told apart
        rows = [(e.chunk_id, _cosine(e, at), cuts.get(e.chunk_id)) for e in (*nearest, *beside)]
        key = (at, len(nearest), *rows)
        if key in self._known:
            return self._known[key]
        texts = [(self.chunks[i].snippet, cosine, end) for i, cosine, end in rows]
        read = [Passage(t, sentences_of(t, self.terms), cosine, end) for t, cosine, end in texts]
        shown, others = read[: len(nearest)], read[len(nearest) :]
        signs = signs_of(piece.text, shown, self.terms, self.nearness, beside=others)
        self._known[key] = None
        if signs is not None:
            self._known[key] = estimate(signs, self._scale(), searched=self.searched)
        return self._known[key]

    def _scale(self) -> Scale:
        table = weights_table()
        return table.words if self.nearness is None else table.meaning


def _nearest(evidence: Sequence[Evidence], at: int, most: int) -> list[Evidence]:
    return sorted(evidence, key=lambda e: -_cosine(e, at))[:most]


def _cosine(evidence: Evidence, at: int) -> float:
    cosines = evidence.piece_cosines
    return cosines[at] if at < len(cosines) else evidence.best_cosine


def unanswered(
    pieces: Sequence[Piece], answers: Sequence[Judged], evidence: Sequence[Evidence],
    files: Sequence[Evidence], *, terms: Terms,
) -> list[OpenIssue]:  # fmt: skip
    """List the pieces that are not, or perhaps not, answered; then names that nothing mentions.

    Args:
        pieces: Query pieces, in the person's own words.
        answers: As of `Answers.of`.
        evidence: The kept chunks; without any, and without files, nothing is said about single
            words.
        files: The injected files.
        terms: Stems a text.
    """
    known = frozenset[str]().union(*(shown.terms for shown in (*evidence, *files)))
    told = {row.answer.piece_id: row for row in answers}
    issues, names = [], []
    for piece in pieces:
        missing = missing_words(piece, known, terms)
        judged = told.get(piece.id)
        word = judged.answer.word if judged else ""
        asked = " ".join(piece.text.split())[:MAX_PIECE_CHARS]
        words = f" (in no passage here: {', '.join(missing)})" if missing and known else ""
        if word == NOT_FOUND:
            text = f"Not found: no passage clearly answers “{asked}”{words}"
            issues.append(_issue("unsupported", text, piece_id=piece.id))
        elif judged is not None and word == PERHAPS:
            text = f"Possibly answered: “{asked}”{words or _far(judged.held)}"
            cited = (judged.answer.nearest,) if judged.answer.nearest else ()
            issues.append(OpenIssue("perhaps", text, piece.id, cited))
        else:
            names += [word for word in missing if is_name(word, piece)]
    if names and known:
        shown = ", ".join(dict.fromkeys(names))
        issues.append(_issue("missing_term", f"No passage mentions: {shown}"))
    return issues


def _far(held: Estimate | None) -> str:
    """Say which word of a question the closest sentence lacks; nothing if it has them all."""
    farthest = held.signs.farthest if held else ""
    return f" (the closest sentence does not mention “{farthest}”)" if farthest else ""


def conflicts(
    chosen: Sequence[Quote],
    quotes: Sequence[Quote],
    replaced: Mapping[str, Replaced] | None = None,
) -> list[OpenIssue]:
    """List chosen sentences that another one repeats with another number (`contradictions`).

    Pairs of data and signatures say nothing by themselves: two services have two ports. Which of
    them is newer is said where the documents say it: modification times are not part of what a
    prompt is made from, so they may not stand in it.

    Args:
        chosen: The facts.
        quotes: All quotable sentences, the chosen ones among them.
        replaced: The superseded documents.
    """
    seen: set[frozenset[str]] = set()
    issues = []
    counted = [[q for q in said if q.is_said and values_of(q.text)] for said in (chosen, quotes)]
    for left, right in product(*counted):
        pair = frozenset((left.text, right.text))
        if pair in seen or not disagree(left, right):
            continue
        seen.add(pair)
        newer = newer_of(left, right, replaced or {})
        text = f"Passages disagree: “{left.text}” against “{right.text}”{newer}"
        issues.append(_issue("conflict", text, quotes=(left, right)))
    return issues[:MAX_CONFLICTS]
