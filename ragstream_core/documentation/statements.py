"""What a sentence states that somebody could check: given, when, then, in its own words.

Nothing is made up: every part is a slice of the sentence. A sentence counts where it says what must
be or happen (must, shall, refuses, returns, …), what happens under a condition (When X, Y), or what
stays as it was.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

MAX_CHARS = 1_000
"""A longer sentence is no sentence; it is a table or a log."""
_VERB = (
    r"must|shall|should|will|cannot|can not|may not|refuses?|returns?|rejects?|raises?|reports?"
    r"|accepts?|ignores?|prevents?|allows?|displays?|writes?"
    r"|fails? with|ends? with|exits? with|(?:is|are) (?:required|refused|rejected|not allowed)"
)
_CLAIM = re.compile(rf"(?<![-\w])(?:{_VERB}|never|always|only|at most|at least)\b", re.IGNORECASE)
_SAYS = re.compile(rf"(?P<subject>[^.;:!?]{{2,120}}?)\s(?:{_VERB})\b", re.IGNORECASE)
_LEADING = re.compile(
    r"(?P<cond>(?P<word>when|whenever|if|once|after|before|upon|while|where|given|unless"
    r"|as long as)\b\s[^,]{3,300}),\s{1,3}(?:then\s{1,3})?(?P<then>\S.{4,})",
    re.IGNORECASE | re.DOTALL,
)
_INLINE = re.compile(
    r"\s(?P<cond>(?P<word>when|whenever|if|once|after|upon|while|unless|as long as)"
    r"\s\S.{2,})",
    re.DOTALL,
)
_PRONOUNS = ("it", "this", "that", "they", "these", "there")
_GIVEN = ("while", "where", "given", "unless", "as long as")
_AFTER = re.compile(
    r"\b(?:afterwards|remains?|stays?|(?:is|are) left|unchanged|as (?:it|they) (?:was|were)"
    r"|nothing (?:else )?is (?:written|kept|changed|lost)|no longer)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Statement:
    """The parts of one sentence; each stands in it word for word.

    Attributes:
        given: Under which circumstances; may be empty.
        when: What is done or happens; may be empty.
        subject: What it speaks of, up to its verb; empty where that is not its beginning.
        then: What must be true.
        after: Whether it says what is so afterwards.
    """

    given: str
    when: str
    subject: str
    then: str
    after: bool

    @property
    def goes_on(self) -> bool:
        """Whether it speaks of what the sentence before it speaks of."""
        return not self.when and self.subject.lower() in _PRONOUNS


def statement(sentence: str) -> Statement | None:
    """Read one sentence; None where it states nothing that could be checked.

    Args:
        sentence: Without white space around it.
    """
    if len(sentence) > MAX_CHARS or sentence.endswith(("?", ":")):
        return None
    after = _AFTER.search(sentence) is not None
    if leading := _LEADING.match(sentence):
        given, when = _parted(leading)
        return Statement(given, when, "", leading["then"], after)
    claim = _CLAIM.search(sentence)
    if claim is None and not after:
        return None
    inline = _INLINE.search(sentence, claim.end() if claim else 0)
    given, when = _parted(inline) if inline else ("", "")
    then = sentence[: inline.start()].rstrip(" ,") if inline else sentence
    says = _SAYS.match(sentence)
    subject = says["subject"].strip(" ,*_`") if says else ""
    return Statement(given, when, subject, then, after)


def listed(lead: str, item: str) -> Statement | None:
    """Read an item of a list with the words that open the list: ``It must:`` · ``refuse links``.

    Args:
        lead: The sentence in front of the list, with its colon.
        item: A sentence of an item.
    """
    opened, own = statement(lead.rstrip(":")), statement(item)
    if opened is None or len(item) > MAX_CHARS or item.endswith(("?", ":")):
        return own
    if own is None:
        return replace(opened, then=item, after=False)
    given, when = own.given or opened.given, own.when or opened.when
    return replace(own, given=given, when=when, subject=opened.subject)


def _parted(match: re.Match[str]) -> tuple[str, str]:
    """Return a condition as (given, when)."""
    condition = match["cond"].strip()
    return (condition, "") if match["word"].lower() in _GIVEN else ("", condition)
