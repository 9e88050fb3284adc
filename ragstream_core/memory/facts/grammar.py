"""The user's own words in the third person: ``We use Jira`` → ``The company uses Jira``."""

from __future__ import annotations

import re

_IRREGULAR = {
    "am": "is",
    "are": "is",
    "have": "has",
    "do": "does",
    "go": "goes",
    "cannot": "cannot",
}
_PRONOUNS = {
    "i'm": "they are", "i’m": "they are", "i've": "they have", "i am": "they are", "i": "they",
    "me": "them", "my": "their", "mine": "theirs", "myself": "themself",
    "we're": "they are", "we’re": "they are", "we've": "they have", "we": "they", "us": "them",
    "our": "their", "ours": "theirs", "ourselves": "themselves",
    "you": "the assistant", "your": "the assistant's",
}  # fmt: skip
_PRONOUN = re.compile(
    r"(?<![\w.'’-])(?:i am|i['’]m|i['’]ve|we['’]re|we['’]ve|myself|ourselves|mine|ours|my|our|me|"
    r"us|we|"
    r"your|you|I)(?![\w'’-]|\.\w)",
    re.IGNORECASE,
)
_ACRONYMS = ("US", "ME", "MY", "WE")


def other_person(words: str) -> str:
    """Return words with first and second person replaced; names in capitals (``US``) stay."""

    def other(match: re.Match[str]) -> str:
        word = match[0]
        if word in _ACRONYMS or (word == "i" and not words.islower()):
            return word
        return _PRONOUNS.get(word.lower().replace("’", "'"), word)

    return _PRONOUN.sub(other, words)


def third(verb: str) -> str:
    """Return a verb of the present tense in the third person singular."""
    lower = verb.lower()
    if lower in _IRREGULAR:
        return _IRREGULAR[lower]
    if lower.endswith(("s", "x", "z", "ch", "sh", "o")):
        return f"{lower}es"
    if lower.endswith("y") and lower[-2:-1] not in "aeiou":
        return f"{lower[:-1]}ies"
    return f"{lower}s"


def sentence(subject: str, words: str) -> str:
    """Return one line with a full stop: ``The user``, and what was said of them."""
    said = " ".join(other_person(words).split()).rstrip(" .,;:!–—-").removesuffix(" too")
    return f"{subject} {said}."
