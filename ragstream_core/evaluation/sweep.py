"""A sweep of the gate's thresholds: what it keeps of what gold questions need, and at what size.

And whether an NLI model makes a better gate than the cosines: measured on gold questions, and kept.
A measurement belongs to the weights that it was made with: other weights have none.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.agents.a5_format_enforcer import shown_texts
from ragstream_core.agents.context.condensed_notes import savings_of
from ragstream_core.evaluation.prompt_quality import WORDS, PromptReport, worst_word
from ragstream_core.ingestion.quality_gate import GoldQuestion
from ragstream_core.platform import sidecar
from ragstream_core.platform.files import make_private_dir, replace_text
from ragstream_core.prompts.blocks import repeated_texts
from ragstream_core.records import SuperPrompt

if TYPE_CHECKING:
    from ragstream_core.ports import TokenCounter
    from ragstream_core.records.json_form import Json

THETAS = (0.0, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5)
RELATIVES = (0.0, 0.3, 0.42, 0.55)
_DIGITS = 4


@dataclass(frozen=True, slots=True)
class Point:
    """What one pair of thresholds comes to over all questions."""

    theta: float  # ``gate.theta``, and ``gate.nli_theta`` if a model gates
    relative: float  # ``gate.relative``
    kept_relevant: float  # share of the expected items among the candidates that pass the gate
    shown: float  # share of them that stands in the finished prompts
    candidates: float  # mean number of candidates that pass
    tokens: float  # mean tokens of a prompt
    # mean tokens that A4 left out: behind the end of the evidence, repeated, or outside of a window
    saved: float
    answered: float  # share of the questions whose prompt says so of all their pieces
    perhaps: float  # share of those that are *perhaps* answered at worst
    not_found: float  # share of those with a piece that is *not found*
    found: int  # expected items among the candidates, over all questions
    questions: int
    # digest of the questions, the generation, the other settings and the code; only points with an
    # equal one compare
    fingerprint: str


def point_of(
    asked: Sequence[tuple[GoldQuestion, SuperPrompt]],
    theta: float,
    relative: float,
    counter: TokenCounter,
    *,
    fingerprint: str = "",
) -> Point:
    """Add up what finished prompts hold; if nothing is found, both shares are 0."""
    found = kept = shown = candidates = tokens = saved = 0
    for question, prompt in asked:
        before = _held(question, prompt, prompt.views_by_stage["reranked"])
        found += len(before)
        repeats, same = prompt.extras.repeats, repeated_texts(prompt)
        view = [*prompt.views_by_stage["a3"], *repeats]
        kept += len(before & _held(question, prompt, view))
        texts = shown_texts(prompt)
        named = [i for i, holder in repeats.items() if same.get(holder)]
        view = [*prompt.final_selection_ids, *named]
        shown += len(before & _held(question, prompt, view, texts))
        candidates += len(prompt.views_by_stage["a3"])
        tokens += prompt.extras.enforced.total_tokens
        saved += sum(row.tokens for row in savings_of(prompt, counter))
    words = word_shares(worst_word(prompt.extras.answers) for _, prompt in asked)
    return Point(
        theta=theta,
        relative=relative,
        kept_relevant=round(kept / max(1, found), _DIGITS),
        shown=round(shown / max(1, found), _DIGITS),
        candidates=round(candidates / len(asked), 2),
        tokens=round(tokens / len(asked), 1),
        saved=round(saved / len(asked), 1),
        **{word.replace(" ", "_"): share for word, share in words.items()},
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


def word_shares(said: Iterable[str]) -> dict[str, float]:
    """Return the share of each of the three words."""
    found = Counter(said)
    return {word: round(found[word] / found.total(), _DIGITS) for word in WORDS}


@dataclass(frozen=True, slots=True)
class Variant:
    """What the prompts of gold questions come to under some settings."""

    settings: Mapping[str, str]  # dotted key → value, of those that are varied
    report: PromptReport

    @property
    def words(self) -> dict[str, float]:
        """Shares of the questions by the worst word that their prompt says of a piece."""
        return word_shares(row.word for row in self.report.rows)

    def to_json(self) -> dict[str, Json]:
        """Return the documented JSON form."""
        figures: dict[str, Json] = {**self.report.figures.to_json()}
        return {"settings": {**self.settings}, "figures": figures, "words": {**self.words}}


def write_point(folder: Path, point: Point) -> Path:
    """Keep a point in a file of its own, so that several processes can sweep at once."""
    path = folder / f"{point.theta:g}-{point.relative:g}.json"
    replace_text(path, json.dumps(asdict(point), indent=1) + "\n")
    return path


def read_points(folder: Path, fingerprint: str) -> list[Point]:
    """Return the kept points that were measured on what holds now, in order."""
    points = (sidecar.read(path, Point) for path in folder.glob("*.json"))
    present = [point for point in points if point and point.fingerprint == fingerprint]
    return sorted(present, key=lambda point: (point.theta, point.relative))


# The folder beside the models that keeps which gate is better.
MEASURED = "gate_measured"


@dataclass(frozen=True, slots=True)
class GateFigures:
    """What a measurement keeps of a point."""

    kept_relevant: float
    candidates: float
    found: float
    questions: float


@dataclass(frozen=True, slots=True)
class GateMeasurement:
    """An NLI model and the cosines as gates of the same questions, for the model's weights."""

    model: str
    weights: str  # digest of its files, 64 hex digits
    nli_theta: float  # its threshold in [0, 1]
    project: str  # whose gold questions
    nli: GateFigures
    similarity: GateFigures

    @property
    def is_better(self) -> bool:
        """Whether the model keeps no less, lets no more pass, and is ahead in one of the two.

        Where nothing was found it is not.
        """
        gains = self.nli.kept_relevant - self.similarity.kept_relevant
        saves = self.similarity.candidates - self.nli.candidates
        return self.nli.found > 0 and gains >= 0 and saves >= 0 and (gains > 0 or saves > 0)

    def to_json(self) -> dict[str, Json]:
        """Return the documented JSON form."""
        return {**asdict(self), "is_better": self.is_better}


def figures(point: Point) -> GateFigures:
    """Return what a measurement keeps of a point."""
    counts = float(point.found), float(point.questions)
    return GateFigures(point.kept_relevant, point.candidates, *counts)


def write_measurement(models_dir: Path, measurement: GateMeasurement) -> Path:
    """Keep a measurement beside the models, in place of an earlier one of the same weights."""
    path = make_private_dir(models_dir / MEASURED) / f"{measurement.weights}.json"
    replace_text(path, json.dumps(asdict(measurement), indent=1, sort_keys=True) + "\n")
    return path


def read_measurement(models_dir: Path, weights: str) -> GateMeasurement | None:
    """Return the measurement of some weights; None if there is none, or a damaged one."""
    kept = sidecar.read(models_dir / MEASURED / f"{weights}.json", GateMeasurement)
    return kept if kept and kept.weights == weights else None
