"""Constants that passages use by name and another passage defines: MAX_SIZE, and MAX_SIZE = 16.

A question about a value finds the places that use it, and the line that sets it says little else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragstream_core.agents.context.passage_selection import stemmed_terms
from ragstream_core.records import Chunk

# So many stems a constant's name shares with the question at least.
SHARED = 2
MOST = 2
_CONSTANT = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")
_BEFORE = "export|pub|public|private|static|final|const|let|var|val"
_SETS = rf"^[ \t]*(?:(?:{_BEFORE})[ \t]+){{0,4}}(?:[\w<>\[\]]+[ \t]+)?"


def is_defined(name: str, text: str) -> bool:
    """Return whether a text sets a constant at the beginning of a line.

    Args:
        name: Its name.
        text: Source code.
    """
    form = rf"{_SETS}{re.escape(name)}[ \t]*(?::(?!=)[^=\n]{{1,80}})?:?=(?!=)[ \t]*\S"
    return re.search(form, text, re.MULTILINE) is not None or (
        re.search(rf"^[ \t]*#define[ \t]+{re.escape(name)}[ \t]+\S", text, re.MULTILINE) is not None
    )


def constants_of(question: str, chunks: Sequence[Chunk]) -> dict[str, str]:
    """Return the constants that passages use, whose names share words with a question.

    Args:
        question: What is asked.
        chunks: The passages, best first.

    Returns:
        Name → id of the first passage that uses it; at most two, the nearest names first.
    """
    asked = frozenset(stemmed_terms(question))
    used: dict[str, str] = {}
    for chunk in chunks:
        for name in _CONSTANT.findall(chunk.snippet):
            used.setdefault(name, chunk.id)
    shared = {name: _shared(name, asked) for name in used}
    near = sorted((n for n in used if shared[n] >= SHARED), key=lambda n: -shared[n])
    return {name: used[name] for name in near[:MOST]}


def _shared(name: str, asked: frozenset[str]) -> int:
    parts = (stemmed_terms(part.lower()) for part in name.split("_"))
    return len(asked.intersection(stem for part in parts for stem in part))


def with_definitions(
    question: str, kept: Sequence[Chunk], chunks: Sequence[Chunk]
) -> tuple[list[Chunk], dict[str, str]]:
    """Put what defines a constant behind the first kept passage that uses it.

    Args:
        question: What is asked.
        kept: What is to be shown, in rank order.
        chunks: All passages that were found, best first.

    Returns:
        What is to be shown; id of a passage that defines a constant → the constant.
    """
    result, beside = list(kept), dict[str, str]()
    for name, user in constants_of(question, kept).items():
        setting = next((chunk for chunk in chunks if is_defined(name, chunk.snippet)), None)
        if setting is None or setting.id == user:
            continue
        at = next(i for i, chunk in enumerate(result) if chunk.id == user)
        if setting.id not in {chunk.id for chunk in result[:at]}:
            result = [chunk for chunk in result if chunk.id != setting.id]
            at = next(i for i, chunk in enumerate(result) if chunk.id == user)
            result.insert(at + 1, setting)
        beside.setdefault(setting.id, name)
    return result, beside
