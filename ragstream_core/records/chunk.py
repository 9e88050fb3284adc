"""`Chunk`, a piece of a source that a prompt can quote; `Hit`, which names one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class Chunk:
    """A span of a source text. Ranks, scores and decisions live outside of it."""

    id: str  # canonical chunk id, ``rel_path::sha256::chunk_idx``
    source: str  # POSIX path relative to the project
    # the text; equals ``source_text[span[0]:span[1]]``, less the markup where the chunks are
    # stripped of it
    snippet: str
    # start and end character offsets in the decoded source text: the pages of a PDF joined by form
    # feeds, the Markdown of a converted file, with redacted secrets replaced
    span: tuple[int, int]
    # ``project, path, sha256, mtime, file_type, chunk_index, page_number, heading, generation``,
    # ``without_text`` where pages or parts of its file have none, ``read_by`` where its page was
    # read by OCR, and ``context`` if there is one (read-only by convention; never part of the
    # identity)
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
    """A candidate with its scores."""

    chunk_id: str  # canonical chunk id
    score: float  # the fused ranking score in [0, 1], rounded to 6 digits
    cosine: float  # absolute LogAvgExp cosine over the query pieces in [-1, 1]; never scaled
    best_cosine: float  # largest cosine over the query pieces in [-1, 1]; what the gate looks at
    bm25: float  # absolute BM25 score of the whole query, ≥ 0
    # scaled parts, e.g. ``dense``, ``lexical``, ``a``, ``b``
    scores: Mapping[str, float] = MappingProxyType({})
    piece_cosines: tuple[float, ...] = ()  # cosine with each query piece, in their order
