"""The deterministic form: what the user's own sentences say that is worth remembering (R-254).

A fact is made of the user's words alone, put into the third person (``We use Jira`` → ``The company
uses Jira``), or quoted where they are not English (`languages`); what is not plainly a statement is
passed over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from ragstream_core.conversations.facts.candidate import Candidate
from ragstream_core.conversations.facts.doubts import doubt, foreign, masked
from ragstream_core.conversations.facts.languages import spoken
from ragstream_core.conversations.facts.patterns import (
    DEIXIS,
    MOOD,
    NO_OBJECT,
    NO_ROLE,
    PATTERNS,
    RECURRING,
    ROLE_NOUN,
    Pattern,
)
from ragstream_core.text.sentences import sentence_spans

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


SUBJECTS = {"user": "The user", "company": "The company"}
MAX_WORDS = 32
_SURE = 0.85
_LEAD = re.compile(
    r"(?:(?:hi|hello|hey|thanks|thank you|ok(?:ay)?|well|so|also|and|but|by the way|btw|fyi|just "
    r"so you know|"
    r"for (?:context|the record|your information|background|reference)|to be clear|please (?:note|"
    r"remember|keep in mind)"
    r"(?: that)?|note(?: that)?|remember(?: that)?|keep in mind(?: that)?|(?:for )?(?:background|"
    r"context|note|reminder)|"
    r"as (?:a reminder|background|context)|actually|in general|generally|one thing|quick note|"
    r"first|second|"
    r"good (?:morning|afternoon|evening)|in my (?:job|work|role)|in our (?:company|team)|"
    r"(?:here )?at (?!the (?:end|start|beginning))[\w&.' -]{2,30}(?=, (?:we|our|i)\b)|#+ \w+|[-*•]|"
    r"\d+[.)])"
    r"(?:\s+(?:all|there|team|everyone|again))?\s*[,:;!.–—-]*\s+|[-*•]\s+)",
    re.IGNORECASE,
)
_NEXT = (
    r"(?:i|i['’]m|we|we['’]re|my|our|please|always|never|can|could|what|how|is|does|do|which|would|"
    r"should|then|it|that|you|there|the question)"
)
_CUT = re.compile(
    rf"\s*(?:[;]|\s[–—-])\s+|,?\s+(?:and|but|so|plus|also|although|though)\s+(?={_NEXT}\b)|"
    rf",\s+(?={_NEXT}\b)|,?\s+(?:because|since (?=i\b|we\b|my\b|our\b|the\b|it\b)|so that|which "
    rf"(?:is|means|makes)|while|whereas|though|although)\s|"
    r",\s+(?:so|but|right|correct|thanks|for example|e\.g\.|not|hence|therefore|especially)\b",
    re.IGNORECASE,
)
_ROLE = re.compile(
    rf"(?:[\w/&+.#'’-]+ ){{0,5}}?(?P<noun>{ROLE_NOUN}s?)(?=$|[ ,.;:!)/])", re.IGNORECASE
)
_END_OF_ROLE = re.compile(
    r"\s(?:at|in|for|of|on|with|who|from|by|and|to|working|based|since|specialising|specializing|"
    r"responsible)\s|,",
    re.IGNORECASE,
)
_VAGUE_PLACE = re.compile(
    r"\w+ (?:it|this|that|them|these|those|something|things?|a bug|an issue|a problem)\b", re.I
)
_SMALL_TEXT = "in near outside of the de da di du la le van von den der and"
_BETWEEN_NAMES = frozenset(_SMALL_TEXT.split())
_MOST_NAMES = 5
_OPENING = re.compile(r"(?:as|every|each|on|once|at|twice) ", re.IGNORECASE)
_BEFORE = re.compile(r"([^,]*?),? (?:I|We|Our \w+|The (?:company|team)|My \w+)\b", re.IGNORECASE)
_EMPLOYED = re.compile(r"I(?:['’]ve| have) worked", re.IGNORECASE)
_NO_TASKS = frozenset(
    (
        ("have", "to"),
        ("work", "on"),
        ("work", "around"),
        ("work", "out"),
        ("run", "into"),
        ("run", "out"),
        ("back", "up"),
    )
)
_NOT_A_HABIT_TEXT = """
m am was were had have think thought guess know knew see saw feel felt wonder want wanted
need got get say said tell told mean meant try tried wish hope can could will would should
might must may just did do don re ve ll d forgot forget seem believe love hate ran went lost
are is been never always ask keep kept
"""
_NOT_A_HABIT = frozenset(_NOT_A_HABIT_TEXT.split())


def candidates(user_text: str) -> list[Candidate]:
    """Return the facts in what a user sent, in order; none if it holds another text.

    Args:
        user_text: The user's side of a turn, verbatim.

    Returns:
        Candidates whose quote stands in the text; confidence is that of the rule.
    """
    if foreign(user_text):
        return []
    hidden = masked(user_text)
    found = []
    for start, end in sentence_spans(user_text):
        if not any(a < end and start < b for a, b in hidden):
            found += list(_of_sentence(user_text[start:end]))
    return found


def _of_sentence(text: str) -> Iterator[Candidate]:
    if other := spoken(text):
        found = other.statement(text)
        if found and not doubt(text) and len(text.split()) <= MAX_WORDS:
            start, kind, target = found
            quote = text[start:].rstrip(" .!,;:")
            said = f"{SUBJECTS[target]}: “{' '.join(quote.split())}.”"
            yield Candidate(target, said, quote, _SURE, "rules", kind)
        return
    begin = _behind_leads(text, 0)
    for start, end in _clauses(text, begin):
        clause = text[start:end].rstrip(" .!,;:")
        mark = "?" if _asks(text, end) else ""
        if clause and not doubt(text[begin : start + len(clause)] + mark):
            made = _fact(clause)
            if made is not None:
                yield made


def _asks(text: str, end: int) -> bool:
    """Return whether the sentence's question mark belongs to the clause that ends here."""
    return text.rstrip().endswith("?") and end >= len(text.rstrip()) - 1


