"""Task 4 of seed 001 §7: cut kept segments into 1–10 query pieces, traceable to the raw prompt.

A piece is a sentence, a list item or a code block; one under four words joins a neighbour; too
many are merged, neighbours first; if sentences do not fill the windows well enough, the windows
are filled without regard to them, so that no content is lost while it fits.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ragstream_core.text.marked_blocks import blocks
from ragstream_core.text.sentences import is_filler, sentences_in, trim
from ragstream_core.text.terms import NO_BLANKS

MIN_WORDS = 4
COARSE_ABOVE = 200
_JOINT = re.compile(
    r",? (?:and|but|or) (?=(?:what|how|when|why|where|which|who|can|does|do|is|are|should|will) )",
    re.IGNORECASE,
)
_LEANS = re.compile(
    r"\b(?:it|its|they|them|their|this|that|these|those|one|he|she|so)\b", re.IGNORECASE
)
_FOUR_WORDS = re.compile(rf"\s*(?:\S+\s+){{{MIN_WORDS - 1}}}\S")
_CHARS_A_TOKEN = 8
_VERY_LONG = 2**16
Count = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Span:
    """A piece in the making: ``text[start:end]`` of one segment.

    Attributes:
        segment: Position of its segment.
        start: Offset in the segment's text.
        end: Offset behind its last character.
        tokens: Tokens of its text.
    """

    segment: int
    start: int
    end: int
    tokens: int


def sentences_of(text: str) -> list[tuple[int, int]]:
    """Return the spans of a segment's sentences, items and code blocks; fillers go if others stay.

    Headings and rows count as sentences.
    """
    spans: list[tuple[int, int]] = []
    for block in blocks(text):
        if block.kind in ("prose", "item"):
            spans += sentences_in(text, block.start, block.end)
        else:
            spans.append((block.start, block.end))
    asking = [span for span in spans if not is_filler(text[slice(*span)])]
    clauses = [clause for span in asking for clause in questions_of(text, span)]
    return clauses or spans or [trim(text, 0, len(text))]


def questions_of(text: str, span: tuple[int, int]) -> list[tuple[int, int]]:
    """Cut a sentence that asks two questions ("how …, and what …?") into its questions.

    Both must have four words, and the second must stand alone: a pronoun keeps them together.

    Args:
        text: The segment's text.
        span: A sentence of it.
    """
    start, end = span
    found: list[tuple[int, int]] = []
    leaning = max((lean.start() for lean in _LEANS.finditer(text, start, end)), default=start)
    for joint in _JOINT.finditer(text, start, end):
        first = _FOUR_WORDS.match(text, start, joint.start())
        if first and _FOUR_WORDS.match(text, joint.end(), end) and joint.end() > leaning:
            found.append((start, joint.start()))
            start = joint.end()
    return [*found, (start, end)]


def word_count(text: str) -> int:
    """Count words; if a script has no blanks, two characters count as one."""
    dense = len(NO_BLANKS.findall(text))
    return len(NO_BLANKS.sub(" ", text).split()) + (dense + 1) // 2


def join_short(text: str, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join each span under four words to the one before it, the first one to the next."""
    joined: list[tuple[int, int]] = []
    size = 0  # words of the last one
    for start, end in spans:
        words = word_count(text[start:end])
        if joined and (words < MIN_WORDS or (len(joined) == 1 and size < MIN_WORDS)):
            joined[-1] = (joined[-1][0], end)
            size += words
        else:
            joined.append((start, end))
            size = words
    return joined


