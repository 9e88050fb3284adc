"""Foreign text in Markdown: in code nothing is an image, a link or a heading."""

from __future__ import annotations

import re

_TICKS = re.compile(r"`+")
_SPECIAL = re.compile(r"[\\`*_\[\]<>&|~$!#]|(?<=:)/(?=/)")


def inline(text: str) -> str:
    """Return inline code that shows a text on one line, whatever stands in it."""
    flat = "".join(c if c.isprintable() else " " for c in text)
    fence = "`" * (_longest(flat) + 1)
    pad = " " if flat.startswith("`") or flat.endswith("`") or not flat.strip() else ""
    return f"{fence}{pad}{flat or ' '}{pad}{fence}"


def plain(text: str) -> str:
    """Return a text on one line as running text in which no character has a meaning."""
    flat = "".join(c if c.isprintable() else " " for c in text)
    return _SPECIAL.sub(r"\\\g<0>", flat).strip() or "–"


def cell(text: str) -> str:
    """Return inline code for a table: there a bar ends the cell even in code."""
    return inline(text).replace("|", "\\|")


def block(text: str, language: str = "text") -> str:
    """Return a code block that shows a text as it is; its fence is longer than any in it."""
    fence = "`" * max(3, _longest(text) + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _longest(text: str) -> int:
    return max((len(run) for run in _TICKS.findall(text)), default=0)
