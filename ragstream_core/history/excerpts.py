"""What somebody said, or its beginning: cut at a sentence, with a mark, and placed in its unit."""

from __future__ import annotations

import functools
import sys
from bisect import bisect_right
from dataclasses import dataclass

from ragstream_core.chunking.sentences import sentence_spans
from ragstream_core.history.units import Line

Span = tuple[int, int]
WHOLE: Span = (0, sys.maxsize)
"""The span that holds every chunk of a turn."""
CUT_MARK = "\n[… cut: the first {shown} of {all} characters]"
_LOOK_BACK = 200


@dataclass(frozen=True)
class Side:
    """What one speaker of a turn said.

    Attributes:
        heading: Date and speaker, as the unit has them.
        words: To the letter.
        line: Its place in the text of the unit; None: it is white space, which has none.
    """

    heading: str
    words: str
    line: Line | None

    @functools.cached_property
    def _sentence_ends(self) -> list[int]:
        return [end for _, end in sentence_spans(self.words)]

    def end(self, chars: int) -> int:
        """Return where the words end if only so many characters may be shown.

        That is behind a sentence; where it would be less than half of what is allowed, a word.
        Nothing is cut where the mark would be longer than what it stands for.
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
