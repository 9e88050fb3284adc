"""File names of any bytes as text and back: injective, and a valid name is its own text.

A byte that is no UTF-8 becomes ``%80`` … ``%FF``. A ``%`` that would read as such an escape (or as
``%25``) becomes ``%25``; every other ``%`` stays. So two files never share a path in the index.
"""

from __future__ import annotations

import os
import re

_AMBIGUOUS = re.compile(r"%(?=25|[89A-F][0-9A-F])")
_ESCAPED = re.compile(r"%(25|[89A-F][0-9A-F])")


def encode_name(name: str) -> str:
    """Return the text of a file name as `os.scandir` gives it (undecodable bytes as surrogates)."""
    safe = _AMBIGUOUS.sub("%25", name)
    return "".join(
        f"%{ord(char) - 0xDC00:02X}" if "\udc80" <= char <= "\udcff" else char for char in safe
    )


def decode_name(path: str) -> str:
    """Return the file-system form of a path made of encoded names; inverse of `encode_name`."""

    def restore(match: re.Match[str]) -> str:
        value = int(match[1], 16)
        return "%" if value == 0x25 else os.fsdecode(bytes([value]))

    return _ESCAPED.sub(restore, path)
