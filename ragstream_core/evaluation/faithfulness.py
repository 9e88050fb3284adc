"""Faithfulness: the share of an answer's claims that a passage which they cite supports (R-291).

A claim without a citation, or one that cites what the prompt did not issue, is unsupported and is
counted apart as well. Headings, questions, code, refusals and connecting words claim nothing; an
answer without a claim has no score. The measure is that of RAGAS (Es et al., arXiv:2309.15217),
but for the passages: those that a sentence cites, not all that were retrieved.

The report on judged answers is kept as one file a generation, with figures alone. Points of one
series (the same questions, judge and kind of answer) compare over generations.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ragstream_core.answers.citations import Issued
from ragstream_core.evaluation.agreement import Sentence, Support, is_refusal, sentences_of
from ragstream_core.platform.files import replace_text

DIGITS = 4
UNCITED, UNKNOWN = "uncited", "unknown citation"


class Judge(Protocol):
    """Says whether passages support claims."""

    @property
    def name(self) -> str:
        """Who judges, for people and reports."""
        ...

    def judge(self, claims: Sequence[tuple[str, Sequence[Issued]]]) -> list[Support]:
        """Judge the claims of one answer.

        Args:
            claims: Each with the passages that it cites, at least one.

        Returns:
            A verdict a claim, aligned.
        """
        ...


@dataclass(frozen=True, slots=True)
class Answered:
    """One answer that is to be judged.

    Attributes:
        question: What was asked.
        answer: The answer with its markers.
        issued: Citation id → what its prompt showed under it.
        gold: Right answers, if there are any.
        origin: Where it comes from: ``extract``, ``model``, ``turn``, ``file``.
        line: Line of the gold question or of the file; 0: neither.
        note: What is to be said of it.
    """

    question: str
    answer: str
    issued: Mapping[str, Issued]
    gold: tuple[str, ...] = ()
    origin: str = "file"
    line: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class Judged:
    """An answer, judged.

    Attributes:
        of: The answer.
        rows: Each sentence with its verdict; None if it claims nothing.
        figures: Exact match, token F1 and whether a right answer stands in it; empty without one.
    """

    of: Answered
    rows: tuple[tuple[Sentence, Support | None], ...]
    figures: Mapping[str, float] = field(default_factory=dict)

    @property
    def verdicts(self) -> list[Support]:
        """The verdicts on its claims, in order."""
        return [verdict for _, verdict in self.rows if verdict is not None]

    @property
    def supported(self) -> int:
        """How many of its claims are supported."""
        return sum(verdict.supported for verdict in self.verdicts)

    @property
    def score(self) -> float | None:
        """The share of its claims that are supported, in [0, 1]; None if it claims nothing."""
        return round(self.supported / len(self.verdicts), DIGITS) if self.verdicts else None

    def counts(self) -> dict[str, Any]:
        """Return its figures, without any text."""
        rules = [verdict.rule for verdict in self.verdicts]
        return {
            "line": self.of.line,
            "origin": self.of.origin,
            "score": self.score,
            "claims": len(rules),
            "supported": self.supported,
            "quoted": rules.count("quote"),
            "uncited": rules.count(UNCITED),
            "unknown_citations": rules.count(UNKNOWN),
            "refused": is_refusal(self.of.answer),
            **self.figures,
        }

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON form, texts included."""
        return {
            "question": self.of.question,
            **self.counts(),
            "note": self.of.note,
            "sentences": [_row(sentence, verdict) for sentence, verdict in self.rows],
        }


def judged(answered: Answered, judge: Judge) -> Judged:
    """Judge one answer.

    Args:
        answered: The answer.
        judge: Says whether passages support claims.
    """
    from ragstream_core.evaluation.gold_answers import figures

    sentences = sentences_of(answered.answer, answered.issued)
    asked = [s for s in sentences if s.kind == "claim" and s.cited]
    given = iter(judge.judge([(s.text, [answered.issued[i] for i in s.cited]) for s in asked]))
    rows = []
    for sentence in sentences:
        verdict = None
        if sentence.kind == "claim":
            rule = UNKNOWN if sentence.unknown else UNCITED
            verdict = next(given) if sentence.cited else Support(0.0, False, rule)
        rows.append((sentence, verdict))
    plain = " ".join(sentence.text for sentence in sentences)
    return Judged(answered, tuple(rows), figures(plain, answered.gold) if answered.gold else {})


