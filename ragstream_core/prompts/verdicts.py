"""Why a chunk or a file is not in a prompt: where it ended, by which rule, and what it lacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ragstream_core.records.json_form import json_of

if TYPE_CHECKING:
    from ragstream_core.records.identity import Json
    from ragstream_core.retrieval.list_ranks import ListRank

SCORE, COSINE, SHARE, TOKENS = "score", "cosine", "share of the best candidate", "tokens"
EVIDENCE, PLACES = "share of the evidence", "places"


class Lack(NamedTuple):
    """What a candidate lacks."""

    distance: float  # how much, above 0
    # of what: `SCORE`, `COSINE`, `SHARE`, `TOKENS`, `EVIDENCE`, `PLACES`, ``entailment`` or
    # ``relevance``
    measure: str
    # ``key=value`` with which the stage lets it through; empty: no single one does
    setting: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Where a chunk, or a file without chunks, ended, and why."""

    chunk_id: str  # the chunk; "" for a whole file
    project: str
    path: str  # its file
    kept: bool  # whether it is in the prompt
    stage: str  # that decided last
    rule: str  # that decided there
    reason: str  # one sentence for people
    # what it lacks to go on: `Lack`, or of a signal's list; None where no number decides
    lack: Lack | None = None
    places: Sequence[ListRank] = ()  # in the lists of retrieval, if it was searched for

    def to_json(self) -> dict[str, Json]:
        """Return it as `ragstream why-not --json` writes it."""
        return {
            "chunk_id": self.chunk_id,
            "project": self.project,
            "path": self.path,
            "kept": self.kept,
            "stage": self.stage,
            "rule": self.rule,
            "reason": self.reason,
            "distance": self.lack.distance if self.lack else None,
            "measure": self.lack.measure if self.lack else "",
            "setting": self.lack.setting if self.lack else "",
            "places": [{**json_of(place), "distance": place.distance} for place in self.places],
        }


@dataclass(frozen=True, slots=True)
class WhyNot:
    """Why a chunk, or every chunk of a file, is not in a prompt."""

    prompt_key: str  # of the prompt
    target: str  # as it was named
    note: str  # what could not be recomputed, or ""
    pieces: Sequence[str]  # the texts of the query pieces, q1 first
    verdicts: Sequence[Verdict]  # one a chunk, or one of the whole file
