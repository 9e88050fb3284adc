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
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from ragstream_core.answers.citations import Issued
from ragstream_core.evaluation.agreement import Sentence, Support, is_refusal, sentences_of
from ragstream_core.evaluation.gold_answers import Comparison, compared
from ragstream_core.platform import sidecar
from ragstream_core.platform.files import replace_text
from ragstream_core.records.identity import Json

DIGITS = 4
UNCITED, UNKNOWN = "uncited", "unknown citation"


class Judge(Protocol):
    """Says whether passages support claims."""

    @property
    def name(self) -> str:
        """Who judges, for people and reports."""
        ...

    def judge(self, claims: Sequence[tuple[str, Sequence[Issued]]]) -> list[Support]:
        """Judge the claims of one answer."""
        ...


@dataclass(frozen=True, slots=True)
class Answered:
    """One answer that is to be judged."""

    question: str
    answer: str  # the answer with its markers
    issued: Mapping[str, Issued]  # citation id → what its prompt showed under it
    gold: tuple[str, ...] = ()  # right answers, if there are any
    origin: str = "file"  # where it comes from: ``extract``, ``model``, ``turn``, ``file``
    line: int = 0  # line of the gold question or of the file; 0: neither
    note: str = ""  # what is to be said of it


@dataclass(frozen=True, slots=True)
class Counts:
    """What is counted in one answer, without any text."""

    line: int
    origin: str
    # the share of its claims that are supported, in [0, 1]; None if it claims nothing
    score: float | None
    claims: int
    supported: int
    quoted: int  # how many stand word for word in what they cite
    uncited: int  # how many cite nothing
    unknown_citations: int  # how many cite what the prompt did not issue
    refused: bool  # whether it says that it cannot answer
    right: Comparison | None = None  # compared with the right answers; None if none is known

    def to_json(self) -> dict[str, Json]:
        """Return the documented JSON form."""
        found = asdict(self)
        return {**found, **(found.pop("right") or {})}


@dataclass(frozen=True, slots=True)
class Judged:
    """An answer, judged."""

    of: Answered
    # each sentence with its verdict; None if it claims nothing
    rows: tuple[tuple[Sentence, Support | None], ...]
    right: Comparison | None = None  # compared with the right answers; None if none is known

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

    def counts(self) -> Counts:
        """Return its figures, without any text."""
        rules = [verdict.rule for verdict in self.verdicts]
        return Counts(
            self.of.line,
            self.of.origin,
            self.score,
            len(rules),
            self.supported,
            rules.count("quote"),
            rules.count(UNCITED),
            rules.count(UNKNOWN),
            is_refusal(self.of.answer),
            self.right,
        )

    def to_json(self) -> dict[str, Json]:
        """Return the documented JSON form, texts included."""
        return {
            "question": self.of.question,
            **self.counts().to_json(),
            "note": self.of.note,
            "sentences": [_row(sentence, verdict) for sentence, verdict in self.rows],
        }


def judged(answered: Answered, judge: Judge) -> Judged:
    """Judge one answer."""
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
    return Judged(answered, tuple(rows), compared(plain, answered.gold) if answered.gold else None)


@dataclass(frozen=True, slots=True)
class Totals:
    """The figures of several answers; each is counted once, whatever the number of its claims."""

    score: float | None  # mean of the answers that claim something, in [0, 1]; None for none
    answers: int  # how many answers there are
    scored: int  # how many of them claim something
    refused: int  # how many say that they cannot answer
    claims: int  # as in `Counts`, of all of them; so are the next four
    supported: int
    quoted: int
    uncited: int
    unknown_citations: int
    right_known: int  # of how many a right answer is known
    right: Comparison | None  # means of the comparison with those; None if none is known

    def to_json(self) -> dict[str, Json]:
        """Return the documented JSON form."""
        found = asdict(self)
        known, right = found.pop("right_known"), found.pop("right")
        return {**found, **({"gold": {"answers": known, **right}} if right else {})}


