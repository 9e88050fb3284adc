"""From the bytes of a text file to its text, and how that was told (R-034).

In this order: a byte order mark, strict UTF-8, UTF-16 without a mark, UTF-8 with a few broken
bytes, the encoding that the person named, else the one that fits best. What was not said by the
file or the person is *assumed*, and the note says so.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise

ASSUMED = "assumed"
"""Stands in the note of a file whose encoding nobody named."""
DECLARED = "declared fallback"
"""Stands in the note of a file whose encoding is that of the settings."""

_CONTROLS = bytes(c for c in [*range(32), 127] if c not in b"\t\n\v\f\r\x1b")
_C0_AND_C1 = re.compile("[\0-\x08\x0e-\x1a\x1c-\x1f\x7f-\x9f]")
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LONE_RETURN = re.compile("\r(?!\n)")
"""The line end of old systems; read as one of today, every offset stays."""
_CJK = re.compile("[\u3000-\u9fff\uac00-\ud7a3]")
_SCRIPTS = 12  # most stretches of 256 characters that one text takes its letters from
_NO_TEXT = frozenset({"Cc", "Cn", "Co", "Cs"})
_CANDIDATES = (
    "cp1252", "gb18030", "cp932", "euc_jp", "big5", "cp949", "koi8_r", "cp1251", "cp1250",
    "iso8859_2", "cp1253", "cp1254", "cp1255", "cp1256",
)  # fmt: skip
"""Encodings that are told apart; of equally good ones the first is taken. cp1252 is Latin-1 with
more signs, cp932 is Shift-JIS, cp949 EUC-KR, each as programs write them."""
_SAMPLE_BYTES = 32_000
_CLEAN = 0.03  # charset-normalizer's measure of mess, 0 to 1: below this all are as good
_ALIKE = 0.1  # of its measure of language, 0 to 1: within it an earlier candidate is taken
_SOUND_PER_BROKEN = 10
_LEAST = 3  # different bytes that an encoding is told by
_FEW = 10  # characters: so short a text in UTF-16 without a mark is known by its ASCII alone
_MIN_ASCII = 0.01  # of the characters of a longer one: spaces, digits, line ends
_ODD = re.compile(r"[^\W\d_][¡-©«-¹»-¿×÷ʰ-˿][^\W\d_]|[\uff61-\uff9f]")


def decode(data: bytes, *, fallback: str = "") -> tuple[str | None, str]:
    """Decode the bytes of a text file.

    Args:
        data: The whole file.
        fallback: Encoding of files that are neither marked nor UTF-8; empty: the likeliest.

    Returns:
        The text and how it was decoded, or None and the reason why it is no text.
    """
    mark, encoding = next(((m, e) for m, e in _BOMS if data.startswith(m)), (b"", "utf-8"))
    if not mark and b"\0" in data:
        text, note = _utf16(data)
        return (None, "binary: holds NUL") if text is None else (_with_line_ends(text), note)
    note = encoding
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        if mark:
            return None, f"not {encoding}: undecodable byte at offset {error.start + len(mark)}"
        text, note = _declared(data, fallback) if fallback else _likeliest(data)
        if text is None:
            return None, f"not utf-8: undecodable byte at offset {error.start}; {note}"
    plain = data if note == "utf-8" else text.encode("utf-8")
    if b"\0" in plain:
        return None, "binary: holds NUL"
    if len(plain) - len(plain.translate(None, _CONTROLS)) > len(plain) * 0.10:
        return None, "binary: more than 10 % control characters"
    return _with_line_ends(text), note


def _with_line_ends(text: str) -> str:
    return _LONE_RETURN.sub("\n", text)


def _declared(data: bytes, encoding: str) -> tuple[str | None, str]:
    text = data.decode(encoding, "replace")
    try:
        data.decode(encoding)
        replaced = 0
    except UnicodeDecodeError:
        replaced = text.count("\N{REPLACEMENT CHARACTER}")
    return text, f"{encoding} ({DECLARED}), {replaced} characters replaced"


def _utf16(data: bytes) -> tuple[str | None, str]:
    """Read UTF-16 without a mark: in one of the orders nothing but characters of a text."""
    found = []
    for encoding in ("utf-16-le", "utf-16-be"):
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        different = set(text)
        scripts = {ord(c) >> 8 for c in different if not _CJK.match(c)}
        if len(scripts) <= _SCRIPTS and all(c in "\t\n\r\f" or _is_sign(c) for c in different):
            ascii_signs = sum(map(text.count, map(chr, range(128))))
            spaced = len(text) >= _FEW and any(map(str.isspace, different))
            if ascii_signs > len(text) * (_MIN_ASCII if spaced else 0.5):
                found.append((ascii_signs, text, encoding))
    if not found:
        return None, ""
    _, text, encoding = max(found)
    return text, f"{encoding} ({ASSUMED})"


def _is_sign(character: str) -> bool:
    return unicodedata.category(character) not in _NO_TEXT


def _likeliest(data: bytes) -> tuple[str | None, str]:
    """Read bytes that are not UTF-8 and that nobody named an encoding of.

    Returns:
        The text and its note, or None and why there is no answer.
    """
    text = data.decode("utf-8", "replace")
    broken = text.count("\N{REPLACEMENT CHARACTER}")
    sound = len(text) - len(text.encode("ascii", "ignore")) - broken
    if sound >= _SOUND_PER_BROKEN * broken:
        were = "character was" if broken == 1 else "characters were"
        return text, f"utf-8 ({ASSUMED}), {broken} broken {were} replaced"
    if len(set(data)) < _LEAST:
        return None, "too little to tell its encoding"
    for encoding in _by_fitness(data):
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        if not _C0_AND_C1.search(text):
            return text, f"{encoding} ({ASSUMED})"
    return None, "no other encoding fits"


def _by_fitness(data: bytes) -> Iterator[str]:
    """Yield the encodings that fit the lines that are not ASCII, the likeliest first."""
    from charset_normalizer import from_bytes

    lines = (line for line in data.split(b"\n") if not line.isascii())
    sample, size = list[bytes](), 0
    for line in lines:
        sample.append(line[:_SAMPLE_BYTES])
        size += len(line)
        if size > _SAMPLE_BYTES:
            break
    looked_at = b"\n".join(sample)
    matches = from_bytes(looked_at, cp_isolation=list(_CANDIDATES), enable_fallback=False)
    ranked = [
        (_mess(match.chaos, str(match)), -match.coherence, name)
        for match in matches
        for name in match.could_be_from_charset
        if name in _CANDIDATES
    ]
    best = min(ranked, default=(0.0, 0.0, ""))
    ranked.sort(key=lambda row: (row[0], row[1] > best[1] + _ALIKE, _CANDIDATES.index(row[2])))
    yield from (name for _, _, name in ranked)


def _mess(chaos: float, text: str) -> float:
    """Return how little a text looks like one, from 0: words hold no signs, change case once.

    Args:
        chaos: The measure of charset-normalizer.
        text: A sample, decoded.
    """
    odd = len(_ODD.findall(text))
    odd += sum(a.islower() and b.isupper() for a, b in pairwise(text))
    return (chaos if chaos > _CLEAN else 0.0) + odd / max(1, len(text))
