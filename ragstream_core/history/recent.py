"""Layer G: the newest pairs of a conversation, verbatim, from the journal's tail (R-216…218, C-40).

Read anew for every prompt and never summarised; whole pairs until the budget is spent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from ragstream_core.history.fold import Folded, merged
from ragstream_core.history.journal import Journal
from ragstream_core.history.records import Asked, Cleared, Entry, Record, Turn
from ragstream_core.history.units import heading

MAX_SCAN_BYTES = 16 << 20
_CLEARED = b'"kind":"cleared"'
CUT_MARK = "\n[… cut: the first {shown} of {all} characters of this pair]"


@dataclass(frozen=True, slots=True)
class Recent:
    """The pairs of Layer G.

    Attributes:
        pairs: Complete turns, oldest first, by the order of the journal.
        first_seq: Number of the oldest; 0: there is none.
        last_seq: Number of the newest.
    """

    pairs: tuple[Entry, ...] = ()
    first_seq: int = 0
    last_seq: int = 0


def layer_g(journal: Journal, *, session: str, k: int, upto: int | None = None) -> Recent:
    """Return the last ``k`` complete pairs of a session, filled up with the newest of others.

    Cleared turns are left out, whenever they were cleared; broken-off answers and unanswered
    questions as well. Not more than `MAX_SCAN_BYTES` of the journal are read.

    Args:
        journal: Where they lie.
        session: The prompt's own conversation; "": none is.
        k: How many pairs, ≥ 0.
        upto: Last number of the journal that counts; default: the newest.

    Raises:
        IntegrityError: A newer version of the program wrote the journal.
    """
    own: list[Entry] = []
    others: list[Entry] = []
    hidden: tuple[tuple[int, int], ...] = ()
    needle = _needle(session)

    def wanted(raw: bytes) -> bool:
        """Once others are enough, only the session's own lines are worth verifying."""
        return len(others) < k or (bool(session) and needle in raw) or _CLEARED in raw

    newest = journal.backwards(wanted=wanted, max_bytes=MAX_SCAN_BYTES)
    for entry in newest if k else ():
        record = entry.record
        if isinstance(record, Cleared):  # what it hides lies before it, so still ahead of us
            hidden = merged([*hidden, *((int(a), int(b)) for a, b in record.seqs)])
        elif (
            _is_pair(record)
            and entry.seq <= (upto or entry.seq)
            and not Folded(hidden=hidden).is_hidden(entry.seq)
        ):
            (own if session and record.session_id == session else others).append(entry)
        if len(own) >= k or (not session and len(others) >= k):
            break
    pairs = sorted([*own, *others[: k - len(own)]], key=lambda entry: entry.seq)
    return Recent(tuple(pairs), pairs[0].seq, pairs[-1].seq) if pairs else Recent()


def render_recent(
    pairs: Sequence[Entry], *, count: Callable[[str], int], budget_tokens: int
) -> tuple[str, tuple[Entry, ...], int]:
    """Render pairs verbatim, oldest first: as many whole ones as fit, the newest kept first.

    Args:
        pairs: Of `layer_g`, oldest first.
        count: Counts the tokens of a text; monotone in its length.
        budget_tokens: Limit of the whole text, ≥ 0.

    Returns:
        The text; the pairs in it; how many were left out. Where even the newest pair is over the
        budget, it is cut and says so.
    """
    text, shown = "", 0
    for n in range(1, len(pairs) + 1):
        longer = "\n\n".join(pair_text(entry) for entry in pairs[-n:])
        if count(longer) > budget_tokens:
            break
        text, shown = longer, n
    if pairs and not shown:
        text = _cut(pair_text(pairs[-1]), count, budget_tokens)
        shown = 1 if text else 0
    return text, tuple(pairs[len(pairs) - shown :]), len(pairs) - shown


def pair_text(entry: Entry) -> str:
    """Return one pair as ``[date, time] speaker: text`` for each side that said something.

    Raises:
        ValueError: The entry is no turn.
    """
    turn = entry.record
    if not isinstance(turn, Turn):
        raise ValueError(f"record {entry.seq} is no turn")
    sides = zip(turn.speakers, (turn.user_text, turn.assistant_text), strict=True)
    return "\n".join(f"{heading(turn, speaker)}{text}" for speaker, text in sides if text)


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
        and bool(record.user_text or record.assistant_text)
    )


def _cut(text: str, count: Callable[[str], int], budget_tokens: int) -> str:
    """Return the longest beginning that fits with its mark, or nothing."""

    def marked(shown: int) -> str:
        return text[:shown] + CUT_MARK.format(shown=shown, all=len(text))

    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(marked(middle)) <= budget_tokens else (low, middle - 1)
    return marked(low) if low else ""
