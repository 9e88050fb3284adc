"""Labels of the page's widgets: file names and other foreign text stay text in them."""

from __future__ import annotations


def literal(text: str) -> str:
    """Return Markdown that shows a text as it is: inline code with a fence longer than any in it.

    Labels of widgets are Markdown; a file name must be neither a link nor an image there.
    """
    flat = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    runs = "".join(c if c == "`" else " " for c in flat).split()
    fence = "`" * (max(map(len, runs), default=0) + 1)
    pad = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{fence}{pad}{flat}{pad}{fence}"
