"""Token counters that need no tokenizer; a counter's name says whether it counts or estimates.

`ScriptTokenCounter` cuts a line where tokenizers of the GPT family cut it (words, groups of digits,
signs, white space, runs of one script) and adds up what each kind costs on average. The costs
were fitted for each encoding to texts of twenty kinds; see decision 078.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

VERSION = 1
"""Raise it with any change of `COSTS`, `features` or what they read."""
_CACHED_CHARS = 2_000

_ACCENTED = "À-ɏḀ-ỿ\u0300-\u036f"
_PIECE = re.compile(
    rf"""
      (?P<word>[A-Z]?[a-z]+(?![a-z{_ACCENTED}])|[A-Z]+(?![a-z{_ACCENTED}]))
    | (?P<latin>[A-Za-z{_ACCENTED}]+)
    | (?P<digits>[0-9]{{1,3}})
    | (?P<line>\s*\n)
    | (?P<space>\s+)
    | (?P<signs>[!-/:-@\[-`{{-~]+)
    | (?P<han>[\u3400-\u9fff\uf900-\ufaff]+)
    | (?P<kana>[\u3041-\u30ff]+)
    | (?P<hangul>[\u1100-\u11ff\uac00-\ud7a3]+)
    | (?P<cyrillic>[\u0400-\u052f]+)
    | (?P<greek>[\u0370-\u03ff\u1f00-\u1fff]+)
    | (?P<hebrew>[\u0590-\u05ff]+)
    | (?P<arabic>[\u0600-\u06ff]+)
    | (?P<indic>[\u0900-\u0e7f]+)
    | (?P<quotes>[\xa0-\xbf\u2010-\u2027\u2030-\u203a]+)
    | (?P<wide>[\u3000-\u303f\uff00-\uffef]+)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_NOT_ENGLISH = frozenset(
    """
    der das und ist nicht mit den dem ein eine einen einer sie werden auf für von zu im auch
    oder wird sind wenn als sich kann bei nach aus wie durch über nur noch zum zur es le la
    les des une est dans pour que qui sur vous avec par ce sont pas ou un de du en au aux se
    sa ne cette ces il elle peut être votre si el los las una por con para es su lo como más
    del al sus puede este esta di che e non sono della dei delle degli nel nella alla dal gli
    questo anche più ad ed o è può het een van te voor niet zijn op wordt dat met uw aan ook
    deze door naar bij kan worden heeft om som att och det är på av till inte har ett från
    eller vid med denna da não uma na ao dos seu nas pelo je že jak nebo jako pod která který
    po tak
    """.split()  # noqa: SIM905
)
"""Frequent small words of other languages in Latin letters, none of them frequent in English."""

_LETTER_BY_LETTER = frozenset({"hangul", "greek", "arabic", "hebrew", "quotes", "wide"})

Costs = Mapping[str, int]
"""Feature of `features` → hundredths of a token; none is negative."""
_O200K: Costs = {
    "word": 94, "word beyond 12": 128, "spaces": 106, "signs": 94, "signs beyond 3": 19,
    "title": 127, "title beyond 12": 109, "digits": 130, "quotes": 100, "line": 10,
    "upper": 148, "upper beyond 4": 1, "han": 55, "han beyond 1": 75, "accents": 112,
    "accented beyond 5": 22, "bytes": 48, "foreign": 91, "foreign beyond 12": 88,
    "foreign beyond 3": 8, "kana": 128, "kana beyond 1": 55, "wide": 100, "cyrillic": 87,
    "cyrillic beyond 1": 16, "cyrillic capitals": 56, "hangul": 73, "greek": 37, "arabic": 33,
    "hebrew": 46, "indic": 40, "indic beyond 1": 36,
}  # fmt: skip
_CL100K: Costs = {
    "word": 94, "word beyond 12": 114, "spaces": 107, "signs": 92, "signs beyond 3": 23,
    "title": 133, "title beyond 12": 89, "digits": 131, "quotes": 100, "line": 10,
    "upper": 149, "upper beyond 4": 0, "han": 40, "han beyond 1": 127, "accents": 205,
    "accented beyond 5": 20, "bytes": 66, "foreign": 91, "foreign beyond 12": 161,
    "foreign beyond 3": 15, "kana": 236, "kana beyond 1": 78, "wide": 100, "cyrillic": 104,
    "cyrillic beyond 1": 40, "cyrillic capitals": 71, "hangul": 125, "greek": 104,
    "arabic": 83, "hebrew": 121, "indic": 188, "indic beyond 1": 97,
}  # fmt: skip
COSTS: Mapping[str, Costs] = {"o200k_base": _O200K, "cl100k_base": _CL100K}
"""By encoding; a model with another tokenizer is counted as ``o200k_base``."""
DEFAULT_ENCODING = "o200k_base"


@dataclass(frozen=True, slots=True)
class HeuristicTokenCounter:
    """Estimates tokens from characters: ⌈characters / chars_per_token⌉.

    Attributes:
        chars_per_token: Characters a token, > 0.
    """

    chars_per_token: float = 4.0

    @property
    def name(self) -> str:
        """Return ``estimate (n characters a token)``."""
        return f"estimate ({self.chars_per_token:g} characters a token)"

    def count(self, text: str) -> int:
        """Return the estimated number of tokens, 0 for an empty text."""
        return int(-(-len(text) // self.chars_per_token))


@dataclass(frozen=True, slots=True)
class ScriptTokenCounter:
    """Estimates tokens by script and kind of character, line by line.

    The lines of a text add up: two texts have together what each has alone, as long as the first
    ends with a line.

    Attributes:
        encoding: A key of `COSTS`: which tokenizer is imitated.
    """

    encoding: str = DEFAULT_ENCODING

    @property
    def name(self) -> str:
        """Return ``estimate (encoding, table n)``."""
        return f"estimate ({self.encoding}, table {VERSION})"

    def count(self, text: str) -> int:
        """Return the estimated number of tokens, 0 for an empty text."""
        spent = 0
        for line in text.splitlines(keepends=True):
            cost = _line_cost if len(line) <= _CACHED_CHARS else _line_cost.__wrapped__
            spent += cost(line, self.encoding)
        return -(-spent // 100)


@functools.lru_cache(maxsize=8192)
def _line_cost(line: str, encoding: str) -> int:
    """Return hundredths of a token; the stages count the same lines again and again."""
    pieces, plain = _pieces(line)
    return sum(
        (_piece_cost if len(piece) <= _CACHED_CHARS else _piece_cost.__wrapped__)(
            kind, piece, plain, encoding
        )
        for kind, piece in pieces
    )


@functools.lru_cache(maxsize=16_384)
def _piece_cost(kind: str, piece: str, plain: str, encoding: str) -> int:
    costs, found = COSTS[encoding], Counter[str]()
    _add(found, kind, piece, plain)
    return sum(costs[name] * times for name, times in found.items())


def features(text: str) -> Counter[str]:
    """Return how often each thing that costs tokens occurs in a text.

    Args:
        text: Any number of lines; whether one is English is decided line by line.
    """
    found: Counter[str] = Counter()
    for line in text.splitlines(keepends=True):
        pieces, plain = _pieces(line)
        for kind, piece in pieces:
            _add(found, kind, piece, plain)
    return found


def _pieces(line: str) -> tuple[list[tuple[str, str]], str]:
    """Return (kind, text) of each piece of a line, and which kind its plain words are of."""
    pieces = [(str(m.lastgroup), m.group()) for m in _PIECE.finditer(line)]
    return pieces, "word" if _is_english(pieces) else "foreign"


def _add(found: Counter[str], kind: str, piece: str, plain: str) -> None:
    if kind == "word":
        _add_word(found, piece, plain)
    else:
        _add_other(found, kind, piece)


def _is_english(pieces: list[tuple[str, str]]) -> bool:
    """Say whether a line's words are English, code or markup rather than another language."""
    words = [piece.lower() for kind, piece in pieces if kind in ("word", "latin")]
    foreign = sum(word in _NOT_ENGLISH for word in words)
    accented = any(kind == "latin" for kind, _ in pieces)
    return foreign * (16 if accented else 10) <= len(words)


def _add_word(found: Counter[str], word: str, plain: str) -> None:
    if len(word) > 1 and word.isupper():
        found["upper"] += 1
        found["upper beyond 4"] += max(0, len(word) - 4)
        return
    kind = "title" if plain == "word" and word[0].isupper() else plain
    found[kind] += 1
    found[f"{kind} beyond 12"] += max(0, len(word) - 12)
    if kind == "foreign":
        found["foreign beyond 3"] += max(0, len(word) - 3)


def _add_other(found: Counter[str], kind: str, piece: str) -> None:
    if kind in ("digits", "line"):
        found[kind] += 1
    elif kind == "space":
        found["spaces"] += piece != " "  # one space belongs to the word behind it
    elif kind == "signs":
        found["signs"] += 1
        found["signs beyond 3"] += max(0, len(piece) - 3)
    elif kind == "latin":
        found["accents"] += sum(not letter.isascii() for letter in piece)
        found["accented beyond 5"] += max(0, len(piece) - 5)
    elif kind in _LETTER_BY_LETTER:
        found[kind] += len(piece)
    elif kind == "other":
        found["bytes"] += len(piece.encode("utf-8", "surrogatepass"))
    else:
        found[kind] += 1
        found[f"{kind} beyond 1"] += len(piece) - 1
        if kind == "cyrillic":
            found["cyrillic capitals"] += sum(letter.isupper() for letter in piece[1:])
