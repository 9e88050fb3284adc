"""Where the tokens of a text lie: by words and signs, or by a model's own tokenizer.

Engines switch truncation on in the tokenizer they share; a counter or splitter given that one
silently sees the first 256 tokens only. Hence a copy that never truncates and never pads.
"""

from __future__ import annotations

import functools
import re
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer


# Limited, so that a run without spaces is not one word of any length.
WORD = re.compile(r"\w{1,32}|[^\w\s]")


def word_offsets(text: str) -> list[tuple[int, int]]:
    """Return (start, end) of every word and every sign, in characters; linear time."""
    return [match.span() for match in WORD.finditer(text)]


_WORD_PIECE = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ua4cf\uac00-\ud7af\uf900-\ufaff]"
    r"|[^\W\d_]{1,6}|\d{1,3}|[^\w\s]|_"
)


def about_tokens(text: str) -> int:
    """Return about how many tokens the tokenizer of an embedding model would find; linear time.

    Written without spaces between words, as Chinese is, a character is a token; else six letters of
    a word are. Within 10 % of WordPiece on most prose and code, 30 % at worst (tables of links).
    """
    return sum(1 for _ in _WORD_PIECE.finditer(text))


# For a tokenizer that is unknown: four letters, or one sign of a script without spaces.
SAFE_TOKEN = re.compile(r"[^\W\u2e80-\uffff]{1,4}|[\u2e80-\U0010ffff]|[^\w\s]")


def most_tokens(text: str) -> int:
    """Return an estimate of a text's tokens, rather too many than too few; linear time."""
    return sum(1 for _ in SAFE_TOKEN.finditer(text))


_SURROGATES = re.compile("[\ud800-\udfff]")


# Short texts whose tokens are held.
RECENT = 32
RECENT_CHARS = 1_000

# Ids, and (start, end) of each token in characters.
Tokens = tuple[list[int], list[tuple[int, int]]]


