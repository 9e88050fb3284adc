"""Foreign text on the page: file names, documents and answers stay text whatever stands in them."""

from __future__ import annotations

import functools
import html
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from markdown_it import MarkdownIt
    from markdown_it.token import Token

TAGS = frozenset(
    ("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre",
     "code", "em", "strong", "s", "table", "thead", "tbody", "tr", "th", "td")
)  # fmt: skip
_LITERAL = ("html_block", "html_inline", "link", "image", "autolink", "reference")
_NESTING = 100
_UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
_START = re.compile(r"[0-9]{1,9}")


def literal(text: str) -> str:
    """Return Markdown that shows a text as it is: inline code with a fence longer than any in it.

    Labels of widgets are Markdown; a file name must be neither a link nor an image there.
    """
    flat = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    runs = "".join(c if c == "`" else " " for c in flat).split()
    fence = "`" * (max(map(len, runs), default=0) + 1)
    pad = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{fence}{pad}{flat}{pad}{fence}"


def answer_html(text: str) -> str:
    """Return the HTML of an answer's Markdown: tags of `TAGS` alone, all of its text escaped.

    Links, images and HTML stay the characters they are written with. No tag has an attribute but
    ``start`` of ``ol``, digits. Every text gives this, so also every part of a stream.

    Args:
        text: Markdown of any origin.
    """
    shown = _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", text)
    return f"<div>{_html(markdown_parser().parse(shown))}</div>"


@functools.cache
def markdown_parser() -> MarkdownIt:
    """Return the parser of answers: it knows no link, image, reference or HTML."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _NESTING})
    return parser.enable(["table", "strikethrough"]).disable(_LITERAL)


def _html(tokens: Iterable[Token]) -> str:
    return "".join(map(_one, tokens))


def _one(token: Token) -> str:
    """Return one token: what is neither text nor one of `TAGS` comes out as its own characters."""
    if token.type == "inline":
        return _html(token.children or ())
    if token.hidden:  # the paragraphs of a tight list
        return "\n"
    if token.type in ("fence", "code_block"):
        return f"<pre><code>{html.escape(token.content)}</code></pre>\n"
    if token.type == "code_inline":
        return f"<code>{html.escape(token.content)}</code>"
    if token.type == "softbreak":
        return "\n"
    if token.tag not in TAGS:
        return html.escape(token.content)
    if token.nesting < 0:
        return f"</{token.tag}>\n" if token.block else f"</{token.tag}>"
    return f"<{token.tag}{_start(token)}>"


def _start(token: Token) -> str:
    """Return the number that a list begins with: an answer often has code between its items."""
    number = str(token.attrGet("start") or "")
    return f' start="{number}"' if token.tag == "ol" and _START.fullmatch(number) else ""
