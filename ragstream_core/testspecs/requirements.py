"""Where the documents of a generation define requirements, and where they only mention them.

A requirement is defined where a table row, a heading, a list item or a paragraph begins with its
id. A heading defines the section below it; an item or paragraph that ends in a colon, the list
below it. Code defines nothing, and neither does a specification that was made from it all.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragstream_core.ingestion.file_types import kind_of
from ragstream_core.testspecs.identifiers import family
from ragstream_core.text.marked_blocks import Block, blocks
from ragstream_core.text.sentences import sentences_in, trim

if TYPE_CHECKING:
    from ragstream_core.records import Chunk


# The first line of a specification; as a document it is no source of requirements.
SIGNATURE = "<!-- ragstream test specification 1 -->"
# Start and end in the characters of a document's text.
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Document:
    """One indexed document."""

    path: str
    file_type: str
    # the chunks put side by side at their places; white space between them may be missing, every
    # other character is at its offset
    text: str

    def at(self, span: Span) -> str:
        """Return the words of a passage."""
        return self.text[span[0] : span[1]]


def documents_of(chunks: Iterable[Chunk]) -> list[Document]:
    """Return the documents that chunks were cut from, by path."""
    by_path: dict[str, list[Chunk]] = {}
    for chunk in chunks:
        by_path.setdefault(chunk.source, []).append(chunk)
    return [_document(path, by_path[path]) for path in sorted(by_path)]


def _document(path: str, chunks: list[Chunk]) -> Document:
    parts, end = list[str](), 0
    for chunk in sorted(chunks, key=lambda chunk: chunk.span):
        start, stop = chunk.span
        if stop <= end:
            continue
        if start > end:
            parts.append("\n" * (start - end))  # between two chunks there is only white space
        whole = chunk.snippet.ljust(stop - start, "\n")
        parts.append(whole[max(0, end - start) : stop - start])
        end = stop
    return Document(path, str(chunks[0].meta.get("file_type", "")), "".join(parts))


_LEAD = re.compile(r"[\s|#*_`\[(<>~]{0,24}")
_JOIN = re.compile(r"[*_`\])]{0,6}\s{0,3}[,/&+]\s{0,3}[*_`\[(]{0,6}")
_BEHIND = re.compile(r"[*_`\])>]{1,6}|\s{0,2}[:.–—-]|\s{1,4}(?=[A-Z\"'`*])")
_STRIP = re.compile(r"[\s:.–—*_`\])>-]{0,24}")
_CHECKED = re.compile(r"accept|verif|check|expect|criteri|test|fit", re.IGNORECASE)
_RULE = re.compile(r"[|\s:+=-]{3,}")
_CELL = re.compile(r"\\.|`[^`\n]*`|[^|]", re.DOTALL)
_WORDS = 3
_CODE_INDENT = 4
TITLE_CHARS = 90
_PROSE = ("item", "prose")
DEFINING = ("heading", "row", "item", "prose")


@dataclass(frozen=True, slots=True)
class Definition:
    """What a document says a requirement is."""

    ids: tuple[str, ...]  # the requirement ids that it begins with, mostly one
    path: str
    span: Span
    title: str  # its heading or its first words, on one line
    sentences: tuple[Span, ...]  # what it states, in order
    checks: tuple[Span, ...] = ()  # what a column such as *Acceptance* states about checking it
    # a sentence of a list item, and the one with a colon that opens the list
    leads: tuple[tuple[Span, Span], ...] = ()


@dataclass(frozen=True, slots=True)
class Mention:
    """A place where an id stands outside its own definitions."""

    path: str
    span: Span  # the sentence around it; the id alone in code, and where another id is defined
    is_sentence: bool


@dataclass(frozen=True, slots=True)
class Requirements:
    """The requirement ids of a project."""

    definitions: tuple[Definition, ...]
    # id → its places; only ids that are defined, or that share the letters of one that is:
    # requirements are not numbered like ``UTF-8``
    mentions: dict[str, tuple[Mention, ...]]
    by_id: dict[str, tuple[Definition, ...]]  # id → its definitions

    @property
    def ids(self) -> tuple[str, ...]:
        """All ids, in natural order."""
        return tuple(sorted(self.by_id.keys() | self.mentions.keys(), key=natural))

    def of(self, identifier: str) -> list[Definition]:
        """Return the definitions of an id."""
        return list(self.by_id.get(identifier, ()))


def natural(identifier: str) -> tuple[str, int, str]:
    """Return what sorts ``R-9`` before ``R-10``."""
    digits = identifier[len(family(identifier)) :]
    return family(identifier), int(digits or 0), identifier


def find(documents: Iterable[Document], pattern: re.Pattern[str]) -> Requirements:
    """Find all requirement ids of some documents."""
    definitions, mentions = list[Definition](), list[tuple[str, Mention]]()
    for document in documents:
        if document.text.startswith(SIGNATURE) or not pattern.search(document.text):
            continue
        found = blocks(document.text)
        own = list(_definitions(document, found, pattern))
        definitions += own
        mentions += _mentions(document, found, own, pattern)
    by_id: dict[str, list[Definition]] = {}
    for one in definitions:
        for identifier in one.ids:
            by_id.setdefault(identifier, []).append(one)
    families = {family(identifier) for identifier in by_id}
    places: dict[str, list[Mention]] = {}
    for identifier, mention in mentions:
        if family(identifier) in families:
            places.setdefault(identifier, []).append(mention)
    return Requirements(
        tuple(definitions),
        {name: tuple(dict.fromkeys(own)) for name, own in places.items()},
        {name: tuple(own) for name, own in by_id.items()},
    )


def _mentions(
    document: Document,
    found: Sequence[Block],
    own: Sequence[Definition],
    pattern: re.Pattern[str],
) -> Iterator[tuple[str, Mention]]:
    """Yield id and place of all that is no part of the id's own definition."""
    text, path = document.text, document.path
    starts, defined = [block.start for block in found], [one.span[0] for one in own]
    sentences = functools.cache(lambda n: sentences_in(text, found[n].start, found[n].end))
    for match in pattern.finditer(text):
        at = match.start()
        last = bisect_right(defined, at) - 1
        around = own[last] if last >= 0 and at < own[last].span[1] else None
        if around is not None and match[0] in around.ids:
            continue
        number = bisect_right(starts, at) - 1
        is_prose = number >= 0 and at < found[number].end and found[number].kind in _PROSE
        span = match.span()
        if around is None and is_prose:
            spans = sentences(number)
            nearest = spans[bisect_right(spans, (at, len(text))) - 1] if spans else span
            span = nearest if nearest[0] <= at < nearest[1] else span
        yield match[0], Mention(path, span, is_sentence=span != match.span())


