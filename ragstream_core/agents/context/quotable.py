"""What of a chunk can be quoted as facts, verbatim: sentences, items, rows, pairs, signatures.

Headings, bodies of code, markup, link lists, boilerplate, questions and fragments are left out;
headings, the head of a table, the keys above a pair and the sentence before stay as context,
because a good sentence often names its subject there.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ragstream_core.agents.context.code_lines import read_program
from ragstream_core.agents.context.data_lines import (
    SHELLS,
    Line,
    command_lines,
    data_kind,
    data_lines,
    kind_of_passage,
    table_rows,
)
from ragstream_core.agents.context.shown import (
    MAX_HEADING,
    MAX_WORDS,
    Headings,
    has_names,
    head_of,
    heading_of,
    is_quotable,
    is_record,
    is_row,
    labelled,
    looks_like_code,
    readable,
)
from ragstream_core.agents.context.whole_sentences import begins, is_whole, leans
from ragstream_core.records import Chunk
from ragstream_core.text.headings import front_matter_end
from ragstream_core.text.marked_blocks import Block, blocks
from ragstream_core.text.sentences import sentences_in

MAX_ITEM_WORDS = 45
MAX_LED_LINES = 2
_Parts = tuple[
    tuple[int, int], str, str, tuple[str, ...], frozenset[str], frozenset[str], bool, str
]
Terms = Callable[[str], Sequence[str]]

_RULE_ROW = re.compile(r"[|\s:-]+$")
_HTML_ROW = re.compile(r"<tr[\s>].*?(?:</tr\s*>|(?=<tr[\s>])|\Z)", re.IGNORECASE | re.DOTALL)
_WITHIN_TABLE = re.compile(r"\s*</?t(?:head|body|foot)[\s>]", re.IGNORECASE)
_FENCED = re.compile(r"\s*(?:`{3,}|~{3,})[ \t]*(\w*)[^\n]*\n")


class Quote(NamedTuple):
    """One quotable sentence.

    Attributes:
        chunk_id: The chunk it stands in.
        source: Path of the chunk.
        rank: 0-based rank of the chunk.
        span: Offsets in the chunk's snippet.
        text: ``snippet[span]``, white space collapsed, links shown by their text.
        heading: The headings above it, the nearest of them that fit in 60 characters.
        terms: Its stemmed terms in order.
        held: The same, each once.
        context: Terms of the headings, the path and the sentence before.
        is_said: Whether it is a sentence or a row, not a pair of data or a signature.
        quoted: The words as the passage has them, where ``text`` says more: a row with the names
            of its columns. Empty: ``text``.
    """

    chunk_id: str
    source: str
    rank: int
    span: tuple[int, int]
    text: str
    heading: str
    terms: tuple[str, ...]
    held: frozenset[str]
    context: frozenset[str]
    is_said: bool = True
    quoted: str = ""

    @property
    def verbatim(self) -> str:
        """Its words as its passage has them, in readable form."""
        return self.quoted or self.text


def _spans(text: str, found: list[Block], at: int) -> tuple[list[tuple[int, int]], int]:
    """Return the spans to try for block ``at`` and the number of blocks they use up."""
    block = found[at]
    spans = _unwrapped(text, sentences_in(text, block.start, block.end))
    if block.kind == "item":
        if len(spans) > 1 and text[spans[-1][1] - 1] == ":":
            spans = spans[:-1]  # "For example:" leads to what is not quoted here
        whole = (spans[0][0], spans[-1][1])
        return ([whole] if len(text[slice(*whole)].split()) <= MAX_ITEM_WORDS else spans), 1
    items = 1
    while at + items < len(found) and _is_led_to(text, found[at + items], items):
        items += 1
    last = found[at + items - 1]
    if items > 1 and spans and text[spans[-1][1] - 1] == ":":
        lead = (spans[-1][0], last.end)
        if len(text[slice(*lead)].split()) <= MAX_WORDS:  # lead-in and list read as one sentence
            return [*spans[:-1], lead], items
        return spans[:-1], 1
    return spans, 1


def _unwrapped(text: str, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join what a line's end parted behind a semicolon: the sentence goes on in small letters."""
    joined = spans[:1]
    for start, end in spans[1:]:
        if text[joined[-1][1] - 1] == ";" and text[start].islower():
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


def _is_led_to(text: str, block: Block, number: int) -> bool:
    """Return whether a block belongs to the lead-in above: an item, or a line or two of code."""
    if block.kind == "code":
        return number <= MAX_LED_LINES and not _FENCED.match(text, block.start)
    return block.kind == "item"