def _behind_leads(text: str, at: int) -> int:
    while match := _LEAD.match(text, at):
        at = match.end()
    return at


def _clauses(text: str, begin: int) -> list[tuple[int, int]]:
    """Cut a sentence where another statement or its reason begins."""
    opening = text.find(",", begin) if _OPENING.match(text, begin) else -1
    spans, at = [], begin
    for match in _CUT.finditer(text, begin):
        if match.start() != opening:  # that comma belongs to the statement
            spans.append((at, match.start()))
            at = _behind_leads(text, match.end())
    return [*spans, (at, len(text))]


def _fact(clause: str) -> Candidate | None:
    if len(clause.split()) > MAX_WORDS:
        return None
    for rule in PATTERNS:
        match = rule.pattern.fullmatch(clause)
        if match is not None and all(CHECKS[name](match) for name in rule.check):
            text = sentence(SUBJECTS[rule.target], _said(rule, match))
            text = text.replace(" 's ", "'s ")
            return Candidate(rule.target, text, clause, rule.sure, "rules", rule.kind)
    return None


def _said(rule: Pattern, match: re.Match[str]) -> str:
    """Return what stands behind the subject of the new sentence."""
    groups = {name: words or "" for name, words in match.groupdict().items()}
    verb, adv, lead = groups.get("verb", ""), groups.get("adv", ""), _BEFORE.match(match[0])
    is_third = verb.endswith("s") and not verb.endswith("ss")  # our team reviews
    return rule.becomes.format(
        adv=f"{adv.lower()} " if adv else "",
        verb=verb if is_third or not verb else third(verb),
        said=groups.get("said", ""),
        what=groups.get("what", ""),
        lead=lead[1][:1].lower() + lead[1][1:] if lead else "",
    )


def _words(match: re.Match[str]) -> str:
    return (match["said"] or "").strip()


def _is_role(match: re.Match[str]) -> bool:
    """Return whether words after ``a`` name an occupation, or an employment is told."""
    if _EMPLOYED.match(match[0]):
        return True
    head = _END_OF_ROLE.split(f"{_words(match)} ")[0].strip().rstrip(".")
    named = _ROLE.fullmatch(head)
    return named is not None and not NO_ROLE & set(head.lower().split())


def _is_place(match: re.Match[str]) -> bool:
    said = _words(match)
    return bool(said) and not _VAGUE_PLACE.match(said) and not MOOD.search(said)


def _is_named(match: re.Match[str]) -> bool:
    """Return whether a few words name a place or a person: with capitals, but for small ones."""
    names = [word for word in _words(match).split() if word.lower() not in _BETWEEN_NAMES]
    return 0 < len(names) <= _MOST_NAMES and all(word[0].isupper() for word in names)


def _is_habit(match: re.Match[str]) -> bool:
    """Return whether a verb may tell what people do again and again."""
    verb, first = match["verb"].lower(), _words(match).partition(" ")[0].lower()
    past = verb in _NOT_A_HABIT or verb.endswith(("ed", "ing"))
    return not past and (verb, first) not in _NO_TASKS and not MOOD.search(match[0])


def _is_lasting(match: re.Match[str]) -> bool:
    return not MOOD.search(_words(match)) and not DEIXIS.search(_words(match))


# What must hold besides the pattern: to want something once is a request, and that a meeting was
# moved is no news of a company.
CHECKS: dict[str, Callable[[re.Match[str]], bool]] = {
    "role": _is_role,
    "object": lambda match: bool(_words(match)) and not NO_OBJECT.match(_words(match)),
    "place": _is_place,
    "named": _is_named,
    "change": lambda match: not NO_OBJECT.match(match["what"].partition(" ")[2]),
    "recurring": lambda match: bool(RECURRING.search(match[0])) and not MOOD.search(match[0]),
    "verb": _is_habit,
    "want": lambda match: match["verb"].lower() != "want" or bool(match["adv"]),
    "standing": lambda match: not MOOD.search(_words(match)),
    "lasting": _is_lasting,
}
