"""BM25 over one generation's live rows: sorted term arrays, a pure function of those rows.

A term is the 64-bit hash of a stemmed, lower-cased word, so no vocabulary has to be kept or merged
between projects. Document frequencies and lengths are those of the rows given, never of rows that
were deleted. Formula: Robertson & Zaragoza, "The Probabilistic Relevance Framework: BM25 and
Beyond", 2009, with the idf of Lucene, ln(1 + (N − df + 0.5)/(df + 0.5)) ≥ 0.
"""

from __future__ import annotations

import functools
import hashlib
import re
import threading
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ragstream_core.errors import IntegrityError

if TYPE_CHECKING:
    import Stemmer

LEXICAL_VERSION = "snowball-english-1"
K1 = 1.5
B = 0.75

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_MAGIC = b"RSLEX1\n"
_STOP = frozenset(
    [
        "a",
        "about",
        "above",
        "after",
        "again",
        "against",
        "all",
        "am",
        "an",
        "and",
        "any",
        "are",
        "as",
        "at",
        "be",
        "because",
        "been",
        "before",
        "being",
        "below",
        "between",
        "both",
        "but",
        "by",
        "can",
        "could",
        "did",
        "do",
        "does",
        "doing",
        "down",
        "during",
        "each",
        "few",
        "for",
        "from",
        "further",
        "had",
        "has",
        "have",
        "having",
        "he",
        "her",
        "here",
        "hers",
        "him",
        "his",
        "how",
        "i",
        "if",
        "in",
        "into",
        "is",
        "it",
        "its",
        "itself",
        "just",
        "me",
        "more",
        "most",
        "my",
        "no",
        "nor",
        "not",
        "of",
        "off",
        "on",
        "once",
        "only",
        "or",
        "other",
        "our",
        "ours",
        "out",
        "over",
        "own",
        "same",
        "she",
        "should",
        "so",
        "some",
        "such",
        "than",
        "that",
        "the",
        "their",
        "theirs",
        "them",
        "then",
        "there",
        "these",
        "they",
        "this",
        "those",
        "through",
        "to",
        "too",
        "under",
        "until",
        "up",
        "very",
        "was",
        "we",
        "were",
        "what",
        "when",
        "where",
        "which",
        "while",
        "who",
        "whom",
        "why",
        "will",
        "with",
        "would",
        "you",
        "your",
        "yours",
    ]
)
_local = threading.local()

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
F64 = npt.NDArray[np.float64]


def _stemmer() -> Stemmer.Stemmer:
    if not hasattr(_local, "stemmer"):
        import Stemmer

        _local.stemmer = Stemmer.Stemmer("english")  # not thread-safe: one a thread
    return _local.stemmer


def words(text: str) -> list[str]:
    """Return the lower-cased words of a text in order; camelCase counts whole and in parts."""
    found: list[str] = []
    for match in _WORD.finditer(text):
        word = match.group()
        found.append(word.lower())
        if not (word.islower() or word.istitle()):
            parts = _CAMEL.split(word)
            if len(parts) > 1:
                found.extend(part.lower() for part in parts)
    return found


def terms(text: str) -> list[str]:
    """Return the stemmed terms of a text in order, stop words removed."""
    return list(_stemmer().stemWords([w for w in words(text) if w not in _STOP]))


@functools.lru_cache(maxsize=200_000)
def term_id(term: str) -> int:
    """Return the signed 64-bit id of a term."""
    digest = hashlib.blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def term_blob(text: str) -> bytes:
    """Pack the terms of a text: pairs of (term id, count), int64 little-endian, sorted by id."""
    counts = Counter(terms(text))
    pairs = sorted((term_id(term), count) for term, count in counts.items())
    return np.array(pairs, dtype="<i8").tobytes()


@dataclass(frozen=True, slots=True)
class LexicalArrays:
    """Inverted lists of a set of rows, grouped by term.

    Attributes:
        term_ids: Distinct term ids, sorted, shape (terms,).
        offsets: Start of each term's list in ``rows`` and ``counts``, shape (terms + 1,).
        rows: Row numbers, ascending within a term.
        counts: Occurrences of the term in the row, ≥ 1.
        lengths: Number of terms of each row, shape (rows,).
    """

    term_ids: I64
    offsets: I64
    rows: I32
    counts: I32
    lengths: I32

    def postings(self, term: int) -> tuple[I32, I32]:
        """Return the rows that hold a term and how often; both empty where it is unknown."""
        at = int(np.searchsorted(self.term_ids, term))
        if at == len(self.term_ids) or self.term_ids[at] != term:
            return self.rows[:0], self.counts[:0]
        span = slice(int(self.offsets[at]), int(self.offsets[at + 1]))
        return self.rows[span], self.counts[span]

    def to_bytes(self) -> bytes:
        """Serialise with a checksum; `lexical_from_bytes` is the inverse."""
        sizes = np.array([len(self.term_ids), len(self.rows), len(self.lengths)], dtype="<i8")
        body = sizes.tobytes() + b"".join(
            part.tobytes()
            for part in (self.term_ids, self.offsets, self.rows, self.counts, self.lengths)
        )
        return _MAGIC + zlib.crc32(body).to_bytes(4, "little") + body


