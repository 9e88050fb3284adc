"""The stream of an answer as people read it: without citation markers, however they are split.

Text is given out as soon as no later token can change it: what may become a marker is held until
it is decided, and so are the last `grammar.LEFT` characters, since a marker behind them may mend
them. What is held is bounded, and what comes out does not depend on where the tokens were cut.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from ragstream_core.answering.grammar import LEFT, RIGHT, join
from ragstream_core.answering.markup import Verdict, decide, is_opened, next_start
from ragstream_core.prompting.fences import BREAK

_BETWEEN = re.compile(r"[ \t]{0,3}(?:[,;&]|and\b)?[ \t]{0,3}")


class CitationBuffer:
    """Strips markers from a stream.

    The output never holds a closed marker: what begins like one and is none is shown with a ``·``
    behind its bracket. Text without any bracket of that kind comes out as it went in.

    Args:
        issued: Citation ids of the prompt; a bracket around one of them alone is a marker too.
    """

    def __init__(self, issued: Collection[str] = ()) -> None:
        self._issued = frozenset(issued)
        self._pending = ""
        self._left = "\n"  # stands for the beginning; never given out
        self._begun = False
        self._behind_marker = False
        self._out: list[str] = []

    def feed(self, token: str) -> str:
        """Take the next piece of the answer, of any length; return the text that is ready."""
        self._pending += token
        return self._run(final=False, cut=False)

    def close(self, *, cut: bool = False) -> str:
        """Return the rest.

        Args:
            cut: The answer broke off; a marker it broke off in is dropped.
        """
        ready = self._run(final=True, cut=cut)
        rest = self._left if self._begun else self._left[1:]
        self._left, self._begun = "", True
        return ready + rest

    def _run(self, *, final: bool, cut: bool) -> str:
        text, at = self._pending, 0
        while at < len(text) or (final and self._behind_marker):
            step = (
                self._mend(text, at, final=final) if self._behind_marker else self._take(text, at)
            )
            if step < 0 and final:
                step = self._last(text, at, cut=cut)
            if step < 0:
                break
            at = step
        self._pending = text[at:]
        ready, self._out = "".join(self._out), []
        return ready

    def _take(self, text: str, at: int) -> int:
        """Take plain text or one marker; return where it ends, -1 where more text is needed."""
        start = next_start(text, at)
        if start > at:
            self._keep(text[at:start])
            return start
        verdict, end = decide(text, at, self._issued)
        if verdict is Verdict.OPEN:
            return -1
        if verdict is Verdict.MARKER:
            self._behind_marker = True
            return end
        self._keep(text[at] + BREAK * (verdict is Verdict.BROKEN))
        return at + 1

    def _mend(self, text: str, at: int, *, final: bool) -> int:
        """Take the next marker of a row, or mend the place behind the last one."""
        between = _BETWEEN.match(text, at)
        behind = between.end() if between else at
        if behind < len(text) and text[behind] in "[<":
            verdict, end = decide(text, behind, self._issued)
            if verdict is Verdict.MARKER:
                return end
            if verdict is Verdict.OPEN and not final:
                return -1
        if len(text) - at < RIGHT and not final:
            return -1
        self._left, skip = join(self._left, text[at : at + RIGHT])
        self._behind_marker = False
        self._keep("")
        return at + skip

    def _last(self, text: str, at: int, *, cut: bool) -> int:
        """Decide what was still open when the answer ended."""
        if cut:
            return len(text)
        self._keep(text[at] + BREAK * is_opened(text, at))
        return at + 1

    def _keep(self, piece: str) -> None:
        self._left += piece
        if len(self._left) > LEFT:
            ready, self._left = self._left[:-LEFT], self._left[-LEFT:]
            self._out.append(ready if self._begun else ready[1:])
            self._begun = True


def clean_citation_tags(text: str, issued: Collection[str] = ()) -> str:
    """Return an answer without its citation markers, its grammar mended (R-207, R-208)."""
    buffer = CitationBuffer(issued)
    return buffer.feed(text) + buffer.close()
