"""The lines of files that people write, JSON a line."""

from __future__ import annotations

from pathlib import Path


def lines_of(path: Path) -> list[str]:
    """Return the lines of a file in UTF-8, without their ends; a byte order mark is passed over.

    Only line feeds and carriage returns end a line: U+2028 and its like may stand in JSON as they
    are, so `str.splitlines` would tear it.

    Raises:
        OSError: It cannot be read.
        UnicodeDecodeError: It is not UTF-8.
    """
    return path.read_text(encoding="utf-8-sig").split("\n")
