"""The running text of a PDF: words broken at line ends joined, recurring lines left out.

Pure functions over the texts of all pages: whether a hyphen is one of the word's own, and whether a
line is a header, shows only in the whole document. What is not certain stays as it is printed.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from typing import NamedTuple

EDGE_LINES = 4
"""Running lines are among so many first and last lines of a page, outside of all others."""

MIN_PAGES, SURE_PAGES = 3, 8
"""A line runs where it stands on so many pages, each at most two after the one before. One that
counts the pages needs three; another one half of the pages, or eight: headings of a table recur."""

_GAP = 2  # pages: left and right ones may have headers of their own
_LETTERS = r"[^\W\d_]+"
_BROKEN = re.compile(rf"({_LETTERS})?(?:[\ufffe\x02]|[-\u2010]\n(?=[^\W\d_]))({_LETTERS})?")
_WORD = re.compile(rf"{_LETTERS}(?:-{_LETTERS})*")
_OWN_HYPHEN = frozenset(
    ["all", "anti", "co", "cross", "ever", "ex", "full", "half", "high", "ill", "long", "low",
     "mid", "multi", "non", "one", "post", "pre", "quasi", "real", "self", "semi", "short", "so",
     "three", "time", "two", "ultra", "user", "well"]
)  # fmt: skip
_SUSPENDED = frozenset(["and", "or", "to", "und", "oder", "bis", "bzw", "et", "ou", "y", "o"])
_NUMBER = re.compile(r"\b(?:\d+|[ivxlc]+)\b")
_LEADERS = re.compile(r"\.{4}|(?:\. ){3}|\u2026\s*\d")
_ROMAN = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}


def join_broken_words(pages: Sequence[str]) -> list[str]:
    """Return the pages with the words that were broken at the end of a line in one piece.

    The hyphen goes where the word without it stands elsewhere in the document, or where nothing
    speaks for a hyphen of its own: that the word stands elsewhere with it, a capital letter or a
    digit after it, two parts that are words of the document, a first part such as ``well``.

    Args:
        pages: Texts with line feeds; U+FFFE, which pdfium puts where it took a hyphen and a line
            end away, counts as both.
    """
    words = Counter(word.casefold() for page in pages for word in _WORD.findall(_without(page)))
    return [_joined(page.replace("\u00ad\n", "").replace("\u00ad", ""), words) for page in pages]


def _without(page: str) -> str:
    return _BROKEN.sub(" ", page)


def _joined(page: str, words: Counter[str]) -> str:
    def one(match: re.Match[str]) -> str:
        whole, left, right = match[0], match[1] or "", match[2] or ""
        around = page[match.start() - 1 : match.start()] + page[match.end() : match.end() + 1]
        code = any(sign.isdigit() or sign == "_" for sign in around)
        known = words[(left + right).casefold()] > 0
        if not left or not right or code or (right in _SUSPENDED and not known):
            return re.sub("[\ufffe\x02]", "-", whole)
        inner = page[: match.start()].endswith("-") or page[match.end() :].startswith("-")
        own = _own_hyphen(left, right, words, inside=inner)
        return f"{left}-{right}" if own else left + right

    return _BROKEN.sub(one, page)


def _own_hyphen(left: str, right: str, words: Counter[str], *, inside: bool) -> bool:
    """Say whether a word has a hyphen of its own; ``inside``: it has another one beside it."""
    first, second = left.casefold(), right.casefold()
    with_it, without = words[f"{first}-{second}"], words[first + second]
    if with_it or without:
        return with_it > without
    return (
        inside
        or not right.islower()
        or not (left.islower() or left.istitle())
        or first in _OWN_HYPHEN
        or (len(first) > 2 and words[first] > 0 and words[second] > 0)
    )


class _Line(NamedTuple):
    page: int
    numbers: tuple[int, ...]
    sentence: bool


def without_running_lines(pages: Sequence[tuple[int, str]]) -> tuple[list[str], list[str]]:
    """Return the pages without headers, footers and page numbers, and one of each kind.

    A running line stands at the edge of several pages close to each other; the numbers in it stay
    the same, but for one that counts the pages, outside of a sentence. Lines that stand inside of
    pages as well, lines with leaders, and the last text of a page are kept.

    Args:
        pages: (page number, text with line feeds) in order.
    """
    split = [(number, text.split("\n")) for number, text in pages]
    running = _running(split)
    kept, left_out = [], dict[str, str]()
    for number, lines in split:
        body, gone = _body(lines, running[number])
        kept.append("\n".join(body))
        for line in gone:
            left_out.setdefault(_key(line), line.strip())
    return kept, list(left_out.values())


def _running(pages: Sequence[tuple[int, list[str]]]) -> defaultdict[int, set[str]]:
    """Return the keys of the running lines of each page."""
    edges: defaultdict[str, list[_Line]] = defaultdict(list)
    inner: Counter[str] = Counter()
    for number, lines in pages:
        written = [line for line in lines if _key(line)]
        last = max(EDGE_LINES, len(written) - EDGE_LINES)
        for line in (*written[:EDGE_LINES], *written[last:]):
            edges[_key(line)].append(_Line(number, _numbers(line), _is_sentence(line)))
        inner.update(map(_key, written[EDGE_LINES:last]))
    least = min(SURE_PAGES, max(MIN_PAGES, len(pages) // 2))
    running: defaultdict[int, set[str]] = defaultdict(set)
    for key, found in edges.items():
        if inner[key] < len(found):
            for one in _runs(found, least=least):
                running[one.page].add(key)
    return running


def _key(line: str) -> str:
    """Return what is the same in a running line of all pages; empty where it cannot be one."""
    words = " ".join(line.split())
    return "" if len(words) > 120 or _LEADERS.search(words) else _NUMBER.sub("#", words).casefold()


def _numbers(line: str) -> tuple[int, ...]:
    return tuple(_value(number) for number in _NUMBER.findall(" ".join(line.split())))


def _is_sentence(line: str) -> bool:
    return len(line.split()) > 3 and line.rstrip().endswith((".", "!", "?"))


def _value(number: str) -> int:
    if number.isdecimal():
        return int(number[:9])
    values = [_ROMAN[letter] for letter in number]
    return sum(-a if a < b else a for a, b in pairwise([*values, 0]))


def _runs(found: Sequence[_Line], *, least: int) -> Iterator[_Line]:
    """Yield the lines of a kind that run: on enough pages in a row."""
    rows: list[list[_Line]] = []
    for line in found:
        over = [row for row in rows if line.page - row[-1].page > _GAP]
        for row in over:
            yield from row if _runs_on(row, least) else ()
        rows = [row for row in rows if line.page - row[-1].page <= _GAP]
        before = [row for row in rows if _follows(row[-1], line)]
        if before:
            before[0].append(line)
        else:
            rows.append([line])
    for row in rows:
        yield from row if _runs_on(row, least) else ()


def _runs_on(row: Sequence[_Line], least: int) -> bool:
    counts_pages = len({line.numbers for line in row}) > 1
    if counts_pages and row[0].sentence:
        return False
    return len(row) >= (MIN_PAGES if counts_pages else least)


def _follows(one: _Line, other: _Line) -> bool:
    steps = other.page - one.page
    changed = [b - a for a, b in zip(one.numbers, other.numbers, strict=True) if a != b]
    return 0 < steps <= _GAP and changed in ([], [steps])


def _body(lines: list[str], running: set[str]) -> tuple[list[str], list[str]]:
    """Return the lines of a page between its running ones, and those; a page is never emptied."""

    def outside(line: str) -> bool:
        return not line.strip() or _key(line) in running

    top = len(list(takewhile(outside, lines)))
    bottom = len(list(takewhile(outside, lines[: top - 1 if top else None : -1])))
    if top + bottom >= len(lines):
        return lines, []
    end = len(lines) - bottom
    gone = [line for line in (*lines[:top], *lines[end:]) if line.strip()]
    return lines[top:end], gone
