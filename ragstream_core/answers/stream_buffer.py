"""The stream of an answer as people read it: without citation markers, however they are split.

Text is given out as soon as no later token can change it: what may become a marker is held until
it is decided, and so are the last `LEFT` characters, since a marker behind them may mend them.
What is held is bounded, and what comes out does not depend on where the tokens were cut.

Markers have three forms, read more leniently than `prompts.citations` does, since a model writes
them: ``[source: …]`` closed on its line, a bracket that holds an issued id alone, ``<<DOC …>>``.
Every pattern is bounded and holds no quantifier inside another. The sentence that a citation was
taken out of is mended by the characters next to the marker alone (R-208), so that a stream is
mended as the whole text would be.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from enum import Enum
from typing import NamedTuple

from ragstream_core.prompts.fences import BREAK

_SOURCE = re.compile(r"\[[ \t]{0,8}source[ \t]{0,8}:", re.IGNORECASE)
_SOURCE_REST = re.compile(r"[^\[\]\n]{0,500}")
_FRAME = re.compile(r"<<(?:END )?DOC \d{1,6} ")
_FRAME_REST = re.compile(r"[^<>\n]{0,600}")
_BARE = re.compile(r'\[ ?(?:(?:chunk|id) ?[:=]? ?)?"?(?P<id>[0-9a-f]{8,24})"? ?\]', re.IGNORECASE)
_BEGINNING = re.compile(
    r"\[[ \t]{0,8}(?:s(?:o(?:u(?:r(?:c(?:e[ \t]{0,8})?)?)?)?)?)?"
    r"|<(?:<(?:E(?:N(?:D(?: )?)?)?|(?:END )?(?:D(?:O(?:C(?: \d{0,6})?)?)?)?)?)?",
    re.IGNORECASE,
)
_BARE_BEGINNING = re.compile(
    r'\[ ?(?:(?:c(?:h(?:u(?:n(?:k)?)?)?)?|i(?:d)?)? ?[:=]? ?)?"?[0-9a-f]{0,24}"? ?', re.IGNORECASE
)
_START = re.compile(r"\[|<<|<\Z")


class MarkerVerdict(Enum):
    """What stands at a place: ``OPEN`` says that more text is needed to tell."""

    MARKER = "marker"
    TEXT = "text"
    BROKEN = "broken"
    OPEN = "open"


class FoundMarker(NamedTuple):
    """One closed marker: ``text[start:end]``."""

    start: int
    end: int
    text: str


def next_start(text: str, at: int) -> int:
    """Return where a marker may begin, at or behind ``at``; the length of the text for nowhere."""
    match = _START.search(text, at)
    return match.start() if match else len(text)


def decide(text: str, at: int, issued: Collection[str] = ()) -> tuple[MarkerVerdict, int]:
    """Return what stands where `next_start` points, and the end of a marker."""
    square = text[at] == "["
    opening = (_SOURCE if square else _FRAME).match(text, at)
    if opening:
        rest = (_SOURCE_REST if square else _FRAME_REST).match(text, opening.end())
        end = rest.end() if rest else opening.end()
        closing = "]" if square else ">>"
        if text.startswith(closing, end):
            return MarkerVerdict.MARKER, end + len(closing)
        return (MarkerVerdict.OPEN if closing.startswith(text[end:]) else MarkerVerdict.BROKEN), at
    if square and issued:
        bare = _BARE.match(text, at)
        if bare:
            known = bare["id"].lower() in issued
            return (MarkerVerdict.MARKER, bare.end()) if known else (MarkerVerdict.TEXT, at)
    return (MarkerVerdict.OPEN if may_become_marker(text[at : at + 64]) else MarkerVerdict.TEXT), at


def is_opened(text: str, at: int) -> bool:
    """Return whether a marker was opened at a place, closed or not."""
    return bool(_SOURCE.match(text, at) or _FRAME.match(text, at))


def may_become_marker(text: str) -> bool:
    """Return whether a text, to its end, is how a marker begins."""
    return bool(_BEGINNING.fullmatch(text) or _BARE_BEGINNING.fullmatch(text))


def defused(text: str) -> str:
    """Put a visible ``·`` behind the bracket where a text ends like the beginning of a marker."""
    for bracket in ("[", "<<", "<"):
        at = text.rfind(bracket)
        if at >= 0 and may_become_marker(text[at:]):
            return f"{text[: at + 1]}{BREAK}{text[at + 1 :]}"
    return text


def markers(text: str, issued: Collection[str] = ()) -> Iterator[FoundMarker]:
    """Yield the closed markers of a whole text, in order."""
    at = next_start(text, 0)
    while at < len(text):
        verdict, end = decide(text, at, issued)
        if verdict is MarkerVerdict.MARKER:
            yield FoundMarker(at, end, text[at:end])
        at = next_start(text, end if verdict is MarkerVerdict.MARKER else at + 1)


# So many characters before a marker may matter.
LEFT = 64
# So many characters behind a marker may matter.
RIGHT = 24

_IT = "the document"
_OTHER_OBJECTS = tuple(
    (re.compile(rf"(?:{words})[ \t]{{0,3}}\Z", re.IGNORECASE), it)
    for words, it in (
        (r"\b(?:laut|gemäß|zufolge|siehe|vgl\.|(?:steht|beschrieben|genannt|angegeben|erklärt"
         r"|festgelegt|definiert|erwähnt|gezeigt|dokumentiert) in)", "dem Dokument"),
        (r"\b(?:selon|d['’]après|voir|(?:décrit|indiqué|défini|mentionné|expliqué)e?s? dans)",
         "le document"),
        (r"\b(?:según|véase|ver|de acuerdo con"
         r"|(?:descrit|indicad|definid|mencionad|explicad)[oa]s? en)", "el documento"),
        (r"\b(?:secondo|vedi|(?:descritt|indicat|definit|menzionat)[oaie] in)", "il documento"),
    )
)  # fmt: skip
_OTHER_SUBJECTS = (
    (re.compile(r"[ \t]{0,3}(?:sagt|besagt|beschreibt|nennt|zeigt|erklärt|definiert|gibt an"
                r"|legt fest|erwähnt|empfiehlt|verlangt|bestätigt)\b"), "Das Dokument"),
    (re.compile(r"[ \t]{0,3}(?:dit|indique|décrit|montre|explique|définit|précise|mentionne"
                r"|recommande|exige|confirme)\b"), "Le document"),
    (re.compile(r"[ \t]{0,3}(?:dice|indica|describe|muestra|explica|define|menciona|recomienda"
                r"|exige|confirma)\b"), "El documento"),
)  # fmt: skip
_WRAPPERS = tuple(
    (re.compile(rf"{opening}\Z", re.IGNORECASE), re.compile(closing))
    for opening, closing in (
        (r"\((?:see also|see|cf\.?|sources?:?|per|from|as in|in)?[ \t]{0,3}", r"[ \t]{0,3}\)"),
        (r"\[[ \t]{0,3}", r"[ \t]{0,3}\]"),
        (r"`", r"`"),
        (r"\*\*", r"\*\*"),
        (r"\*", r"\*"),
        (r"_", r"_"),
    )
)
_LINE_START = re.compile(r"\n[ \t]{0,16}(?:[-*+•][ \t]{0,4})?\Z")
_SENTENCE_START = re.compile(
    r"(?:[.!?][ \t]{1,4}|\n[ \t]{0,16}(?:(?:[-*+•]|\d{1,3}[.)])[ \t]{1,4})?)\Z"
)
_CLAUSE_START = re.compile(r"\b(?:as|but|while|because|how)[ \t]{1,3}\Z", re.IGNORECASE)
_SUBJECT_OF = re.compile(
    r"[ \t]{0,3}(?:also )?(?:says|states|describes|shows|notes|mentions|explains|defines|specifies|"
    r"reports|lists|indicates|recommends|requires|confirms)\b"
)
_OBJECT_OF = re.compile(
    r"(?:\b(?:according to|based on|as per|see|see also|refer to|"
    r"(?:stated|described|shown|noted|mentioned|explained|documented|defined|specified|reported|"
    r"listed|given|found|written|outlined|indicated|discussed|cited) (?:in|by|at|on))"
    r"|(?:[.!?:][ \t]{1,4}|\n[ \t]{0,16})(?:in|from|per|by))[ \t]{0,3}\Z",
    re.IGNORECASE,
)
_BLANKS = re.compile(r"[ \t]*")


def join(left: str, right: str) -> tuple[str, int]:
    """Return what replaces ``left``, and how many characters of ``right`` go, around markers.

    A newline on the left stands for the beginning of the answer.
    """
    left, skip = _unwrapped(left, right)
    blanks = _BLANKS.match(right, skip)
    word = blanks.end() if blanks else skip
    following = right[word : word + 1]
    line_start = _LINE_START.search(left)
    if line_start and following in ("", "\n"):
        return left[: line_start.start() + 1], word + len(following)
    if _SENTENCE_START.search(left) and _SUBJECT_OF.match(right, skip):
        return f"{left}T{_IT[1:]} ", word
    if _SENTENCE_START.search(left):
        for verbs, subject in _OTHER_SUBJECTS:
            if verbs.match(right, skip):
                return f"{left}{subject} ", word
    if _CLAUSE_START.search(left) and _SUBJECT_OF.match(right, skip):
        return f"{left}{_IT} ", word
    it = (
        _IT
        if _OBJECT_OF.search(left)
        else next((name for words, name in _OTHER_OBJECTS if words.search(left)), "")
    )
    if it:
        left = " ".join([left.rstrip(" \t"), it])
        return (f"{left} " if following.isalnum() else left), word
    left, skip = _closed(left, right, skip=skip, word=word)
    return defused(left), skip


def _unwrapped(left: str, right: str) -> tuple[str, int]:
    """Take away brackets, backticks and stars that held the marker alone."""
    skip, again = 0, True
    while again:
        again = False
        for opening, closing in _WRAPPERS:
            before, behind = opening.search(left), closing.match(right, skip)
            if before and behind:
                left, skip, again = left[: before.start()], behind.end(), True
    return left, skip


def _closed(left: str, right: str, *, skip: int, word: int) -> tuple[str, int]:
    """Close the gap: one blank between words, none before punctuation, no double punctuation."""
    following = right[word : word + 1]
    at_start = left.endswith("\n") or bool(_LINE_START.search(left))
    if following in (",", ";", ":") and at_start:
        blanks = _BLANKS.match(right, word + 1)
        return left, blanks.end() if blanks else word + 1
    if following in ("", "\n") or following in ".,;:!?)]}…":
        bare = left if at_start else left.rstrip(" \t")
        last = bare[-1:]
        if last in (",", ";", ":") and following and following in ".,;:!?":
            return bare[:-1], word
        if last in (".", "!", "?") and following and following in ".,;":
            return bare, word + (right[word + 1 : word + 2] != following)
        return bare, word
    if not left or left[-1] in " \t\n([":
        return left, word
    glued = word == skip and left[-1].isalnum() and following.isalnum()
    return (f"{left} " if glued else left), skip


_BETWEEN = re.compile(r"[ \t]{0,3}(?:[,;&]|and\b)?[ \t]{0,3}")


class CitationBuffer:
    """Strips markers from a stream.

    The output never holds a closed marker: what begins like one and is none is shown with a ``·``
    behind its bracket. Text without any bracket of that kind comes out as it went in.
    """

    def __init__(self, issued: Collection[str] = ()) -> None:
        # where markers stood: character of all that comes out, and the numbers of the markers that
        # followed one another there, from 0
        self.places: list[tuple[int, tuple[int, ...]]] = []
        self._issued = frozenset(issued)
        self._markers = self._told = 0
        self._given = -1  # characters that came out; the first one never does
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
        """Return the rest; ``cut``: a marker that the answer broke off in is dropped."""
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
        """Take plain text or one marker; return where it ends, -1 if more text is needed."""
        start = next_start(text, at)
        if start > at:
            self._keep(text[at:start])
            return start
        verdict, end = decide(text, at, self._issued)
        if verdict is MarkerVerdict.OPEN:
            return -1
        if verdict is MarkerVerdict.MARKER:
            self._markers += 1
            self._behind_marker = True
            return end
        self._keep(text[at] + BREAK * (verdict is MarkerVerdict.BROKEN))
        return at + 1

    def _mend(self, text: str, at: int, *, final: bool) -> int:
        """Take the next marker of a row, or mend the place behind the last one."""
        between = _BETWEEN.match(text, at)
        behind = between.end() if between else at
        if behind < len(text) and text[behind] in "[<":
            verdict, end = decide(text, behind, self._issued)
            if verdict is MarkerVerdict.MARKER:
                self._markers += 1
                return end
            if verdict is MarkerVerdict.OPEN and not final:
                return -1
        if len(text) - at < RIGHT and not final:
            return -1
        self._left, skip = join(self._left, text[at : at + RIGHT])
        self._behind_marker = False
        at_end = max(0, self._given + len(self._left.rstrip()))
        self.places.append((at_end, tuple(range(self._told, self._markers))))
        self._told = self._markers
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
            self._given += len(ready)
            self._out.append(ready if self._begun else ready[1:])
            self._begun = True


def clean_citation_tags(text: str, issued: Collection[str] = ()) -> str:
    """Return an answer without its citation markers, its grammar mended (R-207, R-208)."""
    buffer = CitationBuffer(issued)
    return buffer.feed(text) + buffer.close()
