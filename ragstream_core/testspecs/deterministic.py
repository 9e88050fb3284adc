"""Test cases without a model: steps from what a requirement states, every expected result verbatim.

Nothing is made up: every part is a slice of a sentence. A sentence counts if it says what must be
or happen (must, shall, refuses, returns, …), what happens under a condition (When X, Y), or what
stays as it was.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ragstream_core.testspecs.specification import NONE_STATED, Source, TestCase

# A longer sentence is no sentence; it is a table or a log.
MAX_CHARS = 1_000
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
    """The parts of one sentence; each stands in it word for word."""

    given: str  # under which circumstances; may be empty
    when: str  # what is done or happens; may be empty
    subject: str  # what it speaks of, up to its verb; empty if that is not its beginning
    then: str
    after: bool  # whether it says what is so afterwards

    @property
    def goes_on(self) -> bool:
        """Whether it speaks of what the sentence before it speaks of."""
        return not self.when and self.subject.lower() in _PRONOUNS


def statement(sentence: str) -> Statement | None:
    """Read one sentence; None if it states nothing that could be checked."""
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
    """Read an item of a list with the words that open the list: ``It must:`` · ``refuse links``."""
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


MAX_STEPS = 12


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of the sources."""

    source: Source  # where it stands; its quote is the sentence
    is_check: bool = False  # whether it stands where the source says how the requirement is checked
    lead: Source | None = None  # the words with a colon that open the list in which it stands

    @property
    def claim(self) -> Statement | None:
        """What it states that can be checked."""
        if self.lead is None:
            return statement(self.source.quote)
        return listed(self.lead.quote, self.source.quote)


def is_testable(
    sentences: Sequence[str], checks: Sequence[str], lists: Sequence[tuple[str, str]] = ()
) -> bool:
    """Whether the words of a definition state something that could be checked."""
    return (
        any(0 < len(check) <= MAX_CHARS for check in checks)
        or any(statement(sentence) for sentence in sentences)
        or any(listed(lead, item) for lead, item in lists)
    )


def drafted(
    ids: tuple[str, ...], title: str, sentences: Sequence[Sentence], *, form_notes: Sequence[str]
) -> TestCase | None:
    """Write a test case without an id; None if nothing that could be checked is stated."""
    checks = [one for one in sentences if one.is_check]
    said = [(one, one.claim) for one in sentences if not one.is_check]
    claims = [(one, found) for one, found in said if found is not None]
    # what says most of what is required: a claim, else the longest sentence, else how it is checked
    longest = max((one for one, _ in said), key=lambda one: len(one.source.quote), default=None)
    main = claims[0][0] if claims else longest or (checks[0] if checks else None)
    steps = [(_checking(main.source.quote), c.source.quote, c) for c in checks if main]
    used = checks
    if not checks:
        steps = _steps(claims)
        used = [one for one, _ in claims]
    if not steps or main is None:
        return None
    dropped = len(steps) - MAX_STEPS
    notes = [f"{dropped} further statements are not part of it"] if dropped > 0 else []
    found = [claim for _, claim in (claims[:1] if checks else claims)]
    shown = [source for one in used[:MAX_STEPS] for source in (one.lead, one.source) if source]
    kept = dict.fromkeys([main.source, *shown])
    return TestCase(
        id="",
        title=title,
        precondition="; ".join(dict.fromkeys(s.given for s in found if s.given)) or NONE_STATED,
        actions=tuple(action for action, _, _ in steps[:MAX_STEPS]),
        expected=tuple(then for _, then, _ in steps[:MAX_STEPS]),
        postcondition=next((s.then for s in reversed(found) if s.after), NONE_STATED),
        requirements=ids,
        sources=tuple(kept),
        quote=main.source.quote,
        notes=(*form_notes, *notes),
    )


def _steps(claims: Sequence[tuple[Sentence, Statement]]) -> list[tuple[str, str, Sentence]]:
    """Return action, expected result and sentence of each claim.

    ``It shall …`` goes on with what the sentence before it was about.
    """
    steps = list[tuple[str, str, Sentence]]()
    for one, found in claims:
        before = steps[-1] if steps and found.goes_on else None
        is_next = before is not None and before[2].source.path == one.source.path
        action = before[0] if before and is_next else _action(found, one)
        steps.append((action, found.then, one))
    return steps


def _action(found: Statement, one: Sentence) -> str:
    if found.when:
        return found.when
    known = found.subject and not found.goes_on
    return f"Exercise: {found.subject}" if known else _checking(one.source.quote)


def _checking(words: str) -> str:
    return f"Check: {words}"
