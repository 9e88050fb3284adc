"""From the bytes of a text file to its text, and how that was told (R-034).

In this order: a byte order mark, strict UTF-8, UTF-16 without a mark, UTF-8 with a few broken
bytes, the encoding that the person named, else the one that fits best; where only some lines are
not UTF-8, for those alone. What was not said by the file or the person is *assumed*, and the note
says so.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise

# Stands in the note of a file whose encoding nobody named.
ASSUMED = "assumed"
# Stands in the note of a file whose encoding is that of the settings.
DECLARED = "declared fallback"

_CONTROLS = bytes(c for c in [*range(32), 127] if c not in b"\t\n\v\f\r\x1b")
_C0_AND_C1 = re.compile("[\0-\x08\x0e-\x1a\x1c-\x1f\x7f-\x9f]")
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

# The line end of old systems; read as one of today, every offset stays.
_LONE_RETURN = re.compile("\r(?!\n)")
_CJK = re.compile("[\u3000-\u9fff\uac00-\ud7a3]")
_SCRIPTS = 12  # most stretches of 256 characters that one text takes its letters from
_NO_TEXT = frozenset({"Cc", "Cn", "Co", "Cs"})

# Encodings that are told apart; of equally good ones the first is taken. cp1252 is Latin-1 with
# more signs, cp932 is Shift-JIS, cp949 EUC-KR, each as programs write them.
_CANDIDATES = (
    "cp1252", "gb18030", "cp932", "euc_jp", "big5", "cp949", "koi8_r", "cp1251", "cp1250",
    "iso8859_2", "cp1253", "cp1254", "cp1255", "cp1256",
)  # fmt: skip
_SAMPLE_BYTES = 32_000
_CLEAN = 0.03  # charset-normalizer's measure of mess, 0 to 1: below this all are as good
_ALIKE = 0.1  # of its measure of language, 0 to 1: within it an earlier candidate is taken
_SOUND_PER_BROKEN = 10
_BROKEN = "\N{REPLACEMENT CHARACTER}"
_NO_NUL = re.compile(rb"((?:[\t\n\r -~]|[\xc2-\xf4][\x80-\xbf]+){64,}(?!\0))")
_GAP = re.compile(b"\0+")
_TEXT_PER_GAP = 200  # bytes
_LEAST = 3  # different bytes that an encoding is told by
_FEW = 10  # characters: so short a text in UTF-16 without a mark is known by its ASCII alone
_MIN_ASCII = 0.01  # of the characters of a longer one: spaces, digits, line ends
_ODD = re.compile(r"[^\W\d_][¡-©«-¹»-¿×÷ʰ-˿][^\W\d_]|[\uff61-\uff9f]")


def decode(data: bytes, *, fallback: str = "") -> tuple[str | None, str]:
    """Decode the bytes of a text file."""
    if data.startswith(b"%PDF-"):
        return None, "binary: a PDF"
    mark, encoding = next(((m, e) for m, e in _BOMS if data.startswith(m)), (b"", "utf-8"))
    if b"\0" in data and encoding in ("utf-8", "utf-16-le") and (changes := _by_stretches(data)):
        return _with_line_ends(changes), f"utf-8 and utf-16-le ({ASSUMED})"
    if not mark and b"\0" in data:
        text, note = _with_nul(data)
        return (None, "binary: holds NUL") if text is None else (_with_line_ends(text), note)
    note = encoding
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        if mark:
            at = error.start + len(mark)
            text, note = _replaced(data[len(mark) :].decode(encoding, "replace"), encoding)
            return text, note or f"not {encoding}: undecodable byte at offset {at}"
        text, note = _declared(data, fallback) if fallback else _likeliest(data)
        if text is None:
            return None, f"not utf-8: undecodable byte at offset {error.start}; {note}"
    plain = data if note == "utf-8" else text.encode("utf-8")
    if b"\0" in plain:
        return None, "binary: holds NUL"
    if len(plain) - len(plain.translate(None, _CONTROLS)) > len(plain) * 0.10:
        return None, "binary: more than 10 % control characters"
    return _with_line_ends(text), note


def codec_of(name: str, otherwise: str = "") -> str:
    """Return what Python calls an encoding, or something else where it knows none of the name."""
    try:
        return codecs.lookup(name).name
    except LookupError:
        return otherwise


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


def _replaced(text: str, encoding: str) -> tuple[str | None, str]:
    """Return a text with replaced characters and its note; neither where these are many."""
    broken = text.count(_BROKEN)
    if len(text) - broken < _SOUND_PER_BROKEN * broken or not all(map(_is_text, set(text))):
        return None, ""
    were = "character was" if broken == 1 else "characters were"
    return text, f"{encoding} ({ASSUMED}), {broken} broken {were} replaced"


def _with_nul(data: bytes) -> tuple[str | None, str]:
    """Read UTF-16 without a mark, or a text with a few gaps, as a crash leaves them in a log."""
    text, note = _utf16(data)
    for cut in range(1, 4):  # bytes of a character that the end of the file cuts
        if text is None and (len(data) - cut) % 2 == 0 and data.count(b"\0") * 4 > len(data):
            text, note = _utf16(data[:-cut])
            if text is not None:
                return _replaced(text + _BROKEN, note.partition(" ")[0])
    if text is None and len(_GAP.findall(data)) * _TEXT_PER_GAP < len(data.replace(b"\0", b"")):
        try:
            return _replaced(_GAP.sub(_BROKEN.encode(), data).decode(), "utf-8")
        except UnicodeDecodeError:
            return None, ""
    return text, note


def _by_stretches(data: bytes) -> str:
    """Read a file that some programs wrote in UTF-8 and others in UTF-16; "": it is none.

    So are logs that one Windows program began and another goes on with.
    """
    parts = _NO_NUL.split(data.removeprefix(codecs.BOM_UTF16_LE))
    made = list[str]()
    for n, part in enumerate(parts):
        try:
            made.append(part.decode("utf-8" if n % 2 else "utf-16-le"))
        except UnicodeDecodeError:
            return ""
    wide = [sign for text in made[::2] for sign in text]
    is_text = all(map(_is_text, set(wide)))
    plain = sum(sign < "\x80" for sign in wide)
    is_text = is_text and plain * 2 > len(wide) >= _FEW
    return "".join(made) if len(parts) > 1 and is_text else ""


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
        if len(scripts) <= _SCRIPTS and all(map(_is_text, different)):
            ascii_signs = sum(map(text.count, map(chr, range(128))))
            spaced = len(text) >= _FEW and any(map(str.isspace, different))
            if ascii_signs > len(text) * (_MIN_ASCII if spaced else 0.5):
                found.append((ascii_signs, text, encoding))
    if not found:
        return None, ""
    _, text, encoding = max(found)
    return text, f"{encoding} ({ASSUMED})"


def _is_text(character: str) -> bool:
    return character in "\t\n\r\f\x1b" or unicodedata.category(character) not in _NO_TEXT


def _likeliest(data: bytes) -> tuple[str | None, str]:
    """Read bytes that are not UTF-8 and that nobody named an encoding of."""
    if (found := _by_lines(data)) is not None:
        return found
    text = data.decode("utf-8", "replace")
    if _sound(text) >= _SOUND_PER_BROKEN * text.count(_BROKEN):
        return _replaced(text, "utf-8")
    if len(set(data)) < _LEAST:
        return None, "too little to tell its encoding"
    for encoding in _by_fitness(data):
        if _decodes(data, encoding):
            return data.decode(encoding), f"{encoding} ({ASSUMED})"
    return None, "no other encoding fits"


def _sound(text: str) -> int:
    """Return how many characters beyond ASCII a text has that are not broken."""
    return len(text) - len(text.encode("ascii", "ignore")) - text.count(_BROKEN)


def _by_lines(data: bytes) -> tuple[str, str] | None:
    """Read a text of which some lines are UTF-8 and others are not, as of a log; None: it is none.

    Only where those others are in an encoding of one byte a character: lines in others look like
    UTF-8 now and then.
    """
    lines, foreign, sound = data.split(b"\n"), list[int](), 0
    for n, line in enumerate(lines):
        if line.isascii():
            continue
        text = line.decode("utf-8", "replace")
        if _sound(text) < text.count(_BROKEN):
            foreign.append(n)
        else:
            sound += _sound(text)
    others = b"\n".join(lines[n] for n in foreign)
    if not foreign or sound < _LEAST or len(set(others)) < _LEAST:
        return None
    encoding = next((e for e in _by_fitness(others) if _decodes(others, e)), "")
    if not encoding.startswith(("cp125", "koi8", "iso8859")):
        return None
    made = [line.decode("utf-8", "replace") for line in lines]
    for n in foreign:
        made[n] = lines[n].decode(encoding)
    return "\n".join(made), f"utf-8, some lines {encoding} ({ASSUMED})"


def _decodes(data: bytes, encoding: str) -> bool:
    try:
        return not _C0_AND_C1.search(data.decode(encoding))
    except UnicodeDecodeError:
        return False


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
    """Return how little a text looks like one, from 0: words hold no signs, change case once."""
    odd = len(_ODD.findall(text))
    odd += sum(a.islower() and b.isupper() for a, b in pairwise(text))
    return (chaos if chaos > _CLEAN else 0.0) + odd / max(1, len(text))
