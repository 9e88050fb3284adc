"""How long chunks are, by name. A profile is part of the index fingerprint: a new one re-chunks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from ragstream_core.errors import UnknownSetting, UsageError

# Version of our own packing rules; raised with every change that moves a boundary.
RULES_VERSION = 6

# Range of a size that is set; smaller chunks say nothing, larger ones cite nothing.
MIN_SIZE, MAX_SIZE = 16, 100_000

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
    def limits(self) -> str:
        """Size, overlap, unit and kind of overlap, as they stand in fingerprints."""
        return f"{self.max_tokens}/{self.overlap_tokens} {self.unit} {self.overlap}"

    @property
    def version(self) -> str:
        """What stands for this profile in the fingerprint: limits, rules, splitter's version."""
        import importlib.metadata  # 20 ms that a no-op ingest does not have

        splitter = importlib.metadata.version("semantic-text-splitter")
        return f"{self.name} {self.limits} rules-{RULES_VERSION} semantic-text-splitter-{splitter}"


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


def adjusted(
    profile: ChunkProfile, *, size: int = 0, overlap: int = -1, unit: Unit | Literal[""] = ""
) -> ChunkProfile:
    """Return a profile with other limits.

    Args:
        profile: What is not set comes from here.
        size: Largest size of a chunk, 16 to 100,000; 0: the profile's.
        overlap: Largest overlap, below the size; -1: the profile's share of the size.
        unit: What both are counted in; empty: the profile's.

    Raises:
        UnknownSetting: The values do not fit together; the message names the settings.
    """
    given = f"chunking.size {size}"
    if size and not MIN_SIZE <= size <= MAX_SIZE:
        raise UnknownSetting(
            f"{given} is outside of {MIN_SIZE} to {MAX_SIZE}", hint="0 uses the profile's size"
        )
    if unit and unit != profile.unit and not size:
        raise UnknownSetting(
            f"chunking.unit is {unit}, but chunking.size is not set: the {profile.max_tokens} of "
            f"chunking.profile {profile.name} are {profile.unit}",
            hint="set chunking.size too",
        )
    limit = size or profile.max_tokens
    repeated = limit * profile.overlap_tokens // profile.max_tokens if overlap < 0 else overlap
    if repeated >= limit:
        raise UnknownSetting(
            f"chunking.overlap {repeated} is not below the size of a chunk, {limit}",
            hint="set chunking.overlap lower or chunking.size higher",
        )
    return replace(profile, max_tokens=limit, overlap_tokens=repeated, unit=unit or profile.unit)
