"""Whether an NLI model makes a better gate than the cosines: measured on gold questions, and kept.

A measurement belongs to the weights it was made with: other weights have none. The model is better
if it keeps at least as large a share of what the questions need, lets no more candidates pass, and
is ahead in one of the two.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.platform import sidecar
from ragstream_core.platform.files import make_private_dir, replace_text

if TYPE_CHECKING:
    from ragstream_core.evaluation.sweep import Point
    from ragstream_core.records.identity import Json

FOLDER = "gate_measured"
_FIGURES = ("kept_relevant", "candidates", "found", "questions")


@dataclass(frozen=True, slots=True)
class GateMeasurement:
    """Both gates on the same questions."""

    model: str
    weights: str  # digest of its files, 64 hex digits
    nli_theta: float  # its threshold in [0, 1]
    project: str  # whose gold questions
    # what the model comes to: ``kept_relevant``, ``candidates``, ``found``, ``questions``
    nli: dict[str, float]
    similarity: dict[str, float]  # likewise the similarity gate

    @property
    def is_better(self) -> bool:
        """Whether the model is the better gate; see above. Nothing found: it is not."""
        ours, theirs = self.nli, self.similarity
        gains = ours["kept_relevant"] - theirs["kept_relevant"]
        saves = theirs["candidates"] - ours["candidates"]
        return ours["found"] > 0 and gains >= 0 and saves >= 0 and (gains > 0 or saves > 0)

    def to_json(self) -> dict[str, Json]:
        """Return the documented JSON form."""
        return {**asdict(self), "is_better": self.is_better}


def figures(point: Point) -> dict[str, float]:
    """Return what a measurement keeps of a point."""
    return {name: float(getattr(point, name)) for name in _FIGURES}


def write_measurement(models_dir: Path, found: GateMeasurement) -> Path:
    """Keep a measurement beside the models, in place of an earlier one of the same weights."""
    path = make_private_dir(models_dir / FOLDER) / f"{found.weights}.json"
    replace_text(path, json.dumps(asdict(found), indent=1, sort_keys=True) + "\n")
    return path


def read_measurement(models_dir: Path, weights: str) -> GateMeasurement | None:
    """Return the measurement of some weights; None if there is none, or a damaged one."""
    found = sidecar.read(models_dir / FOLDER / f"{weights}.json", GateMeasurement)
    if found is None or found.weights != weights:
        return None
    return found if set(_FIGURES) <= found.nli.keys() & found.similarity.keys() else None
