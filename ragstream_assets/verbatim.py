"""Foreign text in Dagster's Markdown: file names, documents and prompts stay text there.

Dagster's pages fetch the images that Markdown names; in code nothing is an image or a link.
"""

import re

_TICKS = re.compile(r"`+")


def inline(text: str) -> str:
    """Return inline code that shows a text on one line, whatever stands in it."""
    flat = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    fence = "`" * (_longest(flat) + 1)
    pad = " " if flat.startswith("`") or flat.endswith("`") or not flat.strip() else ""
    return f"{fence}{pad}{flat or ' '}{pad}{fence}"


def block(text: str) -> str:
    """Return a code block that shows a text as it is; its fence is longer than any in it."""
    fence = "`" * max(3, _longest(text) + 1)
    return f"{fence}text\n{text}\n{fence}"


def passage(title: str, text: str) -> str:
    """Return a titled text, both as code."""
    return f"{inline(title)}\n\n{block(text)}"


def bullets(lines: list[str] | tuple[str, ...]) -> str:
    """Return a list of texts, "none" where there are none."""
    return "\n".join(f"- {inline(line)}" for line in lines) or "none"


def _longest(text: str) -> int:
    return max((len(run) for run in _TICKS.findall(text)), default=0)
