"""What identifies a text in any file, whatever its format, escapes, line breaks or case.

Bytes are reduced to their letters and digits, so JSON, Markdown, bars at line starts and line
breaks make no difference. A copy of `RUN` characters is found wherever it begins; shorter texts
are found as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ragstream_core.records.identity import sha256_hex

WINDOW = 16
STEP = 8
NEEDED = 3

# Every common run of so many letters and digits is found (40).
RUN = WINDOW + STEP * NEEDED
LEAST = 20
_GRAM = LEAST - STEP
_LOWER = bytes(range(256)).lower()
_DROPPED = bytes(c for c in range(128) if not chr(c).isalnum())
_BREAK = re.compile(rb"\\+[nrt]")
_UNICODE = re.compile(rb"(?:\\+u[0-9a-fA-F]{4})+")
_CODE = re.compile(rb"u([0-9a-fA-F]{4})")
_NAMES = re.compile(
    rb"history::[A-Za-z0-9._-]{1,64}::[0-9]+-[0-9]+::[0-9]+"
    rb"|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
)


def reduce(data: bytes) -> bytes:
    """Return letters and digits only, lower case, JSON escapes resolved; other scripts as UTF-8."""
    if b"\\" in data:
        data = _UNICODE.sub(_decoded, _BREAK.sub(b" ", data))
    return data.translate(_LOWER, _DROPPED)


def _decoded(match: re.Match[bytes]) -> bytes:
    units = b"".join(int(code, 16).to_bytes(2, "big") for code in _CODE.findall(match[0]))
    return units.decode("utf-16-be", "replace").encode()


class TextFingerprints:
    """What to look for.

    Attributes:
        names: Ids that stand for the texts, as bytes.

    Args:
        texts: The texts whose copies are sought.
        chunk_ids: Chunks whose citations (``chunk: <id>``) show that their text was used.
        names: Ids of turns, of their chunks and of recorded runs; found as they are.
    """

    def __init__(
        self, texts: Iterable[str], *, chunk_ids: Iterable[str] = (), names: Iterable[str] = ()
    ) -> None:
        reduced = [reduce(text.encode("utf-8", "replace")) for text in texts]
        self._windows = {
            text[i : i + WINDOW] for text in reduced for i in range(len(text) - WINDOW + 1)
        }
        self._grams: dict[bytes, list[tuple[int, bytes]]] = {}
        for text in {text for text in reduced if LEAST <= len(text) < RUN}:
            for i in range(len(text) - _GRAM + 1):
                self._grams.setdefault(text[i : i + _GRAM], []).append((i, text))
        short = [sha256_hex(chunk_id)[:8].encode() for chunk_id in chunk_ids]
        self._cited = {b"chunk" + name for name in short} | {b"id" + name for name in short}
        self.names = {name.encode() for name in names}

    def __bool__(self) -> bool:
        """Whether there is anything to look for."""
        return bool(self._windows or self._grams or self.names)

    def found_in(self, data: bytes, *, citations: bool = False) -> set[bytes]:
        """Return the copied runs in some bytes, reduced, and the names; empty without a copy.

        Args:
            data: Any bytes.
            citations: Also look for citations of the chunks.
        """
        text = reduce(data)
        found = self._short_in(text) if self._grams else set()
        if self.names:
            found |= self.names.intersection(_NAMES.findall(data))
        if citations:
            found |= {literal for literal in self._cited if literal in text}
        windows, in_a_row = self._windows, 0
        for at in range(0, len(text) - WINDOW + 1, STEP):
            if text[at : at + WINDOW] in windows:
                in_a_row += 1
                if in_a_row >= NEEDED:
                    found.add(text[at - STEP * (NEEDED - 1) : at + WINDOW])
            else:
                in_a_row = 0
        return found

    def _short_in(self, text: bytes) -> set[bytes]:
        """Return the short texts in some bytes: each has a gram at an eighth byte."""
        found: set[bytes] = set()
        for at in range(0, len(text) - _GRAM + 1, STEP):
            for offset, literal in self._grams.get(text[at : at + _GRAM], ()):
                if at >= offset and text.startswith(literal, at - offset):
                    found.add(literal)
        return found


def common(runs: set[bytes], others: Iterable[str]) -> set[bytes]:
    """Return those runs that stand in other texts too, so that a copy of them shows nothing."""
    lengths = {len(run) for run in runs}
    shared: set[bytes] = set()
    for other in others:
        text = reduce(other.encode("utf-8", "replace"))
        for length in lengths:
            shared |= {
                text[i : i + length]
                for i in range(len(text) - length + 1)
                if text[i : i + length] in runs
            }
    return shared