def _definitions(
    document: Document, found: Sequence[Block], pattern: re.Pattern[str]
) -> Iterator[Definition]:
    text = document.text
    if kind_of(document.file_type) == "code":
        return
    begins = [_begins_with(text, block, pattern) for block in found]
    header: list[str] = []
    for n, block in enumerate(found):
        header = _header(text, found, n, header)
        ids, behind = begins[n]
        if not ids:
            continue
        if block.kind == "row":
            yield _row(document, block, ids, header)
        else:
            last = _last(text, found, begins, n)
            yield _passage(document, found[n : last + 1], ids, behind)


def _begins_with(text: str, block: Block, pattern: re.Pattern[str]) -> tuple[tuple[str, ...], int]:
    """Return the ids that a block begins with, and the offset behind them."""
    if block.kind not in DEFINING:
        return (), 0
    if block.kind == "row":
        if block.start - text.rfind("\n", 0, block.start) > _CODE_INDENT:
            return (), 0
        cells = _cells(text, block)
        first = cells[0] if cells else (block.start, block.start)
        begins = pattern.match(text, _lead(text, first[0]), first[1])
        ids = [m[0] for m in pattern.finditer(text, *first)] if begins else []
        return tuple(dict.fromkeys(ids)), first[1]
    ids, at = [], _lead(text, block.start)
    while match := pattern.match(text, at, block.end):
        ids.append(match[0])
        behind = match.end()
        joined = _JOIN.match(text, behind, block.end)
        if joined is None:
            break
        at = joined.end()
    if not ids or not (block.kind == "heading" or _is_apart(text, behind, block.end)):
        return (), 0
    return tuple(dict.fromkeys(ids)), behind


