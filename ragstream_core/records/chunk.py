"""`Chunk`, a piece of a source that a prompt can quote; `Hit` and `Citation`, which name one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class Chunk:
    """A span of a source text. Ranks, scores and decisions live outside of it.

    Attributes:
        id: Canonical chunk id, ``rel_path::sha256::chunk_idx``.
        source: POSIX path relative to the project.
        snippet: The text; equals ``source_text[span[0]:span[1]]``, less the markup where the
            chunks are stripped of it.
        span: Start and end character offsets in the decoded source text: the pages of a PDF joined
            by form feeds, the Markdown of a converted file, with redacted secrets replaced.
        meta: ``project, path, sha256, mtime, file_type, chunk_index, page_number, heading,
            generation``, ``without_text`` where pages or parts of its file have none, ``read_by``
            where its page was read by OCR, and ``context`` if there is one (read-only by
            convention; never part of the identity).
    """

    id: str
    source: str
    snippet: str
    span: tuple[int, int]
    meta: Mapping[str, Any]

    @property
    def context(self) -> str:
        """The lines that it stands in, such as its table's head; empty: it needs none."""
        return str(self.meta.get("context") or "")

    @property
    def in_context(self) -> str:
        """Its text with its context in front, as it was embedded."""
        return self.context + self.snippet


def unread_sentence(unread: str) -> str:
    """Return what follows from what `Chunk.meta` names as ``without_text``."""
    return f"{unread}, so nothing {'in them' if 'not read' in unread else 'on it'} is found"


class Hit(NamedTuple):
    """A candidate with its scores.

    Attributes:
        chunk_id: Canonical chunk id.
        score: The fused ranking score in [0, 1], rounded to 6 digits.
        cosine: Absolute LogAvgExp cosine over the query pieces in [-1, 1]; never scaled.
        best_cosine: Largest cosine over the query pieces in [-1, 1]; what the gate looks at.
        bm25: Absolute BM25 score of the whole query, ≥ 0.
        scores: Scaled parts, e.g. ``dense``, ``lexical``, ``a``, ``b``.
        piece_cosines: Cosine with each query piece, in their order.
    """

    chunk_id: str
    score: float
    cosine: float
    best_cosine: float
    bm25: float
    scores: Mapping[str, float] = MappingProxyType({})
    piece_cosines: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Citation:
    """Where a quoted sentence comes from.

    Attributes:
        short_id: Citation id issued for one prompt, hex digits.
        chunk_id: Canonical chunk id.
        source: Path relative to the project.
        snippet: First 200 characters of the chunk.
        page_number: 1-based page, 0 for text files.
    """

    short_id: str
    chunk_id: str
    source: str
    snippet: str
    page_number: int
