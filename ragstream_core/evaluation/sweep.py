"""A sweep of the gate's thresholds: what it keeps of what gold questions need, and at what size."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragstream_core.agents.a5_format_enforcer import shown_texts
from ragstream_core.atomic import replace_text
from ragstream_core.evaluation.heat_map import heat_map
from ragstream_core.ingestion.quality_gate import GoldQuestion
from ragstream_core.records import SuperPrompt

THETAS = (0.0, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5)
RELATIVES = (0.0, 0.3, 0.42, 0.55)
_DIGITS = 4


@dataclass(frozen=True, slots=True)
class Point:
    """What one pair of thresholds comes to over all questions.

    Attributes:
        theta: ``gate.theta``, and ``gate.nli_theta`` where a model gates.
        relative: ``gate.relative``.
        kept_relevant: Share of the expected items among the candidates that pass the gate.
        shown: Share of them that stands in the finished prompts.
        candidates: Mean number of candidates that pass.
        tokens: Mean tokens of a prompt.
        found: Expected items among the candidates, over all questions.
        questions: How many were asked.
        fingerprint: Digest of the questions, the generation, the other settings and the code; only
            points with an equal one compare.
    """

    theta: float
    relative: float
    kept_relevant: float
    shown: float
    candidates: float
    tokens: float
    found: int
    questions: int
    fingerprint: str

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        return {name: getattr(self, name) for name in self.__slots__}


def point_of(
    asked: Sequence[tuple[GoldQuestion, SuperPrompt]],
    *,
    theta: float,
    relative: float,
    fingerprint: str,
) -> Point:
    """Add up what finished prompts hold; where nothing is found, both shares are 0.

    Args:
        asked: Each question with its prompt after the whole chain; at least one.
        theta: Threshold in [0, 1].
        relative: Threshold in [0, 1].
        fingerprint: Goes into the point.
    """
    found = kept = shown = candidates = tokens = 0
    for question, prompt in asked:
        before = _held(question, prompt, prompt.views_by_stage["reranked"])
        found += len(before)
        kept += len(before & _held(question, prompt, prompt.views_by_stage["a3"]))
        texts = shown_texts(prompt)
        shown += len(before & _held(question, prompt, prompt.final_selection_ids, texts))
        candidates += len(prompt.views_by_stage["a3"])
        tokens += prompt.extras["enforced"]["total_tokens"]
    return Point(
        theta=theta,
        relative=relative,
        kept_relevant=round(kept / max(1, found), _DIGITS),
        shown=round(shown / max(1, found), _DIGITS),
        candidates=round(candidates / len(asked), 2),
        tokens=round(tokens / len(asked), 1),
        found=found,
        questions=len(asked),
        fingerprint=fingerprint,
    )


def _held(
    question: GoldQuestion,
    prompt: SuperPrompt,
    chunk_ids: Iterable[str],
    texts: Mapping[str, str] | None = None,
) -> set[int]:
    """Return which expected items are, or stand in, some chunks."""
    chunks = {chunk.id: chunk for chunk in prompt.base_context_chunks}
    rows = [(chunks[i].source, (texts or {}).get(i, chunks[i].snippet)) for i in chunk_ids]
    return {at for at, rank in enumerate(question.ranks(rows)) if rank}


def write_point(folder: Path, point: Point) -> Path:
    """Keep a point in a file of its own, so that several processes can sweep at once.

    Raises:
        OSError: The file cannot be written.
    """
    path = folder / f"{point.theta:g}-{point.relative:g}.json"
    replace_text(path, json.dumps(point.to_json(), indent=1) + "\n")
    return path


def read_points(folder: Path, fingerprint: str) -> list[Point]:
    """Return the kept points that were measured on what holds now, in order.

    Args:
        folder: As of `write_point`.
        fingerprint: Of what holds now; other points and damaged files are passed over.
    """
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            point = Point(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            continue
        if point.fingerprint == fingerprint:
            found.append(point)
    return sorted(found, key=lambda point: (point.theta, point.relative))


def pictures(points: Sequence[Point]) -> dict[str, bytes]:
    """Return the heat maps as PNG: ``kept relevant``, ``shown`` and ``tokens``.

    θ grows to the right, the relative threshold downwards; the smallest number is the lightest.

    Args:
        points: At least one.
    """
    thetas = sorted({point.theta for point in points})
    relatives = sorted({point.relative for point in points})
    at = {(point.theta, point.relative): point for point in points}

    def drawn(name: str, form: str) -> bytes:
        field = name.replace(" ", "_")
        found = {pair: float(getattr(point, field)) for pair, point in at.items()}
        values = [[found.get((t, r)) for t in thetas] for r in relatives]
        low, high = min(found.values()), max(found.values())
        names = (name, "theta", "relative")
        return heat_map(
            values, names=names, columns=thetas, rows=relatives, low=low, high=high, form=form
        )

    forms = {"kept relevant": ".3f", "shown": ".3f", "tokens": ".0f"}
    return {name: drawn(name, form) for name, form in forms.items()}
