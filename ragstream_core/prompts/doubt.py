"""What people read first where the documents do not, or perhaps not, answer what was asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ragstream_core.prompts.blocks import HISTORY_PREFIX
from ragstream_core.records import SuperPrompt
from ragstream_core.records.s_ctx import NOT_FOUND, PERHAPS, PieceAnswer

MOST_FILES = 3
MOST_PIECES = 3
PIECE_CHARS = 80


def doubt_of(prompt: SuperPrompt) -> str:
    """Return a few sentences for people; empty if every part of a prompt is answered."""
    answers = prompt.extras.answers
    moved = [row for row in prompt.extras.s_ctx.open_issues if row.kind == "conflict"]
    disputed = {row.piece_id: row.citations[-1].source for row in moved if row.piece_id}
    missing = [answer for answer in answers if answer.word == NOT_FOUND]
    unsure = [answer for answer in answers if answer.word == PERHAPS]
    dates = [answer.piece_id for answer in unsure if answer.piece_id in disputed]
    unsure = [answer for answer in unsure if answer.piece_id not in disputed]
    newer = ", ".join(dict.fromkeys(disputed[i] for i in dates))
    two = f"Your documents name two dates; the newer one stands in {newer}." if newer else ""
    return " ".join(filter(None, (two, _said(prompt, missing, unsure))))


def _said(
    prompt: SuperPrompt, missing: Sequence[PieceAnswer], unsure: Sequence[PieceAnswer]
) -> str:
    answers = prompt.extras.answers
    if not (missing or unsure):
        return ""
    nearest = _nearest(prompt, (*missing, *unsure))
    where = f" Nearest: {', '.join(nearest)}." if nearest else ""
    if len(missing) == len(answers):
        return f"No passage clearly answers this.{where}"
    if len(unsure) == len(answers):
        return f"A passage might answer this.{where}"
    said = [f"No passage clearly answers {_quoted(missing)}."] if missing else []
    said += [f"A passage might answer {_quoted(unsure)}."] if unsure else []
    return f"{' '.join(said)}{where}"


def _nearest(prompt: SuperPrompt, open_: Iterable[PieceAnswer]) -> list[str]:
    """Return the files of the passages that come nearest to what is open; only shown ones."""
    shown = [i for i in prompt.final_selection_ids if not i.startswith(HISTORY_PREFIX)]
    cited = [answer.nearest.chunk_id for answer in open_ if answer.nearest]
    order = [*(i for i in cited if i in shown), *shown]
    sources = {chunk.id: chunk.source for chunk in prompt.base_context_chunks}
    files = dict.fromkeys(sources[i] for i in order if i in sources)
    return list(files)[:MOST_FILES]


def _quoted(answers: Sequence[PieceAnswer]) -> str:
    asked = [" ".join(answer.text.split()) for answer in answers[:MOST_PIECES]]
    short = [text if len(text) <= PIECE_CHARS else f"{text[: PIECE_CHARS - 2]} …" for text in asked]
    more = len(answers) - MOST_PIECES
    rest = f" and {more} more" if more > 0 else ""
    return f"{', '.join(f'“{text}”' for text in short)}{rest}"
