"""Whether two questions ask the same, beside what their vectors say.

Embedders see topics: `top_k=5` and `top_k=6`, "enable" and "disable", "from a to b" and "from b to
a" lie next to each other, and in a long question any one word that is exchanged drowns. So the
words of both must be the same, in the same order, but for their endings and for a few small words;
the vectors judge the rest. Better no answer given again than a wrong one.
"""

from __future__ import annotations

import re

from ragstream_core.terms import is_stop_word, stems, words

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
_SMALL_TEXT = """
a an the is are am be been being do does doing have has having can could i me my we our ours us you
how what which of to for there please exactly actually really tell explain describe kindly just
der die das den dem ein eine einen einem ist sind kann können wie bitte
"""
_SMALL = frozenset(_SMALL_TEXT.split())
"""Words that change nothing in what a question asks; all others must stand in both."""
_FEWEST_WORDS = 2


def stands_alone(question: str) -> bool:
    """Say whether a question means the same whenever and after whatever it is asked.

    Args:
        question: As it was asked. One that points back ("and with two files?"), or to the time at
            which it is asked ("the latest"), or that has hardly a word of its own, does not. The
            rules know English and some German.
    """
    if _BACK.search(question) or _TIME.search(question):
        return False
    own = [word for word in words(question) if not is_stop_word(word) and word not in _SMALL]
    return len(own) >= _FEWEST_WORDS


def same_words(one: str, other: str) -> bool:
    """Say whether two questions are of the same words, in the same order.

    Args:
        one: A question.
        other: Another one. The result does not depend on which is which.
    """
    return _telling(one) == _telling(other)


def _telling(text: str) -> list[str]:
    """Return the stems of a question's words without the small ones, and what bears a sign."""
    found: list[str] = []
    for token in _TOKEN.findall(text):
        if _SIGN.search(token):
            found.append(token.casefold().rstrip(".:"))
        else:
            found += stems(" ".join(word for word in words(token) if word not in _SMALL))
    return found
