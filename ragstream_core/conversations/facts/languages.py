"""What a user says of themselves in German, French or Spanish (R-254); the words are data.

A sentence is no plain statement there for the same reasons as in English. A fact is the sentence
itself, quoted: a verb that a rule puts into another person would often be wrong.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from ragstream_core.text.terms import terms

TABLE = "languages.yaml"
_ENGLISH = re.compile(r"\b(?:I|the|is|are|[Ww]e|[Mm]y|[Oo]ur)\b")
_BEFORE_COLON = re.compile(r"(?:^|[\n.!?]\s*)([^\n.!?:]*):\s+[\"“„«']?\s?")


@dataclass(frozen=True, slots=True)
class Language:
    """The patterns of one language."""

    speaks: re.Pattern[str]  # somebody speaks of themselves, or asks for something for good
    we: re.Pattern[str]  # somebody speaks for more than one
    leads: re.Pattern[str]  # openings that are passed over
    # (``role``, ``preference`` or ``company``, target, how the sentence begins)
    statements: tuple[tuple[str, str, re.Pattern[str]], ...]
    recurring: re.Pattern[str]  # what is done again and again
    doubts: re.Pattern[str]  # the sentence is no plain statement of the user, or not for good
    other_text: re.Pattern[str]  # the turn brings another text along, or plays
    secrets: re.Pattern[str]  # talk of one
    function: frozenset[str]  # terms that say nothing

    def statement(self, sentence: str) -> tuple[int, str, str] | None:
        """Return where a statement begins in a sentence, its kind and its target, if it is one."""
        lead = self.leads.match(sentence)
        start = lead.end() if lead else 0
        if not self.speaks.search(sentence, start):
            return None
        if self.recurring.search(sentence, start):
            return start, "workflow", "company" if self.we.search(sentence, start) else "user"
        for kind, target, begins in self.statements:
            if begins.match(sentence, start):
                return start, kind, target
        return None

    def brings_another_text(self, turn: str) -> bool:
        """Return whether a turn quotes or orders another text, or plays."""
        if self.other_text.search(turn):
            return True
        return any(
            self.speaks.match(turn, colon.end()) and not self.leads.fullmatch(f"{colon[1]}: ")
            for colon in _BEFORE_COLON.finditer(turn)
        )


def spoken(text: str) -> Language | None:
    """Return the language that somebody speaks of themselves in, if it is none but English."""
    if _ENGLISH.search(text):
        return None
    said = set(terms(text))
    counts = {
        name: (len(known.speaks.findall(text)), len(said & known.function))
        for name, known in languages().items()
    }
    best = max(counts, key=lambda name: counts[name])
    return languages()[best] if counts[best][0] else None


@functools.lru_cache(maxsize=1)
def languages() -> Mapping[str, Language]:
    """Return the languages of the table by their codes."""
    import yaml

    text = (resources.files(__package__) / TABLE).read_text(encoding="utf-8")
    return {name: _language(row) for name, row in yaml.safe_load(text).items()}


def _language(row: Mapping[str, Any]) -> Language:
    return Language(
        speaks=_words(row["speaks"]),
        we=_words(row["we"]),
        leads=re.compile(rf"(?:(?:{'|'.join(row['leads'])})\s*[,:;!.–—-]*\s+)+", re.IGNORECASE),
        statements=tuple(
            (kind, target, re.compile(begins, re.IGNORECASE))
            for kind, target, begins in row["statements"]
        ),
        recurring=_words(row["recurring"]),
        doubts=_words(row["doubts"]),
        other_text=_words(row["other_text"]),
        secrets=_words(row["secrets"]),
        function=frozenset(terms(row["function"])),
    )


def _words(forms: Sequence[str]) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{'|'.join(forms)})(?!\w)", re.IGNORECASE)