def summary(found: Sequence[Judged]) -> dict[str, Any]:
    """Return the figures of several answers.

    Args:
        found: Each is counted once, whatever the number of its claims.

    Returns:
        ``score`` (mean of the answers that claim something, None for none), ``answers``,
        ``scored``, ``refused``, ``claims``, ``supported``, ``quoted`` (word for word),
        ``uncited``, ``unknown_citations``, and where right answers are known ``gold``: ``answers``,
        ``exact_match``, ``f1``, ``contained``.
    """
    counts = [one.counts() for one in found]
    scores = sorted(row["score"] for row in counts if row["score"] is not None)
    totals = ("refused", "claims", "supported", "quoted", "uncited", "unknown_citations")
    with_gold = [one.figures for one in found if one.figures]
    names = tuple(with_gold[0]) if with_gold else ()
    means = {n: _mean(sorted(figures[n] for figures in with_gold)) for n in names}
    return {
        "score": _mean(scores) if scores else None,
        "answers": len(found),
        "scored": len(scores),
        **{name: sum(row[name] for row in counts) for name in totals},
        **({"gold": {"answers": len(with_gold), **means}} if with_gold else {}),
    }


def _mean(values: Sequence[float]) -> float:
    return round(sum(values) / len(values), DIGITS)


def _row(sentence: Sentence, verdict: Support | None) -> dict[str, Any]:
    row: dict[str, Any] = {"text": sentence.text, "kind": sentence.kind}
    row["cited"] = list(sentence.cited)
    if verdict is not None:
        row |= {"supported": verdict.supported, "score": verdict.score}
        row |= {"rule": verdict.rule, "reason": verdict.reason}
    return row


_KEPT = ("generation", "created", "series", "fingerprint", "judge", "score", "claims")


@dataclass(frozen=True, slots=True)
class Report:
    """What came of judging answers.

    Attributes:
        project: Whose documents were asked; empty for answers of several.
        judge: Who judged.
        answers: The judged answers.
        skipped: (where, why) of those that could not be judged.
        generation: Number of the generation that was asked; 0: none of its own.
        created: When, ISO 8601.
        series: Digest of questions, judge and kind of answer.
        fingerprint: The same with generation, settings, models and code; equal ones give equal
            figures, unless a language model takes part.
        exchanges: What a language model was asked as a judge, JSON form.
    """

    project: str
    judge: str
    answers: Sequence[Judged]
    skipped: Sequence[tuple[str, str]] = ()
    generation: int = 0
    created: str = ""
    series: str = ""
    fingerprint: str = ""
    exchanges: Sequence[dict[str, Any]] = field(default=())

    @property
    def score(self) -> float | None:
        """Mean faithfulness of the answers that claim something; None if none does."""
        found: float | None = summary(self.answers)["score"]
        return found

    def figures(self) -> dict[str, Any]:
        """Return the report without any text of a question, an answer or a document."""
        return {
            "project": self.project,
            "generation": self.generation,
            "created": self.created,
            "judge": self.judge,
            "series": self.series,
            "fingerprint": self.fingerprint,
            **summary(self.answers),
            "skipped": len(self.skipped),
            "questions": [judged.counts() for judged in self.answers],
        }

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON form, with texts."""
        return {
            **self.figures(),
            "skipped": [{"where": where, "why": why} for where, why in self.skipped],
            "questions": [judged.to_json() for judged in self.answers],
            "exchanges": list(self.exchanges),
        }


def keep(folder: Path, report: Report) -> Path:
    """Keep the figures of a report; a later one of the same generation and series replaces it.

    Raises:
        OSError: The file cannot be written.
    """
    path = folder / f"{report.generation}-{report.series[:12]}.json"
    replace_text(path, json.dumps(report.figures(), indent=1) + "\n")
    return path


def kept(folder: Path, series: str = "") -> list[dict[str, Any]]:
    """Return the kept figures, by series and generation, ascending; damaged ones are passed over.

    Args:
        folder: As of `keep`.
        series: Only these; empty: all.
    """
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            row = json.loads(path.read_text(encoding="utf-8"))
            if not all(name in row for name in _KEPT):
                continue
        except (OSError, ValueError, TypeError):
            continue
        if not series or row["series"] == series:
            found.append(row)
    return sorted(found, key=lambda row: (str(row["series"]), int(row["generation"])))
