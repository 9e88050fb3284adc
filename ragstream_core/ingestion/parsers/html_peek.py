"""The text that a page of HTML seems to hold; for estimates, stdlib only.

One pass over the tags, linear in any bytes (`html.parser` is not, where tags are broken): text,
and the targets of links and pictures, which the Markdown made of the page has as well.
"""

from __future__ import annotations

import codecs
import html
import re

_CHARSET = re.compile(rb"charset\s*=\s*[\"']?\s*([\w-]{1,40})", re.IGNORECASE)
_TARGET = re.compile(r"\b(?:href|src)\s*=\s*[\"']?([^\"'\s>]+)", re.IGNORECASE)
_NO_TEXT = ("script", "style")
_CELLS = ("td", "th", "li")


def shown_text(data: bytes) -> str:
    """Return about the text of a page, markup left out.

    Args:
        data: The file, or its beginning.
    """
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
