"""What a file says, for tests that search every file for a text: compressed ones are opened."""

import gzip
from pathlib import Path


def said(path: Path) -> bytes:
    """Return the bytes of a file, decompressed where it is compressed."""
    raw = path.read_bytes()
    return gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw
