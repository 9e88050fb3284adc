"""What the publisher of the snapshot is given: every live chunk of the history, and the cap's rule.

`ragstream_core.stores.history_catalog` reads them, `ragstream_core.stores.history_snapshot` writes
the file that prompts search.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from ragstream_core.history.records import GOLD, HIDDEN, SILVER
from ragstream_core.lexical import LexicalArrays, build_lexical

OWN_WORDS, NEIGHBOURS_WORDS = 3, 2
"""How often the words of a turn count, and those of the turns before and after it."""
_TAG_VALUE = {GOLD: 1.0, SILVER: 0.5}


class SelectedRow(NamedTuple):
    """One live chunk of one turn.

    Attributes:
        chunk_id: ``history::<session>::<seq>-<seq>::<chunk_idx>``.
        seq: Its turn.
        chunk_idx: Its place in the turn.
        text: Its text, with the line of date and speaker.
        text_hash: sha256 of the text.
        terms: Its own terms as `terms.term_blob` packs them; the neighbours' are added here.
        session: The conversation.
        turn_id: Id of the turn's record.
        timestamp_ns: Time of the turn, ns since the epoch.
        tags: Labels as of the mark.
        projects: Project labels active in the turn.
        active_dbs: Names of the indexes used.
        source: ``chat``, ``file`` or ``external``.
        importance: Its flag in [0, 1].
        start: Character offset in the turn's unit text.
        end: Character offset, exclusive.
        versions: Canonical JSON of the files that the turn speaks of.
        prompt_key: The prompt that it answers, or "".
        sha256: Digest of the turn's texts, 64 hex digits.
        seq_last: The last turn of a summary of several; 0 for a chunk of one turn.
    """

    chunk_id: str
    seq: int
    chunk_idx: int
    text: str
    text_hash: str
    terms: bytes
    session: str
    turn_id: str
    timestamp_ns: int
    tags: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    active_dbs: tuple[str, ...] = ()
    source: str = "chat"
    importance: float = 0.0
    start: int = 0
    end: int = 0
    versions: str = "[]"
    prompt_key: str = ""
    sha256: str = ""
    seq_last: int = 0


def value_of(tags: Collection[str], importance: float) -> float:
    """Return how much a turn is worth keeping: GOLD 1, SILVER 0.5, or its flag; hidden −1.

    Args:
        tags: Its labels.
        importance: Its flag in [0, 1].
    """
    if not HIDDEN.isdisjoint(tags):
        return -1.0
    return max(importance, *(_TAG_VALUE.get(tag, 0.0) for tag in (*tags, "")))


def capped(rows: Sequence[SelectedRow], cap: int) -> list[int]:
    """Return the positions of the rows that stay, ascending (R-239).

    The least important leave first, among equals the oldest; the catalog keeps them all.

    Args:
        rows: All rows, in any order.
        cap: How many stay at most, ≥ 1.
    """
    order = sorted(
        range(len(rows)),
        key=lambda i: (
            -value_of(rows[i].tags, rows[i].importance),
            -rows[i].seq,
            rows[i].chunk_idx,
        ),
    )
    return sorted(order[:cap])


def lexical_of(rows: Sequence[SelectedRow], kept: Sequence[int]) -> LexicalArrays:
    """Build the term arrays of the rows that stay.

    A row is found by its own words and by those of its neighbours in the same session, also of
    neighbours that left: an answer is found by its question (`quality.md`). Its own words count
    half as much again, so that of equals the turn that said it comes first.

    Args:
        rows: All rows, in any order.
        kept: Positions of those that stay, in the order of the result.
    """
    before, after = {}, {}
    order = sorted(
        range(len(rows)), key=lambda i: (rows[i].session, rows[i].seq, rows[i].chunk_idx)
    )
    for left, right in itertools.pairwise(order):
        if rows[left].session == rows[right].session:
            after[left], before[right] = right, left
    own = [_times(row.terms, OWN_WORDS) for row in rows]
    near = [_times(row.terms, NEIGHBOURS_WORDS) for row in rows]
    return build_lexical(
        [own[i], *(near[at] for at in (before.get(i), after.get(i)) if at is not None)]
        for i in kept
    )


def _times(blob: bytes, factor: int) -> bytes:
    """Return packed terms with every count multiplied."""
    pairs = np.frombuffer(blob, dtype="<i8").reshape(-1, 2).copy()
    pairs[:, 1] *= factor
    return bytes(pairs.data)
