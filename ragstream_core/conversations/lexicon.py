"""Acronyms and synonyms: what else a question may have been called in a conversation (R-237).

A lexicon is a YAML list of lists; each inner list says one thing in several ways. One pass over
the words of a text finds the longest entry at each word.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from ragstream_core.errors import UnknownSetting
from ragstream_core.text.terms import is_stop_word, stems, words

MAX_BYTES = 1_000_000
MAX_ENTRIES = 20_000

# Words of one entry.
MAX_WORDS = 8
_HINT = "compare with the one that ships: ragstream_core/conversations/lexicon.yaml"

# Stemmed words: ``large language models`` is found by ``large language model``.
Phrase = tuple[str, ...]
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Groups of entries that mean the same."""

    groups: tuple[tuple[str, ...], ...]  # the entries of each group, as they were written
    # first word → (its phrases, longest first, each with its group and entry)
    by_word: dict[str, tuple[tuple[Phrase, int, str], ...]]

    def expand(self, text: str) -> str:
        """Return what else the text could have said, one entry a line; "" where nothing."""
        read, exact = stems(text), frozenset(_WORD.findall(text))
        found: dict[int, set[Phrase]] = {}
        at = 0
        while at < len(read):
            step = 1
            for phrase, group, entry in self.by_word.get(read[at], ()):
                if tuple(read[at : at + len(phrase)]) == phrase and _is_meant(entry, exact):
                    found.setdefault(group, set()).add(phrase)
                    step = len(phrase)
                    break
            at += step
        return "\n".join(
            entry
            for group in sorted(found)
            for entry in self.groups[group]
            if tuple(stems(entry)) not in found[group]
        )


def _is_meant(entry: str, exact: frozenset[str]) -> bool:
    """An acronym that is a word of its own (``IT``, ``OR``) counts in capitals only."""
    return not is_stop_word(entry.lower()) or entry in exact


def parse_lexicon(text: str, *, where: str = "the lexicon") -> list[tuple[str, ...]]:
    """Read a lexicon."""
    import yaml

    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise UnknownSetting(f"{where} is larger than {MAX_BYTES} bytes", hint=_HINT)
    try:
        data: Any = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        detail = " ".join(str(error).split())
        raise UnknownSetting(f"{where} is not YAML: {detail}", hint=_HINT) from None
    if data is None:
        return []
    if not isinstance(data, list):
        raise UnknownSetting(f"{where} must be a list of lists", hint=_HINT)
    groups: list[tuple[str, ...]] = []
    count = 0
    for number, group in enumerate(data, 1):
        if not isinstance(group, list) or len(group) < 2:
            raise UnknownSetting(f"{where}: group {number} is not a list of 2 or more", hint=_HINT)
        count += len(group)  # before it is looked at: aliases can name one list many times
        if count > MAX_ENTRIES:
            raise UnknownSetting(f"{where} has more than {MAX_ENTRIES} entries", hint=_HINT)
        groups.append(tuple(_entry(entry, number, where) for entry in group))
    return groups


def _entry(entry: object, number: int, where: str) -> str:
    if not isinstance(entry, str) or not 1 <= len(words(entry)) <= MAX_WORDS:
        raise UnknownSetting(
            f"{where}: group {number}: {str(entry)[:60]!r} is not a text of 1 to {MAX_WORDS} words",
            hint=f"put it in quotes; {_HINT}",
        )
    return entry


def make_lexicon(groups: Sequence[tuple[str, ...]]) -> Lexicon:
    """Arrange groups so that a text can be expanded; groups that share an entry stay apart."""
    found: dict[str, list[tuple[Phrase, int, str]]] = {}
    for number, group in enumerate(groups):
        for entry in group:
            phrase = tuple(stems(entry))
            found.setdefault(phrase[0], []).append((phrase, number, entry))
    by_word = {
        first: tuple(sorted(phrases, key=lambda p: (-len(p[0]), p[1], p[2])))
        for first, phrases in found.items()
    }
    return Lexicon(tuple(groups), by_word)


def default_lexicon_text() -> str:
    """Return the YAML text of the lexicon that ships with the package."""
    return resources.files(__package__).joinpath("lexicon.yaml").read_text(encoding="utf-8")


def read_lexicon_text(path: Path) -> str:
    """Return the YAML text of a person's lexicon."""
    try:
        with path.open("rb") as handle:
            data = handle.read(MAX_BYTES + 1)
        text = data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UnknownSetting(f"{path} cannot be read: {error}", hint="history.lexicon") from None
    parse_lexicon(text, where=str(path))
    return text


@functools.lru_cache(maxsize=8)
def lexicon_of(*texts: str) -> Lexicon:
    """Return the lexicon of several YAML texts together, e.g. the built-in one and a person's."""
    return make_lexicon([group for text in texts for group in parse_lexicon(text)])


def expand(text: str, *lexicons: str) -> str:
    """Return what else a question could have said; "" where nothing."""
    return lexicon_of(*(lexicons or (default_lexicon_text(),))).expand(text)
