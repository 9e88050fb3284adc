"""Texts of several authors in one Markdown text: what one holds never changes what another says."""

from __future__ import annotations

import re

from ragstream_core.text.blocks import fence_behind

_HEADING = re.compile(r" {0,3}(#{1,6})(?=[ \t]|$)")
_UNDERLINE = re.compile(r"(?:={3,}|-{3,})[ \t]*$")
DEEPEST = 6


def nested(text: str, level: int) -> str:
    """Return Markdown as what stands under a heading.

    Its own headings stand below that heading, none is made of a line above dashes, and a fence that
    it leaves open is closed.
    """
    made, fence = list[str](), ""
    for line in text.replace("\r\n", "\n").split("\n"):
        before, fence = fence, fence_behind(line, fence, indent=3)
        if not before and not fence:
            if level and _UNDERLINE.match(line) and made and made[-1].strip():
                made.append("")
            found = _HEADING.match(line)
            if found:
                line = "#" * min(DEEPEST, len(found[1]) + level) + line[found.end() :]
        made.append(line)
    return "\n".join([*made, fence] if fence else made)


def heading(title: str, level: int) -> str:
    """Return a heading of Markdown on one line."""
    return f"{'#' * min(DEEPEST, level)} {' '.join(title.split())}"


def fenced(text: str, language: str = "") -> str:
    """Return text as a fenced block, whatever fences it holds itself."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
