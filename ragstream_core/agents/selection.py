"""The final selection: chunks in rank order within a token and a character budget.

Smooth at the edge: the chunk that does not fit any more is cut at the end of a sentence (or of a
code block), flagged, and the rest is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ragstream_core.agents.sentences import blocks, sentence_spans
from ragstream_core.ports import TokenCounter
from ragstream_core.prompting.fences import Source, frame
from ragstream_core.records import Chunk

MIN_CUT_TOKENS = 40
_NONCE = "0" * 12


@dataclass
class Selection:
    """What was selected.

    Attributes:
        tokens: Chunk id → tokens of its framed text, in rank order.
        cuts: Chunk id → length in characters of the part that is shown.
        left: Chunk ids that did not fit, in rank order.
    """

    tokens: dict[str, int] = field(default_factory=dict)
    cuts: dict[str, int] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)


def framed_tokens(chunk: Chunk, counter: TokenCounter, *, end: int | None = None) -> int:
    """Count the tokens of a chunk as an attachment, frame included.

    Args:
        chunk: The chunk.
        counter: Counts tokens.
        end: Length of the part that is shown; all of it by default.
    """
    text = chunk.snippet[:end]
    source = Source("0" * 8, chunk.source, chunk.span, "0" * 12, "" if end is None else "CUT")
    return counter.count("\n".join(frame(10, _NONCE, source=source, text=text)) + "\n\n")


def sentence_ends(text: str) -> list[int]:
    """Return where a text may be cut: behind each sentence, row, item and code block."""
    ends: list[int] = []
    for block in blocks(text):
        if block.kind in ("prose", "item"):
            ends += [end for _, end in sentence_spans(text, block.start, block.end)]
        elif block.kind != "heading":
            ends.append(block.end)
    return ends


def cut_length(chunk: Chunk, counter: TokenCounter, *, tokens: int, chars: int) -> int:
    """Return the longest cut of a chunk within both limits, 0 where nothing sensible fits.

    Args:
        chunk: The chunk.
        counter: Counts tokens.
        tokens: Token limit, frame included.
        chars: Character limit.
    """
    empty = framed_tokens(chunk, counter, end=0)
    for end in reversed(sentence_ends(chunk.snippet)):
        if end <= chars and framed_tokens(chunk, counter, end=end) <= tokens:
            enough = framed_tokens(chunk, counter, end=end) - empty >= MIN_CUT_TOKENS
            return end if enough else 0
    return 0


def select(
    chunks: Sequence[Chunk],
    counter: TokenCounter,
    *,
    budget_tokens: int,
    budget_chars: int,
    most: int = 0,
) -> Selection:
    """Select chunks in order until a budget is used up.

    Args:
        chunks: Candidates in rank order.
        counter: Counts tokens.
        budget_tokens: Most tokens of all attachments, frames included.
        budget_chars: Most characters of all excerpts.
        most: Most chunks; 0: no limit.

    Returns:
        The selection; its tokens never exceed the budget.
    """
    result = Selection()
    tokens, chars = budget_tokens, budget_chars
    for at, chunk in enumerate(chunks):
        need = framed_tokens(chunk, counter)
        if most and len(result.tokens) == most:
            result.left = [c.id for c in chunks[at:]]
            break
        if need <= tokens and len(chunk.snippet) <= chars:
            result.tokens[chunk.id] = need
            tokens, chars = tokens - need, chars - len(chunk.snippet)
            continue
        end = cut_length(chunk, counter, tokens=tokens, chars=chars)
        if end:
            result.tokens[chunk.id] = framed_tokens(chunk, counter, end=end)
            result.cuts[chunk.id] = end
        result.left = [c.id for c in chunks[at + bool(end) :]]
        break
    return result


def joined(chunks: Sequence[Chunk], *parts: Selection) -> Selection:
    """Return several selections of the same candidates as one, in rank order."""
    tokens = {i: n for part in parts for i, n in part.tokens.items()}
    left = {i for part in parts for i in part.left}
    return Selection(
        {chunk.id: tokens[chunk.id] for chunk in chunks if chunk.id in tokens},
        {i: end for part in parts for i, end in part.cuts.items()},
        [chunk.id for chunk in chunks if chunk.id in left],
    )
