"""Secrets in what would leave this machine: which kind, in which source, on which line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import unquote

from ragstream_core.ingestion.secrets import find_secrets
from ragstream_core.records.chat import ChatMessage

_HEADING = re.compile(r"## \[[0-9a-f]{12,64}\] (.+)")
_FRAME = re.compile(r'<<DOC \d{1,6} [0-9a-f]{12,64} id="[^"]{1,80}" source="([^"]{1,200})"')
_FRAME_END = "<<END DOC "


def secret_places(messages: Iterable[ChatMessage]) -> list[str]:
    """Return ``KIND in SOURCE (SECTION, line N)`` of each likely secret; never the secret."""
    return [place for message in messages for place in places_of(message.text)]


def places_of(text: str) -> list[str]:
    """Return the same of one text, each place once: a prompt, or a part of one."""
    places = (f"{found.kind} in {_place(text, found.line)}" for found in find_secrets(text))
    return list(dict.fromkeys(places))


def _place(text: str, line: int) -> str:
    section, source = "the prompt", ""
    for shown in text.split("\n")[:line]:
        if heading := _HEADING.fullmatch(shown):
            section, source = heading[1], ""
        elif frame := _FRAME.match(shown):
            source = unquote(frame[1])
        elif shown.startswith(_FRAME_END):
            source = ""
    return f"{source} ({section}, line {line})" if source else f"{section} (line {line})"
