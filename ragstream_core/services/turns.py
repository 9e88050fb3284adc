"""Turns of conversations, found by their words.

The search reads the journal, so it finds a turn as soon as it is kept and needs no model; what
prompts take of older turns is searched by meaning as well, in the published history.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ragstream_core.wiring import journal

if TYPE_CHECKING:
    from ragstream_core.conversations.sessions import HistoryTurn
    from ragstream_core.wiring.workspace import Workspace


def search(
    workspace: Workspace, text: str, *, session: str = "", tags: Sequence[str] = (), k: int = 10
) -> tuple[HistoryTurn, ...]:
    """Return the turns that share most words with a text, the best first, by BM25.

    Args:
        workspace: The data root.
        text: What is looked for.
        session: Only this conversation; "": all.
        tags: Only turns with all of these.
        k: At most so many, at least 1.

    Raises:
        IntegrityError: A newer version of the program wrote the journal.
    """
    from ragstream_core.text.bm25 import Bm25, build_lexical
    from ragstream_core.text.terms import term_blob, terms

    rows = journal.show(workspace, session, tags=tags)
    blobs = [(term_blob(row.user), term_blob(row.assistant)) for row in rows]
    scores = Bm25([build_lexical(blobs)]).scores(terms(text)).tolist()
    found = [replace(row, score=s) for row, s in zip(rows, scores, strict=True) if s > 0]
    return tuple(sorted(found, key=lambda turn: (-turn.score, -turn.seq))[:k])
