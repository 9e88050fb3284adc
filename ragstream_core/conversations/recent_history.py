"""Layer G: the newest pairs of a conversation, verbatim, from the journal's tail (R-216…218, C-40).

Read anew for every prompt and never summarised. If not all of it fits, long sides are cut at a
sentence with a mark, and what is not shown stays in the search.
"""

from __future__ import annotations

import functools
import json
import sys
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeGuard

from ragstream_core.conversations.edits import Backwards
from ragstream_core.conversations.journal.journal import Journal
from ragstream_core.conversations.journal.records import Asked, Entry, Record, Turn, project_tag
from ragstream_core.conversations.non_answers import is_non_answer
from ragstream_core.conversations.units import Line, heading, unit
from ragstream_core.conversations.use import is_usable
from ragstream_core.text.sentences import sentence_spans

Span = tuple[int, int]

# The span that holds every chunk of a turn.
WHOLE: Span = (0, sys.maxsize)
CUT_MARK = "\n[… cut: the first {shown} of {all} characters]"
_LOOK_BACK = 200


@dataclass(frozen=True)
class Side:
    """What one speaker of a turn said."""

    heading: str  # date and speaker, as the unit has them
    words: str  # to the letter
    line: Line | None  # its place in the text of the unit; None: it is white space, which has none

    @functools.cached_property
    def _sentence_ends(self) -> list[int]:
        return [end for _, end in sentence_spans(self.words)]

    def end(self, chars: int) -> int:
        """Return where the words end if only so many characters may be shown.

        That is behind a sentence; if it would be less than half of what is allowed, a word.
        Nothing is cut if the mark would be longer than what it stands for.
        """
        if len(self.words) <= chars + len(self._mark(len(self.words))):
            return len(self.words)
        at = bisect_right(self._sentence_ends, chars)
        sentence = self._sentence_ends[at - 1] if at else 0
        if sentence * 2 >= chars:
            return sentence
        far = max(chars // 2, chars - _LOOK_BACK)
        return next((at for at in range(chars, far, -1) if self.words[at].isspace()), chars)

    def upto(self, end: int) -> str:
        """Return the line with the words up to a character; a mark says what was left out."""
        cut = self._mark(end) if end < len(self.words) else ""
        return f"{self.heading}{self.words[:end]}{cut}"

    def _mark(self, shown: int) -> str:
        return CUT_MARK.format(shown=shown, all=len(self.words))

    def span(self, end: int) -> Span | None:
        """Return which part of the unit's text the words up to a character are; None: none."""
        if self.line is None:
            return None
        blank = len(self.words) - len(self.words.lstrip())
        last = min(self.line.said + max(0, end - blank), self.line.end)
        return (self.line.start, last) if last > self.line.said else None


MAX_SCAN_BYTES = 16 << 20

# Pairs are left out, the oldest first, rather than cut to fewer characters a side than this.
FEWEST_CHARS = 160
# So many times more may a side of the newest pair have than one of the others.
NEWEST_SHARE = 3
_ABOUT_OTHERS = (b'"kind":"cleared"', b'"kind":"tag"')
Fill = Literal["none", "projects", "all"]


@dataclass(frozen=True, slots=True)
class Scope:
    """Which pairs are recent for a prompt."""

    session: str  # the prompt's own conversation; "": nothing is recent
    k: int  # how many pairs, ≥ 0
    # whose turns fill up a conversation that has fewer: none, those of `projects`, or anybody's
    fill: Fill = "none"
    projects: tuple[str, ...] = ()  # the prompt's own projects
    exclude_tags: tuple[str, ...] = ()  # turns with one of these tags are left out

    def fills(self, turn: Turn, tags: Collection[str]) -> bool:
        """Whether a turn of another conversation may fill up this one."""
        if self.fill == "projects":
            adopted = {project_tag(name) for name in self.projects}
            return not (adopted.isdisjoint(tags) and set(self.projects).isdisjoint(turn.projects))
        return self.fill == "all" and is_usable(turn, tags, self.projects)


@dataclass(frozen=True, slots=True)
class Recent:
    """The pairs of Layer G, oldest first, by the order of the journal."""

    own: tuple[Entry, ...] = ()  # complete turns of the prompt's conversation
    others: tuple[Entry, ...] = ()  # what fills it up, from other conversations

    @property
    def pairs(self) -> tuple[Entry, ...]:
        """All of them, those of other conversations first."""
        return (*self.others, *self.own)


def layer_g(journal: Journal, scope: Scope, *, upto: int | None = None) -> Recent:
    """Return the last ``k`` complete pairs of a session; without a session, none (C-40).

    Cleared turns are left out, whenever they were cleared; broken-off answers, unanswered
    questions and turns with an excluded tag as well. Of what is no answer (`non_answers`) the
    question stays. Not more than `MAX_SCAN_BYTES` of the journal
    are read.
    """
    if not (scope.session and scope.k):
        return Recent()
    own: list[Entry] = []
    others: list[Entry] = []
    edits = Backwards()
    needle = _needle(scope.session)

    def wanted(raw: bytes) -> bool:
        """Whether lines are worth verifying: if nothing fills up, only the session's own are."""
        filling = scope.fill != "none" and len(others) < scope.k
        return filling or needle in raw or any(kind in raw for kind in _ABOUT_OTHERS)

    for entry in journal.backwards(wanted=wanted, max_bytes=MAX_SCAN_BYTES):
        record, counts = entry.record, entry.seq <= (upto or entry.seq)
        edits.note(record, counts=counts)
        if not (_is_pair(record) and counts) or edits.is_hidden(entry.seq):
            continue
        tags = edits.tags_of(record)
        if not tags.isdisjoint(scope.exclude_tags):
            continue
        if record.session_id == scope.session:
            own.append(entry)
        elif scope.fills(record, tags):
            others.append(entry)
        if len(own) >= scope.k:
            break
    return Recent(tuple(reversed(own)), tuple(reversed(others[: scope.k - len(own)])))


@dataclass(frozen=True, slots=True)
class Shown:
    """What RECENT HISTORY shows of one pair."""

    entry: Entry  # the pair
    text: str  # as it stands there
    # what of the text of its unit stands there; `WHOLE`: all of it
    spans: tuple[Span, ...] = (WHOLE,)

    @property
    def is_whole(self) -> bool:
        """Whether nothing of it was cut."""
        return self.spans == (WHOLE,)


def render_recent(pairs: Sequence[Entry], *, fits: Callable[[str], bool]) -> tuple[Shown, ...]:
    """Return what is shown of pairs: all of each if that fits, else long sides are cut.

    Every side is cut to the same number of characters, those of the newest pair to `NEWEST_SHARE`
    times as many; what is shorter stays whole and leaves its room to the others.
    """
    sides = [_sides(entry) for entry in pairs]
    longest = max((len(side.words) for pair in sides for side in pair), default=0)

    def at(n: int, chars: int) -> tuple[Shown, ...]:
        rows = list(zip(pairs, sides, strict=True))[len(pairs) - n :]
        most = [chars] * (n - 1) + [chars * NEWEST_SHARE]
        return tuple(_shown(e, s, chars=c) for (e, s), c in zip(rows, most, strict=True))

    def is_room(n: int, chars: int) -> bool:
        return fits(text_of(at(n, chars)))

    fewest = min(FEWEST_CHARS, longest)
    n = _largest(functools.partial(is_room, chars=fewest), 0, len(pairs))
    low, n = (fewest, n) if n else (0, min(1, len(pairs)))
    chars = _largest(functools.partial(is_room, n), low, longest)
    return at(n, chars) if n and chars else ()


def text_of(shown: Iterable[Shown]) -> str:
    """Return the text of pairs, an empty line between two."""
    return "\n\n".join(pair.text for pair in shown)


def has_session(journal: Journal, session: str) -> bool:
    """Whether one of the newest records belongs to a conversation; reads `MAX_SCAN_BYTES`."""
    own = _needle(session)
    found = journal.backwards(wanted=lambda raw: own in raw, max_bytes=MAX_SCAN_BYTES)
    return any(isinstance(e.record, Turn | Asked) and e.record.session_id == session for e in found)


def _needle(session: str) -> bytes:
    """Return the bytes that stand in every line of a conversation, and hardly in another."""
    return f'"session_id":{json.dumps(session, ensure_ascii=False)}'.encode()


def _is_pair(record: Record) -> TypeGuard[Turn]:
    return (
        isinstance(record, Turn)
        and record.status == "complete"
        and bool(record.user_text or answer_of(record))
    )


def answer_of(turn: Turn) -> str:
    """Return what was answered; what is no answer is nobody's words."""
    return "" if is_non_answer(turn) else turn.assistant_text


def is_question_alone(entry: Entry) -> bool:
    """Return whether of a pair only the question is shown: it was not answered."""
    return isinstance(entry.record, Turn) and not answer_of(entry.record).strip()


def _sides(entry: Entry) -> list[Side]:
    """Return what each speaker of a turn said; what is no answer is left out."""
    turn = entry.record
    if not isinstance(turn, Turn):
        raise ValueError(f"record {entry.seq} is no turn")
    lines = iter(unit(turn)[1])
    sides = zip(turn.speakers, (turn.user_text, answer_of(turn)), strict=True)
    return [
        Side(heading(turn, speaker), words, next(lines) if words.strip() else None)
        for speaker, words in sides
        if words
    ]


def _shown(entry: Entry, sides: Sequence[Side], *, chars: int) -> Shown:
    ends = [side.end(chars) for side in sides]
    text = "\n".join(side.upto(end) for side, end in zip(sides, ends, strict=True))
    if all(end == len(side.words) for side, end in zip(sides, ends, strict=True)):
        return Shown(entry, text)
    spans = (side.span(end) for side, end in zip(sides, ends, strict=True))
    return Shown(entry, text, tuple(span for span in spans if span))


def _largest(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the largest number for which a rule holds, ``low`` if it holds for none."""
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low
