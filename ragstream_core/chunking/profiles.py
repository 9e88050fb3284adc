"""How long chunks are, by name. A profile is part of the index fingerprint: a new one re-chunks."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass
from typing import Literal

from ragstream_core.errors import UnknownSetting, UsageError

RULES_VERSION = 2
"""Version of our own packing rules; raised with every change that moves a boundary."""

Unit = Literal["tokens", "characters"]
Overlap = Literal["section", "sentence", "word"]


@dataclass(frozen=True, slots=True)
class ChunkProfile:
    """The limits of a chunk.

    Attributes:
        name: Value of ``chunking.profile``.
        max_tokens: Largest size of a chunk in ``unit``, special tokens not included, ≥ 1.
        overlap_tokens: Largest part that a chunk repeats of the one before, < ``max_tokens``.
        unit: What sizes are counted in.
        overlap: ``section``: whole sentences, never across a heading; ``sentence``: whole
            sentences; ``word``: as many whole words as the limit allows.
    """

    name: str
    max_tokens: int
    overlap_tokens: int
    unit: Unit = "tokens"
    overlap: Overlap = "section"

    def __post_init__(self) -> None:
        if self.max_tokens < 1 or not 0 <= self.overlap_tokens < self.max_tokens:
            raise UsageError(
                f"chunk profile {self.name!r}: 0 <= overlap ({self.overlap_tokens}) "
                f"< maximum ({self.max_tokens}) does not hold"
            )

    @property
    def version(self) -> str:
        """What stands for this profile in the fingerprint: limits, rules, splitter's version."""
        splitter = importlib.metadata.version("semantic-text-splitter")
        limits = f"{self.max_tokens}/{self.overlap_tokens} {self.unit} {self.overlap}"
        return f"{self.name} {limits} rules-{RULES_VERSION} semantic-text-splitter-{splitter}"


PROFILES = {
    profile.name: profile
    for profile in (
        ChunkProfile("default", 250, 30),
        ChunkProfile("history_small", 200, 20, overlap="sentence"),
        ChunkProfile("recursive_1024", 1024, 200, overlap="word"),
        ChunkProfile("sentence_400", 400, 50, overlap="sentence"),
    )
}


def chunk_profile(name: str) -> ChunkProfile:
    """Return a profile by name.

    Raises:
        UnknownSetting: No such profile.
    """
    if name not in PROFILES:
        raise UnknownSetting(
            f"no chunk profile {name!r}",
            hint=f"set chunking.profile to one of {', '.join(sorted(PROFILES))}",
        )
    return PROFILES[name]
