"""The summaries of old turns that prompts search, and the promotion of those that proved useful."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragstream_core.conversations.edits import Folded, apply_edits, visible_turns
from ragstream_core.conversations.journal.records import SILVER, TagEdit
from ragstream_core.conversations.summaries import SOURCE, citing, promoted
from ragstream_core.wiring.journal import completed

if TYPE_CHECKING:
    from ragstream_core.records import Chunk
    from ragstream_core.wiring.history_index import History


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """A summary of an old span that prompts search.

    Attributes:
        id: Its id.
        title: Its first line.
        text: All of it.
        answers: How many answers cite it.
        tags: As of now.
    """

    id: str
    title: str
    text: str
    answers: int
    tags: tuple[str, ...]


def summaries(history: History) -> list[SummaryRow]:
    """Return the summaries of the published selection, in the order of their ids."""
    chunks, counts, edits = _cited(history)
    return [
        SummaryRow(
            chunk.id,
            chunk.snippet.partition("\n")[0],
            chunk.snippet,
            counts[chunk.id],
            edits.tags(chunk.id, ()),
        )
        for chunk in chunks
    ]


def promote(history: History) -> list[str]:
    """Tag summaries that proved useful SILVER, by a record; return what was done, for people.

    The tag is an edit like any other: the next prompt obeys, a replay has the tags of then, and
    whoever takes it off has the last word.
    """
    settings = history.workspace.config.settings.history
    if not (settings.summaries and settings.persist):
        return []
    _, counts, edits = _cited(history)
    names = promoted(counts, edits.edits)
    history.log.append(completed([TagEdit("", name, "", add=(SILVER,)) for name in names]))
    return [
        f"the summary {name} is cited by several answers and now ranks higher (SILVER); "
        f"take it off: ragstream history tag {name} --remove SILVER"
        for name in names
    ]


def _cited(history: History) -> tuple[list[Chunk], dict[str, int], Folded]:
    """Return the summaries, how many answers cite each, and the edits of now."""
    view = history.selection()
    rows = view.columns.sources.where(SOURCE.__eq__).nonzero()[0].tolist() if view else []
    chunks = view.chunks(view.chunk_ids[row] for row in rows) if view and rows else []
    if not chunks:
        return [], {}, apply_edits([])
    edits = apply_edits(history.log.entries())
    turns = (turn for _, turn, _ in visible_turns(history.log.entries(), edits))
    return chunks, citing([chunk.id for chunk in chunks], turns), edits
