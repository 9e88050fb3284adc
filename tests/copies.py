"""Which files hold a text, for tests that search them all: compressed ones are opened."""

import gzip
from pathlib import Path


def said(path: Path) -> bytes:
    """Return the bytes of a file, decompressed where it is compressed."""
    raw = path.read_bytes()
    return gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw


def holders(root: Path, *needles: str, but=()) -> list[str]:
    """Return the files below a root, but some, that hold one of the texts in any letter case."""
    wanted, found = [needle.lower().encode() for needle in needles], []
    for path in sorted(root.rglob("*")):
        if path.is_file() and path not in but:
            raw = said(path).lower()
            if any(needle in raw for needle in wanted):
                found.append(path.relative_to(root).as_posix())
    return found