class ModelTokenizer:
    """Token ids, offsets and counts of texts, special tokens not included."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Copy a tokenizer; what others do to the original has no effect here."""
        copy = type(tokenizer).from_str(tokenizer.to_str())
        copy.no_truncation()
        copy.no_padding()
        self._tokenizer = copy
        self._recent = functools.lru_cache(maxsize=RECENT)(self._read)

    @classmethod
    def from_file(cls, path: Path) -> ModelTokenizer:
        """Load a ``tokenizer.json`` (verified by the caller)."""
        from tokenizers import Tokenizer

        return cls(Tokenizer.from_file(str(path)))

    def ids(self, text: str) -> list[int]:
        """Return the token ids of a text of any length."""
        return list(self._tokens(text)[0])

    def ids_of(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of several texts of any length, on all cores; as `ids` of each."""
        found: list[list[int]] = []
        for begin in range(0, len(texts), _AT_ONCE):
            part = [clean(text) for text in texts[begin : begin + _AT_ONCE]]
            if sum(map(len, part)) > _AT_ONCE_CHARACTERS:
                found += map(self.ids, part)
            else:
                made = self._tokenizer.encode_batch_fast(part, add_special_tokens=False)
                found += (encoding.ids for encoding in made)
        return found

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Return (start, end) of each token, in characters of the text."""
        return list(self._tokens(text)[1])

    def count(self, text: str) -> int:
        """Return the number of tokens, ≥ 0."""
        return len(self._tokens(text)[0])

    def _tokens(self, text: str) -> Tokens:
        """Return ids and offsets; a question is read by several stages in turn."""
        return (self._recent if len(text) <= RECENT_CHARS else self._read)(text)

    def _read(self, text: str) -> Tokens:
        encoding = self._tokenizer.encode(clean(text), add_special_tokens=False)
        return encoding.ids, encoding.offsets


def even_windows(ids: list[int], window: int) -> list[list[int]]:
    """Cut token ids into as few windows as possible, equally long within one token.

    Equal lengths, because the windows' vectors are averaged with equal weight: a short rest would
    count as much as a full window.

    Args:
        ids: Token ids without special tokens.
        window: Largest length of a window, ≥ 1.

    Returns:
        At least one window (empty for an empty text); concatenated they are ``ids``.
    """
    parts = max(1, -(-len(ids) // window))
    cuts = [len(ids) * i // parts for i in range(parts + 1)]
    return [ids[a:b] for a, b in pairwise(cuts)]


def text_windows(text: str, offsets: Sequence[tuple[int, int]], window: int) -> list[str]:
    """Cut a text into as few parts of at most ``window`` tokens as possible; see `even_windows`.

    Args:
        text: The text, returned as it is if it fits.
        offsets: (start, end) of each of its tokens, in characters.
        window: Most tokens of a part, ≥ 1.
    """
    if len(offsets) <= window:
        return [text]
    spans = even_windows(list(range(len(offsets))), window)
    return [text[offsets[span[0]][0] : offsets[span[-1]][1]] for span in spans]


def clean(text: str) -> str:
    """Return a text that can be encoded: a lone surrogate is replaced, so offsets stay right."""
    return _SURROGATES.sub("\ufffd", text)


# Returns (start, end) of each token of a text in characters, never truncated.
TokenOffsets = Callable[[str], Sequence[tuple[int, int]]]

_PASS_CHARACTERS = 40_000  # the tokenizer's own records are a hundred times the text
_AT_ONCE, _AT_ONCE_CHARACTERS = 256, 1_000_000  # of texts that are cut side by side
_LONG_PASS = 4 * _PASS_CHARACTERS  # without a place of the structure before it: minified text
_APART = re.compile(r"""[\s,;:{}()\[\]"']""")  # no word piece of a BERT goes over one of them
_GRID_PARTS = 8


class Sizes:
    """Sizes of spans of one text, in tokens or in characters.

    A span that begins and ends beside white space has exactly the size it would have alone.
    """

    def __init__(
        self, text: str, *, token_offsets: TokenOffsets | None, structure: Sequence[int]
    ) -> None:
        """Measure a text once.

        Args:
            text: The whole text.
            token_offsets: The tokenizer; None counts characters.
            structure: Offsets where the text may be divided for the tokenizer.
        """
        self._text = text
        self._token_offsets = token_offsets
        self._starts = array("q")
        if token_offsets is not None:
            for start, end in _passes(text, structure):
                self._starts.extend(start + s for s, _ in token_offsets(text[start:end]))

    def before(self, at: int) -> int:
        """Return the size of the text before an offset."""
        return at if self._token_offsets is None else bisect_left(self._starts, at)

    def between(self, start: int, end: int) -> int:
        """Return the size of a span."""
        return self.before(end) - self.before(start)

    def alone(self, start: int, end: int) -> int:
        """Return the size of a span as a text of its own, measured again."""
        if self._token_offsets is None:
            return end - start
        return len(self._token_offsets(self._text[start:end]))

    def grid(self, start: int, end: int, *, limit: int) -> list[int]:
        """Return places inside a span that no rule divides, close enough for any limit.

        Args:
            start: Start of the span.
            end: End of the span.
            limit: Largest size of a chunk.

        Returns:
            Offsets in (start, end), at most an eighth of the limit apart, at the beginning of
            words if there are words.
        """
        step = max(1, limit // _GRID_PARTS)
        places, wanted = [], self.before(start) + step
        for at in self.word_starts(start, end):
            if at > start and self.before(at) >= wanted:
                places.append(at)
                wanted = self.before(at) + step
        return self._without_gaps([start, *places, end], step=step)[1:-1]

    def word_starts(self, start: int, end: int) -> Iterator[int]:
        """Yield the offsets in [start, end) where a token follows white space."""
        if self._token_offsets is None:
            candidates: Iterator[int] = iter(range(start, end))
        else:
            candidates = iter(self._starts[self.before(start) : self.before(end)])
        for at in candidates:
            if not self._text[at].isspace() and (at == 0 or self._text[at - 1].isspace()):
                yield at

    def _without_gaps(self, places: list[int], *, step: int) -> list[int]:
        # Between two places further apart than a chunk may be long: divide at any token.
        filled = places[:1]
        for place in places[1:]:
            while self.between(filled[-1], place) > 2 * step:
                at = self._token_at(self.before(filled[-1]) + step)
                if not filled[-1] < at < place:
                    break
                filled.append(at)
            filled.append(place)
        return filled

    def _token_at(self, index: int) -> int:
        return index if self._token_offsets is None else self._starts[index]


def _passes(text: str, structure: Sequence[int]) -> Iterator[tuple[int, int]]:
    begin = looked = 0
    for at in (*structure, len(text)):
        while at - begin > _LONG_PASS:
            apart = _APART.search(text, max(begin + _PASS_CHARACTERS, looked), at)
            if apart is None:
                looked = at  # a text of one word has thousands of places: no letter is read twice
                break
            yield begin, apart.start()
            begin = apart.start()
        inner = at < len(text) and at - begin >= _PASS_CHARACTERS
        if inner and (text[at - 1].isspace() or text[at].isspace()):
            yield begin, at
            begin = at
    yield begin, len(text)
