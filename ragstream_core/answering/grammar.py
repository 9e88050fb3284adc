"""Mends the sentence that a citation was taken out of (R-208).

Only the last characters before the marker and the first ones behind it are looked at, so a stream
is mended as the whole text would be.
"""

from __future__ import annotations

import re

from ragstream_core.answering.markup import defused

LEFT = 64
"""So many characters before a marker may matter."""
RIGHT = 24
"""So many characters behind a marker may matter."""

_IT = "the document"
_WRAPPERS = tuple(
    (re.compile(rf"{opening}\Z", re.IGNORECASE), re.compile(closing))
    for opening, closing in (
        (r"\((?:see also|see|cf\.?|sources?:?|per|from|as in|in)?[ \t]{0,3}", r"[ \t]{0,3}\)"),
        (r"\[[ \t]{0,3}", r"[ \t]{0,3}\]"),
        (r"`", r"`"),
        (r"\*\*", r"\*\*"),
        (r"\*", r"\*"),
        (r"_", r"_"),
    )
)
_LINE_START = re.compile(r"\n[ \t]{0,16}(?:[-*+•][ \t]{0,4})?\Z")
_SENTENCE_START = re.compile(
    r"(?:[.!?][ \t]{1,4}|\n[ \t]{0,16}(?:(?:[-*+•]|\d{1,3}[.)])[ \t]{1,4})?)\Z"
)
_CLAUSE_START = re.compile(r"\b(?:as|but|while|because|how)[ \t]{1,3}\Z", re.IGNORECASE)
_SUBJECT_OF = re.compile(
    r"[ \t]{0,3}(?:also )?(?:says|states|describes|shows|notes|mentions|explains|defines|specifies|"
    r"reports|lists|indicates|recommends|requires|confirms)\b"
)
_OBJECT_OF = re.compile(
    r"(?:\b(?:according to|based on|as per|see|see also|refer to|"
    r"(?:stated|described|shown|noted|mentioned|explained|documented|defined|specified|reported|"
    r"listed|given|found|written|outlined|indicated|discussed|cited) (?:in|by|at|on))"
    r"|(?:[.!?:][ \t]{1,4}|\n[ \t]{0,16})(?:in|from|per|by))[ \t]{0,3}\Z",
    re.IGNORECASE,
)
_BLANKS = re.compile(r"[ \t]*")


def join(left: str, right: str) -> tuple[str, int]:
    """Mend the place where markers were taken out.

    Args:
        left: Clean text before it, at most `LEFT` characters; a newline stands for the beginning
            of the answer.
        right: Text behind it, `RIGHT` characters or all there are.

    Returns:
        What replaces ``left``, and how many characters of ``right`` go.
    """
    left, skip = _unwrapped(left, right)
    blanks = _BLANKS.match(right, skip)
    word = blanks.end() if blanks else skip
    following = right[word : word + 1]
    line_start = _LINE_START.search(left)
    if line_start and following in ("", "\n"):
        return left[: line_start.start() + 1], word + len(following)
    if _SENTENCE_START.search(left) and _SUBJECT_OF.match(right, skip):
        return f"{left}T{_IT[1:]} ", word
    if _CLAUSE_START.search(left) and _SUBJECT_OF.match(right, skip):
        return f"{left}{_IT} ", word
    if _OBJECT_OF.search(left):
        left = " ".join([left.rstrip(" \t"), _IT])
        return (f"{left} " if following.isalnum() else left), word
    left, skip = _closed(left, right, skip=skip, word=word)
    return defused(left), skip


def _unwrapped(left: str, right: str) -> tuple[str, int]:
    """Take away brackets, backticks and stars that held the marker alone."""
    skip, again = 0, True
    while again:
        again = False
        for opening, closing in _WRAPPERS:
            before, behind = opening.search(left), closing.match(right, skip)
            if before and behind:
                left, skip, again = left[: before.start()], behind.end(), True
    return left, skip


def _closed(left: str, right: str, *, skip: int, word: int) -> tuple[str, int]:
    """Close the gap: one blank between words, none before punctuation, no double punctuation."""
    following = right[word : word + 1]
    at_start = left.endswith("\n") or bool(_LINE_START.search(left))
    if following in (",", ";", ":") and at_start:
        blanks = _BLANKS.match(right, word + 1)
        return left, blanks.end() if blanks else word + 1
    if following in ("", "\n") or following in ".,;:!?)]}…":
        bare = left if at_start else left.rstrip(" \t")
        last = bare[-1:]
        if last in (",", ";", ":") and following and following in ".,;:!?":
            return bare[:-1], word
        if last in (".", "!", "?") and following and following in ".,;":
            return bare, word + (right[word + 1 : word + 2] != following)
        return bare, word
    if not left or left[-1] in " \t\n([":
        return left, word
    glued = word == skip and left[-1].isalnum() and following.isalnum()
    return (f"{left} " if glued else left), skip