def lexical_from_bytes(data: bytes) -> LexicalArrays:
    """Rebuild term arrays from their serialised form.

    Raises:
        IntegrityError: The bytes are torn, damaged or of another format.
    """
    head = len(_MAGIC) + 4
    magic, crc, body = data[: len(_MAGIC)], data[len(_MAGIC) : head], data[head:]
    if magic != _MAGIC or zlib.crc32(body).to_bytes(4, "little") != crc:
        raise IntegrityError("lexical arrays are damaged or of another format")
    n_terms, n_postings, n_rows = (int(x) for x in np.frombuffer(body, "<i8", 3))
    at = 24
    counts = (n_terms, n_terms + 1, n_postings, n_postings, n_rows)
    parts = []
    for count, dtype in zip(counts, ("<i8", "<i8", "<i4", "<i4", "<i4"), strict=True):
        parts.append(np.frombuffer(body, dtype, count, at))
        at += count * np.dtype(dtype).itemsize
    return LexicalArrays(*parts)


def build_lexical(blobs: Sequence[Sequence[bytes]]) -> LexicalArrays:
    """Build the term arrays of a set of rows.

    Args:
        blobs: For each row, the term blobs that make up its lexical text (heading path, text).

    Returns:
        The arrays; the same rows in the same order give the same arrays.
    """
    joined = [b"".join(parts) for parts in blobs]
    pairs = np.frombuffer(b"".join(joined), dtype="<i8").reshape(-1, 2)
    sizes = np.fromiter((len(j) // 16 for j in joined), dtype=np.int64, count=len(joined))
    owner = np.repeat(np.arange(len(joined), dtype=np.int64), sizes)
    order = np.lexsort((owner, pairs[:, 0]))
    ids, rows, counts = pairs[order, 0], owner[order], pairs[order, 1]
    # a term in both heading and text appears twice in a row: add the two up
    fresh = np.ones(len(ids), dtype=bool)
    fresh[1:] = (ids[1:] != ids[:-1]) | (rows[1:] != rows[:-1])
    starts = np.flatnonzero(fresh)
    summed = np.add.reduceat(counts, starts) if len(starts) else counts
    ids, rows = ids[starts], rows[starts]
    term_ids, offsets = np.unique(ids, return_index=True)
    lengths = np.bincount(rows, weights=summed, minlength=len(joined))
    return LexicalArrays(
        term_ids.astype("<i8"),
        np.append(offsets, len(ids)).astype("<i8"),
        rows.astype("<i4"),
        summed.astype("<i4"),
        lengths.astype("<i4"),
    )


def bm25_scores(indexes: Sequence[LexicalArrays], query: Sequence[str]) -> list[F64]:
    """Score every row of several indexes with the statistics of their union.

    score(d) = Σ_t idf(t) · tf·(k1+1) / (tf + k1·(1 − b + b·|d|/avgdl)), t over the distinct query
    terms in sorted order, k1 = 1.5, b = 0.75.

    Args:
        indexes: Term arrays of the pinned generations.
        query: Stemmed query terms as from `terms`; repetitions count once.

    Returns:
        One array (rows,) an index, float64, ≥ 0, rounded to 6 digits.
    """
    total = sum(len(index.lengths) for index in indexes)
    words_total = sum(int(index.lengths.sum(dtype=np.int64)) for index in indexes)
    average = words_total / total if words_total else 1.0
    scores = [np.zeros(len(index.lengths)) for index in indexes]
    norms = [K1 * (1 - B + B * index.lengths / average) for index in indexes]
    for term in sorted({term_id(t) for t in query}):
        lists = [index.postings(term) for index in indexes]
        df = sum(len(rows) for rows, _ in lists)
        if df == 0:
            continue
        idf = float(np.log1p((total - df + 0.5) / (df + 0.5)))
        for score, norm, (rows, counts) in zip(scores, norms, lists, strict=True):
            score[rows] += idf * counts * (K1 + 1) / (counts + norm[rows])
    return [np.round(score, 6) for score in scores]
