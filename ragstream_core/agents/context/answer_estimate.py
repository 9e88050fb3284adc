"""Whether the kept passages answer a question: a chance, and *answered*, *perhaps*, *not found*.

chance = σ(subject) · σ(answer), each a sum of `answer_signs` with the weights of
``answer_weights.yaml``: one tells questions about something else apart, the other near misses.
*Not found* is what the first one says alone: a passage that is about the subject may answer. The
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
from ragstream_core.records.s_ctx import ANSWERED, NOT_FOUND, PERHAPS

TABLE = "answer_weights.yaml"

# How far the cosines of unrelated texts lie apart, measured over seven collections: the best of N
# is about √(2 ln N) times that above their mean.
SPREAD = 0.06
# Passages of the collection that the weights were fitted on most.
USUAL = 738
MOST_REASONS = 3
LEAST_PART = 0.05

# Name of a sign → what it says to a person, for an answer and against it; empty: nothing.
_TOLD = {
    "sentence": ("one sentence is near to its words", "no sentence is near to its words"),
    "sentence_words": ("most of its words in one sentence", "few of its words in one sentence"),
    "weakest_word": ("each of its words is near", "one of its words is far"),
    "product": ("one sentence is near to all its words", "no sentence is near to all its words"),
    "missing_most": ("no weighty word is far", "a weighty word is far"),
    "passage": ("one passage is near to its words", "no passage is near to its words"),
    "anywhere": ("most of its words occur", "few of its words occur"),
    "fitting_sentence": (
        "a near sentence holds an answer of that kind",
        "no near sentence holds an answer of that kind",
    ),
    "margin": ("one passage stands out", "no passage stands out"),
    "missing_name": ("", "a name does not occur"),
    "missing_number": ("", "a number does not occur"),
    "negation": ("", "only the question denies"),
    "question_negates": ("", "it denies something"),
    "cosine": ("near in meaning", "far in meaning"),
}


class Weight(NamedTuple):
    """A row of a sum: adds ``weight`` · (value − ``mean``)."""

    mean: float
    weight: float


@dataclass(frozen=True, slots=True)
class Scale:
    """How signs become a chance, and a chance a word.

    Attributes:
        sums: Each a constant and the weights by the name of the sign.
        not_found: If σ(subject) is below it, nothing was found, in [0, 1].
        perhaps: A chance below it is *perhaps*, in [0, 1].
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

    def subject(self, values: Mapping[str, float], searched: int = USUAL) -> float:
        """Return how likely the passages are about the question, in [0, 1], rounded likewise.

        Args:
            values: The signs.
            searched: How many passages they are the best of: among more, the best one comes nearer
                even to a question about something else.
        """
        best, usual = (math.sqrt(2 * math.log(max(2, n))) for n in (searched, USUAL))
        slope = self.sums[0][1].get("cosine", Weight(0.0, 0.0)).weight
        return round(_logistic(self.logits(values)[0] - slope * SPREAD * (best - usual)), DIGITS)

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
        chance: That they answer, in [0, 1].
        subject: That they are about it, in [0, 1], by how many were searched.
        signs: What it was estimated from.
        parts: Name of a sign → what it adds to the logarithm of the chance.
        limit: Where ``subject`` is below it, nothing was found.
    """

    word: str
    chance: float
    subject: float
    signs: Signs
    parts: Mapping[str, float]
    limit: float

    @property
    def reason(self) -> str:
        """The chance, and the signs that speak most for an answer and most against it."""
        ranked = sorted(self.parts.items(), key=lambda row: (-abs(row[1]), row[0]))
        told = [f"chance {self.chance:.0%}"]
        if self.word == NOT_FOUND:
            told = [f"about this: {self.subject:.0%} (limit {self.limit:.0%})"]
        for at, (label, sign) in enumerate((("for", 1.0), ("against", -1.0))):
            rows = [_TOLD[name][at] for name, value in ranked if value * sign >= LEAST_PART]
            said = ", ".join([row for row in rows if row][:MOST_REASONS])
            told += [f"{label} it: {said}"] if said else []
        return "; ".join(told)


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


def estimate(signs: Signs, scale: Scale, *, searched: int = USUAL) -> Estimate:
    """Estimate by some signs whether a question is answered.

    What is more likely never has a worse word.

    Args:
        signs: As of `signs_of`.
        scale: Of `weights_table`: for signs by token vectors, or for signs by words alone.
        searched: As of `Scale.subject`.
    """
    chance, subject = scale.chance(signs.values), scale.subject(signs.values, searched)
    word = PERHAPS if chance < scale.perhaps else ANSWERED
    word = NOT_FOUND if subject < scale.not_found else word
    return Estimate(word, chance, subject, signs, scale.parts(signs.values), scale.not_found)
