"""Gold questions of a project, and whether a generation answers them well enough to be published.

``data/projects/<project>/gold.jsonl`` holds one JSON object a line: ``question`` and what must be
found for it, ``file`` or ``files`` (paths relative to the project) or ``passage`` or ``passages``
(text that a chunk must contain, white space apart). Both count as expected items. ``answer`` or
``answers`` are right answers, ``pattern`` or ``patterns`` regular expressions that find one; the
gate leaves them alone, `eval faithfulness` and `eval prompts` compare with them. A question with
``unanswerable: true`` expects nothing, and only `eval prompts` asks it.

recall@k is the share of the expected items among the first k chunks, MRR@k the reciprocal rank of
the first chunk that is or holds one; both are means over the questions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ragstream_core.errors import UsageError
from ragstream_core.platform.files import lines_of

if TYPE_CHECKING:
    from ragstream_core.index.rows import Generation
    from ragstream_core.ports import IndexView
    from ragstream_core.records.identity import Json

GOLD_NAME = "gold.jsonl"

# Key of a generation's provenance: its figures as `Figures.to_json` writes them.
QUALITY = "quality"
_KEYS = frozenset(
    {
        "id", "question", "file", "files", "passage", "passages", "note", "answer", "answers",
        "pattern", "patterns", "unanswerable",
    }
)  # fmt: skip
_DIGITS = 4
_EXAMPLE = '{"question": "How long are logs kept?", "file": "operations/logs.md"}'

# Returns (path, text) of the first chunks for a question, best first.
Ranker = Callable[[str], Sequence[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class GoldQuestion:
    """One question with what must be found for it, and its right answers.

    Attributes:
        line: Its line in the file, from 1.
        question: What is asked.
        files: Paths that must be found; together with ``passages`` at least one, unless the
            question is unanswerable.
        passages: Texts that must be found, white space collapsed.
        answers: Right answers.
        patterns: Regular expressions that find a right answer, case ignored.
        unanswerable: The documents do not answer it: nothing is expected.
    """

    line: int
    question: str
    files: tuple[str, ...] = ()
    passages: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    unanswerable: bool = False

    def ranks(self, ranked: Sequence[tuple[str, str]]) -> list[int]:
        """Return the 1-based rank of each expected item, files first; 0 where it is not found."""
        texts = [" ".join(text.split()) for _, text in ranked]
        found = [_rank(path == wanted for path, _ in ranked) for wanted in self.files]
        return found + [_rank(wanted in text for text in texts) for wanted in self.passages]


def _rank(hits: Iterable[bool]) -> int:
    return next((rank for rank, hit in enumerate(hits, 1) if hit), 0)


@dataclass(frozen=True, slots=True)
class Figures:
    """What a generation came to on the gold questions.

    Attributes:
        recall: recall@k in [0, 1].
        mrr: MRR@k in [0, 1].
        questions: How many there were.
        k: How many chunks count.
        fingerprint: Digest of questions and settings; only equal ones compare.
    """

    recall: float
    mrr: float
    questions: int
    k: int
    fingerprint: str

    def to_json(self) -> dict[str, Json]:
        """Return the form that stands in a generation's provenance."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def of(cls, provenance: Mapping[str, object]) -> Figures | None:
        """Return the figures a generation's provenance holds, None where there are none."""
        found = provenance.get(QUALITY)
        if not isinstance(found, dict) or set(found) != set(cls.__slots__):
            return None
        return cls(**found)


@dataclass(frozen=True, slots=True)
class QualityRules:
    """When a generation is good enough.

    Attributes:
        k: How many chunks count, ≥ 1.
        min_recall: Least recall@k in [0, 1].
        tolerance: How far recall@k and MRR@k may fall below the last generation's, in [0, 1].
    """

    k: int = 10
    min_recall: float = 0.0
    tolerance: float = 0.05

    def broken(self, now: Figures, before: Figures | None) -> str:
        """Return which rule a generation breaks, in words; empty where it is good enough."""
        if now.recall < self.min_recall:
            return f"recall@{self.k} {now.recall:.3f} is below the floor {self.min_recall:.3f}"
        for name in ("recall", "mrr") if before else ():
            value, last = getattr(now, name), getattr(before, name)
            if value < last - self.tolerance:
                shown = "recall" if name == "recall" else "MRR"
                return (
                    f"{shown}@{self.k} {value:.3f} is more than {self.tolerance:.3f} below the "
                    f"last generation's {last:.3f}"
                )
        return ""


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """What the gate says of a generation that is not committed yet.

    Attributes:
        figures: What it came to.
        before: What the last generation came to; None where it cannot be compared.
        refused: Why it must not be committed; empty where it may.
        worse: For people: which questions lost what they should find.
    """

    figures: Figures
    before: Figures | None
    refused: str = ""
    worse: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Json]:
        """Return the figures, with those of the last generation under ``before``."""
        return {
            **self.figures.to_json(),
            "before": self.before.to_json() if self.before else None,
        }


