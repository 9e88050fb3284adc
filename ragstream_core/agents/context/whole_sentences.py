"""Whether a sentence can be read by itself: it begins, it ends, and it names what it speaks of.

A sentence that begins with a word for something outside it (*it*, *this*, *otherwise*) leans on the
one before. It stands if its heading is shown in front of it, or if both are quoted together.
"""

from __future__ import annotations

import re

_CLOSED = re.compile(r"[.!?…。！？।؟][\"'”’»)\]」』）*_`]*$")
_LEADS_IN = re.compile(
    r"(?:[:：,;–—]|\.\.\.|…|\bas follows|\bthe following)[\"'”’»)*_`]*\.?$", re.I
)
_OPENS = re.compile(r"[*_\"“‘'(\[]*([^\W\d_]+)(?=[\s,;:]|$)")
_PAIR = re.compile(r"(?:[^.:]|(?<=\d)[.:](?=\d)){1,60}(?::| [–—-]) \S")  # "Ann (12:00): …"
_LEANS = re.compile(
    r"[*_\"“‘'(]*(?:(?:if|when|because|since|while|although) )?"
    r"(?:this|these|those|that|it|its|it's|they|their|he|his|she|her|such|otherwise|however"
    r"|therefore|thus|hence|instead|similarly|likewise|moreover|furthermore|consequently|then|also"
    r"|both|but|and|or|so|here|below|above|as such|in (?:other words|addition|contrast)"
    r"|the (?:latter|former|above|following|same)|on the other hand|for example|for instance"
    r"|dies(?:e[rsnm]?)?|dadurch|deshalb|daher|außerdem|damit|dabei|jedoch|sonst|somit"
    r"|cela|celui-ci|celle-ci|ceux-ci|donc|ainsi|cependant"
    r"|esto|ello|por eso|además|sin embargo)\b(?!-)",
    re.IGNORECASE,
)
_FOR_ITSELF = re.compile(
    r"it (?:is|was|may be|might be|can be|could be) .{0,50}?\b(?:that|to|when|if|whether)\b"
    r"|th(?:at|is|ese|ose) .{0,40}\b(?:page|chapter|handbook|manual|document)s?\b"
    r"|both .{1,60} and \b",
    re.IGNORECASE,
)
_HALF_OPEN = re.compile(
    r"\[[\w.,+ -]{1,30}, ?[\w.,+ -]{1,30}\)|\([\w.,+ -]{1,30}, ?[\w.,+ -]{1,30}\]"
)
_ITEM_WORDS = 25


def begins(text: str) -> bool:
    """Return whether a sentence begins at its beginning: no small letter, no mark of a middle."""
    first = _OPENS.match(text)
    return not (first and first[1].islower()) and text[:1] not in ",;:.)]}–—"


def ends(text: str) -> bool:
    """Return whether a sentence ends at its end, and leads to nothing that is not quoted."""
    return bool(_CLOSED.search(text)) and not _LEADS_IN.search(text)


def is_whole(text: str, *, item: bool = False) -> bool:
    """Return whether a sentence begins and ends, and closes what it opens.

    Args:
        text: As it would be quoted.
        item: It is an item of a list: a name and what is said of it needs no full stop.
    """
    even = _HALF_OPEN.sub("", text)
    if any(even.count(opening) != even.count(closing) for opening, closing in ("()", "[]")):
        return False
    if item and _PAIR.match(text) and len(text.split()) <= _ITEM_WORDS:
        return not _LEADS_IN.search(text)
    return begins(text) and ends(text)


def leans(text: str) -> bool:
    """Return whether a sentence begins with a word for something outside it."""
    return bool(_LEANS.match(text)) and not _FOR_ITSELF.match(text)
