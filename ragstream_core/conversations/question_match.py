"""Whether two questions ask the same, beside what their vectors say.

Embedders see topics: `top_k=5` and `top_k=6`, "enable" and "disable", "from a to b" and "from b to
a" lie next to each other, and in a long question any one word that is exchanged drowns. So words
are compared as well, how strictly is a setting: the same words in the same order; one question
within the other; or not at all.
"""

from __future__ import annotations

import re
from typing import Literal

from ragstream_core.text.terms import is_stop_word, stems, words

_BACK = re.compile(
    r"\b(?:it(?!\s+(?:takes?|possible)\s+to\b)|its|it's|they|them|their|theirs|this|these|those|he"
    r"|him|his|she|her|hers"
    r"|again|also|else|another|others?|instead|same|previous(?:ly)?|earlier|former|latter"
    r"|mentioned|said|es|er|sie|ihm|ihr|ihn|dies\w{0,2}|jene\w?|dort|da(?:mit|von|zu|rin)"
    r"|nochmal|auch)\b"
    r"|\b(?:that|one)(?=\s*(?:[?.!,;]|$))|(?:^|[.?!]\s+)(?:and|but|or|so|then|und|aber|oder|dann)\b"
    r"|\b(?:of|with|in|on|to|for|about|is|does|do|did|was|than|like|if)\s+that\b"
    r"|\b(?:what|how)\s+about\b|(?:^|[.?!]\s+)that\b",
    re.IGNORECASE,
)
_TIME = re.compile(
    r"\b(?:today|tonight|tomorrow|yesterday|now|nowadays|current(?:ly)?|latest|newest|recent(?:ly)?"
    r"|ago|still|yet|so\s+far|heute|jetzt|gestern|morgen|aktuell\w{0,2}|gerade|neueste\w?"
    r"|(?:last|next|past)\s+(?:\w+\s+)?(?:minute|hour|day|week|month|quarter|year|time)s?)\b",
    re.IGNORECASE,
)
_TOKEN = re.compile(r"[^\s\"“”„«»‘()\[\]{},;!?]+")
_SIGN = re.compile(r"[/\\=<>@#$%&*+~^|]|^-")

# What is the name of a thing or a number: in paraphrases the same, in the same order.
_NAME = re.compile(r"\w+(?:[._:/-]\w+)+|\b[A-Z]{2,}\b|\d+")
_SMALL_TEXT = """
a an the is are am be been being do does doing have has having can could i me my we our ours us you
how what which of to for there please exactly actually really tell explain describe kindly just
der die das den dem ein eine einen einem ist sind kann können wie bitte
"""
# Words that change nothing in what a question asks; all others must stand in both.
_SMALL = frozenset(_SMALL_TEXT.split())
_TURNING_TEXT = """
not no never none without only all any every both neither nor before after except unless until than
more less most least first last other off on old new nicht kein keine ohne nur alle vor nach erste
letzte mehr weniger
"""
# Words with which a question asks for something else than without them.
_TURNING = frozenset(stems(_TURNING_TEXT))
# In a question of more words than these a vector does not see one that is added.
_DROWNING = 8
_FEWEST_WORDS = 2
WordMatch = Literal["words", "paraphrase", "score"]


def stands_alone(question: str) -> bool:
    """Return whether a question means the same whenever and after whatever it is asked."""
    if _BACK.search(question) or _TIME.search(question):
        return False
    own = [word for word in words(question) if not is_stop_word(word) and word not in _SMALL]
    return len(own) >= _FEWEST_WORDS


def asks_the_same(one: str, other: str, match: WordMatch = "words") -> bool:
    """Return whether the words of two questions let one have the answer of the other."""
    if match == "score" or same_words(one, other):
        return True
    if match != "paraphrase" or _NAME.findall(one) != _NAME.findall(other):
        return False
    return _is_within(*sorted((_telling(one), _telling(other)), key=len))


def same_words(one: str, other: str) -> bool:
    """Return whether two questions are of the same words, in the same order."""
    return _telling(one) == _telling(other)


def _is_within(fewer: list[str], more: list[str]) -> bool:
    """Whether words stand in others in their order, and the rest of these turns nothing."""
    rest: list[str] = []
    wanted = iter(fewer)
    word = next(wanted, None)
    for other in more:
        if other == word:
            word = next(wanted, None)
        else:
            rest.append(other)
    if len(more) > _DROWNING:
        return False
    return word is None and _TURNING.isdisjoint(rest)


def _telling(text: str) -> list[str]:
    """Return the stems of a question's words without the small ones, and what bears a sign."""
    found: list[str] = []
    for token in _TOKEN.findall(text):
        if _SIGN.search(token):
            found.append(token.casefold().rstrip(".:"))
        else:
            found += stems(" ".join(word for word in words(token) if word not in _SMALL))
    return found
