"""The deterministic form: steps from what a requirement states, every expected result verbatim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragstream_core.documentation.cases import NONE_STATED, Source, TestCase
from ragstream_core.documentation.statements import MAX_CHARS, Statement, listed, statement

MAX_STEPS = 12


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of the sources.

    Attributes:
        source: Where it stands; its quote is the sentence.
        is_check: Whether it stands where the source says how the requirement is checked.
        lead: The words with a colon that open the list in which it stands.
    """

    source: Source
    is_check: bool = False
    lead: Source | None = None

    @property
    def claim(self) -> Statement | None:
        """What it states that somebody could check."""
        if self.lead is None:
            return statement(self.source.quote)
        return listed(self.lead.quote, self.source.quote)


def is_testable(
    sentences: Sequence[str], checks: Sequence[str], lists: Sequence[tuple[str, str]] = ()
) -> bool:
    """Whether the words of a definition state something that could be checked.

    Args:
        sentences: Its sentences.
        checks: How it is checked.
        lists: What opens a list, and a sentence of it.
    """
    return (
        any(0 < len(check) <= MAX_CHARS for check in checks)
        or any(statement(sentence) for sentence in sentences)
        or any(listed(lead, item) for lead, item in lists)
    )


def drafted(
    ids: tuple[str, ...], title: str, sentences: Sequence[Sentence], *, form_notes: Sequence[str]
) -> TestCase | None:
    """Write a test case without an id; None where nothing that could be checked is stated.

    Args:
        ids: The requirements.
        title: Of the definition.
        sentences: Of the definition, then of what else mentions it, in order.
        form_notes: Told with the case.
    """
    checks = [one for one in sentences if one.is_check]
    said = [(one, one.claim) for one in sentences if not one.is_check]
    claims = [(one, found) for one, found in said if found is not None]
    main = _main([one for one, _ in said], claims) or (checks[0] if checks else None)
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


def _main(
    said: Sequence[Sentence], claims: Sequence[tuple[Sentence, Statement]]
) -> Sentence | None:
    """Return the sentence that says most of what is required: a claim, else the longest."""
    return claims[0][0] if claims else max(said, key=lambda s: len(s.source.quote), default=None)


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
