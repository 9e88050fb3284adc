"""Stage JSON as it lies on the disk: compressed, since a run keeps its prompt once a stage."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SUFFIX = ".json.gz"
_LEVEL = 6


def packed(value: Mapping[str, Any], *, level: int = _LEVEL) -> bytes:
    """Return the bytes of a file; equal values give equal bytes.

    Args:
        value: A JSON object.
        level: Of the compression, 1 (fast) to 9 (small).
    """
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return gzip.compress(text, level, mtime=0)


def text_of(path: Path) -> bytes:
    """Return what a file says, as JSON in UTF-8.

    Raises:
        OSError: It is gone, cannot be read, or is no compressed file.
    """
    try:
        return gzip.decompress(path.read_bytes())
    except (EOFError, zlib.error) as error:
        raise OSError(f"{path.name} is damaged: {error}") from None


def unpacked(path: Path) -> dict[str, Any]:
    """Return the object in a file.

    Raises:
        OSError: As `text_of`.
        ValueError: It holds no JSON object.
    """
    value = json.loads(text_of(path))
    if not isinstance(value, dict):
        raise ValueError(f"{path.name} holds no object")
    return value
