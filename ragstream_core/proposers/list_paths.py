"""Where the inverted lists of an index lie; light, so that asking costs nothing."""

from __future__ import annotations

from pathlib import Path

# Beside the other stores that are made from an index: erasing a file takes them all away.
FOLDER = Path("stores", "ivf")
# Begins the names of lists whose index was replaced: their training holds, their places do not.
OLDER = "lists-older-"
MOVED = "the vectors were moved since they were made"
NONE = "there were none"


def lists_path(index_dir: Path, digest: str) -> Path:
    """Return the file of the lists of a generation."""
    return index_dir / FOLDER / f"lists-{digest[:16]}.ivf"