def _is_header_row(text: str, found: list[Block], at: int) -> bool:
    block = found[at]
    said = text[block.start : block.end]
    if _RULE_ROW.match(said) or has_names(said):
        return True
    following = found[at + 1] if at + 1 < len(found) else block
    is_rule = _RULE_ROW.match(text[following.start : following.end]) is not None
    return following is not block and following.kind == "row" and is_rule


def _tidy(text: str, kind: str) -> str:
    said = readable(text)
    return said.strip("| ") if kind == "row" else said


def quotes_of(chunk: Chunk, rank: int, terms: Terms) -> list[Quote]:
    """Return the quotable sentences of a chunk in order.

    Args:
        chunk: The chunk.
        rank: Its 0-based rank.
        terms: Stems a text.
    """
    heading = str(chunk.meta.get("heading") or "")
    read = _read(chunk.source, heading, chunk.context, chunk.snippet, terms)
    return [Quote(chunk.id, chunk.source, rank, *parts) for parts in read]


@functools.lru_cache(maxsize=4_096)  # the same passages come back prompt after prompt
def _read(source: str, heading: str, above: str, text: str, terms: Terms) -> list[_Parts]:
    """Return what a `Quote` holds besides its chunk, for each quotable sentence of a passage.

    Args:
        source: Path of the chunk.
        heading: The heading path that it stands under.
        above: Its context.
        text: Its text.
        terms: Stems a text.
    """
    around = frozenset(terms(f"{source.rsplit('.', 1)[0]} {heading}\n{above}"))
    kind = kind_of_passage(source, text)
    if kind:  # read with what it stands in: a key is named by its parents, a method by its class
        page = _Page(above + text, heading, around, terms)
        is_data = kind in ("json", "yaml")
        found = (
            [page.data(line) for line in data_lines(page.text, kind)]
            if is_data
            else (_program(page, kind))
        )
        quotes = [_moved(quote, len(above)) for quote in found if quote[0][0] >= len(above)]
    else:
        quotes = _prose(_Page(text, heading, around, terms, above))
    return sorted(quotes, key=lambda quote: quote[0])


def _moved(quote: _Parts, by: int) -> _Parts:
    start, end = quote[0]
    return ((start - by, end - by), *quote[1:])


def _prose(page: _Page) -> list[_Parts]:
    """Return sentences, items and rows; a row whose cells are parted by tabs is no sentence."""
    rows = table_rows(page.text, head_of(page.above))
    taken = [(line.start, line.end) for line, _ in rows]
    quotes = [page.row(line[:2], head) for line, head in rows]
    said = _sentences(page)
    return quotes + [q for q in said if not any(a < q[0][1] and q[0][0] < b for a, b in taken)]


def _lead_of(above: str) -> str:
    """Return the introduction of a list in a context; empty: it is of something else."""
    first = above.split("\n", 1)[0].strip()
    return first.rstrip(":：") if first.endswith((":", "：")) else ""


def _program(page: _Page, kind: str) -> list[_Parts]:
    """Return signatures, values, fields, and the sentences of docstrings and comments."""
    program = read_program(page.text)
    signatures = data_lines(page.text, kind)
    known = {line.start for line in signatures}
    quotes = [page.data(line, context=page.terms_of(program.near(line.start)))
              for line in signatures]  # fmt: skip
    for row in program.rows:
        if row.start not in known:
            line = Line(row.start, row.end, row.path)
            quotes.append(page.data(line, context=page.terms_of(program.near(row.start))))
    whole = readable(page.text)
    said = (quote for prose in program.prose for quote in _sentences(page._replace(text=prose)))
    for quote in said:
        owner = program.owner(quote[0][0])
        if quote[1] in whole:  # what runs over several lines of a comment is not verbatim
            shown, context = owner or quote[2], quote[5] | page.terms_of(owner)
            quotes.append((*quote[:2], shown, *quote[3:5], context, *quote[6:]))
    return quotes


class _Page(NamedTuple):
    """A passage being read."""

    text: str
    heading: str
    around: frozenset[str]
    terms: Terms
    above: str = ""

    def terms_of(self, text: str) -> frozenset[str]:
        return frozenset(self.terms(text))

    def quote(
        self, span: tuple[int, int], *, context: frozenset[str], heading: str = "",
        kind: str = "", is_said: bool = True,
    ) -> _Parts:  # fmt: skip
        said = _tidy(self.text[slice(*span)], kind)
        stems = tuple(self.terms(said))
        shown = heading_of(heading or self.heading)
        return span, said, shown, stems, frozenset(stems), context, is_said, ""

    def row(
        self, span: tuple[int, int], head: str, *, context: frozenset[str] = frozenset(),
        heading: str = "", kind: str = "",
    ) -> _Parts:  # fmt: skip
        """Return a row of a table; its words are those of its cells, its head's stand around it."""
        context = self.around | context | self.terms_of(head)
        quote = self.quote(span, context=context, heading=heading, kind=kind)
        said = labelled(head, self.text[slice(*span)]) if head else ""
        return (span, said, *quote[2:7], quote[1]) if said else quote

    def data(self, line: Line, at: int = 0, context: frozenset[str] = frozenset()) -> _Parts:
        """Return a pair or a signature; the keys or the class above it stand for its heading."""
        span = (line.start + at, line.end + at)
        context = self.around | context | self.terms_of(line.path)
        path = line.path[-MAX_HEADING:]
        return self.quote(span, context=context, heading=path, is_said=False)


