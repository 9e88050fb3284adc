"""Where the inverted lists of an index lie; imports nothing, so that asking costs nothing."""

from __future__ import annotations

from pathlib import Path

LISTS = Path("stores", "ivf")
"""Beside the other stores that are made from an index: erasing a file takes them all away."""
MOVED = "the vectors were moved since they were made"


def lists_path(index_dir: Path, digest: str) -> Path:
    """Return the file of the lists of a generation.

    Args:
        index_dir: The project's folder below the index root.
        digest: Of the generation, 64 hex digits.
    """
    return index_dir / LISTS / f"lists-{digest[:16]}.ivf"
