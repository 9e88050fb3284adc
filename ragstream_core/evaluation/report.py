"""The report on judged answers: its figures, and the file that keeps them a generation.

What is kept holds figures alone. Points of one series (the same questions, judge and kind of
answer) compare over generations.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragstream_core.atomic import replace_text
from ragstream_core.evaluation.faithfulness import Judged, summary

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
        """Mean faithfulness of the answers that claim something; None where none does."""
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
