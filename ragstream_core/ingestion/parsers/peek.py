"""How much text a PDF or a page of HTML seems to hold, from its bytes alone; stdlib only.

For estimates: nothing is interpreted. Of a PDF some pages are unpacked, up to a limit, and the
strings in them that show text are measured. The fonts' maps to Unicode tell which codes are
characters of Chinese, Japanese or Korean, each a token of its own. What is packed in another way
counts as nothing. HTML takes one pass over the tags, linear in any bytes (`html.parser` is not, if
tags are broken): text, and the targets of links and pictures, which its Markdown has as well.
"""

from __future__ import annotations

import base64
import codecs
import html
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

_STREAMS, _MAPS, _PAGES = 4_000, 16, 24  # looked at in one file
_HEAD_BYTES, _MAP_BYTES, _PAGE_BYTES = 4_000, 64_000, 64_000  # unpacked of each
_LETTERS_PER_TOKEN = 2.9  # spaces not counted: many producers move instead of showing one
_CODES = 1 << 15  # most that a map names

_STREAM = re.compile(rb"stream\r?\n")
_TEXT = re.compile(rb"\bBT\s")
# an escaped bracket begins no string, not even where the one that it stands in has no end
_SHOWN = re.compile(rb"(?<!\\)\(((?:[^()\\]|\\.)*+)\)|<([0-9A-Fa-f]+)>", re.DOTALL)
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|.)", re.DOTALL)
_BINARY = re.compile(rb"[^ -~]")
_UNICODE = re.compile(rb"/Uni(?:GB|CNS|JIS|KS)-U")  # codes that are Unicode themselves
_ONE_BYTE = re.compile(rb"begincodespacerange\s*<..>")
_CODE = rb"<([0-9A-Fa-f]{2,4})>\s*"
_CHAR = re.compile(_CODE + rb"()<([0-9A-Fa-f]{4})")
_RANGE = re.compile(_CODE + _CODE + rb"\[?\s*<([0-9A-Fa-f]{4})")
_WIDE = 0x2E80  # from here on a character is a token


def pdf_tokens(data: bytes) -> int:
    """Return about how many tokens the text operators of a PDF show."""
    heads = [
        (at.end(), _unpacked(data, at.end(), _HEAD_BYTES))
        for at in islice(_STREAM.finditer(data), _STREAMS)
    ]
    maps = [start for start, head in heads if b"begincmap" in head][:_MAPS]
    pages = [start for start, head in heads if _TEXT.search(head)]
    if not pages:
        return 0
    unicode = _UNICODE.search(data) is not None
    fonts = _Fonts.of([_unpacked(data, at, _MAP_BYTES) for at in maps], is_unicode=unicode)
    looked = pages[:: -(-len(pages) // _PAGES)]
    shown = sum(fonts.tokens(_unpacked(data, start, _PAGE_BYTES)) for start in looked)
    return round(shown * len(pages) / len(looked))


def _unpacked(data: bytes, start: int, limit: int) -> bytes:
    packed = data[start : start + 2 * limit].partition(b"endstream")[0]
    for wrapped in (False, True):
        try:
            if wrapped:  # base 85 around what is packed
                packed = base64.a85decode(packed.partition(b"~>")[0])
            return zlib.decompressobj().decompress(packed, limit)
        except (zlib.error, ValueError):
            continue
    return packed[:limit] if b"BT" in packed[:2000] or b"begincmap" in packed[:2000] else b""


class _Fonts(NamedTuple):
    """What the codes in a file's strings stand for; its fonts are not told apart.

    Attributes:
        wide: Share of the maps in which a code is a character that is a token.
        digits: Of a code that is written in digits.
        is_unicode: Whether there is a font whose codes are UTF-16.
    """

    wide: dict[int, float]
    digits: int
    is_unicode: bool

    @classmethod
    def of(cls, maps: list[bytes], *, is_unicode: bool) -> _Fonts:
        """Read the fonts' maps to Unicode."""
        wide, known = Counter[int](), Counter[int]()
        for text in maps:
            for codes, first in _ranges(text):
                known.update(codes)
                if first >= _WIDE:
                    wide.update(codes)
        one_byte = sum(_ONE_BYTE.search(text) is not None for text in maps)
        shares = {code: count / known[code] for code, count in wide.items()}
        return cls(shares, 2 if one_byte > len(maps) / 2 else 4, is_unicode)

    def tokens(self, content: bytes) -> float:
        """Return about how many tokens the strings of a page hold."""
        letters = single = 0.0
        for plain, digits in _SHOWN.findall(content):
            codes = self._written(digits) if digits else self._plain(plain)
            alone = sum(map(self._alone, codes))
            single += alone
            letters += len(codes) - alone
        return single + letters / _LETTERS_PER_TOKEN

    def _alone(self, code: int) -> float:
        return self.wide.get(code, float(self.is_unicode and code >= _WIDE))

    def _written(self, digits: bytes) -> list[int]:
        width = self.digits
        return [int(digits[at : at + width], 16) for at in range(0, len(digits), width)]

    def _plain(self, text: bytes) -> list[int]:
        raw = _ESCAPE.sub(_unescaped, text)
        two = self.is_unicode or (self.wide and self.digits == 4)
        if two and len(raw) % 2 == 0 and _BINARY.search(raw):
            return [a << 8 | b for a, b in zip(raw[::2], raw[1::2], strict=True)]
        return list(raw)


def _unescaped(match: re.Match[bytes]) -> bytes:
    what = match[1]
    return bytes([int(what, 8) & 255]) if what.isdigit() and what < b"8" else what


def _ranges(text: bytes) -> Iterator[tuple[range, int]]:
    """Yield the codes that a map to Unicode names, and what the first of them stands for."""
    left = _CODES
    for block in text.split(b"beginbf")[1:]:
        form = _CHAR if block.startswith(b"char") else _RANGE
        for first, last, means in form.findall(block.partition(b"endbf")[0]):
            codes = range(int(first, 16), int(last or first, 16) + 1)
            left -= len(codes)
            if left < 0:
                return
            yield codes, int(means, 16)


_CHARSET = re.compile(rb"charset\s*=\s*[\"']?\s*([\w-]{1,40})", re.IGNORECASE)
_TARGET = re.compile(r"\b(?:href|src)\s*=\s*[\"']?([^\"'\s>]+)", re.IGNORECASE)
_NO_TEXT = ("script", "style")
_CELLS = ("td", "th", "li")


def html_text(data: bytes) -> str:
    """Return about the text of a page, markup left out."""
    first, *parts = data.decode(_encoding(data), "replace").split("<")
    said, until = [first], ""
    for part in parts:
        if until and not part[:8].lower().startswith(until):
            continue
        tag, _, after = part.partition(">")
        name = tag[:8].lower().split(maxsplit=1)[0] if tag[:8].strip() else ""
        until = f"/{name}" if name in _NO_TEXT else ""
        if until:
            continue
        if name in ("a", "img") and (target := _TARGET.search(tag)):
            said.append(f"[]({target[1]})")
        elif name in _CELLS:
            said.append(" | ")
        said.append(after)
    return html.unescape("".join(said))


def _encoding(data: bytes) -> str:
    named = _CHARSET.search(data[:1024])
    try:
        return codecs.lookup(named[1].decode()).name if named else "utf-8"
    except LookupError:
        return "utf-8"