def _sentences(page: _Page) -> list[_Parts]:
    """Return sentences, items, rows of Markdown tables, and the data in fenced blocks."""
    text, heading = page.text, page.heading
    found = list(_with_rows(text, blocks(text)))
    first = found[0] if found and found[0].kind == "heading" else None
    title, is_called = text[first.start : first.end] if first else "", front_matter_end(text) > 0
    headings = Headings(heading, title, is_called=is_called)
    local: frozenset[str] = frozenset()
    before: frozenset[str] = frozenset()
    head = head_of(page.above) if found and found[0].kind == "row" else ""
    lead = _lead_of(page.above)
    quotes: list[_Parts] = []
    at = 0
    while at < len(found):
        block, used = found[at], 1
        context = page.around | local
        head = head if block.kind == "row" or _WITHIN_TABLE.match(text, block.start) else ""
        lead = lead if block.kind == "item" else ""
        if block.kind == "heading":
            title = text[block.start : block.end]
            heading = headings.below(title)
            local, before = page.terms_of(title), frozenset()
        elif block.kind == "code":
            quotes += _fenced(page, block, context | before)
        elif block.kind == "row" and _is_header_row(text, found, at):
            said = text[block.start : block.end]
            head = head if _RULE_ROW.match(said) else said
            before |= page.terms_of(said)
        elif block.kind == "row":
            span = (block.start, block.end)
            head = "" if is_record(text[slice(*span)]) else head
            if is_row(text[slice(*span)]):
                quotes.append(
                    page.row(span, head, context=context | before, heading=heading, kind="row")
                )
        elif block.kind in ("prose", "item"):
            spans, used = _spans(text, found, at)
            for number, span in enumerate(spans):
                own = page.quote(
                    span, context=context | before, heading=lead or heading, kind=block.kind
                )
                whole = _whole(text, block, spans[: number + 1], shown=bool(own[2]))
                if whole == span:
                    quotes.append(own)
                elif whole:
                    quotes.append(
                        page.quote(whole, context=context | before, heading=lead or heading)
                    )
                before = own[4]
        at += used
    return quotes


def _with_rows(text: str, found: Sequence[Block]) -> Iterator[Block]:
    """Yield blocks with each row of an HTML table by itself, however many stand in a line.

    A line of named values is a row as well.
    """
    for block in found:
        if block.kind == "prose" and is_record(text[block.start : block.end]):
            yield Block("row", block.start, block.end)
            continue
        is_html = block.kind in ("row", "markup")
        rows = list(_HTML_ROW.finditer(text, block.start, block.end)) if is_html else []
        if not rows or rows[0].start() > block.start:
            yield block if not rows else Block("markup", block.start, rows[0].start())
        yield from (Block("row", row.start(), row.end()) for row in rows)


def _whole(
    text: str, block: Block, spans: Sequence[tuple[int, int]], *, shown: bool
) -> tuple[int, int] | None:
    """Return what is quoted for the last of some sentences; None: it cannot stand by itself.

    If it leans on what stands before it and no heading is shown, they are quoted together.
    """
    first, last = spans[-1]
    said = readable(text[first:last])
    led = last > block.end  # a lead-in with its list or its lines of code
    fits = begins(said) if led else is_whole(said, item=block.kind == "item")
    if not fits or not is_quotable(text[first:last]):
        return None
    if shown or not leans(said):
        return first, last
    for start, _ in spans[-2::-1]:
        both = readable(text[start:last])
        if len(both.split()) > MAX_WORDS or looks_like_code(both):
            return None
        if is_whole(both) and not leans(both):
            return start, last
    return None


def _fenced(page: _Page, block: Block, context: frozenset[str]) -> list[_Parts]:
    """Return the pairs, signatures or commands of a fenced block, by the word that opens it."""
    fence = _FENCED.match(page.text, block.start, block.end)
    word = fence[1] if fence else ""
    kind, at = data_kind(word) if word else "", fence.end() if fence else block.start
    body = page.text[at : block.end]
    lines = data_lines(body, kind) if kind else []
    lines += command_lines(body) if (word in SHELLS and fence) or not fence else []
    return [page.data(line, at, context) for line in lines]
