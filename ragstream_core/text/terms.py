"""The words of a text and the terms they are searched by: stemmed, lower-cased, without stop words.

A term is known by its 64-bit hash, so no vocabulary has to be kept or merged between projects.
Loads no NumPy: what only compares words stays quick to import.
"""

from __future__ import annotations

import functools
import hashlib
import re
import struct
import threading
import unicodedata
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import Stemmer

# Version of the rules for terms: raised, terms that are stored are derived again.
LEXICAL_VERSION = "snowball-english-4"
_APART = {n: " " for n in range(128) if not chr(n).isalnum()}
_APART_BUT_SNAKES = {n: sign for n, sign in _APART.items() if chr(n) != "_"}
_ELIDED = re.compile(
    r"(?:[ldjmnstc]|qu|jusqu|lorsqu|puisqu|quoiqu|(?:d|n|s)?all|dell|nell|sull|dall|un)'(?=\w{2})",
    re.IGNORECASE,
)
_UNSEEN = dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\u2060\ufeff"))

# Thai, Lao, Burmese, Khmer, Japanese and Chinese letters: blanks do not part their words.
NO_BLANKS = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff]"
)
_DENSE = re.compile(rf"({NO_BLANKS.pattern}+)")
_LETTER_WITH_MARKS = re.compile(r"[^\W_]\W*")
_SAME = {ord("’"): "'", ord("ʼ"): "'"}
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_CODES = (
    re.compile(r"(?<![^\W_])[^\W_]++(?:-[^\W_]++)++"),
    re.compile(r"(?<![\d.])\d++(?:\.\d++)++"),
)
_HYPHENS = dict.fromkeys(map(ord, "\u2010\u2011"), "-")
_DIGIT = re.compile(r"\d")
_NUMBERED = re.compile(r"0x([0-9a-f]{3,})|[^\W\d_]+(\d{3,})")
_STOP_TEXT = """
a about above after again against all am an and any are as at be because been before being
below between both but by can could did do does doing down during each few for from
further had has have having he her here hers him his how i if in into is it its itself
just me more most my no nor not of off on once only or other our ours out over own same
she should so some such than that the their theirs them then there these they this those
through to too under until up very was we were what when where which while who whom why
will with would you your yours
"""
_STOP = frozenset(_STOP_TEXT.split())
_local = threading.local()


def _stemmer() -> Stemmer.Stemmer:
    if not hasattr(_local, "stemmer"):
        import Stemmer

        _local.stemmer = Stemmer.Stemmer("english")  # not thread-safe: one a thread
    return _local.stemmer


@functools.cache
def _word(marks: str) -> re.Pattern[str]:
    """Return what finds words: identifiers whole, and letters with the marks that follow them."""
    part = f"(?:[^\\W_]{f'|[{marks}]' if marks else ''})"
    return re.compile(f"[^\\W_]{part}*(?:(?:_+|['’ʼ]){part}+)*")


def words(text: str) -> list[str]:
    """Return the lower-cased words of a text in order.

    camelCase and snake_case count whole and in parts, and so does a name that ends in a number.
    """
    return [form for word in split_words(text) for form in _forms(word)]


def folded(text: str) -> str:
    """Return a text as its words are compared: composed letters, nothing that cannot be seen.

    NFC and NFD, full-width letters, ligatures, soft hyphens and typographic apostrophes make no
    difference.
    """
    if text.isascii():
        return text
    return unicodedata.normalize("NFKC", text.translate(_UNSEEN)).translate(_SAME)


def codes(text: str) -> list[str]:
    """Return what is one name though signs stand in it: versions, addresses, numbers of parts.

    ``2.3.1`` keeps its dots, which tell it from ``23.1``; ``E-4042`` is ``e4042``, as others write
    it. Their parts are `split_words`.
    """
    signed = (p for p in text.split() if "-" in p or "." in p or not p.isascii())
    written = (folded(part).translate(_HYPHENS) for part in signed)
    numbered = (part for part in written if _DIGIT.search(part))
    joined = (m.group() for part in numbered for code in _CODES for m in code.finditer(part))
    return [code.replace("-", "").lower() for code in joined if _DIGIT.search(code)]


def _marks(text: str) -> str:
    """Return the marks in a text that no letter took in, as Hindi has them: they end no word."""
    found = (c for c in set(text) if ord(c) > 0x2FF and unicodedata.category(c)[0] == "M")
    return "".join(sorted(found))


def _unseen_in(text: str) -> str:
    return "".join(sorted(c for c in set(text) if ord(c) in _UNSEEN))


def split_words(text: str) -> list[str]:
    """Return the words of a text as they are written; most texts are cut in half of the time."""
    if text.isascii() and "'" not in text:
        return text.translate(_APART_BUT_SNAKES if "_" in text else _APART).split()
    text = folded(text)
    found: list[str] = _word("" if text.isascii() else _marks(text)).findall(text)
    if not NO_BLANKS.search(text):
        return found
    return [pair for word in found for part in _DENSE.split(word) for pair in _pairs(part)]


def _pairs(part: str) -> list[str]:
    """Return neighbouring letters two by two where blanks part no words; another part whole."""
    if not NO_BLANKS.match(part):
        bare = part.strip("_'’ʼ")
        return [bare] if bare else []
    letters = _LETTER_WITH_MARKS.findall(part)
    return [a + b for a, b in pairwise(letters)] or letters


