"""Whether the kept passages answer a question: a chance, and *answered*, *perhaps*, *not found*.

chance = σ(subject) · σ(answer), each a sum of `answer_signs` with the weights of
``answer_weights.yaml``: one tells questions about something else apart, the other near misses. The
table has weights for signs by token vectors of the model that it names, and for signs by words.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import NamedTuple

from ragstream_core.agents.context.answer_signs import DIGITS, Signs
from ragstream_core.records.identity import digest_of

ANSWERED, PERHAPS, NOT_FOUND = "answered", "perhaps", "not found"
TABLE = "answer_weights.yaml"
MOST_REASONS = 3
LEAST_PART = 0.05
_TOLD = {
    "sentence": "its words near one sentence",
    "sentence_words": "its words in one sentence",
    "weakest_word": "its least near word",
    "product": "all of its words near one sentence",
    "missing_most": "weight of its least near word",
    "passage": "its words near one passage",
    "anywhere": "its words in any passage",
    "fitting_sentence": "a sentence with an answer of that kind",
    "margin": "lead over other passages",
    "missing_name": "names not found",
    "missing_number": "numbers not found",
    "negation": "denied by the question alone",
    "question_negates": "denial in the question",
    "cosine": "nearness of meaning",
}
"""Name of a sign → what it says to a person."""


class Weight(NamedTuple):
    """A row of a sum: adds ``weight`` · (value − ``mean``)."""

    mean: float
    weight: float


@dataclass(frozen=True, slots=True)
class Scale:
    """How signs become a chance, and a chance a word.

    Attributes:
        sums: Each a constant and the weights by the name of the sign.
        not_found: A chance below it is *not found*, in [0, 1].
        perhaps: A chance below it is *perhaps*, in [``not_found``, 1].
    """

    sums: tuple[tuple[float, Mapping[str, Weight]], ...]
    not_found: float
    perhaps: float

    def logits(self, values: Mapping[str, float]) -> list[float]:
        """Return the value of each sum."""
        return [
            constant + math.fsum(w.weight * (values[name] - w.mean) for name, w in rows.items())
            for constant, rows in self.sums
        ]

    def chance(self, values: Mapping[str, float]) -> float:
        """Return the product of the sums' logistic values, in [0, 1], rounded to 6 digits."""
        return round(math.prod(_logistic(x) for x in self.logits(values)), DIGITS)

    def word(self, chance: float) -> str:
        """Return the word for a chance; a larger one never has a worse word."""
        if chance < self.not_found:
            return NOT_FOUND
        return PERHAPS if chance < self.perhaps else ANSWERED

    def parts(self, values: Mapping[str, float]) -> dict[str, float]:
        """Return how much each sign moves the logarithm of the chance, against its mean."""
        found = dict.fromkeys(values, 0.0)
        for logit, (_, rows) in zip(self.logits(values), self.sums, strict=True):
            slope = 1.0 - _logistic(logit)
            for name, row in rows.items():
                found[name] += slope * row.weight * (values[name] - row.mean)
        return {name: round(value, DIGITS) for name, value in found.items()}


@dataclass(frozen=True, slots=True)
class Table:
    """The weights that come with the program.

    Attributes:
        embedders: ``embed_fp`` of those whose token vectors the first scale is for: one model under
            runtimes that were judged, or differ by less than rounding.
        meaning: For signs by token vectors.
        words: For signs by words alone.
        fingerprint: Digest of both.
    """

    embedders: frozenset[str]
    meaning: Scale
    words: Scale
    fingerprint: str


class Estimate(NamedTuple):
    """What is estimated of one question.

    Attributes:
        word: `ANSWERED`, `PERHAPS` or `NOT_FOUND`.
        chance: In [0, 1].
        signs: What it was estimated from.
        parts: Name of a sign → what it adds to the logarithm of the chance.
    """

    word: str
    chance: float
    signs: Signs
    parts: Mapping[str, float]

    @property
    def reason(self) -> str:
        """The signs that speak most for an answer, and those that speak most against it."""
        ranked = sorted(self.parts.items(), key=lambda row: (-abs(row[1]), row[0]))
        told = []
        for label, sign in (("for it", 1.0), ("against it", -1.0)):
            rows = [name for name, value in ranked if value * sign >= LEAST_PART]
            rows = rows[:MOST_REASONS]
            said = ", ".join(f"{_TOLD[n]} {self.signs.values[n]:.2f}" for n in rows)
            told += [f"{label}: {said}"] if said else []
        return f"chance {self.chance:.2f}; {'; '.join(told)}"


def _logistic(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x)) if x >= 0 else math.exp(x) / (1.0 + math.exp(x))


@functools.cache
def weights_table() -> Table:
    """Return the weights that come with the program."""
    import yaml

    text = resources.files(__package__).joinpath(TABLE).read_text(encoding="utf-8")
    data = yaml.safe_load(text)
    meaning, words = scale_of(data["meaning"]), scale_of(data["words"])
    fingerprint = digest_of({name: data[name] for name in ("embedders", "meaning", "words")})
    return Table(frozenset(data["embedders"]), meaning, words, fingerprint)


def scale_of(data: Mapping[str, Mapping[str, Sequence[float]]]) -> Scale:
    """Return a scale by its part of the table: name → [mean, weight], [constant] or [limit]."""
    sums = []
    for name in ("subject", "answer"):
        rows = {sign: Weight(*row) for sign, row in data[name].items() if sign != "constant"}
        sums.append((float(data[name]["constant"][0]), rows))
    limits = data["limits"]
    return Scale(tuple(sums), limits["not found"][0], limits["perhaps"][0])


def estimate(signs: Signs, scale: Scale) -> Estimate:
    """Estimate by some signs whether a question is answered.

    Args:
        signs: As of `signs_of`.
        scale: Of `weights_table`: for signs by token vectors, or for signs by words alone.
    """
    chance = scale.chance(signs.values)
    return Estimate(scale.word(chance), chance, signs, scale.parts(signs.values))
