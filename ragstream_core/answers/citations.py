"""The citations of an answer, each checked against what its prompt issued (R-206, R-211).

A citation holds if the prompt issued its id, the marker names that source, and the words that the
answer quotes before it stand there. Everything else is listed as unverified, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from typing import Any, NamedTuple
from urllib.parse import unquote

from ragstream_core.answers.stream_buffer import CitationBuffer, FoundMarker, markers
from ragstream_core.prompts.blocks import (
    LEFT_OUT,
    file_texts,
    history_texts,
    repeated_texts,
    selected_texts,
)
from ragstream_core.prompts.edited_prompt import still_shown
from ragstream_core.prompts.fences import Source, safe_name
from ragstream_core.records import SuperPrompt
from ragstream_core.records.identity import SHORT_ID_DIGITS, sha256_hex


@dataclass(frozen=True, slots=True)
class Issued:
    """One citable text."""

    id: str
    source: str  # path or name of the source, as in the project
    locator: str  # chunk id; id of an injected file; ``recent`` for the recent conversation
    text: str  # what the prompt shows of it, before it was quoted
    page_number: int | None = None  # page it begins on, None if it has none
    read_by: str = ""  # ``OCR`` if that read the page, else ""


def issued_by(prompt: SuperPrompt, *, history: bool = True) -> dict[str, Issued]:
    """Return citation id → what it stands for, of a prompt after A5.

    Of a text that a person edited, only what it still shows is issued.
    """
    short = prompt.extras.short_ids
    files = [file.id for file in prompt.extras.files]
    full = [*files, *(chunk.id for chunk in prompt.base_context_chunks)]
    locators = {short.get(i, sha256_hex(i)[:SHORT_ID_DIGITS]): i for i in full}
    pages = {chunk.id: _page(chunk.meta) for chunk in prompt.base_context_chunks}
    shown = [*file_texts(prompt), *selected_texts(prompt, history=False)]
    shown += history_texts(prompt) if history else []
    issued = {source.id: _issued(source, text, locators, pages) for source, text in shown}
    left = still_shown(prompt, issued)
    for shown_id, same in repeated_texts(prompt).items():
        for source, text in same if short.get(shown_id) in left else ():
            issued[source.id] = _issued(source, text, locators, pages)
            left.add(source.id)
    return {name: found for name, found in issued.items() if name in left}


def _issued(
    source: Source, text: str, locators: dict[str, str], pages: dict[str, tuple[int | None, str]]
) -> Issued:
    locator = locators.get(source.id, source.id)
    return Issued(source.id, source.name, locator, text, *pages.get(locator, (None, "")))


def _page(meta: Mapping[str, Any]) -> tuple[int | None, str]:
    """Return the page of a chunk, and what read it."""
    page = meta.get("page_number")
    return page if isinstance(page, int) and page > 0 else None, str(meta.get("read_by", ""))


SNIPPET_CHARS = 200
_SOURCE = re.compile(r"source[ \t]{0,8}:[ \t]{0,8}([^,;|#\]]{1,400})", re.IGNORECASE)
_ID = re.compile(
    r"(?:chunk[ \t]{0,8}[:=][ \t]{0,8}\"?|#|\bid=\")([A-Za-z0-9_.-]{1,80})", re.IGNORECASE
)
_FRAME_SOURCE = re.compile(r'source="([^"]{1,200})"')
_BARE = re.compile(r"[0-9a-f]{8,24}", re.IGNORECASE)
_QUOTED = re.compile('["“„«]([^"“”„«»\n]{0,400})["”“»]')
_WORD = re.compile(r"\w+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_LEAST_WORDS = 3
_LEAST_RUN = 4
_BEFORE = 600
_GAP = f"\n{LEFT_OUT}\n"
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_THIN = "\N{THIN SPACE}"

NOT_ISSUED = "this source was not in the prompt: made up?"
NO_ID = "the marker names no chunk"
OTHER_SOURCE = "the id belongs to another source"
NOT_QUOTED = "the quoted words do not stand there"


@dataclass(frozen=True, slots=True)
class Citation:
    """One thing that an answer cites."""

    id: str  # citation id as written; may be empty
    source: str  # the file, as the prompt knows it, or as written if it does not
    locator: str = ""  # chunk id, or id of the injected file; empty if the id is unknown
    snippet: str = ""  # the first 200 characters of what was cited; empty if the id is unknown
    page_number: int | None = None  # page of the source, if it has pages
    known: bool = False  # the prompt issued the id
    verified: bool = False  # known, and source and quoted words are right as well
    reason: str = ""  # why it is not verified
    read_by: str = ""  # ``OCR`` if that read the page, else ""

    def where(self, page: str = " p. ") -> str:
        """Return its source with the page, and OCR if that read it: ``a.pdf p. 2, read by OCR``."""
        on = f"{page}{self.page_number}" if self.page_number else ""
        return f"{self.source or 'no source'}{on}{f', read by {self.read_by}' * bool(self.read_by)}"

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        return asdict(self)


class _Claim(NamedTuple):
    """One id of one marker, the words that the answer quotes before it, and all words there."""

    id: str
    source: str
    quotes: tuple[str, ...]
    said: str

    # Which marker of the answer it stands in, from 0.
    marker: int


def citations_of(answer: str, issued: Mapping[str, Issued]) -> list[Citation]:
    """Return what an answer cites, in order of appearance, equal ones once."""
    found = (_checked(claim, issued) for claim in _claims(answer, issued))
    return list(dict.fromkeys(found))


def numbered(answer: str, issued: Mapping[str, Issued], citations: Sequence[Citation]) -> str:
    """Return an answer without markers, with the number of each citation where its marker stood."""
    exact = {one: place for place, one in enumerate(citations, start=1)}
    near = {(one.id, one.source): place for one, place in reversed(exact.items())}
    marks: dict[int, list[str]] = {}
    for claim in _claims(answer, issued):
        found = _checked(claim, issued)
        place = exact.get(found) or near.get((found.id, found.source))
        if place is not None:
            doubt = "" if citations[place - 1].verified else "⚠"
            marks.setdefault(claim.marker, []).append(f"{doubt}{str(place).translate(_RAISED)}")
    buffer = CitationBuffer(issued)
    text = buffer.feed(answer) + buffer.close()
    for at, row in sorted(buffer.places, reverse=True):
        shown = dict.fromkeys(mark for number in row for mark in marks.get(number, ()))
        text = f"{text[:at]}{_THIN.join(shown)}{text[at:]}"
    return text


def words_of(answer: str, issued: Mapping[str, Issued]) -> dict[str, tuple[str, ...]]:
    """Return citation id → what an answer says it found there: its quotes, else its sentences."""
    found: dict[str, tuple[str, ...]] = {}
    for claim in _claims(answer, issued):
        words = claim.quotes or tuple(part for part in _SENTENCE_END.split(claim.said) if part)
        found[claim.id.lower()] = (*found.get(claim.id.lower(), ()), *words)
    return found


def spans_of(text: str, wanted: Iterable[str]) -> list[tuple[int, int]]:
    """Return where words stand in a text, but for punctuation, markup, case and gaps.

    Of words that do not all stand there in this order, the longest run of at least four is found.
    """
    places = [(m[0].casefold(), m.start(), m.end()) for m in _WORD.finditer(text)]
    words = [word for word, _, _ in places]
    runs = []
    for sentence in wanted:
        said = [word.casefold() for word in _WORD.findall(sentence)]
        match = SequenceMatcher(None, words, said, autojunk=False).find_longest_match()
        if match.size >= min(_LEAST_RUN, max(len(said), _LEAST_WORDS)):
            runs.append((places[match.a][1], places[match.a + match.size - 1][2]))
    joined: list[tuple[int, int]] = []
    for start, end in sorted(runs):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def journal_rows(citations: Iterable[Citation]) -> tuple[dict[str, Any], ...]:
    """Return citations as a turn of the conversation keeps them, each once."""
    rows = {(c.id, c.source): {"id": c.id, "source": c.source, "known": c.known} for c in citations}
    return tuple(rows.values())


def _claims(answer: str, issued: Mapping[str, Issued]) -> Iterator[_Claim]:
    end, quotes, said = 0, (), ""  # type: tuple[int, tuple[str, ...], str]
    for number, marker in enumerate(markers(answer, issued)):
        between = answer[max(end, marker.start - _BEFORE) : marker.start]
        if _WORD.search(between):
            quotes, said = tuple(_QUOTED.findall(between)), between
        end = marker.end
        for identifier, source in _named(marker):
            yield _Claim(identifier, source, quotes, said, number)


def _named(marker: FoundMarker) -> list[tuple[str, str]]:
    """Return (id, source) of a marker; one with an empty id if it names no chunk."""
    if marker.text.startswith("<<"):
        source = _FRAME_SOURCE.search(marker.text)
        head = _ID.search(marker.text)
        return [(head[1], source[1] if source else "")] if head else []
    sources = [text.strip().strip("\"'`") for text in _SOURCE.findall(marker.text)]
    ids = _ID.findall(marker.text)
    if not sources:
        bare = _BARE.search(marker.text)
        return [(bare[0].lower(), "")] if bare else []
    return [(i, sources[min(n, len(sources) - 1)]) for n, i in enumerate(ids)] or [("", sources[0])]


def _checked(claim: _Claim, issued: Mapping[str, Issued]) -> Citation:
    shown = issued.get(claim.id) or issued.get(claim.id.lower())
    if shown is None:
        return Citation(claim.id, unquote(claim.source), reason=NOT_ISSUED if claim.id else NO_ID)
    reason = ""
    if claim.source and not _names(claim.source, shown.source):
        reason = OTHER_SOURCE
    elif not all(_stands(quote, shown.text) for quote in claim.quotes):
        reason = NOT_QUOTED
    return Citation(
        shown.id,
        shown.source,
        shown.locator,
        shown.text[:SNIPPET_CHARS],
        shown.page_number,
        known=True,
        verified=not reason,
        reason=reason,
        read_by=shown.read_by,
    )


def _names(written: str, source: str) -> bool:
    """Return whether a name in a marker is that of a source: its path, or the end of it."""
    plain, path = unquote(written).casefold(), source.casefold()
    cut = safe_name(source.rsplit("/", 1)[-1]).casefold()
    return path == plain or path.endswith(f"/{plain}") or written.casefold() == cut


def _stands(quote: str, text: str) -> bool:
    """Return whether quoted words stand in a text, but for punctuation, markup, case and gaps.

    Words on both sides of what a window leaves out do not stand together.
    """
    shown = [f" {' '.join(_WORD.findall(part.casefold()))} " for part in text.split(_GAP)]
    for part in re.split(r"…|\.\.\.|\[…\]", quote):
        wanted = _WORD.findall(part.casefold())
        if len(wanted) >= _LEAST_WORDS and not any(
            f" {' '.join(wanted)} " in part for part in shown
        ):
            return False
    return True