_SUMS = ("refused", "claims", "supported", "quoted", "uncited", "unknown_citations")


def totals(found: Sequence[Judged]) -> Totals:
    """Return the figures of several answers."""
    counts = [one.counts() for one in found]
    scores = [row.score for row in counts if row.score is not None]
    right = [row.right for row in counts if row.right is not None]
    return Totals(
        score=_mean(scores) if scores else None,
        answers=len(found),
        scored=len(scores),
        **{name: sum(getattr(row, name) for row in counts) for name in _SUMS},
        right_known=len(right),
        right=Comparison(
            _mean([one.exact_match for one in right]),
            _mean([one.f1 for one in right]),
            _mean([one.contained for one in right]),
        )
        if right
        else None,
    )


def _mean(values: Sequence[float]) -> float:
    """Return the mean, whatever the order of the values."""
    return round(sum(sorted(values)) / len(values), DIGITS)


def _row(sentence: Sentence, verdict: Support | None) -> dict[str, Json]:
    row: dict[str, Json] = {"text": sentence.text, "kind": sentence.kind}
    row["cited"] = list(sentence.cited)
    if verdict is not None:
        row |= {"supported": verdict.supported, "score": verdict.score}
        row |= {"rule": verdict.rule, "reason": verdict.reason}
    return row


@dataclass(frozen=True, slots=True)
class Report:
    """What came of judging answers."""

    project: str
    judge: str
    answers: Sequence[Judged]
    skipped: Sequence[tuple[str, str]] = ()  # (where, why) of those that could not be judged
    generation: int = 0  # number of the generation that was asked; 0: none of its own
    created: str = ""  # when, ISO 8601
    series: str = ""  # digest of questions, judge and kind of answer
    # the same with generation, settings, models and code; equal ones give equal figures, unless a
    # language model takes part
    fingerprint: str = ""
    # what a language model was asked as a judge, JSON form
    exchanges: Sequence[dict[str, Json]] = ()

    @property
    def score(self) -> float | None:
        """Mean faithfulness of the answers that claim something; None if none does."""
        return self.totals.score

    @property
    def totals(self) -> Totals:
        """The figures of all of its answers."""
        return totals(self.answers)

    def figures(self) -> dict[str, Json]:
        """Return the report without any text of a question, an answer or a document."""
        return {
            "project": self.project,
            "generation": self.generation,
            "created": self.created,
            "judge": self.judge,
            "series": self.series,
            "fingerprint": self.fingerprint,
            **self.totals.to_json(),
            "skipped": len(self.skipped),
            "questions": [judged.counts().to_json() for judged in self.answers],
        }

    def to_json(self) -> dict[str, Json]:
        """Return the documented JSON form, with texts."""
        return {
            **self.figures(),
            "skipped": [{"where": where, "why": why} for where, why in self.skipped],
            "questions": [judged.to_json() for judged in self.answers],
            "exchanges": list(self.exchanges),
        }


def keep(folder: Path, report: Report) -> Path:
    """Keep the figures of a report; a later one of the same generation and series replaces it."""
    path = folder / f"{report.generation}-{report.series[:12]}.json"
    replace_text(path, json.dumps(report.figures(), indent=1) + "\n")
    return path


@dataclass(frozen=True, slots=True)
class KeptScore:
    """What of a kept report is compared over generations; see `Report`."""

    generation: int
    created: str
    series: str
    fingerprint: str
    judge: str
    score: float | None
    claims: int


def kept(folder: Path, series: str = "") -> list[KeptScore]:
    """Return the kept figures by series and generation; damaged ones are passed over."""
    scores = (sidecar.read(path, KeptScore) for path in folder.glob("*.json"))
    wanted = [score for score in scores if score and series in ("", score.series)]
    return sorted(wanted, key=lambda score: (score.series, score.generation))
