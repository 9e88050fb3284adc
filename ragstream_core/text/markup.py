"""Foreign text as HTML: documents and answers stay text, whatever stands in them."""

from __future__ import annotations

import functools
import html
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
_FOLD = "margin:.2em 0;padding:.1em .6em;border-left:3px solid rgba(128,128,128,.35)"
_PRE = "white-space:pre-wrap;overflow-wrap:anywhere;margin:.3em 0;color:inherit;background:none"
_CELL = "text-align:left;vertical-align:top"


def visible(text: object) -> str:
    """Return the HTML of a text: escaped, and what cannot be seen is a replacement character."""
    return html.escape(_UNSEEN.sub("\N{REPLACEMENT CHARACTER}", str(text)))


def pre_html(text: str) -> str:
    """Return a text with its lines as they are; empty for an empty text."""
    return f'<pre style="{_PRE}">{visible(text)}</pre>' if text else ""


def fold_html(summary: str, body: str, *, unfolded: bool = False) -> str:
    """Return a block that folds, without a script.

    Args:
        summary: Its line, HTML.
        body: What folds, HTML.
        unfolded: Whether it is open at first.
    """
    state = " open" if unfolded else ""
    line = f'<summary style="cursor:pointer">{summary}</summary>'
    return f'<details style="{_FOLD}"{state}>{line}{body}</details>'


def table_html(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table; every cell is text.

    Args:
        columns: Headings.
        rows: As many cells each.
    """
    head = "".join(f'<th style="{_CELL}">{visible(name)}</th>' for name in columns)
    lines = ("".join(f'<td style="{_CELL}">{visible(c)}</td>' for c in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return (
        f'<table style="color:inherit"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    )


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
