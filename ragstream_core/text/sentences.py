"""The sentences of a text, with exact character spans; linear time, no model.

A sentence ends at a full stop that is not part of an abbreviation, an initial, a number or a name
with dots; at the end of a paragraph, list item, heading or table row; and at every line of a fenced
block. A line break inside wrapped prose ends none.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from importlib import resources
from typing import NamedTuple

from ragstream_core.text.blocks import Line, LineKind, lines_of
from ragstream_core.text.marked_blocks import QUOTED

# Possessive, and only at the start of a run of stops: linear whatever the text.
_STOP = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’»)\]*_`]*+(?=\s)|(?<![。！？])[。！？]++[」』”’）]*+")
_SPACE_RUN = re.compile(r"\s*")
_LETTERS = re.compile(r"[^\W\d_]+")
_OPENERS = "\"'“‘«([*_`"
_WRAPPED_FROM = 60
_WRAPPED_LOWER_FROM = 25
_LOOK_BACK, _LOOK_AHEAD = 24, 12


class _Stops(NamedTuple):
    """Full stops that end no sentence: `abbreviations.yaml`, all languages together.

    Attributes:
        words: None of theirs ends a sentence.
        numbered: None does before a number.
        phrases: What several full stops stand in; ``last`` is one that may end a sentence.
        months: Stand behind a numeral with a full stop.
        ordinals_behind: A numeral with a full stop behind them counts something.
    """

    words: frozenset[str]
    numbered: frozenset[str]
    phrases: re.Pattern[str]
    months: frozenset[str]
    ordinals_behind: frozenset[str]


@functools.cache
def _stops() -> _Stops:
    import yaml

    path = resources.files(__package__).joinpath("abbreviations.yaml")
    rows: dict[str, dict[str, list[str]]] = yaml.safe_load(path.read_text(encoding="utf-8"))
    of = {
        key: {str(word) for row in rows.values() for word in row.get(key, ())}
        for key in ("always", "before_numbers", "may_end", "months", "ordinals_behind")
    }
    both = ("|".join(_spelt(word) for word in sorted(of[key])) for key in ("always", "may_end"))
    phrases = r"(?<![\w.])(?:(?:{})\.|(?:{})(?P<last>\.))".format(*both)
    return _Stops(
        frozenset(word.replace(" ", "") for word in of["always"]),
        frozenset(of["before_numbers"]),
        re.compile(phrases, re.IGNORECASE),
        frozenset(of["months"]),
        frozenset(of["ordinals_behind"]),
    )


def _spelt(phrase: str) -> str:
    return re.escape(phrase).replace(r"\ ", r"\s{0,2}")


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Return (start, end) of each sentence, in order.

    Args:
        text: Any text; Markdown structure is respected.

    Returns:
        Disjoint spans without white space at their ends; every character that is not white space
        lies in exactly one of them.
    """
    spans: list[tuple[int, int]] = []
    for start, end, prose in _paragraphs(text, list(lines_of(text))):
        spans.extend(_in_block(text, start, end) if prose else [_trimmed(text, start, end)])
    return spans


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    match = _SPACE_RUN.match(text, start, end)
    return (match.end() if match else start), end


def _paragraphs(text: str, lines: Iterable[Line]) -> Iterator[tuple[int, int, bool]]:
    """Yield (start, end, may hold several sentences): lines, wrapped prose lines joined."""
    start, previous = 0, None
    for line in lines:
        if previous is not None and not _continues(text, previous, line):
            yield start, previous.end, previous.kind in (LineKind.PROSE, LineKind.ITEM)
            previous = None
        if line.kind is LineKind.BLANK:
            continue
        if previous is None:
            start = line.start
        previous = line
    if previous is not None:
        yield start, previous.end, previous.kind in (LineKind.PROSE, LineKind.ITEM)


def _continues(text: str, previous: Line, line: Line) -> bool:
    if line.kind is not LineKind.PROSE or previous.kind not in (LineKind.PROSE, LineKind.ITEM):
        return False
    if text[previous.end - 1] in ":;|>":
        return False
    length = previous.end - previous.start
    first = text[line.start : line.end].lstrip().lstrip(_OPENERS)[:1]
    return length >= _WRAPPED_FROM or (length >= _WRAPPED_LOWER_FROM and first.islower())


