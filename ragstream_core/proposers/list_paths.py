"""Where the inverted lists of an index lie; light, so that asking costs nothing."""

from __future__ import annotations

import contextlib
from pathlib import Path

from ragstream_core.platform.files import make_private_dir

# Beside the other stores that are made from an index: erasing a file takes them all away.
LISTS = Path("stores", "ivf")
# Begins the names of lists whose index was replaced: their training holds, their places do not.
OLDER = "lists-older-"
MOVED = "the vectors were moved since they were made"
NONE = "there were none"


def lists_path(index_dir: Path, digest: str) -> Path:
    """Return the file of the lists of a generation."""
    return index_dir / LISTS / f"lists-{digest[:16]}.ivf"


def keep_training(old: Path, index_dir: Path) -> None:
    """Move lists from an index to the one that took its place; what cannot be moved is lost."""
    for path in (old / LISTS).glob("lists-*.ivf"):
        name = OLDER + path.name.removeprefix(OLDER).removeprefix("lists-")
        with contextlib.suppress(OSError):
            make_private_dir(index_dir / LISTS)
            path.rename(index_dir / LISTS / name)
