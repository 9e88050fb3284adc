"""Labels of the page's widgets: file names and other foreign text stay text in them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ragstream_core.text.markup import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ragstream_core.services.passages import Line


def literal(text: str) -> str:
    """Return Markdown that shows a text as it is: inline code with a fence longer than any in it.

    Labels of widgets are Markdown; a file name must be neither a link nor an image there.
    """
    flat = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    runs = "".join(c if c == "`" else " " for c in flat).split()
    fence = "`" * (max(map(len, runs), default=0) + 1)
    pad = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{fence}{pad}{flat}{pad}{fence}"


_PLAIN = re.compile(r"(?!\d+[.)] )(?![-+] )(?:[^\W_]|(?<=[^\W_])_(?=[^\W_])|[ /.-])+")


def named(text: str) -> str:
    """Return Markdown that shows a name as it is, without marks where it needs none.

    A screen reader reads the label of a box as it is written, with every backtick.
    """
    lower = text.lower()
    plain = _PLAIN.fullmatch(text) and "www." not in lower and "--" not in text
    return text if plain and text == text.strip() else literal(text)


def passage_html(lines: Sequence[Line], marked: Sequence[tuple[int, int]]) -> str:
    """Return a passage as a table of numbered lines; the cited ones stand out.

    Args:
        lines: Of the passage.
        marked: (start, end) of the marked words, ascending, in the cited lines as one text.
    """
    rows, at = [], 0
    for line in lines:
        words, kind = visible(line.shown), ""
        if line.cited:
            near = [(max(0, a - at), min(len(line.text), b - at)) for a, b in marked]
            words, kind = _marked(line.text, near), ' class="cited"'
            at += len(line.text) + 1
        rows.append(f"<tr{kind}><th>{line.number or ''}</th><td>{words}</td></tr>")
    return f"<table>{''.join(rows)}</table>"


def _marked(text: str, spans: Iterable[tuple[int, int]]) -> str:
    parts, at = [], 0
    for start, end in spans:
        if at <= start < end:
            parts += [visible(text[at:start]), f"<mark>{visible(text[start:end])}</mark>"]
            at = end
    return "".join([*parts, visible(text[at:])])
