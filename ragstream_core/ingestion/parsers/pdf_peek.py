"""How much text a PDF seems to hold, from its bytes alone; for estimates, stdlib only.

Nothing is interpreted: streams are unpacked up to a limit and the strings in those that show text
are measured. What is packed in another way counts as nothing.
"""

from __future__ import annotations

import base64
import re
import zlib

STREAM_BYTES = 500_000
"""Most that is unpacked of one stream."""

_STREAM = re.compile(rb"stream\r?\n")
_SHOWN = re.compile(rb"\(((?:[^()\\]|\\.)*)\)|<([0-9A-Fa-f]+)>")
_HEX_DIGITS = 4  # a sign of a font with more than 256 of them


def shown_characters(data: bytes) -> int:
    """Return about how many characters the text operators of a PDF show.

    Args:
        data: The file, or its beginning.
    """
    return sum(_shown(_unpacked(data, at.end())) for at in _STREAM.finditer(data))


def _unpacked(data: bytes, start: int) -> bytes:
    packed = data[start : start + STREAM_BYTES]
    end = packed.find(b"endstream")
    packed = packed if end < 0 else packed[:end]
    if packed[:1] in (b"G", b"E") and b"~>" in packed:  # base 85 around what is packed
        try:
            packed = base64.a85decode(packed.partition(b"~>")[0])
        except ValueError:
            return b""
    try:
        return zlib.decompressobj().decompress(packed, STREAM_BYTES)
    except zlib.error:
        return packed if b"BT" in packed[:2000] else b""


def _shown(content: bytes) -> int:
    if b"BT" not in content or b"ET" not in content:
        return 0
    total = 0
    for plain, digits in _SHOWN.findall(content):
        total += len(plain) if plain else len(digits) // _HEX_DIGITS
    return total
