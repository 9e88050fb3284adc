"""What of a chunk can be quoted as facts, verbatim: sentences, items, rows, pairs, signatures.

Headings, bodies of code, markup, link lists, boilerplate, questions and fragments are left out;
headings, the head of a table, the keys above a pair and the sentence before stay as context,
because a good sentence often names its subject there.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ragstream_core.agents.context.code_lines import read_program
from ragstream_core.agents.context.data_lines import (
    SHELLS,
    Line,
    command_lines,
    data_kind,
    data_lines,
    table_rows,
)
from ragstream_core.agents.context.whole_sentences import begins, is_whole, leans
from ragstream_core.agents.pieces import word_count
from ragstream_core.records import Chunk
from ragstream_core.text.memo import remembered
from ragstream_core.text.sentences import LINK, Block, blocks, sentences_in

MIN_WORDS = 5
MAX_WORDS = 60
MAX_ITEM_WORDS = 45
MAX_HEADING = 60
MAX_LED_LINES = 2
_Parts = tuple[tuple[int, int], str, str, tuple[str, ...], frozenset[str], frozenset[str], bool]
Terms = Callable[[str], Sequence[str]]

_RULE_ROW = re.compile(r"[|\s:-]+$")
_CODE = re.compile(r"[{}<>;=]|\w\(|\)\.|->|::|\\\w|^\s*(?:from|import|def|class|return|\$|>>>) ")
_DRAWN = re.compile("[\u2500-\u257f]")
_KEYS = re.compile(r"(?:^|\s)[\w.-]{1,60}: ")
_MAX_KEYS = 3
_INLINE_CODE = re.compile(
    r"`[^`\n]{1,200}`|(?<![\w\"])\"[^\";\n]{1,60}\"(?![\w\"])|“[^“”;\n]{1,60}”"
)
"""Also as manuals in plain text write it: the "__init__()" method; but no statement, "a = 1;"."""
_TAG = re.compile(r"</?(?:code|b|i|em|strong|kbd|p|span|br ?/?)>")
_BOILERPLATE = re.compile(
    r"^(?:see (?:also|the|our|this|an?|\[)|read more|click here|next steps?|learn more|check out"
    r"|for more|for (?:further |more )?details|refer to|table of contents|on this page|was this"
    r"|copyright|all rights|edit this|last updated|in this (?:section|guide|page|tutorial|chapter)"
    r"|here(?:'s| is| are) (?:an?|the|some) (?:\w{1,30} ){0,2}examples?)",
    re.IGNORECASE,
)
_FENCED = re.compile(r"\s*(?:`{3,}|~{3,})[ \t]*(\w*)[^\n]*\n")


class Quote(NamedTuple):
    """One quotable sentence.

    Attributes:
        chunk_id: The chunk it stands in.
        source: Path of the chunk.
        rank: 0-based rank of the chunk.
        span: Offsets in the chunk's snippet.
        text: ``snippet[span]``, white space collapsed, links shown by their text.
        heading: The heading above it, cut at 60 characters.
        terms: Its stemmed terms in order.
        held: The same, each once.
        context: Terms of the headings, the path and the sentence before.
        is_said: Whether it is a sentence or a row, not a pair of data or a signature.
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


@remembered
def readable(text: str) -> str:
    """Collapse white space, show links by their text, drop tags: the form that is compared."""
    linked = LINK.sub(lambda m: m.group(1) or m.group(), text)
    return " ".join(_TAG.sub("", linked).split())


