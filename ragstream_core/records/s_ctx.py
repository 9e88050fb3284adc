"""S_ctx: facts, constraints and open issues, and what the prompt issues to be cited."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

ANSWERED, PERHAPS, NOT_FOUND = "answered", "perhaps", "not found"

# What is said of a query piece: `PieceAnswer.word`; the last one: the documents do not answer it,
# and a turn that is shown does.
IN_CONVERSATION = "answered in a conversation"


@dataclass(frozen=True, slots=True)
class Cited:
    """A passage that an item of S_ctx cites."""

    chunk_id: str
    source: str
    short_id: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact or constraint of S_ctx, word for word as its passage has it."""

    text: str  # the sentence; a row of a table has the names of its columns in it
    heading: str = ""  # the heading that it stands under; may be empty
    piece_ids: tuple[str, ...] = ()  # the query pieces that it speaks to
    score: float = 0.0  # how well it answers them; decides what goes first if the budget is short
    citations: tuple[Cited, ...] = ()  # its passages
    # the words as the passage has them, where ``text`` is a row with the names of its columns;
    # None: ``text``
    quoted: str | None = None


@dataclass(frozen=True, slots=True)
class PieceAnswer:
    """Whether the kept passages answer a query piece."""

    piece_id: str  # its id
    text: str  # what is asked, in the person's own words
    word: str  # `ANSWERED`, `PERHAPS`, `NOT_FOUND` or `IN_CONVERSATION`
    chance: float | None = None  # how likely they do, in [0, 1]; None if it was not estimated
    nearest: Cited | None = None  # the passage with the nearest sentence; None: none was looked at


@dataclass(frozen=True, slots=True)
class OpenIssue:
    """What the evidence leaves open."""

    # ``unsupported``, ``perhaps``, ``missing_term``, ``conflict``, ``superseded`` or
    # ``conversation``
    kind: str
    text: str  # one sentence for people
    # the query piece that has no sure answer, or whose answers disagree about a day; empty for
    # another kind
    piece_id: str = ""
    citations: tuple[Cited, ...] = ()  # the passages that disagree, or the one that may answer

    @property
    def heading(self) -> str:
        """The empty text: it stands under no heading."""
        return ""


@dataclass(frozen=True, slots=True)
class SCtx:
    """S_ctx: what the evidence says, what limits it, what it leaves open."""

    facts: tuple[Fact, ...] = ()
    constraints: tuple[Fact, ...] = ()
    open_issues: tuple[OpenIssue, ...] = ()

    @property
    def parts(self) -> tuple[tuple[Fact | OpenIssue, ...], ...]:
        """Facts, constraints and open issues."""
        return self.facts, self.constraints, self.open_issues

    def kept(self, keep: Callable[[Fact | OpenIssue], bool]) -> SCtx:
        """Return the items that ``keep`` says yes to."""
        facts, limits = (tuple(filter(keep, part)) for part in (self.facts, self.constraints))
        return SCtx(facts, limits, tuple(filter(keep, self.open_issues)))


@dataclass(frozen=True, slots=True)
class IssuedCitation:
    """What stands behind a citation id of the prompt."""

    chunk_id: str  # chunk, or injected file
    source: str  # path in the project
    snippet: str  # its first 200 characters
    page_number: int  # 1-based, 0 without pages
