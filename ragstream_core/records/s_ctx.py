"""S_ctx: facts, constraints and open issues, and what the prompt issues to be cited."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

ANSWERED, PERHAPS, NOT_FOUND = "answered", "perhaps", "not found"
IN_CONVERSATION = "answered in a conversation"
"""What is said of a query piece: `PieceAnswer.word`; the last one: the documents do not answer it,
and a turn that is shown does."""


@dataclass(frozen=True, slots=True)
class Cited:
    """A passage that an item of S_ctx cites."""

    chunk_id: str
    source: str
    short_id: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact or constraint of S_ctx, word for word as its passage has it.

    Attributes:
        text: The sentence; a row of a table has the names of its columns in it.
        heading: The heading that it stands under; may be empty.
        piece_ids: The query pieces that it speaks to.
        score: How well it answers them; decides what goes first if the budget is short.
        citations: Its passages.
        quoted: The words as the passage has them, where ``text`` is a row with the names of its
            columns; None: ``text``.
    """

    text: str
    heading: str = ""
    piece_ids: tuple[str, ...] = ()
    score: float = 0.0
    citations: tuple[Cited, ...] = ()
    quoted: str | None = None


@dataclass(frozen=True, slots=True)
class PieceAnswer:
    """Whether the kept passages answer a query piece.

    Attributes:
        piece_id: Its id.
        text: What is asked, in the person's own words.
        word: `ANSWERED`, `PERHAPS`, `NOT_FOUND` or `IN_CONVERSATION`.
        chance: How likely they do, in [0, 1]; None if it was not estimated.
        nearest: The passage with the nearest sentence; None: none was looked at.
    """

    piece_id: str
    text: str
    word: str
    chance: float | None = None
    nearest: Cited | None = None


@dataclass(frozen=True, slots=True)
class OpenIssue:
    """What the evidence leaves open.

    Attributes:
        kind: ``unsupported``, ``perhaps``, ``missing_term``, ``conflict``, ``superseded`` or
            ``conversation``.
        text: One sentence for people.
        piece_id: The query piece that has no sure answer, or whose answers disagree about a day;
            empty for another kind.
        citations: The passages that disagree, or the one that may answer.
    """

    kind: str
    text: str
    piece_id: str = ""
    citations: tuple[Cited, ...] = ()

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
    """What stands behind a citation id of the prompt.

    Attributes:
        chunk_id: Chunk, or injected file.
        source: Path in the project.
        snippet: Its first 200 characters.
        page_number: 1-based, 0 without pages.
    """

    chunk_id: str
    source: str
    snippet: str
    page_number: int
