"""How bytes become text (R-034): a byte order mark decides, else strict UTF-8, else a fallback.

The fallback is what the user declared, never a guess; without one the file is skipped.
"""

from __future__ import annotations

import codecs

_CONTROLS = bytes(c for c in [*range(32), 127] if c not in b"\t\n\v\f\r\x1b")
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def decode(data: bytes, *, fallback: str = "") -> tuple[str | None, str]:
    """Decode the bytes of a text file.

    Args:
        data: The whole file.
        fallback: Encoding of files that are neither marked nor UTF-8; empty: there is none.

    Returns:
        The text and how it was decoded, or None and the reason why it is no text.
    """
    mark, encoding = next(((m, e) for m, e in _BOMS if data.startswith(m)), (b"", "utf-8"))
    if not mark and b"\0" in data:
        return None, "binary: holds NUL"
    note = encoding
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        if mark or not fallback:
            where = error.start + len(mark)
            return None, f"not {encoding}: undecodable byte at offset {where}"
        text, note = _declared(data, fallback)
    plain = data if note == "utf-8" else text.encode("utf-8")
    if b"\0" in plain:
        return None, "binary: holds NUL"
    if len(plain) - len(plain.translate(None, _CONTROLS)) > len(plain) * 0.10:
        return None, "binary: more than 10 % control characters"
    return text, note


def _declared(data: bytes, encoding: str) -> tuple[str, str]:
    text = data.decode(encoding, "replace")
    try:
        data.decode(encoding)
        replaced = 0
    except UnicodeDecodeError:
        replaced = text.count("\N{REPLACEMENT CHARACTER}")
    return text, f"{encoding} (declared fallback), {replaced} characters replaced"