class QualityGate(Protocol):
    """Judges a generation before it is committed."""

    def judge(self, candidate: IndexView, parent: Generation | None) -> GateVerdict | None:
        """Return the verdict; None where the project has no gold questions.

        Args:
            candidate: The generation as it would be.
            parent: The newest committed generation.
        """
        ...


def read_gold(path: Path) -> tuple[GoldQuestion, ...]:
    """Read a project's gold questions.

    Raises:
        UsageError: The file cannot be read, or a line is not a gold question; it is named.
    """
    try:
        lines = lines_of(path)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    found = [_question(f"{path}:{n}", n, line) for n, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise UsageError(f"{path} holds no question", hint=f"write lines like {_EXAMPLE}")
    return tuple(found)


def _question(where: str, number: int, line: str) -> GoldQuestion:
    try:
        row = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise UsageError(f"{where}: not JSON: {error}", hint=f"e.g. {_EXAMPLE}") from None
    if not isinstance(row, dict) or not str(row.get("question") or "").strip():
        raise UsageError(f"{where}: not an object with a question", hint=f"e.g. {_EXAMPLE}")
    unknown = sorted(set(row) - _KEYS)
    if unknown:
        known = ", ".join(sorted(_KEYS))
        raise UsageError(f"{where}: unknown key {unknown[0]!r}", hint=f"known keys: {known}")
    found = GoldQuestion(
        number,
        str(row["question"]).strip(),
        _texts(where, row, "file"),
        tuple(" ".join(text.split()) for text in _texts(where, row, "passage")),
        _texts(where, row, "answer"),
        _texts(where, row, "pattern"),
        row.get("unanswerable") is True,
    )
    _check(where, row, found)
    return found


def _check(where: str, row: Mapping[str, object], found: GoldQuestion) -> None:
    """Refuse what contradicts itself.

    Raises:
        UsageError: With the place, and what is wrong.
    """
    if not isinstance(row.get("unanswerable", False), bool):
        raise UsageError(f"{where}: unanswerable is true or false")
    named = [*found.files, *found.passages]
    if found.unanswerable and (named or found.answers or found.patterns):
        raise UsageError(f"{where}: unanswerable, and yet with a file, passage or answer")
    if not named and not found.unanswerable:
        raise UsageError(f"{where}: no file and no passage to be found", hint=f"e.g. {_EXAMPLE}")
    for pattern in found.patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise UsageError(f"{where}: {pattern!r} is no regular expression: {error}") from None


def _texts(where: str, row: Mapping[str, object], name: str) -> tuple[str, ...]:
    one, many = row.get(name), row.get(f"{name}s", [])
    values = [*([] if one is None else [one]), *(many if isinstance(many, list) else [many])]
    if not all(isinstance(value, str) and value.strip() for value in values):
        raise UsageError(f"{where}: {name} and {name}s hold texts that are not empty")
    return tuple(dict.fromkeys(value.strip() for value in values))


def measure(
    questions: Sequence[GoldQuestion], rank: Ranker, *, k: int, fingerprint: str
) -> tuple[Figures, list[list[int]]]:
    """Ask every question; return the figures and, per question, the ranks of what it expects.

    Args:
        questions: At least one.
        rank: Ranks chunks for a question; only the first ``k`` count.
        k: How many chunks count.
        fingerprint: Goes into the figures.
    """
    ranks = [question.ranks(rank(question.question)[:k]) for question in questions]
    recalls = [sum(map(bool, found)) / len(found) for found in ranks]
    firsts = [min((r for r in found if r), default=0) for found in ranks]
    figures = Figures(
        recall=round(sum(recalls) / len(ranks), _DIGITS),
        mrr=round(sum(1 / first for first in firsts if first) / len(ranks), _DIGITS),
        questions=len(ranks),
        k=k,
        fingerprint=fingerprint,
    )
    return figures, ranks
