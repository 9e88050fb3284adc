"""Token counters that need no tokenizer; a counter's name says whether it counts or estimates.

`ScriptTokenCounter` cuts a line where tokenizers of the GPT family cut it (words, groups of digits,
signs, white space, runs of one script) and adds up what each kind costs on average. The costs
were fitted for each encoding to texts of twenty kinds; see decision 078.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

# Raise it with any change of `COSTS`, `features` or what they read.
VERSION = 2
_CACHED_CHARS = 2_000

_ACCENTED = "À-ɏḀ-ỿ\u0300-\u036f"
_PIECE = re.compile(
    rf"""
      (?P<word>[A-Z]?[a-z]+(?![a-z{_ACCENTED}])|[A-Z]+(?![a-z{_ACCENTED}]))
    | (?P<latin>[A-Za-z{_ACCENTED}]+)
    | (?P<digits>[0-9]{{1,3}})
    | (?P<line>^\s*\n)
    | (?P<ending>\s*\n)
    | (?P<space>\s+)
    | (?P<signs>[!-/:-@\[-`{{-~]+\n?)
    | (?P<han>[\u3400-\u9fff\uf900-\ufaff]+)
    | (?P<kana>[\u3041-\u30ff]+)
    | (?P<hangul>[\u1100-\u11ff\uac00-\ud7a3]+)
    | (?P<cyrillic>[\u0400-\u052f]+)
    | (?P<greek>[\u0370-\u03ff\u1f00-\u1fff]+)
    | (?P<hebrew>[\u0590-\u05ff]+)
    | (?P<arabic>[\u0600-\u06ff]+)
    | (?P<indic>[\u0900-\u0e7f]+)
    | (?P<quotes>[\xa0-\xbf\u2010-\u2027\u2030-\u203a]+)
    | (?P<box>[\u2500-\u259f]+)
    | (?P<wide>[\u3000-\u303f\uff00-\uffef]+)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)

# Frequent small words of languages of which tokenizers know many words, none of them English.
_FOREIGN = frozenset(
    """
    der das und ist nicht mit den dem ein eine einen einer sie werden auf für von zu im auch
    oder wird sind wenn als sich kann bei nach aus wie durch über nur noch zum zur es le la
    les des une est dans pour que qui sur vous avec par ce sont pas ou un de du en au aux se
    sa ne cette ces il elle peut être votre si el los las una por con para es su lo como más
    del al sus puede este esta o no y não uma na ao dos seu nas pelo da som
    """.split()  # noqa: SIM905
)

# The same of languages whose words they cut smaller.
_FAR = frozenset(
    """
    je že jak nebo jako pod která který po tak si není jsou tento by může jeho při pokud lze
    być jest się nie jego dla przez może tym oraz jeśli które lub ten nad przy są był ale
    bir ve bu için ile olarak olan gibi daha çok değil ya ise veya kadar sonra olur olup
    att och det är på av till inte har ett från eller vid med denna
    og ikke til fra kan skal du den ei vil ble blir hvis når så også ved der som
    ja että tai jos voi myös kun joka mutta niin sen käyttää
    egy az hogy nem vagy és ha csak meg már mint még lehet kell
    și nu pe cu sau din dacă acest pentru fi mai sunt care ca
    yang dan dengan untuk tidak dari ini itu atau dapat anda pada akan ke adalah
    els amb aquest aquesta és més són això
    di che e non sono della dei delle degli nel nella alla dal gli il lo questo anche più ad ed è
    può ha suo
    het een van te voor niet zijn op wordt dat met uw aan ook de deze door naar bij om heeft
    worden
    """.split()  # noqa: SIM905
)

# Letters of Turkish and Vietnamese beyond Latin-1 that cost what those of Latin-1 do.
_KNOWN = frozenset("ğıİşŞĞđĐơƠưƯ")

_LETTER_BY_LETTER = frozenset({"hangul", "greek", "arabic", "hebrew", "quotes", "wide"})

# Feature of `features` → hundredths of a token; none is negative.
Costs = Mapping[str, int]
_O200K: Costs = {
    "word": 103, "word beyond 12": 101, "title": 125, "title beyond 12": 90, "upper": 85,
    "upper beyond 4": 22, "foreign": 64, "foreign beyond 3": 23, "foreign beyond 12": 32,
    "far": 81, "far beyond 3": 25, "accented": 60, "accented beyond 5": 27, "accents": 105,
    "far accents": 143, "digits": 166, "signs": 85, "signs beyond 3": 30, "spaces": 74,
    "ending": 57, "quotes": 100, "box": 146, "box beyond 1": 16, "han": 55, "han beyond 1": 75,
    "kana": 128, "kana beyond 1": 55, "hangul": 74, "wide": 100, "cyrillic": 87,
    "cyrillic beyond 1": 16, "cyrillic capitals": 56, "greek": 37, "arabic": 33, "hebrew": 46,
    "indic": 40, "indic beyond 1": 36, "bytes": 48,
}  # fmt: skip
_CL100K: Costs = {
    "word": 103, "word beyond 12": 90, "title": 124, "title beyond 12": 101, "upper": 80,
    "upper beyond 4": 21, "foreign": 77, "foreign beyond 3": 23, "foreign beyond 12": 104,
    "far": 86, "far beyond 3": 36, "accented": 8, "accented beyond 5": 31, "accents": 210,
    "far accents": 228, "digits": 167, "signs": 84, "signs beyond 3": 27, "spaces": 71,
    "ending": 52, "quotes": 100, "box": 133, "box beyond 1": 23, "han": 40,
    "han beyond 1": 127, "kana": 236, "kana beyond 1": 78, "hangul": 125, "wide": 100,
    "cyrillic": 104, "cyrillic beyond 1": 40, "cyrillic capitals": 71, "greek": 104,
    "arabic": 83, "hebrew": 121, "indic": 188, "indic beyond 1": 97, "bytes": 66,
}  # fmt: skip

# By encoding; a model with another tokenizer is counted as ``o200k_base``.
COSTS: Mapping[str, Costs] = {"o200k_base": _O200K, "cl100k_base": _CL100K}
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
        return -(-_spent(text, self.encoding) // 100)

    def up_to(self, text: str, ends: Sequence[int]) -> list[int]:
        """Return what is counted of a text up to each of some ends of lines, ascending."""
        parts = (text[start:end] for start, end in pairwise((0, *ends)))
        return [-(-spent // 100) for spent in accumulate(_spent(p, self.encoding) for p in parts)]


def _spent(text: str, encoding: str) -> int:
    """Return hundredths of a token."""
    lines = text.splitlines(keepends=True)
    cost = _line_costs(encoding)
    if max(map(len, lines), default=0) <= _CACHED_CHARS:
        return sum(map(cost, lines))
    return sum((cost if len(x) <= _CACHED_CHARS else cost.__wrapped__)(x) for x in lines)


@functools.cache
def _line_costs(encoding: str) -> functools._lru_cache_wrapper[int]:
    """Return what counts a line, and remembers it: the stages count the same lines again."""

    @functools.lru_cache(maxsize=8192)
    def cost(line: str) -> int:
        pieces, plain = _pieces(line)
        return sum(
            (_piece_cost if len(piece) <= _CACHED_CHARS else _piece_cost.__wrapped__)(
                kind, piece, plain, encoding
            )
            for kind, piece in pieces
        )

    return cost


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
    return pieces, _language(pieces)


def _add(found: Counter[str], kind: str, piece: str, plain: str) -> None:
    if kind == "word":
        _add_word(found, piece, plain)
    else:
        _add_other(found, kind, piece)


def _language(pieces: list[tuple[str, str]]) -> str:
    """Return what a line's plain words are: ``word`` (English, code), ``foreign`` or ``far``."""
    words = [piece.lower() for kind, piece in pieces if kind in ("word", "latin")]
    accented = [word for kind, word in pieces if kind == "latin"]
    near = sum(word in _FOREIGN for word in words)
    far = sum(word in _FAR for word in words) + sum(max(word) > "\xff" for word in accented)
    evidence = max(near, far, len(accented) // 2)
    if evidence * (16 if accented else 10) <= len(words):
        return "word"
    return "far" if far > near else "foreign"


def _add_word(found: Counter[str], word: str, plain: str) -> None:
    if len(word) > 1 and word.isupper():
        found["upper"] += 1
        found["upper beyond 4"] += max(0, len(word) - 4)
        return
    kind = "title" if plain == "word" and word[0].isupper() else plain
    found[kind] += 1
    if plain != "word":
        found[f"{kind} beyond 3"] += max(0, len(word) - 3)
    if plain != "far":
        found[f"{kind} beyond 12"] += max(0, len(word) - 12)


def _add_other(found: Counter[str], kind: str, piece: str) -> None:
    if kind == "line":
        return  # an empty one belongs to the end of the line before it
    if kind in ("digits", "ending"):
        found[kind] += 1
    elif kind == "space":
        found["spaces"] += piece != " "  # one space belongs to the word behind it
    elif kind == "signs":
        found["signs"] += 1
        found["signs beyond 3"] += max(0, len(piece.rstrip("\n")) - 3)
    elif kind == "latin":
        far = sum("\xff" < letter < "\u1ea0" and letter not in _KNOWN for letter in piece)
        found["far accents"] += far
        found["accents"] += sum(not letter.isascii() for letter in piece) - far
        found["accented"] += 1
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
