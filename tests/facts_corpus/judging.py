"""Labelled turns, what is written of them, and how that compares: precision, recall, and harm."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ragstream_core.conversations.facts.candidate import (
    Candidate,
    Limits,
    TurnText,
    objection,
    repetition,
)
from ragstream_core.conversations.facts.rules import candidates
from ragstream_core.wiring.remembered_facts import is_secret

HOME = Path(__file__).parent
WANTED = ("role", "preference", "company", "workflow")


class Labelled(NamedTuple):
    """One turn: its class, what the user said, ``(target, words of the fact)``, what was before."""

    kind: str
    user: str
    facts: tuple[tuple[str, frozenset[str]], ...]
    answer: str
    remembered: str


@dataclass
class Score:
    """How the facts that are written compare with those that should be."""

    turns: int = 0
    written: int = 0
    right: int = 0
    wanted: int = 0
    found: int = 0
    by_kind: Counter[str] = field(default_factory=Counter)
    wrong: list[tuple[str, str]] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)

    @property
    def precision(self) -> float:
        return self.right / self.written if self.written else 1.0

    @property
    def recall(self) -> float:
        return self.found / self.wanted if self.wanted else 1.0


def labelled(name: str) -> list[Labelled]:
    lines = (HOME / f"{name}.tsv").read_text(encoding="utf-8").splitlines()[1:]
    rows = [[cell.replace("\\n", "\n") for cell in line.split("\t")] for line in lines]
    return [
        Labelled(kind, user, tuple(_fact(f) for f in facts.split(";") if f), answer, remembered)
        for kind, user, facts, answer, remembered in rows
    ]


def _fact(text: str) -> tuple[str, frozenset[str]]:
    target, _, words = text.strip().partition(":")
    return target, frozenset(words.lower().split())


def written(turn: Labelled) -> list[Candidate]:
    """Return the facts that would be written of a turn, by the rules."""
    limits = Limits()
    said = TurnText(turn.user, (turn.answer, turn.remembered))
    there = [turn.remembered] if turn.remembered else []
    kept = []
    for fact in candidates(turn.user):
        if objection(fact, said, limits, is_secret) or repetition(fact.text, there, limits)[1]:
            continue
        there.append(fact.text)
        kept.append(fact)
    return kept


def judged(name: str) -> Score:
    score = Score()
    for turn in labelled(name):
        score.turns += 1
        score.wanted += len(turn.facts)
        open_facts = list(turn.facts)
        for fact in written(turn):
            score.written += 1
            score.by_kind[turn.kind] += 1
            hit = next((f for f in open_facts if _says(fact, f)), None)
            if hit is None:
                score.wrong.append((turn.kind, fact.text))
            else:
                open_facts.remove(hit)
                score.right += 1
                score.found += 1
        score.missed += [turn.user for _ in open_facts]
    return score


def _says(fact: Candidate, wanted: tuple[str, frozenset[str]]) -> bool:
    from ragstream_core.text.terms import terms

    target, words = wanted
    return fact.target == target and set(terms(" ".join(words))) <= set(terms(fact.text))
