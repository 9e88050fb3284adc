"""The words of a PDF that are broken at the ends of lines, joined.

A pure function over the texts of all pages: whether a hyphen is one of the word's own shows only in
the whole document. What is not certain stays as it is printed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

_LETTERS = r"[^\W\d_]+"
_BREAK = r"[\ufffe\x02]|[-\u2010]\n(?=[^\W\d_])"
_BREAKS = re.compile(_BREAK)
_BROKEN = re.compile(  # a word is tried from its beginning alone
    rf"(?:(?<![^\W\d_])([^\W\d_]++))?(?:{_BREAK})({_LETTERS})?"
)
_WORD = re.compile(rf"{_LETTERS}(?:-{_LETTERS})*")
_OWN_HYPHEN = frozenset(
    ["all", "anti", "co", "cross", "ever", "ex", "full", "half", "high", "ill", "long", "low",
     "mid", "multi", "non", "one", "post", "pre", "quasi", "real", "self", "semi", "short", "so",
     "three", "time", "two", "ultra", "user", "well"]
)  # fmt: skip
_SUSPENDED = frozenset(["and", "or", "to", "und", "oder", "bis", "bzw", "et", "ou", "y", "o"])


def join_broken_words(pages: Sequence[str]) -> list[str]:
    """Return the pages with the words that were broken at the end of a line in one piece.

    The hyphen goes where the word without it stands elsewhere in the document, or where nothing
    speaks for a hyphen of its own: that the word stands elsewhere with it, a capital letter or a
    digit after it, two parts that are words of the document, a first part such as ``well``.
    """
    words = Counter[str]()
    if any(map(_BREAKS.search, pages)):
        words.update(word.casefold() for page in pages for word in _WORD.findall(_without(page)))
    return [_joined(page.replace("\u00ad\n", "").replace("\u00ad", ""), words) for page in pages]


def _without(page: str) -> str:
    return _BROKEN.sub(" ", page) if _BREAKS.search(page) else page


def _joined(page: str, words: Counter[str]) -> str:
    def one(match: re.Match[str]) -> str:
        whole, left, right = match[0], match[1] or "", match[2] or ""
        around = page[match.start() - 1 : match.start()] + page[match.end() : match.end() + 1]
        code = any(sign.isdigit() or sign == "_" for sign in around)
        known = words[(left + right).casefold()] > 0
        if not left or not right or code or (right in _SUSPENDED and not known):
            return re.sub("[\ufffe\x02]", "-", whole)
        inner = page[: match.start()].endswith("-") or page[match.end() :].startswith("-")
        own = _own_hyphen(left, right, words, inside=inner)
        return f"{left}-{right}" if own else left + right

    return _BROKEN.sub(one, page) if _BREAKS.search(page) else page


def _own_hyphen(left: str, right: str, words: Counter[str], *, inside: bool) -> bool:
    """Say whether a word has a hyphen of its own; ``inside``: it has another one beside it."""
    first, second = left.casefold(), right.casefold()
    with_it, without = words[f"{first}-{second}"], words[first + second]
    if with_it or without:
        return with_it > without
    return (
        inside
        or not right.islower()
        or not (left.islower() or left.istitle())
        or first in _OWN_HYPHEN
        or (len(first) > 2 and words[first] > 0 and words[second] > 0)
    )