def looks_like_code(text: str) -> bool:
    """Return whether a text is code rather than prose, quoted `identifiers` not counted."""
    bare = LINK.sub(r"\1", _INLINE_CODE.sub("", text))
    if _DRAWN.search(bare) or len(_KEYS.findall(bare)) > _MAX_KEYS:
        return True  # a frame of a terminal, or a mapping that lost its fence to a chunk's border
    return len(_CODE.findall(bare)) >= max(2, len(bare.split()) // 6)


def is_quotable(text: str) -> bool:
    """Return whether a sentence can stand alone as a fact."""
    words = LINK.sub(r"\1", text).split()
    visible = [word for word in words if any(c.isalnum() for c in word)]
    if not MIN_WORDS <= word_count(" ".join(visible)) <= MAX_WORDS:
        return False
    links = [len(m.group(1) or "") + 1 for m in LINK.finditer(text)]
    share = sum(links) / max(1, len(" ".join(words)))
    if share > 0.6 or (len(links) > 2 and share > 0.35):
        return False
    return not (text.endswith(("?", "？")) or _BOILERPLATE.match(text) or looks_like_code(text))


def is_row(text: str) -> bool:
    """Return whether a row of a table can stand as a fact: two cells with words, not long."""
    cells = [c for c in re.split(r"[|\t]", text) if any(x.isalnum() for x in LINK.sub(r"\1", c))]
    return len(cells) > 1 and word_count(text) <= MAX_WORDS and not _DRAWN.search(text)


def _spans(text: str, found: list[Block], at: int) -> tuple[list[tuple[int, int]], int]:
    """Return the spans to try for block ``at`` and the number of blocks they use up."""
    block = found[at]
    if block.kind == "row":
        return [(block.start, block.end)], 1
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
    if _RULE_ROW.match(text[block.start : block.end]):
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
    read = _read(chunk.source, heading, chunk.snippet, terms)
    return [Quote(chunk.id, chunk.source, rank, *parts) for parts in read]


@functools.lru_cache(maxsize=4_096)  # the same passages come back prompt after prompt
def _read(source: str, heading: str, text: str, terms: Terms) -> list[_Parts]:
    """Return what a `Quote` holds besides its chunk, for each quotable sentence of a passage."""
    around = frozenset(terms(f"{source.rsplit('.', 1)[0]} {heading}"))
    page = _Page(text, heading, around, terms)
    kind = data_kind(source.rsplit(".", 1)[-1])
    if kind in ("json", "yaml"):
        quotes = [page.data(line) for line in data_lines(text, kind)]
    elif kind:
        quotes = _program(page, kind)
    else:
        rows = table_rows(text)
        taken = [(line.start, line.end) for line, _ in rows]
        quotes = [page.quote(line[:2], context=page.around | page.terms_of(head))
                  for line, head in rows]  # fmt: skip
        said = _sentences(page)
        quotes += [q for q in said if not any(a < q[0][1] and q[0][0] < b for a, b in taken)]
    return sorted(quotes, key=lambda quote: quote[0])


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
    for quote in _sentences(page._replace(text=program.prose)):
        owner = program.owner(quote[0][0])
        if quote[1] in whole:  # what runs over several lines of a comment is not verbatim
            shown, context = owner or quote[2], quote[5] | page.terms_of(owner)
            quotes.append((*quote[:2], shown, *quote[3:5], context, quote[6]))
    return quotes


class _Page(NamedTuple):
    """A passage being read."""

    text: str
    heading: str
    around: frozenset[str]
    terms: Terms

    def terms_of(self, text: str) -> frozenset[str]:
        return frozenset(self.terms(text))

    def quote(
        self, span: tuple[int, int], *, context: frozenset[str], heading: str = "",
        kind: str = "", is_said: bool = True,
    ) -> _Parts:  # fmt: skip
        said = _tidy(self.text[slice(*span)], kind)
        stems = tuple(self.terms(said))
        shown = _last(heading or self.heading)
        return span, said, shown, stems, frozenset(stems), context, is_said

    def data(self, line: Line, at: int = 0, context: frozenset[str] = frozenset()) -> _Parts:
        """Return a pair or a signature; the keys or the class above it stand for its heading."""
        span = (line.start + at, line.end + at)
        context = self.around | context | self.terms_of(line.path)
        path = line.path[-MAX_HEADING:]
        return self.quote(span, context=context, heading=path, is_said=False)


def _sentences(page: _Page) -> list[_Parts]:
    """Return sentences, items, rows of Markdown tables, and the data in fenced blocks."""
    text, heading = page.text, page.heading
    found = blocks(text)
    local: frozenset[str] = frozenset()
    before: frozenset[str] = frozenset()
    quotes: list[_Parts] = []
    at = 0
    while at < len(found):
        block, used = found[at], 1
        spans, context = [(block.start, block.end)], page.around | local
        if block.kind == "heading":
            heading = text[block.start : block.end].split("\n")[0].strip("# \t")
            local, before = page.terms_of(heading), frozenset()
        elif block.kind == "code":
            quotes += _fenced(page, block, context | before)
        elif block.kind == "row" and _is_header_row(text, found, at):
            before |= page.terms_of(text[slice(*spans[0])])
        elif block.kind in ("prose", "item", "row"):
            spans, used = _spans(text, found, at)
            for number, span in enumerate(spans):
                own = page.quote(span, context=context | before, heading=heading, kind=block.kind)
                whole = _whole(text, block, spans[: number + 1], shown=bool(own[2]))
                if whole == span:
                    quotes.append(own)
                elif whole:
                    quotes.append(page.quote(whole, context=context | before, heading=heading))
                before = before if block.kind == "row" else own[4]
        at += used
    return quotes


def _whole(
    text: str, block: Block, spans: Sequence[tuple[int, int]], *, shown: bool
) -> tuple[int, int] | None:
    """Return what is quoted for the last of some sentences; None: it cannot stand by itself.

    If it leans on what stands before it and no heading is shown, they are quoted together.
    """
    first, last = spans[-1]
    if block.kind == "row":
        return (first, last) if is_row(text[first:last]) else None
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


def _last(heading: str) -> str:
    for separator in (" > ", " › ", " / ", "\n"):
        heading = heading.rsplit(separator, 1)[-1]
    return heading.replace("\\", "").strip("*_`: ")[:MAX_HEADING]