def _lead(text: str, start: int) -> int:
    match = _LEAD.match(text, start)
    return match.end() if match else start


def _is_apart(text: str, at: int, end: int) -> bool:
    """Whether an id is set apart from what follows: ``R-1: it must``, not ``R-1 is late``."""
    return at == end or _BEHIND.match(text, at, end) is not None


def _last(
    text: str, found: Sequence[Block], begins: Sequence[tuple[tuple[str, ...], int]], n: int
) -> int:
    """Return the number of the last block that belongs to the definition in block ``n``."""
    last, is_section = n, found[n].kind == "heading"
    opens = text[found[n].start : found[n].end].rstrip().endswith(":")
    for m in range(n + 1, len(found)):
        if begins[m][0] or found[m].kind == "heading":
            break
        if not is_section and not (opens and found[m].kind == "item"):
            break
        last = m
    return last


def _passage(
    document: Document, parts: Sequence[Block], ids: tuple[str, ...], behind: int
) -> Definition:
    text, spans, leads = document.text, list[Span](), list[tuple[Span, Span]]()
    head = _STRIP.match(text, behind, parts[0].end)
    start = head.end() if head else behind
    lead: Span | None = None
    for number, block in enumerate(parts):
        if block.kind not in ("prose", "item", "heading"):
            continue
        first = start if number == 0 else block.start
        own = [s for s in sentences_in(text, min(first, block.end), block.end) if s[0] < s[1]]
        if block.kind == "item" and number and lead is not None:
            leads += [(span, lead) for span in own]
        elif own:
            lead = own[-1] if text[own[-1][1] - 1] == ":" else None
        spans += own
    if parts[0].kind == "heading" or not spans:
        title = _one_line(text[start : parts[0].end].split("\n")[0])
    else:
        title = _one_line(text[spans[0][0] : spans[0][1]])
    whole = (parts[0].start, parts[-1].end)
    return Definition(ids, document.path, whole, title or ids[0], tuple(spans), leads=tuple(leads))


def _row(document: Document, block: Block, ids: tuple[str, ...], header: list[str]) -> Definition:
    text, sentences, checks = document.text, list[Span](), list[Span]()
    for column, span in enumerate(_cells(text, block)):
        if column == 0 or span[0] >= span[1]:
            continue
        if column < len(header) and _CHECKED.search(header[column]):
            checks.append(span)
        elif sum(map(_is_word, text[span[0] : span[1]].split())) >= _WORDS:
            sentences += sentences_in(text, *span)
    spans = sentences or checks or [(block.start, block.end)]
    best = max(spans, key=lambda s: sum(map(_is_word, text[s[0] : s[1]].split())))
    title = _one_line(text[best[0] : best[1]])
    span = (block.start, block.end)
    return Definition(ids, document.path, span, title, tuple(sentences), tuple(checks))


def _header(text: str, found: Sequence[Block], n: int, before: list[str]) -> list[str]:
    """Return the names of the columns of the table that block ``n`` is a row of."""
    block = found[n]
    if block.kind != "row":
        return []
    if before or n + 1 == len(found) or found[n + 1].kind != "row":
        return before
    below = text[found[n + 1].start : found[n + 1].end]
    if _RULE.fullmatch(below) is None:
        return before
    return [text[start:end] for start, end in _cells(text, block)]


def _cells(text: str, block: Block) -> list[Span]:
    """Return the cells of a table row, trimmed; a bar in code or behind a backslash is text."""
    spans, at = list[Span](), block.start + (text[block.start] == "|")
    end = block.end - (text[block.end - 1] == "|" and block.end - 1 > block.start)
    while at <= end:
        stop = at
        while stop < end and (match := _CELL.match(text, stop, end)):
            stop = match.end()
        spans.append(trim(text, at, stop) if text[at:stop].strip() else (at, at))
        at = stop + 1
    return spans


def _is_word(text: str) -> bool:
    """Whether it is a word of a sentence, not a path, a number or a link."""
    return "/" not in text and any(character.isalpha() for character in text)


def _one_line(text: str) -> str:
    flat = " ".join(text.replace("`", "").replace("**", "").split()).strip(" *_#|")
    return flat if len(flat) <= TITLE_CHARS else f"{flat[: TITLE_CHARS - 1].rstrip()}…"
