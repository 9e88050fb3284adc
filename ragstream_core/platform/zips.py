"""How much of a ZIP is plausible, and what reading one raises."""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib

# What unpacks to more than so many times its size is no text; less than `FLOOR_BYTES` may.
MAX_RATIO = 200
FLOOR_BYTES = 1 << 20
MOST_MEMBERS = 100_000

# What opening and unpacking raise.
UNREADABLE = (
    OSError, zipfile.BadZipFile, EOFError, RuntimeError, NotImplementedError, zlib.error,
    lzma.LZMAError, ValueError, OverflowError, struct.error,
)  # fmt: skip