def fit(text: str, span: tuple[int, int], *, count: Count, window: int) -> list[tuple[int, int]]:
    """Cut a span into parts within the encoder's window, each as long as it can be.

    Cuts are at white space; in a run without any longer than half of what fits, anywhere.

    Args:
        text: The segment's text.
        span: What to cut.
        count: Counts tokens; a longer text has no fewer.
        window: Largest number of tokens, ≥ 1.
    """
    parts: list[tuple[int, int]] = []
    start, end = trim(text, *span)
    while start < end:
        cut = _longest(text, start, end, count=count, window=window)
        if cut < end and not text[cut].isspace():
            space = max(text.rfind(c, start + (cut - start) // 2, cut) for c in " \n\t")
            cut = space if space > start else cut
        parts.append(trim(text, start, cut))
        start = trim(text, cut, end)[0]
    return parts


def _longest(text: str, start: int, end: int, *, count: Count, window: int) -> int:
    """Return the largest offset up to which ``text[start:]`` fits; at least one character does.

    Steps double until one is too long, then they halve: a short text is counted once. In a text of
    many windows, most of which no piece will hold, nearly the largest will do.
    """
    fits, over, step = start + 1, end + 1, window * _CHARS_A_TOKEN
    enough = 1 if end - start < _VERY_LONG else (end - start) // 2**12
    while over - fits > enough:
        middle = min(fits + step, over - 1)
        if count(text[start:middle]) <= window:
            fits = middle
        else:
            over = middle
        step = step * 2 if over > end else max((over - fits) // 2, 1)
    return fits


def _merge(spans: list[Span], texts: Sequence[str], at: int, count: Count) -> None:
    left, right = spans[at], spans[at + 1]
    text = texts[left.segment][left.start : right.end]
    spans[at : at + 2] = [Span(left.segment, left.start, right.end, count(text))]


def _coarsen(spans: Sequence[Span], window: int) -> list[Span]:
    """Pack neighbours up to half the window: keeps the pairwise merge below small."""
    packed: list[Span] = []
    for span in spans:
        last = packed[-1] if packed else None
        if last and last.segment == span.segment and last.tokens + span.tokens <= window // 2:
            total = last.tokens + span.tokens
            packed[-1] = Span(last.segment, last.start, span.end, total)
        else:
            packed.append(span)
    return packed


def merge_to(spans: list[Span], texts: Sequence[str], *, limit: int, count: Count, window: int
             ) -> list[Span]:  # fmt: skip
    """Merge neighbours of one segment, the smallest pair first, until ``limit`` are left.

    Args:
        spans: In order of the prompt.
        texts: Text of each segment.
        limit: How many may stay, ≥ 1.
        count: Counts tokens.
        window: No merge exceeds it; so more than ``limit`` may come back.
    """
    result = list(spans)
    if len(result) > COARSE_ABOVE:
        result = _coarsen(result, window)
    blocked: set[tuple[int, int, int]] = set()
    while len(result) > limit:
        pairs = [
            (a.tokens + b.tokens, i)
            for i, (a, b) in enumerate(itertools.pairwise(result))
            if a.segment == b.segment and (a.segment, a.start, b.end) not in blocked
        ]
        if not pairs:
            break
        _, at = min(pairs)
        left, right = result[at], result[at + 1]
        if count(texts[left.segment][left.start : right.end]) > window:
            blocked.add((left.segment, left.start, right.end))
        else:
            _merge(result, texts, at, count)
    return result


def spread(spans: Sequence[Span], limit: int) -> list[Span]:
    """Choose ``limit`` spans: every first of a segment, then evenly over the prompt."""
    if len(spans) <= limit:
        return list(spans)
    first_of: dict[int, int] = {}
    for i, span in enumerate(spans):
        first_of.setdefault(span.segment, i)
    chosen = set(list(first_of.values())[:limit])
    rest = [i for i in range(len(spans)) if i not in chosen]
    free = limit - len(chosen)
    step = len(rest) / free if free else 1.0
    chosen.update(rest[int(k * step)] for k in range(free))
    return [spans[i] for i in sorted(chosen)]


def cut_pieces(
    texts: Sequence[str], *, limit: int, count: Count, window: int
) -> tuple[list[Span], int]:
    """Cut segments into at most ``limit`` pieces.

    Args:
        texts: Text of each kept segment, in order of the prompt.
        limit: Most pieces, 1–10.
        count: Counts tokens.
        window: Largest number of tokens of a piece.

    Returns:
        (pieces in order, tokens that are in no piece: 0 for one segment of at most ``limit``
        windows).
    """
    spans = [
        Span(i, start, end, count(text[start:end]))
        for i, text in enumerate(texts)
        for joined in join_short(text, sentences_of(text))
        for start, end in fit(text, joined, count=count, window=window)
    ]
    merged = merge_to(spans, texts, limit=limit, count=count, window=window)
    if len(merged) > limit and sum(s.tokens for s in merged) <= 2 * limit * window:
        filled = [
            Span(i, start, end, count(text[start:end]))
            for i, text in enumerate(texts)
            for start, end in fit(text, (0, len(text)), count=count, window=window)
        ]
        merged = min(merged, filled, key=lambda found: _lost(found, limit))
    return spread(merged, limit), _lost(merged, limit)


def _lost(spans: Sequence[Span], limit: int) -> int:
    """Return how many tokens are in none of the spans that `spread` chooses."""
    return sum(s.tokens for s in spans) - sum(s.tokens for s in spread(spans, limit))