def _in_block(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    begin = _trimmed(text, start, end)[0]
    for match in _STOP.finditer(text, begin, end):
        following = _trimmed(text, match.end(), end)[0]
        if _ends_sentence(text, begin, match, following, end):
            yield begin, match.end()
            begin = following
    if begin < end:
        yield begin, end


def _ends_sentence(text: str, begin: int, stop: re.Match[str], following: int, end: int) -> bool:
    if stop.start() <= begin:  # dots at the very start belong to what follows
        return False
    if stop.group()[0] != ".":
        return True
    while following < end and text[following] in _OPENERS:
        following += 1
    if following < end and text[following].islower():
        return False
    before = text[max(begin, stop.start() - _LOOK_BACK) : stop.start()]
    word = before.split()[-1].lstrip(_OPENERS) if before.split() else ""
    if word.isdigit() and (stop.start() - len(word) <= begin or _counts(text, before, following)):
        return False  # "1." opens a list item
    letters = word.split(".")
    if word != "I" and all(len(part) == 1 and part.isupper() for part in letters):
        return False  # an initial, or several: "J.", "U.S."
    number = following < end and text[following].isdigit()
    if word.lower() in _stops().words or (number and word.lower() in _stops().numbered):
        return False
    return not (word[-1:].isalpha() and _in_phrase(text, stop.start()))


def _counts(text: str, before: str, following: int) -> bool:
    """Return whether the numeral before a full stop counts what follows: 31. März, im 19. Jahr."""
    ahead = _LETTERS.match(text, following)
    behind = before.split()[-2:-1]
    return ahead is not None and (
        ahead.group().lower() in _stops().months
        or (bool(behind) and behind[0].lower().lstrip(_OPENERS) in _stops().ordinals_behind)
    )


def _in_phrase(text: str, at: int) -> bool:
    """Return whether a full stop stands in an abbreviation of several words: z. B. this."""
    around = _stops().phrases.finditer(text, max(0, at - _LOOK_BACK), at + _LOOK_AHEAD)
    return any(m.start() <= at < m.end() and at != m.start("last") for m in around)


LINK = re.compile(r"!?\[([^\]\n]{0,200})\]\([^)\n]{0,400}\)|https?://\S{1,400}")
_OTHER_STOP = re.compile(r"[؟۔।॥։።፧။។]+")  # Arabic, Urdu, Hindi, Armenian, Amharic, Burmese, Khmer
# Whole sentences that ask nothing; each alternative is anchored and holds no nested quantifier.
_FILLER = re.compile(
    r"(?:(?:hi|hello|hey|dear|greetings|good (?:morning|afternoon|evening|day))"
    r"(?: (?:there|all|everyone|everybody|team|folks|guys|friends|sir|madam))?"
    r"|(?:many |kind |best )?(?:thanks|thank you|thx|cheers|regards|best|please)"
    r"(?: (?:so much|very much|a lot|again|in advance|everyone|all))?"
    r"(?: for (?:your|the|any|all) (?:kind )?(?:help|time|support|answer|answers|patience))?"
    r"(?: in advance)?"
    r"|(?:i )?hope (?:you are|you're|this finds you|all is|everyone is)(?: all)?(?: doing)?"
    r" (?:well|fine|good|great)(?: today)?"
    r"|(?:please )?(?:can|could|would) (?:you|someone|anyone) (?:please )?help(?: me)?(?: out)?"
    r"|please help(?: me)?(?: out)?|i (?:have|got) (?:a|one) (?:quick |short )?question"
    r"|i need (?:some |your )?help|any help (?:is|would be) (?:much |greatly )?appreciated"
    r"|(?:please |bitte )?(?:keep (?:it|this|the answer|your answer) |be |make it )"
    r"(?:very )?(?:short|brief|concise|simple|quick)(?: please)?"
    r"|(?:please )?(?:answer|reply) (?:very )?(?:briefly|concisely|shortly|in short)"
    r"|(?:halte?|fassen?) (?:es|dich|sie sich|dich bitte) (?:bitte )?(?:sehr )?kurz(?: bitte)?"
    r"|(?:bitte )?(?:antworte|antworten sie) (?:bitte )?kurz|bitte kurz(?: antworten)?"
    r"|(?:vielen |besten |herzlichen )?dank(?:e)?(?: (?:im voraus|schön|vielmals))?"
    r"|(?:hallo|guten (?:tag|morgen|abend))(?: (?:zusammen|alle|miteinander))?"
    r"|soyez (?:bref|brève|concis)|sois (?:bref|brève|concis)|réponds? brièvement"
    r"|(?:bonjour|salut|bonsoir)(?: à tous)?|merci(?: (?:beaucoup|d'avance|bien))?"
    r"|(?:hola|gracias|muchas gracias)|sé breve|sea breve)",
    re.IGNORECASE,
)


def sentences_in(text: str, start: int = 0, end: int | None = None) -> list[tuple[int, int]]:
    """Return the spans of the sentences that a person reads in a part of a text, trimmed.

    As `sentence_spans`, by which chunks are cut; the full stops and question marks of more scripts
    end a sentence too, and a link is never parted, since half of one cannot be read.

    Args:
        text: The whole text.
        start: Where the part begins, e.g. a block.
        end: Where it ends; the end of the text by default.
    """
    found: list[tuple[int, int]] = []
    plain = QUOTED.sub(lambda mark: " " * len(mark[0]), text[start:end])
    for begin, finish in sentence_spans(plain):
        at, last = start + begin, start + finish
        for stop in _OTHER_STOP.finditer(text, at, last):
            found.append((at, stop.end()))
            at = trim(text, stop.end(), last)[0]
        found += [(at, last)] if at < last else []
    links = LINK.finditer(text, start, len(text) if end is None else end)
    return _around(found, [link.span() for link in links])


def _around(spans: list[tuple[int, int]], links: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join the spans that a link reaches over; all in order."""
    joined, at = spans[:1], 0
    for begin, end in spans[1:]:
        before, last = joined[-1]
        while at < len(links) and links[at][1] <= begin:
            at += 1
        if at < len(links) and links[at][0] < last:
            joined[-1] = (before, end)
        else:
            joined.append((begin, end))
    return joined


def trim(text: str, start: int, end: int) -> tuple[int, int]:
    """Shrink a span so that it neither begins nor ends with white space."""
    piece = text[start:end]
    return start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())


def is_filler(sentence: str) -> bool:
    """Return whether a sentence is a greeting, a politeness or a wish for a short answer."""
    words = " ".join(sentence.split()).strip(" .,;:!?-–—…)(").replace(",", "")
    return not words or _FILLER.fullmatch(words) is not None
