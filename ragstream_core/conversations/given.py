"""A conversation that comes with a question instead of from the journal, as a prompt pins it.

Clients that keep the conversation themselves send all of it with each question.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from ragstream_core.conversations.journal.records import Entry, Turn
from ragstream_core.records.identity import canonical_json

# What was asked and what was answered; either may be empty.
Pair = tuple[str, str]


def pinned_text(pairs: Sequence[Pair], k: int) -> str:
    """Return the newest pairs as the text that a prompt pins, "" for none."""
    newest = [list(pair) for pair in pairs[-k:]] if k else []
    return canonical_json(newest) if newest else ""


def pairs_in(text: str) -> tuple[Pair, ...]:
    """Return the pairs of a pinned text, oldest first; none of an empty one."""
    return tuple((asked, answered) for asked, answered in json.loads(text or "[]"))


def entries_in(text: str) -> tuple[Entry, ...]:
    """Return the pairs of a pinned text as Layer G shows them: without a date or a number."""
    return tuple(
        Entry(0, Turn("", "", "", asked, answered), "", "", 0, 0)
        for asked, answered in pairs_in(text)
    )
