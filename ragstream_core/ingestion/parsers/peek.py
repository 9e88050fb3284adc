"""How much text a PDF or a page of HTML seems to hold, from its bytes alone; stdlib only.

For estimates: nothing is interpreted. Of a PDF some pages are unpacked, up to a limit, and the
strings in them that show text are measured; what is packed in another way counts as nothing. HTML
takes one pass over the tags, linear in any bytes (`html.parser` is not, if tags are broken): text,
and the targets of links and pictures, which its Markdown has as well.
"""

from __future__ import annotations

import base64
import html
import re
import zlib
from itertools import islice

from ragstream_core.text.decoding import codec_of

_STREAMS, _PAGES = 4_000, 24  # looked at in one file
_HEAD_BYTES, _PAGE_BYTES = 4_000, 64_000  # unpacked of each
_LETTERS_PER_TOKEN = 2.9  # spaces not counted: many producers move instead of showing one

_STREAM = re.compile(rb"stream\r?\n")
_TEXT = re.compile(rb"\bBT\s")
# an escaped bracket begins no string, not even where the one that it stands in has no end
_SHOWN = re.compile(rb"(?<!\\)\(((?:[^()\\]|\\.)*+)\)|<([0-9A-Fa-f]+)>", re.DOTALL)
_ESCAPE = re.compile(rb"\\(?:[0-7]{1,3}|.)", re.DOTALL)

# Fonts of Chinese, Japanese or Korean: a character is a token, and its code takes two bytes.
_FAR_EAST = re.compile(rb"/Uni(?:GB|CNS|JIS|KS)-U|\((?:GB1|CNS1|Japan1|Korea1)\)")


def pdf_tokens(data: bytes) -> int:
    """Return about how many tokens the text operators of a PDF, or of its beginning, show."""
    streams = [at.end() for at in islice(_STREAM.finditer(data), _STREAMS)]
    pages = [at for at in streams if _TEXT.search(_unpacked(data, at, _HEAD_BYTES))]
    if not pages:
        return 0
    is_far = _FAR_EAST.search(data) is not None
    looked = pages[:: -(-len(pages) // _PAGES)]
    shown = sum(_letters(_unpacked(data, at, _PAGE_BYTES), is_far=is_far) for at in looked)
    return round(shown / (1 if is_far else _LETTERS_PER_TOKEN) * len(pages) / len(looked))


def _unpacked(data: bytes, start: int, limit: int) -> bytes:
    packed = data[start : start + 2 * limit].partition(b"endstream")[0]
    for wrapped in (False, True):
        try:
            if wrapped:  # base 85 around what is packed
                packed = base64.a85decode(packed.partition(b"~>")[0])
            return zlib.decompressobj().decompress(packed, limit)
        except (zlib.error, ValueError):
            continue
    return packed[:limit] if b"BT" in packed[:2000] else b""


def _letters(content: bytes, *, is_far: bool) -> int:
    """Return how many characters the strings of a page show.

    A code in digits takes four of them: fonts of one byte are rarely written so.
    """
    strings = _SHOWN.findall(content)
    plain = sum(len(_ESCAPE.sub(b"x", text)) for text, _ in strings)
    return plain // (2 if is_far else 1) + sum(len(digits) for _, digits in strings) // 4


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
    return codec_of(named[1].decode() if named else "", "utf-8")