def _forms(word: str) -> tuple[str, ...]:
    if "'" in word and (elided := _ELIDED.match(word)):
        word = word[elided.end() :]  # l'eau is eau
    if "_" not in word:
        return _one_word(word)
    bare = word.strip("_")
    parts = [part for part in bare.split("_") if part]
    if len(parts) < 2:
        return _one_word(bare) if bare else ()
    return (bare.lower(), *(form for part in parts for form in _one_word(part)))


def _one_word(word: str) -> tuple[str, ...]:
    lower = word.lower()
    if (word[-1].isdigit() or lower[:2] == "0x") and (number := _NUMBERED.fullmatch(lower)):
        return (lower, number[1] or number[2])
    if word.islower() or word.istitle():
        return (lower,)
    parts = _CAMEL.split(word)
    return tuple(form.lower() for form in ([word, *parts] if len(parts) > 1 else [word]))


def stems(text: str) -> list[str]:
    """Return the stemmed words of a text in order, stop words kept."""
    return list(_stemmer().stemWords(words(text)))


def is_stop_word(word: str) -> bool:
    """Return whether a lower-cased word is too common to be searched for."""
    return word in _STOP


def terms(text: str) -> list[str]:
    """Return the stemmed terms of a text in order, stop words removed."""
    said = (*split_words(text), *codes(text))
    forms = [form for word in said for form in _forms(word) if form not in _STOP]
    return list(_stemmer().stemWords(forms))


def located_terms(text: str) -> list[tuple[int, int, str]]:
    """Return (start, end, term) of each word of a text in order; a stop word has the term "".

    Where blanks part no words, each letter has the term of the two that begin with it.
    """
    marks = "" if text.isascii() else _marks(text) + _unseen_in(text)
    found = (row for m in _word(marks).finditer(text) for row in _located(m.start(), m.group()))
    held = ((start, end, terms(said)) for start, end, said in found)
    return [(start, end, own[0] if own else "") for start, end, own in held]


def _located(at: int, word: str) -> Iterator[tuple[int, int, str]]:
    if not NO_BLANKS.search(word):
        yield at, at + len(word), word
        return
    for part in _DENSE.split(word):
        if NO_BLANKS.match(part):
            letters = list(_LETTER_WITH_MARKS.finditer(part))
            last = max(len(letters) - 2, 0)  # the last letter belongs to the pair that it ends
            for n, letter in enumerate(letters):
                pair = "".join(m.group() for m in letters[min(n, last) : min(n, last) + 2])
                yield at + letter.start(), at + letter.end(), pair
        elif part:
            yield at, at + len(part), part
        at += len(part)


def term_id(term: str) -> int:
    """Return the signed 64-bit id of a term."""
    digest = hashlib.blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


@functools.lru_cache(maxsize=100_000)
def word_term_ids(word: str) -> tuple[int, ...]:
    """Return the term ids of one word as it stands in a text."""
    kept = [form for form in _forms(word) if form not in _STOP]
    return tuple(term_id(term) for term in _stemmer().stemWords(kept))


def term_blob(text: str) -> bytes:
    """Pack the terms of a text: pairs of (term id, count), int64 little-endian, sorted by id."""
    counts: dict[int, int] = {}
    for word, count in Counter((*split_words(text), *codes(text))).items():
        for term in word_term_ids(word):
            counts[term] = counts.get(term, 0) + count
    flat = [number for pair in sorted(counts.items()) for number in pair]
    return struct.pack(f"<{len(flat)}q", *flat)


_WIDE, _PACKED, _MOST = 16, 9, 255


def packed_terms(blob: bytes) -> bytes:
    """Return the terms of `term_blob` in 9 bytes each instead of 16; inverse: `unpacked_terms`.

    A pair is 8 bytes of id and 1 of count. A term that occurs more than 255 times has several
    pairs, all but the last with 255.
    """
    n = len(blob) // _WIDE
    if int.from_bytes(blob, "little") & _above_a_byte(n):
        return b"".join(_split(blob))
    packed = bytearray(n * _PACKED)
    for k in range(_PACKED):
        packed[k::_PACKED] = blob[k::_WIDE]
    return bytes(packed)


@functools.lru_cache(maxsize=1024)
def _above_a_byte(n: int) -> int:
    """Return the bits of so many pairs that are set if a count is above 255."""
    pair = bytes(_PACKED) + b"\xff" * (_WIDE - _PACKED)
    return int.from_bytes(pair * n, "little")


def _split(blob: bytes) -> Iterator[bytes]:
    for term, count in struct.iter_unpack("<8sq", blob):
        full = (count - 1) // _MOST
        yield (term + bytes([_MOST])) * full
        yield term + bytes([count - full * _MOST])


def unpacked_terms(packed: bytes) -> bytes:
    """Return the terms of `term_blob` that `packed_terms` packed; other bytes come as others."""
    n, rest = divmod(len(packed), _PACKED)
    if rest:
        return packed
    if _MOST in packed[_PACKED - 1 :: _PACKED]:
        return _joined(packed)
    blob = bytearray(n * _WIDE)
    for k in range(_PACKED):
        blob[k::_WIDE] = packed[k::_PACKED]
    return bytes(blob)


def _joined(packed: bytes) -> bytes:
    pairs: list[tuple[bytes, int]] = []
    last = 0
    for term, count in struct.iter_unpack("<8sB", packed):
        if last == _MOST and pairs[-1][0] == term:
            pairs[-1] = (term, pairs[-1][1] + count)
        else:
            pairs.append((term, count))
        last = count
    return b"".join(struct.pack("<8sq", *pair) for pair in pairs)
